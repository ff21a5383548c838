"""The history of skills: every change is a commit, with its reason, in a repository of metier's own.

There is one bare git repository for each root, in metier's state folder; a tree has `skills/NAME/files/…` and, next to
the files, `about.json` with what git can't hold (modes other than 644 and 755, the entry of the lock).  The skill's
folder is read by metier and only bytes are passed to git, so that no attribute, hook or filter that a skill brings can
run; names with a meaning for git are escaped.  Reverting is a new commit: nothing is ever lost.  Refused: a repository
among the skills (a skill may bring its own `.git`), `git add` and `git commit` (concurrent ones fail on `index.lock`,
and a killed one leaves it behind), and a table in SQLite, which no common tool can show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from json import dumps, loads
from typing import Any, NamedTuple

from ..host import repository as git
from ..host.facts import format_utc_time, now_ns
from ..host.repository import BareRepository, TreeChange, TreeLeaf
from ..types.errors import BadRequest
from ..types.text import one_line, shorten_text, visible_text

_MAX_EVIDENCE = 20_000
_ABOUT_FILE = "about.json"
_LINK_MODE = 0o120000
_rev = re.compile(r"[0-9a-f]{4,40}|HEAD(~[0-9]{1,6})?").fullmatch
_unsafe = re.compile(r"[%/\\\x00-\x1f\x7f]")
_escaped_character = re.compile(r"%([0-9A-F]{2})")


class HistoryChange(NamedTuple):
    """A change to record: the skill is what its folder holds now; without a folder, it was removed."""

    act: str
    """add, update, improve, edit, trash, rollback…"""
    name: str
    """The skill's path in its root."""
    folder: str
    evidence: str = ""
    """The reason, for people.  Never parsed."""
    run: str = ""
    """The run that made it."""
    lock: str = ""
    """Its entry in the lock, as JSON."""


class SkillVersion(NamedTuple):
    """A commit, as people see it."""

    rev: str
    act: str
    name: str
    at: str
    """As `2026-08-01T09:30:00Z`."""
    subject: str
    evidence: str
    run: str


class BlameLine(NamedTuple):
    """A line of a file, and the version that it came from."""

    text: str
    version: SkillVersion


def repository_path(state: str, root: str) -> str:
    """The repository for a root: in metier's state folder, never among the skills."""
    names = {f"{state}/skills": "skills", f"{state}/plugins": "plugins", f"{state}/scheduler": "scheduler"}
    name = names.get(root) or f"root-{sha256(root.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
    return f"{state}/history/{name}.git"


def record_change(repository: str, change: HistoryChange) -> SkillVersion | None:
    """Commit a skill as it is now; None if nothing changed.  Several processes may do so at once."""
    with git.open_for_writing(repository) as repo:
        head = git.head_commit(repo)
        place = _skill_prefix(change.name)
        before = git.list_tree(repo, head, place) if head else {}
        entries = git.scan_worktree(change.folder)
        leaves = {} if entries is None else _build_leaves(repo, change, entries, before)
        # The same bytes and modes are no change, whatever the act was.
        if leaves == before:
            return None
        at = now_ns() // 1_000_000_000
        message = _commit_message(change, format_utc_time(at).replace("-", "")[:8])
        return _parse_version(
            git.commit_change(repo, head, TreeChange(place, before, leaves), message, at), at, message
        )


def _build_leaves(
    repo: BareRepository, change: HistoryChange, entries: Mapping[str, git.WorktreeFile], before: Mapping[str, TreeLeaf]
) -> dict[str, TreeLeaf]:
    """The tree of a skill.  Blobs that its last version has are not written again."""
    known_oids = {leaf.oid for leaf in before.values()}
    modes = {path: f"{entry.permissions:o}" for path, entry in sorted(entries.items()) if not _is_usual_mode(entry)}
    lock = loads(change.lock) if change.lock else None
    about = dumps({"modes": modes, "lock": lock}, indent=1, sort_keys=True).encode()
    fresh = [path for path, entry in entries.items() if entry.leaf.oid not in known_oids]
    written = git.store_files(repo, change.folder, fresh, about if git.blob_oid(about) not in known_oids else None)
    leaves = {
        f"files/{_escape_path(path)}": TreeLeaf(entry.leaf.mode, written.get(path, entry.leaf.oid))
        for path, entry in entries.items()
    }
    return {**leaves, _ABOUT_FILE: TreeLeaf("100644", git.blob_oid(about))}


def _is_usual_mode(entry: git.WorktreeFile) -> bool:
    """Whether the mode in the tree is the whole truth."""
    return entry.leaf.mode == "120000" or entry.permissions == int(entry.leaf.mode, 8) & 0o777


def _commit_message(change: HistoryChange, day: str) -> str:
    """The subject, three lines for programs, then the evidence.

    Programs read a fixed number of lines, so evidence that looks like one of them changes nothing.
    """
    subject = f"{change.act}_{one_line(change.name)}_{day}"
    evidence = shorten_text(visible_text(change.evidence).strip(), _MAX_EVIDENCE)
    head = f"Act: {_escape_name(change.act)}\nName: {_escape_name(change.name)}\nRun: {_escape_name(change.run)}"
    return f"{subject}\n\n{head}\n" + (f"\n{evidence}\n" if evidence else "")


def _parse_version(rev: str, at: int, message: str) -> SkillVersion:
    subject, _, rest = message.partition("\n\n")
    head, _, evidence = rest.partition("\n\n")
    trailers = dict(line.partition(": ")[::2] for line in head.splitlines()[:3])
    act, name, run = (_unescape_name(trailers.get(key, "")) for key in ("Act", "Name", "Run"))
    return SkillVersion(rev, act, name, format_utc_time(at), subject, evidence.strip("\n"), run)


def list_versions(repository: str, name: str = "", limit: int = 50) -> tuple[SkillVersion, ...]:
    """The changes of a skill, or of all, newest first."""
    return _read_versions(repository, limit, _skill_prefix(name) if name else "")


def versions_since(repository: str, rev: str) -> tuple[SkillVersion, ...]:
    """The changes after a version, newest first."""
    return _read_versions(repository, 1_000_000, "", _require_commit(repository, rev))


def _read_versions(repository: str, limit: int, prefix: str = "", after: str = "") -> tuple[SkillVersion, ...]:
    if not _has_commits(repository):
        return ()
    return tuple(_parse_version(*entry) for entry in git.list_commits(BareRepository(repository), limit, prefix, after))


def _has_commits(repository: str) -> bool:
    return git.repository_exists(repository) and bool(git.head_commit(BareRepository(repository)))


def skill_names(repository: str) -> tuple[str, ...]:
    """The skills in the newest version."""
    if not _has_commits(repository):
        return ()
    repo = BareRepository(repository)
    return tuple(_unescape_name(name) for name in git.list_names(repo, git.head_commit(repo), "skills"))


def find_version(repository: str, rev: str) -> SkillVersion:
    """The version for a few hexadecimal digits, `HEAD` or `HEAD~N`."""
    commit = _require_commit(repository, rev)
    return next(_parse_version(*entry) for entry in git.list_commits(BareRepository(repository), 1, rev=commit))


def has_version(repository: str, rev: str) -> bool:
    return bool(_resolve_rev(repository, rev))


def _resolve_rev(repository: str, rev: str) -> str:
    return git.resolve_revision(BareRepository(repository), rev) if _rev(rev) and _has_commits(repository) else ""


def _require_commit(repository: str, rev: str) -> str:
    commit = _resolve_rev(repository, rev)
    if not commit:
        raise BadRequest(f"the history has no version `{one_line(rev)}`", "run `metier history` to list the versions")
    return commit


def read_files(repository: str, name: str, rev: str) -> dict[str, tuple[int, bytes]]:
    """The files of a skill in a version: mode and bytes, for a link its target.  Empty if it had none."""
    repo, commit = BareRepository(repository), _require_commit(repository, rev)
    leaves = git.list_tree(repo, commit, _skill_prefix(name))
    modes = _read_about(repo, leaves)["modes"]
    paths = {path: leaf for path, leaf in leaves.items() if path != _ABOUT_FILE}
    contents = {}
    for (path, leaf), data in zip(
        paths.items(), git.read_blobs(repo, [leaf.oid for leaf in paths.values()]), strict=True
    ):
        plain = _unescape_path(path.removeprefix("files/"))
        contents[plain] = (_file_mode(leaf, modes.get(plain)), data)
    return contents


def _file_mode(leaf: TreeLeaf, recorded_mode: object) -> int:
    if leaf.mode == "120000":
        return _LINK_MODE
    return int(recorded_mode, 8) if isinstance(recorded_mode, str) else int(leaf.mode, 8) & 0o777


def read_lock_entry(repository: str, name: str, rev: str) -> str:
    """The lock entry of a skill in a version, as JSON; empty if it had none."""
    repo, commit = BareRepository(repository), _require_commit(repository, rev)
    entry = _read_about(repo, git.list_tree(repo, commit, _skill_prefix(name)))["lock"]
    return dumps(entry) if entry else ""


def _read_about(repo: BareRepository, leaves: Mapping[str, TreeLeaf]) -> dict[str, Any]:
    if _ABOUT_FILE not in leaves:
        return {"modes": {}, "lock": None}
    about: dict[str, Any] = loads(git.read_blobs(repo, [leaves[_ABOUT_FILE].oid])[0])
    return about


def diff_versions(repository: str, name: str, rev: str, to: str = "") -> str:
    """The diff of a skill from one version to another, or to the newest."""
    repo = BareRepository(repository)
    old, new = _require_commit(repository, rev), _require_commit(repository, to) if to else git.head_commit(repo)
    # A skill that was added or removed is compared with the empty tree.
    place = f"{_skill_prefix(name)}/files"
    trees = [f"{commit}:{place}" if git.list_tree(repo, commit, place) else git.EMPTY_TREE for commit in (old, new)]
    return git.diff_trees(repo, *trees) + "".join(_mode_changes(repository, name, old, new))


def _mode_changes(repository: str, name: str, old: str, new: str) -> list[str]:
    """The changed modes that trees can't tell apart."""
    repo = BareRepository(repository)
    before, after = (
        _read_about(repo, git.list_tree(repo, commit, _skill_prefix(name)))["modes"] for commit in (old, new)
    )
    default = "default"
    return [
        f"{path}: mode {before.get(path, default)} is now {after.get(path, default)}\n"
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    ]


def blame_file(repository: str, name: str, path: str = "SKILL.md") -> tuple[BlameLine, ...]:
    """Each line of a file, and the version that it came from."""
    if not _has_commits(repository):
        return ()
    repo = BareRepository(repository)
    head, inside = git.head_commit(repo), f"files/{_escape_path(path)}"
    if inside not in git.list_tree(repo, head, _skill_prefix(name)):
        return ()
    lines = git.blame_lines(repo, head, f"{_skill_prefix(name)}/{inside}")
    versions_by_rev = {skill_version.rev: skill_version for skill_version in list_versions(repository, name, 1_000_000)}
    return tuple(BlameLine(text, versions_by_rev[rev]) for rev, text in lines)


# --- Names that are safe in a tree ---


def _skill_prefix(name: str) -> str:
    return f"skills/{_escape_name(name)}"


def _escape_name(text: str) -> str:
    """A name as one part of a path; names with a meaning for git (`.git`, `.gitattributes`…) get a prefix.

    Compared without case and without characters that HFS+ ignores, and with the short names of NTFS (`git~1`), as git
    itself does.
    """
    spelled = _unsafe.sub(lambda match: f"%{ord(match[0]):02X}", text)
    plain = "".join(character for character in spelled if "!" <= character <= "~").lower()
    special = plain.startswith((".git", "git~")) or (plain.startswith("gi") and "~" in plain)
    return f"%.{spelled}" if special or plain in (".", "..") else spelled


def _unescape_name(text: str) -> str:
    return _escaped_character.sub(lambda match: chr(int(match[1], 16)), text.removeprefix("%."))


def _escape_path(path: str) -> str:
    return "/".join(_escape_name(part) for part in path.split("/"))


def _unescape_path(path: str) -> str:
    return "/".join(_unescape_name(part) for part in path.split("/"))

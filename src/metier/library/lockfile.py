"""Install roots and their lock files: reading, writing, and comparing a folder with what is locked.

A lock lists every file of every installed skill with its digest and mode, where it came from, what it can do and who
approved it.  It lies beside its root and is made to be committed, so a lock may come from somebody else: everything in
it is checked when it is read, and a lock that can't be read stops everything instead of being started over.

This module is loaded whenever installed skills are listed and must stay light: nothing here fetches or installs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeAlias

from ..host import fs, paths, trees
from ..sources.skill_files import manifest_digest
from ..types.errors import HostError
from ..types.installed import (
    FileManifest,
    FileRecord,
    FolderEntry,
    LockEntry,
    Lockfile,
    Provenance,
    SkillApproval,
    SkillPowers,
)

# --- Install roots ---

MAX_LOCK_BYTES = 67_108_864
"""A larger file is no lock; reading it would only take memory."""


def _ignore_note(text: str) -> None:
    """For callers that show no notes."""


@dataclass(frozen=True)
class InstallRoot:
    """A root that metier installs into."""

    root: str
    shared: bool = False
    """It lies in a project, where other people with another umask change it too."""
    history: str = ""
    """The repository with the history of its skills; empty if none is kept."""
    receipts: str = ""
    """The file outside the root that remembers what was installed; empty if none is kept."""
    note: Callable[[str], None] = field(default=_ignore_note, compare=False, repr=False)
    """Called with what a person should know although the operation succeeded."""

    @property
    def work(self) -> str:
        """metier's own folder inside the root: staging, journal, trash and locks."""
        return f"{self.root}/.metier"

    @property
    def lock(self) -> str:
        """Beside the root: `skills-lock.json` for a root called `skills`."""
        return f"{self.root}-lock.json"


def read_lock(install_root: InstallRoot) -> Lockfile:
    """The lock of a root; empty if there is none.  One that can't be read is an error, never an empty lock."""
    try:
        text = paths.read_text_file(install_root.lock, MAX_LOCK_BYTES)
        if text is None:
            return Lockfile()
        # Approvals are only as good as the file that holds them: others must not be able to swap or edit it.
        if trees.is_link(install_root.lock):
            raise BadLock("it is a link")
        if trees.others_may_write(install_root.lock):
            raise BadLock("anyone may write to it")
        return parse_lockfile(text)
    except (BadLock, HostError) as error:
        raise HostError(
            f"the lock {install_root.lock} can't be read: {error}",
            "restore a good copy (from git or a backup), or move it away and run `metier freeze`; nothing was changed",
            install_root.lock,
        ) from error


# --- Receipts ---
# A lock lies beside its root, where it can get lost or be edited.  What metier installed is therefore remembered in its
# own folder too: a skill without its lock entry must not pass for one that the user wrote.


def read_receipts(path: str) -> dict[str, frozenset[str]]:
    """The skills that were installed, by the real path of their root: the places in it."""
    text = paths.read_text_file(path, MAX_LOCK_BYTES)
    if text is None:
        return {}
    try:
        return {str(root): frozenset(map(str, keys)) for root, keys in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise HostError(f"{path} is damaged: {error}", "restore a good copy, or move it away", path) from error


def change_receipts(install_root: InstallRoot, change: Callable[[frozenset[str]], frozenset[str]]) -> None:
    """Change what is remembered of a root."""
    if not install_root.receipts:
        return
    fs.make_folder(install_root.receipts.rpartition("/")[0])
    with fs.hold_lock(f"{install_root.receipts}.lock"):
        receipts, real = read_receipts(install_root.receipts), paths.real_path(install_root.root)
        keys = change(receipts.get(real, frozenset()))
        if keys != receipts.get(real, frozenset()):
            roots = {root: sorted(places) for root, places in {**receipts, real: keys}.items() if places}
            fs.write_text(install_root.receipts, json.dumps(roots, indent=1, sort_keys=True) + "\n")


def read_record(path: str) -> dict[str, Any] | None:
    """A journal record; None for one that was never written completely."""
    text = paths.read_text_file(path, MAX_LOCK_BYTES)
    try:
        record = json.loads(text or "")
    except ValueError:
        return None
    return record if isinstance(record, dict) and "trash" in record else None


def pending_entries(install_root: InstallRoot) -> dict[str, LockEntry]:
    """Skills that are in place but not in the lock yet, because their installer is still at work or was killed."""
    entries: dict[str, LockEntry] = {}
    for name in trees.list_names(f"{install_root.work}/journal"):
        record = read_record(f"{install_root.work}/journal/{name}")
        if record is None or record["op"] != "place":
            continue
        # The inode tells the new folder from an older one that is still in its place.
        if trees.inode_of(f"{install_root.root}/{record['target']}") == record["inode"]:
            entries |= {place: read_entry(tree) for place, tree in record["skills"].items()}
    return entries


# --- Comparing a folder with its lock ---

DifferenceKind: TypeAlias = Literal["changed", "added", "removed", "re-moded"]
_PLAIN_MODES = ("600", "640", "644", "660", "664")
_EXECUTABLE_MODES = ("700", "750", "755", "770", "775")


def compare_files(locked: FileManifest, now: FileManifest, shared: bool) -> Iterator[tuple[str, DifferenceKind]]:
    """Every file that differs.  In a shared root, modes that differ by a umask only are the same."""
    for path in sorted({*locked, *now}):
        before, after = locked.get(path), now.get(path)
        if before is None:
            yield path, "added"
        elif after is None:
            yield path, "removed"
        elif before.digest != after.digest:
            yield path, "changed"
        elif not _same_mode(before.mode, after.mode, shared):
            yield path, "re-moded"


def _same_mode(first: str, second: str, shared: bool) -> bool:
    if first == second or not shared:
        return first == second
    # Git keeps only the executable bit; the others come from each person's umask.
    return any(first in modes and second in modes for modes in (_PLAIN_MODES, _EXECUTABLE_MODES))


def folder_manifest(path: str) -> FileManifest:
    """Every file of a folder now; empty if it is gone.  A link in its place counts as one file, never as a match."""
    if trees.is_link(path):
        return {".": FileRecord("link", "link")}
    return trees.file_marks(path) if paths.is_folder(path) else {}


# --- The lock as JSON ---

LOCK_VERSION = 1
_octal = re.compile("[0-7]{1,4}").fullmatch


class BadLock(ValueError):
    """A lock is not valid; the argument says why."""


def render_lockfile(lock: Lockfile) -> str:
    """A lock as text: sorted, and one value per line where people read it, so that git shows small differences."""
    tree = {
        "lockVersion": LOCK_VERSION,
        "skills": {place: entry_tree(entry) for place, entry in sorted(lock.skills.items())},
        "folders": {name: folder_tree(folder) for name, folder in sorted(lock.folders.items())},
    }
    return json.dumps(tree, indent=1, ensure_ascii=True) + "\n"


def entry_tree(entry: LockEntry) -> dict[str, Any]:
    """A lock entry as JSON has it."""
    tree: dict[str, Any] = {
        "name": entry.name,
        "folder": entry.folder,
        "source": _source_tree(entry.provenance),
        "digest": manifest_digest(entry.files),
        "files": _files_tree(entry.files),
        "capabilities": {key: list(value) for key, value in entry.powers.named().items()},
        "findings": list(entry.findings),
        "approved": None,
    }
    tree |= _local_tree(entry)
    if entry.approval is not None:
        approval = entry.approval
        tree["approved"] = {
            "by": approval.by,
            "at": approval.at,
            "digest": approval.digest,
            "runs": list(approval.runs),
        }
    if entry.frozen:
        tree["frozen"] = True
    if entry.previous:
        tree["previous"] = entry.previous
    return tree


def folder_tree(folder: FolderEntry) -> dict[str, Any]:
    tree: dict[str, Any] = {"source": _source_tree(folder.provenance), "files": _files_tree(folder.files)}
    return tree | _local_tree(folder)


def _local_tree(entry: LockEntry | FolderEntry) -> dict[str, Any]:
    """Local edits: upstream's record of each edited file, and the edited text line by line."""
    tree: dict[str, Any] = {}
    if entry.base:
        tree["base"] = _files_tree(entry.base)
    if entry.edits:
        tree["edits"] = {path: text.splitlines(keepends=True) for path, text in sorted(entry.edits.items())}
    return tree


def _source_tree(source: Provenance) -> dict[str, Any]:
    return {field.name: value for field in fields(source) if (value := getattr(source, field.name))}


def _files_tree(files: Mapping[str, FileRecord | None]) -> dict[str, Any]:
    return {path: None if record is None else list(record) for path, record in sorted(files.items())}


def parse_lockfile(text: str) -> Lockfile:
    """Read a lock; BadLock if any part of it is not valid."""
    tree = _parse_json(text)
    if tree.get("lockVersion") != LOCK_VERSION:
        version = tree.get("lockVersion", tree.get("version"))
        raise BadLock(f"its version is {version!r}; this metier reads version {LOCK_VERSION}")
    try:
        return Lockfile(
            {_checked_path(place): read_entry(value) for place, value in tree["skills"].items()},
            {_checked_path(name): read_folder_entry(value) for name, value in tree.get("folders", {}).items()},
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadLock(f"it is incomplete: {error}") from error


def _parse_json(text: str) -> dict[str, Any]:
    try:
        tree = json.loads(text, object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError) as error:
        raise BadLock(str(error) or "it is nested too deeply") from error
    if not isinstance(tree, dict):
        raise BadLock("it is not a JSON object")
    return tree


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # A person reading the lock sees both values of a doubled key, and a parser takes the last.
    tree = dict(pairs)
    if len(tree) < len(pairs):
        names = [key for key, _ in pairs]
        raise BadLock(f"`{next(key for key in names if names.count(key) > 1)[:80]}` appears twice")
    return tree


def read_entry(tree: Mapping[str, Any]) -> LockEntry:
    """The entry that `entry_tree` wrote; its digest must be that of its files."""
    approved = tree.get("approved")
    files = _read_files(tree["files"])
    approval = None
    if approved is not None:
        runs = tuple(map(str, approved.get("runs", ())))
        approval = SkillApproval(str(approved["digest"]), str(approved["at"]), str(approved["by"]), runs)
    if tree["digest"] != manifest_digest(files):
        raise BadLock(f"the digest of `{tree['name']}` does not match its files")
    return LockEntry(
        str(tree["name"]),
        _checked_path(tree["folder"]),
        _read_source(tree["source"]),
        files,
        _read_base(tree.get("base", {})),
        SkillPowers(**{key: tuple(map(str, tree["capabilities"].get(key, ()))) for key in SkillPowers().named()}),
        tuple(map(str, tree.get("findings", ()))),
        approval,
        tree.get("frozen") is True,
        str(tree.get("previous", "")),
        _read_edits(tree.get("edits", {}), files),
    )


def read_folder_entry(tree: Mapping[str, Any]) -> FolderEntry:
    files = _read_files(tree["files"])
    edits = _read_edits(tree.get("edits", {}), files)
    return FolderEntry(_read_source(tree["source"]), files, _read_base(tree.get("base", {})), edits)


def _read_source(tree: Mapping[str, Any]) -> Provenance:
    names = {field.name for field in fields(Provenance)}
    values = {key: value for key, value in tree.items() if key in names}
    if not all(isinstance(value, int if key == "committed" else str) for key, value in values.items()):
        raise ValueError("a source is not valid")
    return Provenance(**values)


def _read_files(tree: Mapping[str, Any]) -> dict[str, FileRecord]:
    return {_checked_path(path): _read_file_record(value) for path, value in tree.items()}


def _read_base(tree: Mapping[str, Any]) -> dict[str, FileRecord | None]:
    return {_checked_path(path): None if value is None else _read_file_record(value) for path, value in tree.items()}


def _read_file_record(pair: Any) -> FileRecord:
    digest, mode = map(str, pair)
    if mode not in ("link", "special") and not _octal(mode):
        raise ValueError(f"`{mode[:80]}` is not a file mode")
    return FileRecord(digest, mode)


def _checked_path(path: Any) -> str:
    """A path inside a folder: a lock may come from somebody else, and what it names is written and removed."""
    if not isinstance(path, str) or path.startswith("/") or not {"", ".."}.isdisjoint(path.split("/")):
        raise ValueError(f"`{str(path)[:80]}` is not a path inside a folder")
    return path


def _read_edits(tree: Mapping[str, Any], files: FileManifest) -> dict[str, str]:
    if not set(tree) <= set(files):
        raise ValueError("`edits` names a file that `files` does not")
    return {path: "".join(lines) for path, lines in tree.items()}


# --- Locks of other programs ---


class ForeignLockEntry(NamedTuple):
    """A skill in another program's lock."""

    name: str
    spec: str
    """What `metier add` takes."""
    digest: str = ""
    """That program's own hash of the folder, if it has one."""


def read_foreign(text: str) -> tuple[ForeignLockEntry, ...]:
    """The skills in a lock of `npx skills`, its project lock or its global one."""
    tree = _parse_json(text)
    skills = tree.get("skills")
    if "lockVersion" in tree or not isinstance(tree.get("version"), int) or not isinstance(skills, dict):
        raise BadLock("it is not a lock of `npx skills`")
    entries = []
    for name, entry in sorted(skills.items()):
        if isinstance(entry, dict) and isinstance(entry.get("source"), str):
            entries.append(ForeignLockEntry(str(name), _foreign_spec(entry), str(entry.get("computedHash", ""))))
    return tuple(entries)


def _foreign_spec(entry: Mapping[str, Any]) -> str:
    source, ref = str(entry["source"]), str(entry.get("ref") or "")
    path = str(entry.get("skillPath") or "").removesuffix("SKILL.md").strip("/")
    # Their lock writes local folders without `./`, which would mean a GitHub repository here.
    if entry.get("sourceType") == "local" and not source.startswith(("/", ".", "~")):
        source = "./" + source
    if entry.get("sourceType") != "github" or source.count("/") != 1:
        return source
    return source + (f"/{path}" if path else "") + (f"@{ref}" if ref else "")


def foreign_digest(contents: Mapping[str, bytes]) -> str:
    """The hash that `npx skills` gives a folder: each path and its bytes, sorted as its sort does it."""
    digest = sha256()
    for path in sorted(contents, key=lambda path: (path.lower(), path)):
        digest.update(path.encode() + contents[path])
    return digest.hexdigest()

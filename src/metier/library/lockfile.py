"""Whether a folder's files are those of a lock.  It is asked whenever skills are listed, and so needs little."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeAlias

from ..host import paths, trees
from ..sources.skill_files import manifest_digest
from ..types.errors import HostError
from ..types.lockfile import (
    FileManifest,
    FileRecord,
    FolderEntry,
    LockEntry,
    Lockfile,
    Provenance,
    SkillApproval,
    SkillPowers,
)

DifferenceKind: TypeAlias = Literal["changed", "added", "removed", "re-moded"]
_PLAIN_MODES = ("600", "640", "644", "660", "664")
_EXECUTABLE_MODES = ("700", "750", "755", "770", "775")


def compare_files(locked: FileManifest, now: FileManifest, shared: bool) -> Iterator[tuple[str, DifferenceKind]]:
    """Every file that differs.  In a project the modes that a umask explains are the same."""
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
    return any(first in modes and second in modes for modes in (_PLAIN_MODES, _EXECUTABLE_MODES))


def marks_at(path: str) -> FileManifest:
    """Every file of a folder now; nothing when it is gone.  A link in its place is one file that nobody locked."""
    if trees.is_link(path):
        return {".": FileRecord("link", "link")}
    return trees.file_marks(path) if paths.is_folder(path) else {}


LOCK_VERSION = 1
_octal = re.compile("[0-7]{1,4}").fullmatch


class BadLock(ValueError):
    """A lock that can't be read; the argument says why."""


def render_lockfile(lock: Lockfile) -> str:
    """Sorted, one value to a line where a person reads it, and a line break at the end."""
    tree = {
        "lockVersion": LOCK_VERSION,
        "skills": {place: entry_tree(entry) for place, entry in sorted(lock.skills.items())},
        "folders": {name: rest_tree(rest) for name, rest in sorted(lock.folders.items())},
    }
    return json.dumps(tree, indent=1, ensure_ascii=True) + "\n"


def entry_tree(entry: LockEntry) -> dict[str, Any]:
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


def rest_tree(rest: FolderEntry) -> dict[str, Any]:
    tree: dict[str, Any] = {"source": _source_tree(rest.provenance), "files": _files_tree(rest.files)}
    return tree | _local_tree(rest)


def _local_tree(entry: LockEntry | FolderEntry) -> dict[str, Any]:
    """What is not as upstream has it: upstream's mark of each file, and our own text line by line."""
    tree: dict[str, Any] = {}
    if entry.base:
        tree["base"] = _files_tree(entry.base)
    if entry.edits:
        tree["edits"] = {path: text.splitlines(keepends=True) for path, text in sorted(entry.edits.items())}
    return tree


def _source_tree(source: Provenance) -> dict[str, Any]:
    return {field.name: value for field in fields(source) if (value := getattr(source, field.name))}


def _files_tree(files: Mapping[str, FileRecord | None]) -> dict[str, Any]:
    return {path: None if mark is None else list(mark) for path, mark in sorted(files.items())}


def parse_lockfile(text: str) -> Lockfile:
    """What a lock says; BadLock when any of it is not as it should be."""
    tree = _parse_json(text)
    if tree.get("lockVersion") != LOCK_VERSION:
        version = tree.get("lockVersion", tree.get("version"))
        raise BadLock(f"its version is {version!r}; this metier reads {LOCK_VERSION}")
    try:
        return Lockfile(
            {_checked_path(place): read_entry(value) for place, value in tree["skills"].items()},
            {_checked_path(name): read_rest(value) for name, value in tree.get("folders", {}).items()},
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadLock(f"it lacks something: {error}") from error


def _parse_json(text: str) -> dict[str, Any]:
    try:
        tree = json.loads(text, object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError) as error:
        raise BadLock(str(error) or "it is nested too deeply") from error
    if not isinstance(tree, dict):
        raise BadLock("it is not a JSON object")
    return tree


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        names = [key for key, _ in pairs]
        raise BadLock(f"`{next(key for key in names if names.count(key) > 1)[:80]}` is there twice")
    return tree


def read_entry(tree: Mapping[str, Any]) -> LockEntry:
    approved = tree.get("approved")
    files = _read_files(tree["files"])
    approval = None
    if approved is not None:
        runs = tuple(map(str, approved.get("runs", ())))
        approval = SkillApproval(str(approved["digest"]), str(approved["at"]), str(approved["by"]), runs)
    if tree["digest"] != manifest_digest(files):
        raise BadLock(f"the digest of `{tree['name']}` is not that of its files")
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


def read_rest(tree: Mapping[str, Any]) -> FolderEntry:
    files = _read_files(tree["files"])
    edits = _read_edits(tree.get("edits", {}), files)
    return FolderEntry(_read_source(tree["source"]), files, _read_base(tree.get("base", {})), edits)


def _read_source(tree: Mapping[str, Any]) -> Provenance:
    names = {field.name for field in fields(Provenance)}
    values = {key: value for key, value in tree.items() if key in names}
    if not all(isinstance(value, int if key == "committed" else str) for key, value in values.items()):
        raise ValueError("a source is not as it should be")
    return Provenance(**values)


def _read_files(tree: Mapping[str, Any]) -> dict[str, FileRecord]:
    return {_checked_path(path): _read_mark(value) for path, value in tree.items()}


def _read_base(tree: Mapping[str, Any]) -> dict[str, FileRecord | None]:
    return {_checked_path(path): None if value is None else _read_mark(value) for path, value in tree.items()}


def _read_mark(pair: Any) -> FileRecord:
    digest, mode = map(str, pair)
    if mode not in ("link", "special") and not _octal(mode):
        raise ValueError(f"`{mode[:80]}` is no mode")
    return FileRecord(digest, mode)


def _checked_path(path: Any) -> str:
    """A path that leads nowhere else: a lock may come from somebody else, and what it names is written and removed."""
    if not isinstance(path, str) or path.startswith("/") or not {"", ".."}.isdisjoint(path.split("/")):
        raise ValueError(f"`{str(path)[:80]}` is no path inside a folder")
    return path


def _read_edits(tree: Mapping[str, Any], files: FileManifest) -> dict[str, str]:
    if not set(tree) <= set(files):
        raise ValueError("`edits` names a file that `files` does not")
    return {path: "".join(lines) for path, lines in tree.items()}


class ForeignLockEntry(NamedTuple):
    """A skill as another program's lock has it."""

    name: str
    spec: str
    """What `metier add` takes."""
    digest: str = ""
    """That program's own hash of the folder, where it has one."""


def read_foreign(text: str) -> tuple[ForeignLockEntry, ...]:
    """The skills that `npx skills` wrote down, in its project lock or its global one."""
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
    if entry.get("sourceType") == "local" and not source.startswith(("/", ".", "~")):
        source = "./" + source
    if entry.get("sourceType") != "github" or source.count("/") != 1:
        return source
    return source + (f"/{path}" if path else "") + (f"@{ref}" if ref else "")


def foreign_digest(contents: Mapping[str, bytes]) -> str:
    """The hash that `npx skills` gives a folder: each path and its bytes, in the order of their names."""
    digest = sha256()
    for path in sorted(contents, key=lambda path: (path.lower(), path)):
        digest.update(path.encode() + contents[path])
    return digest.hexdigest()


MAX_LOCK_BYTES = 67_108_864


def _ignore_note(text: str) -> None:
    """Whoever asks not to be told."""


@dataclass(frozen=True)
class InstallRoot:
    """A root that metier installs into."""

    root: str
    shared: bool = False
    """It lies in a project: other people and other settings of file modes have a part in it."""
    history: str = ""
    """The repository that keeps what its skills were; empty where nothing is kept."""
    note: Callable[[str], None] = field(default=_ignore_note, compare=False, repr=False)
    """Told what a person should know, although all was done."""

    @property
    def work(self) -> str:
        return f"{self.root}/.metier"

    @property
    def lock(self) -> str:
        """Beside the root: `skills-lock.json` for a root called `skills`."""
        return f"{self.root}-lock.json"


def read_lock(install_root: InstallRoot) -> Lockfile:
    """The lock of a root; empty where there is none.  One that can't be read stops everything."""
    try:
        text = paths.read_text_file(install_root.lock, MAX_LOCK_BYTES)
        if text is None:
            return Lockfile()
        if trees.is_link(install_root.lock):
            raise BadLock("it is a link")
        if trees.others_may_write(install_root.lock):
            raise BadLock("everybody may write it")
        return parse_lockfile(text)
    except (BadLock, HostError) as error:
        raise HostError(
            f"the lock {install_root.lock} can't be read: {error}",
            "bring back a good copy (from git or a backup), or move it away and run `metier freeze`;"
            " nothing was changed",
            install_root.lock,
        ) from error


def read_record(path: str) -> dict[str, Any] | None:
    text = paths.read_text_file(path, MAX_LOCK_BYTES)
    try:
        record = json.loads(text or "")
    except ValueError:
        return None
    return record if isinstance(record, dict) and "trash" in record else None


def pending_entries(install_root: InstallRoot) -> dict[str, LockEntry]:
    """Skills of folders that are in place and not in the lock yet, because their owner is not done or was killed."""
    entries: dict[str, LockEntry] = {}
    for name in trees.list_names(f"{install_root.work}/journal"):
        record = read_record(f"{install_root.work}/journal/{name}")
        if record is None or record["op"] != "place":
            continue
        if trees.inode_of(f"{install_root.root}/{record['target']}") == record["inode"]:
            entries |= {place: read_entry(tree) for place, tree in record["skills"].items()}
    return entries

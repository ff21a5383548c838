"""Change an install root so that a crash at any moment leaves it whole: staging, journal, locks, trash, recovery.

A change is prepared in a staging folder, written to a journal, made by one rename (an atomic exchange where the kernel
has one), entered in the lock file, recorded in the history, and only then removed from the journal.  Each step after
the rename may be done twice.  Whoever opens a root next finishes the changes of dead processes: if the inode that the
journal names is in place the change happened and is completed, else it is undone.  A process is alive as long as it
holds the lock of its staging folder, which the kernel releases when it dies; process ids were refused, because they
are reused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_hex
from typing import Any, Literal

from ..host import fs, paths, trees
from ..host.facts import sortable_timestamp
from ..library import lockfile
from ..library.lockfile import MAX_LOCK_BYTES, InstallRoot, read_lock, read_record
from ..types.errors import BadRequest, MetierError
from ..types.installed import FolderEntry, LockEntry, Lockfile

# --- Names of folders ---

MAX_NAME = 100
_DEVICE_NAMES = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{number}" for number in range(10)), *(f"lpt{number}" for number in range(10))}
)
_folder = re.compile(r"[\w][\w.+-]*").fullmatch


def folder_name(name: str) -> str:
    """Return a valid folder name, or refuse it before any path is built from it."""
    fault = name_fault(name)
    if fault:
        raise BadRequest(f"`{name}` can't be the name of a skill's folder: {fault}", "choose another with --name")
    return name


def name_fault(name: str) -> str:
    """Why a name can't be a folder's; empty if it can."""
    if not name or name in (".", ".."):
        return "it is empty or a relative path"
    if "/" in name or "\\" in name:
        return "it is a path"
    if len(name) > MAX_NAME:
        return f"it has more than {MAX_NAME} characters"
    if name.partition(".")[0].lower() in _DEVICE_NAMES:
        return "it is a reserved device name on some systems"
    if name.endswith("."):
        return "it ends with a dot"
    if not _folder(name):
        return "only letters, digits, `-`, `_`, `+` and `.` are allowed, and the first must be a letter or digit"
    return ""


# --- Changes ---


@dataclass(frozen=True)
class FolderChange:
    """Place, replace or remove one folder of a root, and its lock entries afterwards."""

    op: Literal["place", "remove"]
    target: str
    """Its path in the root."""
    skills: Mapping[str, LockEntry] = field(default_factory=dict)
    folders: Mapping[str, FolderEntry] = field(default_factory=dict)
    act: str = "edit"
    """Its name in the history."""
    evidence: str = ""
    run: str = ""


class StagingArea:
    """A folder to prepare changes in; if its owner dies, the next process deletes it."""

    def __init__(self, install_root: InstallRoot, name: str, lock_handle: int) -> None:
        self.install_root = install_root
        self.name = name
        self.folder = f"{install_root.work}/staging/{name}"
        self._lock_handle = lock_handle
        self._count = 0

    def inner(self) -> str:
        """Make a new folder in it."""
        self._count += 1
        path = f"{self.folder}/{self._count}"
        trees.make_folders(path)
        return path

    def close(self) -> None:
        """Delete the folder, unless a change in the journal still needs it for recovery."""
        if not any(name.startswith(self.name) for name in trees.list_names(f"{self.install_root.work}/journal")):
            trees.remove_tree(self.folder)
            trees.remove_file(self.folder + ".lock")
        fs.release_lock(self._lock_handle)


@contextmanager
def open_staging(install_root: InstallRoot) -> Iterator[StagingArea]:
    """Prepare the root, recover interrupted changes, and make a staging folder."""
    read_lock(install_root)  # an unreadable lock stops us before anything is created
    if install_root.receipts:
        fs.make_folder(install_root.receipts.rpartition("/")[0])  # metier's own folder is private from the first moment
    made = fs.missing_folders(install_root.work)
    for inner in ("staging", "journal", "trash", "locks"):
        trees.make_folders(f"{install_root.work}/{inner}", 0o755)
    if not paths.exists(f"{install_root.work}/.gitignore"):
        fs.write_text(f"{install_root.work}/.gitignore", "*\n", 0o644)
    with fs.hold_locks([_root_lock_path(install_root)]):
        _recover_changes(install_root)
        name = token_hex(8)
        staging = StagingArea(install_root, name, fs.create_lock(f"{install_root.work}/staging/{name}.lock"))
        trees.make_folders(staging.folder, 0o700)
    try:
        yield staging
    finally:
        staging.close()
        _unmake_folders(install_root, made)


def _unmake_folders(install_root: InstallRoot, made: Sequence[str]) -> None:
    """Remove the folders that were made for a change that was refused, if nothing else is in them."""
    if install_root.work not in made or paths.exists(install_root.lock):
        return
    with fs.hold_locks([_root_lock_path(install_root)]):
        if not any(trees.list_names(f"{install_root.work}/{inner}") for inner in ("staging", "journal", "trash")):
            trees.remove_tree(install_root.work)
    for folder in reversed(made):
        trees.remove_empty_folder(folder)


@contextmanager
def hold_root(install_root: InstallRoot) -> Iterator[None]:
    """Hold the lock of a root: no other process places or removes anything meanwhile."""
    with fs.hold_locks([_root_lock_path(install_root)]):
        yield


def recover_root(install_root: InstallRoot) -> None:
    """Finish or undo the changes that a killed process left in a root."""
    if paths.exists(install_root.work):
        with open_staging(install_root):
            pass


@contextmanager
def hold_folders(
    install_root: InstallRoot, names: Iterable[str], waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold the locks of these folders: nothing else changes them meanwhile, in this process or another."""
    trees.make_folders(f"{install_root.work}/locks")
    lock_paths = [f"{install_root.work}/locks/{sha256(name.encode()).hexdigest()[:16]}.lock" for name in names]
    with fs.hold_locks(lock_paths, waiting=waiting):
        yield


def _root_lock_path(install_root: InstallRoot) -> str:
    return f"{install_root.work}/locks/root.lock"


def commit_change(staging: StagingArea, change: FolderChange, new: str = "") -> str:
    """Make a change: journal, rename, lock.  Returns where the old folder is in the trash; empty if there was none."""
    install_root = staging.install_root
    trees.make_folders(install_root.root)
    with fs.hold_locks([_root_lock_path(install_root)]):
        if not paths.exists(install_root.lock):  # with a lock, readers of this root look at its journal too
            fs.write_text(install_root.lock, lockfile.render_lockfile(Lockfile()), 0o644)
        if paths.exists(f"{install_root.root}/{change.target}"):
            try_record_history(install_root, change.target, "edit")
        journal = f"{install_root.work}/journal/{staging.name}-{token_hex(4)}.json"
        record = _journal_record(staging, change, new)
        fs.write_text(journal, json.dumps(record, indent=1), 0o600)
        # Before the folder is there: a receipt too many withholds a skill, one too few would pass it as the user's own.
        installed = {key for key, entry in change.skills.items() if entry.provenance.kind != "local"}
        lockfile.change_receipts(install_root, lambda keys: keys | installed)
        _apply_record(install_root, record)
        _finish_record(install_root, record, journal)
    return f"{record['trash']}/folder" if paths.exists(f"{record['trash']}/folder") else ""


def _journal_record(staging: StagingArea, change: FolderChange, new: str) -> dict[str, Any]:
    """The journal record of a change, with all that recovery needs."""
    install_root = staging.install_root
    source = new or f"{install_root.root}/{change.target}"
    return {
        "op": change.op,
        "target": change.target,
        "act": (change.act, change.evidence, change.run),
        "new": source,
        "inode": trees.inode_of(source),
        "old": f"{staging.folder}/old-{token_hex(4)}",
        "trash": f"{install_root.work}/trash/{sortable_timestamp()}-{token_hex(4)}",
        "skills": {place: lockfile.entry_tree(entry) for place, entry in change.skills.items()},
        "folders": {name: lockfile.folder_tree(folder) for name, folder in change.folders.items()},
    }


def _apply_record(install_root: InstallRoot, record: Mapping[str, Any]) -> None:
    """The step that decides: put the new folder in place, or the old one into the trash."""
    target, new = f"{install_root.root}/{record['target']}", record["new"]
    if record["op"] == "remove":
        _move_to_trash(install_root, record, target)
    elif not paths.exists(target):
        trees.make_folders(target.rpartition("/")[0])
        trees.move_into_place(new, target)
    elif not trees.exchange_folders(new, target):
        # No atomic exchange here: for a moment there is no folder, and recovery puts the old one back.
        trees.move_into_place(target, record["old"])
        trees.move_into_place(new, target)


def _move_to_trash(install_root: InstallRoot, record: Mapping[str, Any], path: str) -> None:
    """Move a folder to the trash, with its lock entries."""
    trash = record["trash"]
    if paths.exists(f"{trash}/folder"):
        return
    trees.make_folders(trash)
    inside = record["target"]
    lock = read_lock(install_root)
    trash_record = {
        "target": inside,
        "skills": {
            place: lockfile.entry_tree(entry) for place, entry in lock.skills.items() if _is_within(place, inside)
        },
        "folders": {name: lockfile.folder_tree(folder) for name, folder in lock.folders.items() if name == inside},
    }
    fs.write_text(f"{trash}/what.json", json.dumps(trash_record, indent=1), 0o600)
    trees.move_into_place(path, f"{trash}/folder")


def _is_within(place: str, target: str) -> bool:
    return place == target or place.startswith(target + "/")


def _finish_record(install_root: InstallRoot, record: Mapping[str, Any], journal: str) -> None:
    """The steps after the rename; each may be done twice.  The caller holds the root's lock."""
    target = record["target"]
    if record["op"] == "place":
        for old in (record["old"], record["new"]):
            if paths.exists(old):
                _move_to_trash(install_root, record, old)
    lock = read_lock(install_root)
    skills = {place: entry for place, entry in lock.skills.items() if not _is_within(place, target)}
    folders = {name: folder for name, folder in lock.folders.items() if name != target}
    skills |= {place: lockfile.read_entry(tree) for place, tree in record["skills"].items()}
    folders |= {name: lockfile.read_folder_entry(tree) for name, tree in record["folders"].items()}
    fs.write_text(install_root.lock, lockfile.render_lockfile(Lockfile(skills, folders)), 0o644)
    if record["op"] == "remove" or record["skills"]:
        gone = {place for place in lock.skills if _is_within(place, target)} - set(record["skills"])
        lockfile.change_receipts(install_root, lambda keys: keys - gone)
    act, evidence, run = record.get("act", ("edit", "", ""))
    try_record_history(install_root, target, act, evidence, run, lock.skills)
    trees.remove_file(journal)


# --- History ---


def record_edits(install_root: InstallRoot, targets: Iterable[str]) -> None:
    """Record edits made by hand, under the root's lock."""
    lock_paths = [_root_lock_path(install_root)] if paths.exists(f"{install_root.work}/locks") else []
    with fs.hold_locks(lock_paths):
        for target in targets:
            record_history(install_root, target, "edit")


def try_record_history(
    install_root: InstallRoot, target: str, act: str, evidence: str = "", run: str = "", besides: Iterable[str] = ()
) -> None:
    """Record the skills in a folder as they are now.  A failure is a note and stops nothing: the next look at the root
    finds the change and records it."""
    try:
        if install_root.history:
            record_history(install_root, target, act, evidence, run, besides)
    except MetierError as error:
        install_root.note(f"not recorded in the history yet: {error.message}")


def record_history(
    install_root: InstallRoot, target: str, act: str, evidence: str = "", run: str = "", besides: Iterable[str] = ()
) -> None:
    """Record the skills in a folder as they are now; a failure is an error."""
    from ..record import history  # not needed to read a lock

    lock = read_lock(install_root)
    recorded = history.skill_names(install_root.history)
    keys = sorted({key for key in (*lock.skills, *besides, *recorded) if _is_within(key, target)}) or [target]
    for key in keys:
        entry = json.dumps(lockfile.entry_tree(lock.skills[key])) if key in lock.skills else ""
        recorded_act = act if key in recorded or act != "edit" else "add"
        change = history.HistoryChange(recorded_act, key, f"{install_root.root}/{key}", evidence, run, entry)
        history.record_change(install_root.history, change)


def change_lock(install_root: InstallRoot, change: Callable[[Lockfile], Lockfile]) -> Lockfile:
    """Read, change and write the lock file under the root's lock."""
    trees.make_folders(f"{install_root.work}/locks")
    with fs.hold_locks([_root_lock_path(install_root)]):
        before = read_lock(install_root)
        lock = change(before)
        gone = set(before.skills) - set(lock.skills)
        lockfile.change_receipts(install_root, lambda keys: keys - gone)
        fs.write_text(install_root.lock, lockfile.render_lockfile(lock), 0o644)
        return lock


# --- Recovery ---


def _recover_changes(install_root: InstallRoot) -> None:
    """Finish or undo every change whose owner is dead, and delete leftovers.  The caller holds the root's lock."""
    folder = f"{install_root.work}/journal"
    for name in trees.list_names(folder):
        owner = f"{install_root.work}/staging/{_record_owner(name)}.lock"
        handle = fs.try_lock(owner)
        if handle is None and paths.exists(owner):
            continue  # its owner is alive
        record = read_record(f"{folder}/{name}")
        if record is None:
            trees.remove_file(f"{folder}/{name}")  # never written completely, so nothing was done
        else:
            _settle_record(install_root, record, f"{folder}/{name}")
        if handle is not None:
            fs.release_lock(handle)
    _sweep_staging(install_root)


def _record_owner(name: str) -> str:
    """The staging area of a journal record; one that is still being written has a leading dot."""
    return name.lstrip(".").partition("-")[0]


def _settle_record(install_root: InstallRoot, record: Mapping[str, Any], journal: str) -> None:
    """Finish a change whose folder arrived, judged by its inode; undo any other."""
    target = f"{install_root.root}/{record['target']}"
    outcome_path = f"{record['trash']}/folder" if record["op"] == "remove" else target
    if trees.inode_of(outcome_path) == record["inode"]:
        _finish_record(install_root, record, journal)
        return
    if record["op"] == "place" and not paths.exists(target) and paths.exists(record["old"]):
        trees.move_into_place(record["old"], target)
    if record["op"] == "remove" and not paths.exists(f"{record['trash']}/folder"):
        trees.remove_tree(record["trash"])
    trees.remove_file(journal)


def _sweep_staging(install_root: InstallRoot) -> None:
    """Delete staging folders of dead processes, and trash entries without a folder."""
    folder = f"{install_root.work}/staging"
    busy = {_record_owner(name) for name in trees.list_names(f"{install_root.work}/journal")}
    for name in {file_name.removesuffix(".lock") for file_name in trees.list_names(folder)} - busy:
        handle = fs.try_lock(f"{folder}/{name}.lock")
        if handle is None and paths.exists(f"{folder}/{name}.lock"):
            continue
        trees.remove_tree(f"{folder}/{name}")
        trees.remove_file(f"{folder}/{name}.lock")
        if handle is not None:
            fs.release_lock(handle)
    for name in trees.list_names(f"{install_root.work}/trash"):
        if not paths.exists(f"{install_root.work}/trash/{name}/folder") and not busy:
            trees.remove_tree(f"{install_root.work}/trash/{name}")


# --- Trash ---


def list_trash(install_root: InstallRoot) -> list[tuple[str, str, str]]:
    """What is in the trash, newest first: (id, folder, time) triples."""
    items = []
    for name in reversed(trees.list_names(f"{install_root.work}/trash")):
        record = _read_trash_record(f"{install_root.work}/trash/{name}")
        if record is not None:
            items.append((name, str(record["target"]), name.partition("-")[0]))
    return items


def _read_trash_record(path: str) -> dict[str, Any] | None:
    text = paths.read_text_file(f"{path}/what.json", MAX_LOCK_BYTES)
    if text is None or not paths.exists(f"{path}/folder"):
        return None
    try:
        record = json.loads(text)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("target"), str) else None


def restore_from_trash(staging: StagingArea, name: str) -> FolderChange:
    """Put a folder from the trash back where it was, with its lock entries."""
    install_root = staging.install_root
    record = _read_trash_record(f"{install_root.work}/trash/{name}")
    if record is None:
        raise BadRequest("it is no longer in the trash", "run `metier restore` to list what is")
    change = FolderChange(
        "place",
        record["target"],
        {place: lockfile.read_entry(tree) for place, tree in record["skills"].items()},
        {name: lockfile.read_folder_entry(tree) for name, tree in record["folders"].items()},
        "restore",
    )
    commit_change(staging, change, f"{install_root.work}/trash/{name}/folder")
    trees.remove_tree(f"{install_root.work}/trash/{name}")
    return change

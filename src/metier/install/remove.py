"""List and remove installed skills, restore them from the trash, and clean up what is no longer needed.

Removing moves a folder to the trash of its root.  The trash is bounded by age and size; texts stored for merging are
kept far longer, because the lock of another project may still name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

from ..host import paths, trees
from ..library import lockfile
from ..library.lockfile import InstallRoot
from ..types.errors import BadRequest, NotInstalled, Refused
from ..types.installed import FileRecord, FolderEntry, LockEntry, Lockfile
from . import merge, transaction
from .transaction import FolderChange, name_fault

_MAX_DEPTH = 4
"""Folders below a root in which skills are looked for, as scanning does."""


class InstalledSkill(NamedTuple):
    """A skill in a root, installed or the user's own."""

    place: str
    name: str
    """From the lock; the folder's name if it has no entry."""
    folder: str
    source: str = ""
    commit: str = ""
    approved: bool = True
    frozen: bool = False
    missing: bool = False
    """The lock has it, but its folder is gone."""


class RemovedFolder(NamedTuple):
    """What was removed."""

    target: str
    trashed: bool
    """False if there was only an entry in the lock."""


def list_installed(install_root: InstallRoot) -> list[InstalledSkill]:
    """Every skill of a root, installed or the user's own."""
    lock = lockfile.read_lock(install_root)
    skills = []
    for key in sorted({*_find_skill_places(install_root.root), *lock.skills}):
        entry = lock.skills.get(key)
        if entry is None:
            skills.append(InstalledSkill(key, key.rpartition("/")[2], key.partition("/")[0]))
        else:
            source, ok = entry.provenance, entry.approval is not None
            gone = not paths.exists(f"{install_root.root}/{key}")
            skills.append(
                InstalledSkill(key, entry.name, entry.folder, source.source, source.commit, ok, entry.frozen, gone)
            )
    return skills


def _find_skill_places(root: str) -> list[str]:
    places: list[str] = []
    pending = [""]
    while pending:
        inside = pending.pop(0)
        try:
            listed = paths.list_names(f"{root}/{inside}" if inside else root)
        except OSError:
            continue
        if inside and any(name.lower() == "skill.md" for name in (*listed.files, *listed.links)):
            places.append(inside)
            continue
        # A link in a root is a skill, but links are not followed any deeper.
        if not inside:
            places += [name for name in listed.links if paths.exists(f"{root}/{name}/SKILL.md")]
        if inside.count("/") < _MAX_DEPTH - 1:
            names = [name for name in listed.folders if name[0] != "." and name not in ("node_modules", "__pycache__")]
            pending += [f"{inside}/{name}" if inside else name for name in names]
    return places


def resolve_removable(install_root: InstallRoot, name: str) -> str:
    """The folder of a root that a name means; refuses a path that leads out of the root."""
    parts = name.split("/")
    if any(name_fault(part) for part in parts) and not paths.exists(f"{install_root.root}/{name}"):
        raise BadRequest(f"`{name}` is not the name of an installed skill", "run `metier remove` to list what is")
    if name in ("", ".", "..") or name.startswith(("/", ".")) or any(part in ("", ".", "..") for part in parts):
        raise Refused(f"`{name}` leads out of {install_root.root}", "pass the name of an installed skill")
    present = list_installed(install_root)
    folders = {skill.folder for skill in present}
    if name in folders or name in {skill.place for skill in present}:
        return name
    matches = [skill.place for skill in present if name in (skill.name, skill.place.rpartition("/")[2])]
    if len(matches) > 1:
        raise BadRequest(f"several skills are called `{name}`", "give the place of one: " + ", ".join(matches))
    if not matches:
        known = {known for skill in present for known in (skill.place, skill.name, skill.folder)}
        raise NotInstalled(name, tuple(get_close_matches(name, known, 3)))
    return matches[0]


def remove_skill(install_root: InstallRoot, name: str) -> RemovedFolder:
    """Put a skill or an installed folder into the trash; one that is gone already leaves the lock."""
    with transaction.open_staging(install_root) as staging:
        target = resolve_removable(install_root, name)
        with transaction.hold_folders(install_root, [target.partition("/")[0]]):
            if not paths.exists(f"{install_root.root}/{target}"):
                _drop_from_lock(install_root, target)
                return RemovedFolder(target, False)
            transaction.commit_change(
                staging, FolderChange("remove", target, {}, _tombstone_entries(install_root, target), "trash")
            )
        return RemovedFolder(target, True)


def _drop_from_lock(install_root: InstallRoot, target: str) -> None:
    """Remove a folder that is gone from the lock."""
    tombstones = _tombstone_entries(install_root, target)

    def change(lock: Lockfile) -> Lockfile:
        skills = {key: entry for key, entry in lock.skills.items() if not f"{key}/".startswith(f"{target}/")}
        folders = {name: entry for name, entry in {**lock.folders, **tombstones}.items() if name != target}
        return Lockfile(skills, folders)

    transaction.change_lock(install_root, change)
    transaction.try_record_history(install_root, target, "trash")


def _tombstone_entries(install_root: InstallRoot, target: str) -> dict[str, FolderEntry]:
    """Entries for a skill removed from an installed repository, so that an update does not bring it back."""
    folder, _, inside = target.partition("/")
    lock = lockfile.read_lock(install_root)
    folder_entry = lock.folders.get(folder)
    if not inside or folder_entry is None:
        return {}
    removed = {
        f"{key[len(folder) + 1 :]}/{path}": record
        for key, entry in lock.skills.items()
        if key == target or key.startswith(target + "/")
        for path, record in {**entry.files, **entry.base}.items()
    }
    return {folder: replace(folder_entry, base={**folder_entry.base, **removed})}


def find_in_trash(install_root: InstallRoot, name: str) -> list[tuple[str, str]]:
    """What is in the trash under that name or id, newest first: (id, folder) pairs."""
    return [
        (trash_id, folder)
        for trash_id, folder, _ in transaction.list_trash(install_root)
        if name in (trash_id, folder, folder.rpartition("/")[2])
    ]


def restore_skill(install_root: InstallRoot, name: str) -> str:
    """Restore the newest of that name from the trash."""
    with transaction.open_staging(install_root) as staging:
        matches = find_in_trash(install_root, name)
        if not matches:
            trashed = {folder for _, folder, _ in transaction.list_trash(install_root)}
            near = get_close_matches(name, trashed, 1)
            hint = f"did you mean `{near[0]}`?" if near else "run `metier restore` to list what is"
            raise BadRequest(f"`{name}` is not in the trash", hint)
        trash_id, folder = matches[0]
        with transaction.hold_folders(install_root, [folder.partition("/")[0]]):
            trees.remove_empty(install_root.root, folder)
            if paths.exists(f"{install_root.root}/{folder}"):
                raise Refused(f"{install_root.root}/{folder} already exists", "remove it first, then restore the other")
            transaction.restore_from_trash(staging, trash_id)
        return folder


# --- Cleaning up ---

TRASH_DAYS = 30
"""How long the trash keeps things by default."""
TEXT_DAYS = 365
"""How long a text is kept that no known lock names; the lock of another project may."""
MAX_TRASH_BYTES = 1 << 30
"""Size of the trash of a root; beyond that the oldest goes first."""


class StaleItem(NamedTuple):
    """Something that may be deleted."""

    path: str
    what: str
    """Its name in the root; empty for a stored text."""
    bytes: int
    days: float


def old_trash(install_root: InstallRoot, days: float = TRASH_DAYS, most: int = MAX_TRASH_BYTES) -> list[StaleItem]:
    """What has been in the trash for `days`, and the oldest of the rest while there is too much."""
    stale, total = [], 0
    for name, folder, _ in transaction.list_trash(install_root):  # newest first
        path = f"{install_root.work}/trash/{name}"
        size = trees.size_of_tree(path)
        total += size
        age = trees.days_old(path)
        if age >= days or size < total > most:  # the newest stays, however large
            stale.append(StaleItem(path, folder, size, age))
    return stale


def empty_trash(install_root: InstallRoot, days: float = TRASH_DAYS, most: int = MAX_TRASH_BYTES) -> list[StaleItem]:
    """Delete it for good, under the lock of the root."""
    if not paths.exists(f"{install_root.work}/trash"):
        return []
    with transaction.hold_root(install_root):
        stale = old_trash(install_root, days, most)
        for item in stale:
            trees.remove_tree(item.path)
    return stale


def old_texts(state: str, locks: Iterable[Lockfile], days: float = TEXT_DAYS) -> list[StaleItem]:
    """Stored texts that no given lock names and that were not stored again for `days`."""
    needed = {record.digest for lock in locks for record in _locked_files(lock)}
    return [
        StaleItem(path, "", paths.size_of(path), age)
        for digest, path in merge.list_texts(state)
        if digest not in needed and (age := trees.days_old(path)) >= days
    ]


def _locked_files(lock: Lockfile) -> Iterator[FileRecord]:
    entries: list[LockEntry | FolderEntry] = [*lock.skills.values(), *lock.folders.values()]
    for entry in entries:
        yield from entry.files.values()
        yield from (record for record in entry.base.values() if record is not None)


def remove_texts(texts: Iterable[StaleItem]) -> None:
    for text in texts:
        trees.remove_file(text.path)

"""Whether there is a lock beside a root: one look, so that whoever installed nothing pays nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..host import paths, trees
from ..host.facts import now_ns
from ..host.sqlite import IndexDatabase
from ..sources.roots import any_lock, roots_with_lock
from ..sources.scan import is_settled
from ..types.errors import Changed, HostError
from ..types.lockfile import LockEntry, Lockfile
from ..types.place import Place, SkillRoot
from ..types.problem import Finding
from ..types.skill import Skill
from . import lockfile
from .lockfile import InstallRoot, tree_digest
from .trust import run_digests

if TYPE_CHECKING:
    from .library import Library


def locks_beside_roots(roots: Sequence[SkillRoot], place: Place) -> LockedSkills | None:
    """What the locks beside the roots say; nothing is read where there is none."""
    folders = [root.origin.path for root in roots]
    return read_locks(locked_roots(folders, place)) if any_lock(folders, place) else None


_WRITE_NOTE = "INSERT OR REPLACE INTO notes VALUES (?, ?)"
_MOST_BYTES = 256_000


class LockedSkills(NamedTuple):
    """The locks of a library's roots."""

    entries: Mapping[str, tuple[InstallRoot, LockEntry]]
    """By the path of the skill's folder."""
    unreadable: Mapping[str, str]
    """Roots whose lock can't be read, and why."""


def locked_roots(roots: Iterable[str], here: Place) -> Iterator[InstallRoot]:
    """The roots that have a lock."""
    for root in dict.fromkeys((*roots, f"{here.state}/plugins")):
        install_root = InstallRoot(root, paths.is_inside(root, here.project) and not paths.is_inside(root, here.state))
        if paths.exists(install_root.lock):
            yield install_root


def read_locks(install_roots: Iterable[InstallRoot]) -> LockedSkills:
    """What the locks say; a folder that is in place and not entered yet counts as what its journal says."""
    entries: dict[str, tuple[InstallRoot, LockEntry]] = {}
    unreadable: dict[str, str] = {}
    for install_root in install_roots:
        try:
            waiting = lockfile.pending_entries(
                install_root
            )  # before the lock: what leaves the journal is in the lock by then
            lock: Lockfile = lockfile.read_lock(install_root)
        except HostError as error:
            unreadable[install_root.root] = error.message
            continue
        for key, entry in {**lock.skills, **waiting}.items():
            entries[f"{install_root.root}/{key}"] = (install_root, entry)
    return LockedSkills(entries, unreadable)


def lock_findings(skills: Iterable[Skill], locks: LockedSkills, database: IndexDatabase | None) -> dict[str, Finding]:
    """The skills that may not be used, and why: never approved, or not what was approved."""
    findings: dict[str, Finding] = {}
    notes = _read_lock_notes(database)
    fresh: list[tuple[str, str]] = []
    for skill in skills:
        bad = next((why for root, why in locks.unreadable.items() if paths.is_inside(skill.path, root)), None)
        if bad is not None:
            findings[skill.path] = Finding("lock-unreadable", 0, (bad,))
            continue
        if skill.directory not in locks.entries:
            continue
        install_root, entry = locks.entries[skill.directory]
        mark = _lock_finding(skill, install_root, entry, notes, fresh)
        if mark is not None:
            findings[skill.path] = mark
    if database is not None and fresh:
        with database.change() as change:
            for note in fresh:
                change(_WRITE_NOTE, note)
    return findings


def _read_lock_notes(database: IndexDatabase | None) -> dict[str, str]:
    if database is None:
        return {}
    return dict(database.rows("SELECT key, value FROM notes WHERE key >= 'lock' AND key < 'locl'"))


def _lock_finding(
    skill: Skill, install_root: InstallRoot, entry: LockEntry, notes: Mapping[str, str], fresh: list[tuple[str, str]]
) -> Finding | None:
    name = skill.directory[len(install_root.root) + 1 :]
    if entry.approval is None and not install_root.shared:
        return Finding("unapproved", 0, (name,))
    key, began = f"lock\0{skill.directory}", now_ns()
    try:
        stat_stamp, newest = trees.tree_stat_digest(skill.directory)
        stamp = f"{stat_stamp} {tree_digest(entry.files)}"
        if notes.get(key) == stamp:
            return None
        differences = list(lockfile.compare_files(entry.files, lockfile.marks_at(skill.directory), install_root.shared))
    except (OSError, HostError) as error:
        return Finding("changed-since-approval", 0, (name, f"it can't be read: {error}"))
    if not differences:
        if is_settled((0, newest, newest, 0), began):
            fresh.append((key, stamp))
        return None
    if entry.frozen:
        return Finding("changed-since-approval", 0, (name, f"{differences[0][0]} was {differences[0][1]}"))
    if _within_approval(skill, install_root, entry):
        return None
    return Finding(
        "changed-since-approval",
        0,
        (name, ", ".join(f"{path} was {difference}" for path, difference in differences[:3])),
    )


def verify_installed(library: Library, skill: Skill, running: bool = False) -> None:
    """Refuse a frozen skill of which any file differs, and name the file; asked before a skill is used.

    Before something of a skill runs, what was not frozen is looked at again too: it must still be what was approved,
    and in a project what was trusted.
    """
    if running and skill.origin.source == "project":
        _check_still_trusted(library, skill)
    for install_root in locked_roots(roots_with_lock(skill, library.place), library.place):
        locks = read_locks([install_root])
        if locks.unreadable:
            raise HostError(locks.unreadable[install_root.root], "mend the lock; nothing of this root is used before")
        _, entry = locks.entries.get(skill.directory, (install_root, None))
        if entry is None or not (entry.frozen or running):
            continue
        differences = list(lockfile.compare_files(entry.files, lockfile.marks_at(skill.directory), install_root.shared))
        if differences and (entry.frozen or not _within_approval(skill, install_root, entry)):
            path, difference = differences[0]
            back = "`metier sync --force`" if entry.frozen else "`metier sync --force` or `metier rollback`"
            raise Changed(
                f"`{skill.name}` is {'frozen' if entry.frozen else 'approved as it was'}, and {path} was {difference}",
                f"{back} brings it back; `metier approve` takes it as it is",
                f"{skill.directory}/{path}",
            )


def _check_still_trusted(library: Library, skill: Skill) -> None:
    from .settings import read_trust_record
    from .trust import trust_findings

    place = library.place
    if trust_findings([skill], place, read_trust_record(place), library.limits):
        raise Changed(
            f"`{skill.name}` is not what was trusted: what it runs or is granted changed since",
            f"look at it, then run `metier trust {place.project}`",
            skill.directory,
        )


def _within_approval(skill: Skill, install_root: InstallRoot, entry: LockEntry) -> bool:
    """Whether all that can run in it was approved, whatever the words beside; in a project the trust book says it."""
    if install_root.shared:
        return True
    return entry.approval is not None and run_digests(skill, _MOST_BYTES, beside=False) <= frozenset(
        entry.approval.runs
    )


def was_installed(library: Library, skill: Skill) -> bool:
    """Whether a skill was installed, so that others wrote it, wherever it lies."""
    for install_root in locked_roots(roots_with_lock(skill, library.place), library.place):
        entry = read_locks([install_root]).entries.get(skill.directory)
        if entry is not None and entry[1].provenance.kind != "local":
            return True
    return False

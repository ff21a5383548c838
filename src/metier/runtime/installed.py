"""What the locks say about the skills of a library: which are approved, and which are still what they were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..host import paths, swap
from ..host.clock import now_ns
from ..host.database import Database
from ..install import compare, place
from ..install.lockfile import tree_digest
from ..install.place import Ground
from ..sources.look import is_settled
from ..sources.trusted import runs_of
from ..types.errors import Changed, HostError
from ..types.installed import Entry, Lock
from ..types.place import Place
from ..types.problem import Mark
from ..types.skill import Skill
from .locking import locks_of

if TYPE_CHECKING:
    from .library import Library

_NOTE = "INSERT OR REPLACE INTO notes VALUES (?, ?)"
_LIMIT = 256_000


class Locked(NamedTuple):
    """The locks of a library's roots."""

    entries: Mapping[str, tuple[Ground, Entry]]
    """By the path of the skill's folder."""
    unreadable: Mapping[str, str]
    """Roots whose lock can't be read, and why."""
    leaned_on: tuple[str, ...] = ()


def grounds(roots: Iterable[str], here: Place) -> Iterator[Ground]:
    """The roots that have a lock."""
    for root in dict.fromkeys((*roots, f"{here.state}/plugins")):
        ground = Ground(root, paths.is_inside(root, here.project) and not paths.is_inside(root, here.state))
        if paths.exists(ground.lock):
            yield ground


def locked(found: Iterable[Ground]) -> Locked:
    """What the locks say; a folder that is in place and not entered yet counts as what its journal says."""
    entries: dict[str, tuple[Ground, Entry]] = {}
    unreadable: dict[str, str] = {}
    leaned: list[str] = []
    for ground in found:
        leaned += [ground.lock, f"{ground.work}/journal"]
        try:
            waiting = place.pending(ground)  # before the lock: what leaves the journal is in the lock by then
            lock: Lock = place.read_lock(ground)
        except HostError as error:
            unreadable[ground.root] = error.message
            continue
        for key, entry in {**lock.skills, **waiting}.items():
            entries[f"{ground.root}/{key}"] = (ground, entry)
    return Locked(entries, unreadable, tuple(leaned))


def marks_of(skills: Iterable[Skill], said: Locked, database: Database | None) -> dict[str, Mark]:
    """The skills that may not be used, and why: never approved, or not what was approved."""
    found: dict[str, Mark] = {}
    notes = _notes(database)
    fresh: list[tuple[str, str]] = []
    for skill in skills:
        bad = next((why for root, why in said.unreadable.items() if paths.is_inside(skill.path, root)), None)
        if bad is not None:
            found[skill.path] = Mark("lock-unreadable", 0, (bad,))
            continue
        if skill.directory not in said.entries:
            continue
        ground, entry = said.entries[skill.directory]
        mark = _judged(skill, ground, entry, notes, fresh)
        if mark is not None:
            found[skill.path] = mark
    if database is not None and fresh:
        with database.change() as change:
            for note in fresh:
                change(_NOTE, note)
    return found


def _notes(database: Database | None) -> dict[str, str]:
    if database is None:
        return {}
    return dict(database.rows("SELECT key, value FROM notes WHERE key >= 'lock' AND key < 'locl'"))


def _judged(
    skill: Skill, ground: Ground, entry: Entry, notes: Mapping[str, str], fresh: list[tuple[str, str]]
) -> Mark | None:
    name = skill.directory[len(ground.root) + 1 :]
    if entry.approval is None and not ground.shared:
        return Mark("unapproved", 0, (name,))
    key, began = f"lock\0{skill.directory}", now_ns()
    try:
        seen, newest = swap.keys(skill.directory)
        stamp = f"{seen} {tree_digest(entry.files)}"
        if notes.get(key) == stamp:
            return None
        odd = list(compare.differences(entry.files, compare.marks_at(skill.directory), ground.shared))
    except (OSError, HostError) as error:
        return Mark("changed-since-approval", 0, (name, f"it can't be read: {error}"))
    if not odd:
        if is_settled((0, newest, newest, 0), began):
            fresh.append((key, stamp))
        return None
    if entry.frozen:
        return Mark("changed-since-approval", 0, (name, f"{odd[0][0]} was {odd[0][1]}"))
    if _within_approval(skill, ground, entry):
        return None
    return Mark("changed-since-approval", 0, (name, ", ".join(f"{path} was {how}" for path, how in odd[:3])))


def vouch(library: Library, skill: Skill, running: bool = False) -> None:
    """Refuse a frozen skill of which any file differs, and name the file; asked before a skill is used.

    Before something of a skill runs, what was not frozen is looked at again too: it must still be what was approved,
    and in a project what was trusted.
    """
    if running and skill.origin.source == "project":
        _still_trusted(library, skill)
    for ground in grounds(locks_of(skill, library.place), library.place):
        said = locked([ground])
        if said.unreadable:
            raise HostError(said.unreadable[ground.root], "mend the lock; nothing of this root is used before")
        _, entry = said.entries.get(skill.directory, (ground, None))
        if entry is None or not (entry.frozen or running):
            continue
        odd = list(compare.differences(entry.files, compare.marks_at(skill.directory), ground.shared))
        if odd and (entry.frozen or not _within_approval(skill, ground, entry)):
            path, how = odd[0]
            back = "`metier sync --force`" if entry.frozen else "`metier sync --force` or `metier rollback`"
            raise Changed(
                f"`{skill.name}` is {'frozen' if entry.frozen else 'approved as it was'}, and {path} was {how}",
                f"{back} brings it back; `metier approve` takes it as it is",
                f"{skill.directory}/{path}",
            )


def _still_trusted(library: Library, skill: Skill) -> None:
    from .configuring import trusted_record
    from .opening import untrusted_of

    place = library.place
    if untrusted_of([skill], place, trusted_record(place), library.limits):
        raise Changed(
            f"`{skill.name}` is not what was trusted: what it runs or is granted changed since",
            f"look at it, then run `metier trust {place.project}`",
            skill.directory,
        )


def _within_approval(skill: Skill, ground: Ground, entry: Entry) -> bool:
    """Whether all that can run in it was approved, whatever the words beside; in a project the trust book says it."""
    if ground.shared:
        return True
    return entry.approval is not None and runs_of(skill, _LIMIT, beside=False) <= frozenset(entry.approval.runs)


def from_elsewhere(library: Library, skill: Skill) -> bool:
    """Whether a skill was installed, so that others wrote it, wherever it lies."""
    for ground in grounds(locks_of(skill, library.place), library.place):
        entry = locked([ground]).entries.get(skill.directory)
        if entry is not None and entry[1].provenance.kind != "local":
            return True
    return False

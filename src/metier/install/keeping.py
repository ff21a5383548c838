"""Whether what is there is what was locked: verify, freeze, approve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

from ..host.clock import today
from ..sources.trusted import runs_of
from ..types.dialect import Dialect
from ..types.errors import HostError, Refused, UnknownSkill
from ..types.installed import Approval, Entry, FileMark, Files, Lock, Provenance, Rest
from . import place
from .adding import folder_at, read_skill
from .compare import How, differences, marks_at
from .edits import edits_of
from .inspect import inspect
from .lockfile import tree_digest
from .place import Ground
from .removing import installed

_LIMIT = 256_000


class Difference(NamedTuple):
    """A file that is not as the lock says."""

    skill: str
    """Its place in the root, or the folder's name for a file of no skill."""
    path: str
    how: How


def verify(ground: Ground, lock: Lock, names: Sequence[str] = ()) -> tuple[Difference, ...]:
    """Every file of the locked skills that is changed, added, removed or re-moded."""
    wanted = _wanted(lock, names)
    found = [
        Difference(key, path, how)
        for key in wanted
        for path, how in differences(lock.skills[key].files, marks_at(f"{ground.root}/{key}"), ground.shared)
    ]
    if not names:
        found += _rest_differences(ground, lock)
    return tuple(found)


def _rest_differences(ground: Ground, lock: Lock) -> Iterator[Difference]:
    for name, rest in lock.folders.items():
        inside = [key[len(name) + 1 :] for key in lock.skills if key.startswith(name + "/")]
        now = {
            path: mark
            for path, mark in marks_at(f"{ground.root}/{name}").items()
            if not any(path.startswith(one + "/") for one in inside)
        }
        yield from (Difference(name, path, how) for path, how in differences(rest.files, now, ground.shared))


def _wanted(lock: Lock, names: Iterable[str]) -> list[str]:
    names = list(names)
    return [key for name in names for key in find(lock, name)] if names else sorted(lock.skills)


def find(lock: Lock, name: str) -> list[str]:
    """The locked skills that a name means: a place, a folder, the skill's folder or its name."""
    for means in (
        lambda key, one: key == name,
        lambda key, one: one.folder == name,
        lambda key, one: name in (key.rpartition("/")[2], one.name),
    ):
        found = [key for key, one in sorted(lock.skills.items()) if means(key, one)]
        if found:
            return found
    known = {one: None for key, entry in lock.skills.items() for one in (key, entry.name, entry.folder)}
    raise UnknownSkill(name, tuple(get_close_matches(name, known, 3)))


def places_of(ground: Ground, name: str) -> list[str]:
    """The skills of a root that a name means, locked or not, as far as they are there."""
    return [
        one.place
        for one in installed(ground)
        if not one.missing and name in (one.place, one.place.rpartition("/")[2], one.name, one.folder)
    ]


def freeze(ground: Ground, names: Sequence[str], dialect: Dialect, frozen: bool = True) -> tuple[str, ...]:
    """Lock what is there now: the named skills, or all of the root.  No file of theirs may differ from then on.

    Neither freezing again nor thawing says yes to what was changed while frozen.
    """
    there = [one.place for one in installed(ground) if not one.missing]
    keys: list[str] = []
    for name in names or sorted(there):
        found = places_of(ground, name)
        if not found:
            raise UnknownSkill(name, tuple(get_close_matches(name, there, 3)))
        keys += found
    with place.turn(ground, {key.partition("/")[0] for key in keys}):
        now = {key: marks_at(f"{ground.root}/{key}") for key in keys}
        if frozen:
            _refuse_changed(ground, now)
        for key in keys:
            place.remember(ground, key, "edit")

        def change(lock: Lock) -> Lock:
            skills = dict(lock.skills)
            for key, files in now.items():
                old = skills.get(key)
                if not frozen and old is not None and list(differences(old.files, files, ground.shared)):
                    skills[key] = replace(old, frozen=False)
                elif not frozen and (old is None or old.provenance.kind == "local"):
                    skills.pop(key, None)  # the user's own again
                else:
                    skills[key] = replace(_relocked(ground, key, files, old, dialect), frozen=frozen)
            return Lock(skills, lock.folders)

        place.change_lock(ground, change)
        for key in keys:
            place.remember(ground, key, "freeze" if frozen else "thaw")
    return tuple(keys)


def _refuse_changed(ground: Ground, now: Mapping[str, Files]) -> None:
    lock = place.read_lock(ground)
    for key, files in now.items():
        old = lock.skills.get(key)
        odd = list(differences(old.files, files, ground.shared)) if old is not None and old.frozen else []
        if odd:
            raise Refused(
                f"`{key}` is frozen, and since then {odd[0][0]} was {odd[0][1]}",
                f"look at it: `metier approve {key}` agrees to it, `metier rollback {key}` takes it back",
                f"{ground.root}/{key}/{odd[0][0]}",
            )


def approve(ground: Ground, keys: Iterable[str], dialect: Dialect) -> None:
    """Say yes to what is there now."""
    keys = list(keys)
    with place.turn(ground, {key.partition("/")[0] for key in keys}):
        now = {key: marks_at(f"{ground.root}/{key}") for key in keys}
        for key in keys:
            place.remember(ground, key, "edit")

        def change(lock: Lock) -> Lock:
            fresh = {key: _relocked(ground, key, files, lock.skills.get(key), dialect) for key, files in now.items()}
            every = {**lock.skills, **fresh}
            own = {key for key in fresh if every[key].provenance.kind == "local" and not every[key].frozen}
            return Lock({key: one for key, one in every.items() if key not in own}, lock.folders)

        place.change_lock(ground, change)
        for key in keys:
            place.remember(ground, key, "approve")


def _relocked(ground: Ground, key: str, files: Files, old: Entry | None, dialect: Dialect) -> Entry:
    """An entry for what is there, which remembers what upstream's files were."""
    if not files:
        raise HostError(f"{ground.root}/{key} is gone", "run `metier sync` to have it back")
    path = f"{ground.root}/{key}"
    read = read_skill(path, key.rpartition("/")[2], dialect)
    seen = inspect(folder_at(path, "", key.rpartition("/")[2], files), dialect, ())
    runs = tuple(sorted(runs_of(read, _LIMIT))) if read is not None else ()
    approval = Approval(tree_digest(files), today(), "user", runs)
    codes = tuple(sorted({finding.code for finding in seen.findings}))
    if old is None:
        source = Provenance("local", path)
        return Entry(seen.name, key.partition("/")[0], source, files, {}, seen.powers, codes, approval)
    base = rebased(old.files, old.base, files)
    return replace(
        old, name=seen.name, files=files, base=base, powers=seen.powers, findings=codes, approval=approval,
        previous=tree_digest(old.files), edits=edits_of(path, files, base),
    )  # fmt: skip


def upstream(entry: Entry | Rest) -> dict[str, FileMark]:
    """Upstream's files as they were when it was last fetched."""
    found = {**entry.files, **entry.base}
    return {path: mark for path, mark in found.items() if mark is not None}


def rebased(files: Files, base: Mapping[str, FileMark | None], now: Files) -> dict[str, FileMark | None]:
    """The base that belongs to other files, so that upstream's stay known."""
    theirs = {path: mark for path, mark in {**files, **base}.items() if mark is not None}
    return base_of(theirs, now)


def base_of(theirs: Files, now: Files) -> dict[str, FileMark | None]:
    """Where upstream's file is another one than the one that is there."""
    return {path: theirs.get(path) for path in {*theirs, *now} if theirs.get(path) != now.get(path)}

"""Changes of managed skills, one by one: each is put in place whole, and kept in the history of its root."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from json import loads
from typing import TYPE_CHECKING, NamedTuple

from ..host import paths, swap
from ..host.repository import is_made
from ..install import compare, lockfile, place, removing
from ..install.lockfile import tree_digest
from ..install.place import Change, Ground, Staging
from ..record import history
from ..record.history import Version, repository_of
from ..types.errors import BadRequest, HostError, Refused, UnknownSkill
from ..types.installed import Entry
from ..types.place import Place
from ..types.skill import Skill

if TYPE_CHECKING:
    from .library import Library

_LINK = 0o120000
_EVERY = 1_000_000

Contents = Mapping[str, tuple[int, bytes]]
"""The files of a folder: mode and bytes by path; of a link, where it leads."""


def _nobody(text: str) -> None:
    """Whoever asks not to be told."""


def ground_of(here: Place, root: str, shared: bool | None = None, note: Callable[[str], None] = _nobody) -> Ground:
    """A root that skills are changed in, and the history that goes with it."""
    if shared is None:
        shared = paths.is_inside(root, here.project) and not paths.is_inside(root, here.state)
        shared = shared and here.project != here.home
    return Ground(root, shared, repository_of(here.state, root), note)


class Managed(NamedTuple):
    """A skill where it can be changed."""

    ground: Ground
    key: str
    """Its place in the root."""

    @property
    def folder(self) -> str:
        return f"{self.ground.root}/{self.key}"

    @property
    def repository(self) -> str:
        return self.ground.history


class Edit(NamedTuple):
    """A new text for a skill, and why."""

    files: Contents
    act: str
    evidence: str = ""
    run: str = ""
    base: str = ""
    """What `digest_of` said of the folder that the files were made from; another one is not replaced."""


def managed(library: Library, skill: Skill) -> Managed:
    """Where a skill of a library is changed; one that nobody may change is refused."""
    here = library.place
    plugins = f"{here.state}/plugins"
    root = plugins if paths.is_inside(skill.directory, plugins) else skill.origin.path
    if skill.origin.source == "bundled" and not paths.is_inside(skill.directory, here.state):
        raise Refused(f"`{skill.name}` ships with metier", "run `metier init` to have a copy that may change")
    if skill.directory == root or not paths.is_inside(skill.directory, root):
        raise Refused(f"`{skill.name}` is a root of its own", "give the folder that holds it as the root")
    return Managed(ground_of(here, root), skill.directory[len(root) + 1 :])


def digest_of(folder: str) -> str:
    """A folder as it is now: every path, mode and content."""
    return tree_digest(compare.marks_at(folder))


def put(one: Managed, edit: Edit) -> Version | None:
    """Put a new text of a skill in place of the old, which stays in the history; None when nothing changed.

    What was edited by hand is kept first.  Without a working history nothing is changed.
    """
    return _put(one, edit, lambda known: known)


def _put(one: Managed, edit: Edit, relocked: Callable[[Entry | None], Entry | None]) -> Version | None:
    ground = one.ground
    _may_change(one)
    with place.staging(ground) as staging, place.turn(ground, [one.key.partition("/")[0]]):
        place.look(ground, [one.key])
        before = compare.marks_at(one.folder)
        if edit.base and tree_digest(before) != edit.base:
            raise Refused(f"`{one.key}` changed meanwhile", "nothing was replaced; begin again from what is there")
        new = _filled(staging, one.folder, edit.files)
        known = place.read_lock(ground).skills.get(one.key)
        entry = relocked(known)
        if swap.marks(new) == before and entry == known:
            return None
        if compare.marks_at(one.folder) != before:
            raise Refused(f"`{one.key}` is being edited", "nothing was replaced; try again")
        change = Change("place", one.key, {one.key: entry} if entry else {}, {}, edit.act, edit.evidence, edit.run)
        _forget(place.commit(staging, change, new))
    return next(iter(history.versions(one.repository, one.key, 1)), None)


def _may_change(one: Managed) -> None:
    if swap.is_link(one.folder):
        raise Refused(f"{one.folder} is a link: what it leads to is not metier's to replace", "change it where it lies")
    entry = place.read_lock(one.ground).skills.get(one.key)
    if entry is not None and entry.frozen:
        raise Refused(f"`{one.key}` is frozen", f"run `metier freeze --off {one.key}` first")


def _forget(trashed: str) -> None:
    """What the history has needs no place in the trash."""
    if trashed:
        swap.remove_tree(trashed.rpartition("/")[0])


def _filled(staging: Staging, old: str, files: Contents) -> str:
    """A new folder with these files, and with what is nobody's text: what git and Python keep in the old one."""
    new = staging.inner()
    for path, (mode, data) in files.items():
        if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
            raise BadRequest(f"`{path}` is no path inside a skill", "leave it out")
        if mode == _LINK:
            swap.make_folders(f"{new}/{path}".rpartition("/")[0])
            swap.replace_link(f"{new}/{path}", data.decode("utf-8", "surrogateescape"))
        else:
            swap.put_bytes(f"{new}/{path}", data, mode)
    swap.carry_over(old, new)
    return new


def written(here: Place, root: str, keys: Iterable[str], act: str, evidence: str, note: Callable[[str], None]) -> None:
    """What metier itself wrote into a root is kept before anybody edits it."""
    ground = ground_of(here, root, note=note)
    for key in keys:
        place.remember(ground, key, act, evidence)


# --- Looking back ---


def grounds(library: Library, note: Callable[[str], None] = _nobody) -> Iterator[Ground]:
    """The roots of a library that have a history; what was edited by hand is kept first."""
    roots = dict.fromkeys([*(root.origin.path for root in library.roots), f"{library.place.state}/plugins"])
    for root in roots:
        ground = ground_of(library.place, root, note=note)
        if is_made(ground.history):
            yield ground


def look(ground: Ground, key: str = "") -> None:
    """Keep what was edited by hand in a skill, or in every one that the history knows."""
    try:
        place.look(ground, [key] if key else history.names(ground.history))
    except HostError as error:
        ground.note(error.message)


def find(library: Library, name: str, note: Callable[[str], None] = _nobody) -> Managed:
    """The skill of that name: one that has a history, also where it is in the trash; else one of the library."""
    known: dict[str, list[Managed]] = {}
    for ground in grounds(library, note):
        entries = place.read_lock(ground).skills
        for key in _ever(ground):
            named = entries[key].name if key in entries else key
            for called in {key, key.rpartition("/")[2], named}:
                known.setdefault(called, []).append(Managed(ground, key))
    found = known.get(name, [])
    exact = [one for one in found if one.key == name] or found
    if len(exact) > 1:
        where = ", ".join(one.folder for one in exact)
        raise BadRequest(f"several skills are called `{name}`: {where}", "name its root: metier --root DIR …")
    if exact:
        return exact[0]
    try:
        return managed(library, library.find(name).skill)  # its history begins now
    except UnknownSkill as error:
        raise UnknownSkill(name, tuple(get_close_matches(name, known, 3, 0.6)) or error.nearest) from error


def _ever(ground: Ground) -> Iterable[str]:
    """Every skill that the history knows of, those that are gone too."""
    return dict.fromkeys((
        *history.names(ground.history),
        *(one.name for one in history.versions(ground.history, "", _EVERY)),
    ))  # fmt: skip


def approved(one: Managed) -> tuple[str, ...]:
    """The skill, if somebody said yes to it as it is in the lock now."""
    entry = place.read_lock(one.ground).skills.get(one.key)
    return (one.key,) if entry is not None and entry.approval is not None else ()


def rollback(one: Managed, rev: str) -> Version | None:
    """Make a skill what it was: bytes, modes and what the lock said; itself a change, so nothing is lost."""
    was = history.version(one.repository, rev)
    files = history.files(one.repository, one.key, was.rev)
    if not files:
        raise BadRequest(
            f"`{one.key}` was not there at {was.rev[:12]} ({was.subject})",
            f"`metier history {one.key}` shows when it was; `metier remove {one.key}` takes it away",
        )
    said = history.lock(one.repository, one.key, was.rev)
    entry = lockfile.read_skill(loads(said)) if said else None
    return _put(one, Edit(files, "rollback", f"to {was.rev[:12]} ({was.subject})"), lambda known: entry)


def log(library: Library, limit: int) -> list[str]:
    """The newest changes of every root, a line each."""
    found: list[Version] = []
    for ground in grounds(library):
        look(ground)
        found += history.versions(ground.history, "", limit)
    found.sort(key=lambda one: one.at, reverse=True)
    return [f"{one.rev[:12]} {one.at} {one.subject}" for one in found[:limit]]


def rollback_to(library: Library, rev: str, name: str = "") -> tuple[str, ...]:
    """Make a skill, or every one that changed since, what it was then; those that were not there go to the trash."""
    if name:
        one = find(library, name)
        return (one.key,) if rollback(one, rev) else ()
    ground = _having(library, rev)
    look(ground)
    changed = []
    for key in sorted({one.name for one in history.since(ground.history, rev)}):
        if history.files(ground.history, key, rev):
            done = rollback(Managed(ground, key), rev) is not None
        else:
            done = paths.exists(f"{ground.root}/{key}") and bool(removing.remove(ground, key))
        changed += [key] if done else []
    return tuple(changed)


def _having(library: Library, rev: str) -> Ground:
    """The root whose history has a version; of several, the one that changed last."""
    found: list[tuple[str, Ground]] = []
    for ground in grounds(library):
        newest = history.versions(ground.history, "", 1)
        if newest and history.has(ground.history, rev):
            found.append((newest[0].at, ground))
    if not found:
        raise BadRequest(f"no history has a version `{rev}`", "call git_log, or run `metier history`, to find one")
    return max(found, key=lambda one: one[0])[1]

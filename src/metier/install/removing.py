"""What is installed in a root; taken out of it into the trash, and put back."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

from ..host import paths, swap
from ..types.errors import BadRequest, Refused, UnknownSkill
from ..types.installed import Lock, Rest
from . import place
from .names import name_fault
from .place import Change, Ground

_DEEPEST = 4


class Installed(NamedTuple):
    """A skill in a root, installed or the user's own."""

    place: str
    name: str
    """As the lock has it; the folder's where there is no entry."""
    folder: str
    source: str = ""
    commit: str = ""
    approved: bool = True
    frozen: bool = False
    missing: bool = False
    """The lock names it, and its folder is gone."""


class Gone(NamedTuple):
    """What was removed."""

    target: str
    trashed: bool
    """False where there was nothing but an entry of the lock."""


def installed(ground: Ground) -> list[Installed]:
    """Every skill of a root, to the depth that roots are scanned."""
    lock = place.read_lock(ground)
    found = []
    for key in sorted({*_places(ground.root), *lock.skills}):
        entry = lock.skills.get(key)
        if entry is None:
            found.append(Installed(key, key.rpartition("/")[2], key.partition("/")[0]))
        else:
            source, ok = entry.provenance, entry.approval is not None
            gone = not paths.exists(f"{ground.root}/{key}")
            found.append(Installed(key, entry.name, entry.folder, source.source, source.commit, ok, entry.frozen, gone))
    return found


def _places(root: str) -> list[str]:
    found: list[str] = []
    waiting = [""]
    while waiting:
        inside = waiting.pop(0)
        try:
            listed = paths.list_names(f"{root}/{inside}" if inside else root)
        except OSError:
            continue
        if inside and any(name.lower() == "skill.md" for name in (*listed.files, *listed.links)):
            found.append(inside)
            continue
        if not inside:
            found += [name for name in listed.links if paths.exists(f"{root}/{name}/SKILL.md")]
        if inside.count("/") < _DEEPEST - 1:
            names = [name for name in listed.folders if name[0] != "." and name not in ("node_modules", "__pycache__")]
            waiting += [f"{inside}/{name}" if inside else name for name in names]
    return found


def removable(ground: Ground, name: str) -> str:
    """The folder of a root that a name means; a path that leads out of the root is refused as such."""
    parts = name.split("/")
    if any(name_fault(part) for part in parts) and not paths.exists(f"{ground.root}/{name}"):
        raise BadRequest(f"`{name}` is not the name of an installed skill", "run `metier remove` to see what is")
    if name in ("", ".", "..") or name.startswith(("/", ".")) or any(part in ("", ".", "..") for part in parts):
        raise Refused(f"`{name}` leads out of {ground.root}", "give the name of an installed skill")
    there = installed(ground)
    folders = {one.folder for one in there}
    if name in folders or name in {one.place for one in there}:
        return name
    found = [one.place for one in there if name in (one.name, one.place.rpartition("/")[2])]
    if len(found) > 1:
        raise BadRequest(f"several skills are called `{name}`", "give the place of one: " + ", ".join(found))
    if not found:
        known = {known for one in there for known in (one.place, one.name, one.folder)}
        raise UnknownSkill(name, tuple(get_close_matches(name, known, 3)))
    return found[0]


def remove(ground: Ground, name: str) -> Gone:
    """Put a skill or an installed folder into the trash; one that is gone already leaves the lock."""
    with place.staging(ground) as staging:
        target = removable(ground, name)
        with place.turn(ground, [target.partition("/")[0]]):
            if not paths.exists(f"{ground.root}/{target}"):
                _forget(ground, target)
                return Gone(target, False)
            place.commit(staging, Change("remove", target, {}, _tombstone(ground, target), "trash"))
        return Gone(target, True)


def _forget(ground: Ground, target: str) -> None:
    """Take a folder that is gone out of the lock."""
    rests = _tombstone(ground, target)

    def change(lock: Lock) -> Lock:
        skills = {key: one for key, one in lock.skills.items() if not f"{key}/".startswith(f"{target}/")}
        return Lock(skills, {name: one for name, one in {**lock.folders, **rests}.items() if name != target})

    place.change_lock(ground, change)
    place.remember(ground, target, "trash")


def _tombstone(ground: Ground, target: str) -> dict[str, Rest]:
    """A skill taken out of an installed repository: an update must not bring it back."""
    folder, _, inside = target.partition("/")
    lock = place.read_lock(ground)
    rest = lock.folders.get(folder)
    if not inside or rest is None:
        return {}
    gone = {
        f"{key[len(folder) + 1 :]}/{path}": mark
        for key, entry in lock.skills.items()
        if key == target or key.startswith(target + "/")
        for path, mark in {**entry.files, **entry.base}.items()
    }
    return {folder: replace(rest, base={**rest.base, **gone})}


def in_trash(ground: Ground, name: str) -> list[tuple[str, str]]:
    """What lies in the trash by that name or id, the latest first: its id and what it was."""
    return [(one, what) for one, what, _ in place.trash(ground) if name in (one, what, what.rpartition("/")[2])]


def restore(ground: Ground, name: str) -> str:
    """Put the latest of that name back from the trash."""
    with place.staging(ground) as staging:
        found = in_trash(ground, name)
        if not found:
            known = {what for _, what, _ in place.trash(ground)}
            near = get_close_matches(name, known, 1)
            hint = f"did you mean `{near[0]}`?" if near else "run `metier restore` to see what is"
            raise BadRequest(f"`{name}` is not in the trash", hint)
        one, what = found[0]
        with place.turn(ground, [what.partition("/")[0]]):
            swap.remove_empty(ground.root, what)
            if paths.exists(f"{ground.root}/{what}"):
                raise Refused(f"{ground.root}/{what} is there already", "remove it first, then restore the other")
            place.from_trash(staging, one)
        return what

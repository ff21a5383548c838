"""metier sync: a root made what its lock says, to the commit and the byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from ..host import paths, swap
from ..host.writing import head_of
from ..record import history
from ..types.errors import HostError, MetierError, Refused
from ..types.installed import Entry, Lock, Provenance
from . import place
from .adding import Wish, came_from
from .compare import differences, marks_at
from .fetch import from_git
from .lockfile import read_skill, tree_digest
from .outfit import Fetched, Outfit
from .place import Change, Ground, Staging
from .store import kept
from .updating import again, folders, reference_of


def synchronise(wish: Wish, outfit: Outfit, waiting: Callable[[], None] | None = None) -> Iterator[tuple[str, str]]:
    """Make a root what its lock says: what is missing or differs is fetched again, at the very commit."""
    ground = wish.ground
    lock = place.read_lock(ground)
    for name, source in folders(lock, ()).items():
        with place.staging(ground) as staging, place.turn(ground, [name], waiting):
            mine = {key: entry for key, entry in lock.skills.items() if entry.folder == name}
            if _matches(ground, mine):
                yield name, "unchanged"
                continue
            if not wish.force:
                _refuse_edits(ground, mine)
            fetched = _exactly(source, staging, outfit)
            _rebuild(wish.state, ground, lock, name, fetched.path)
            _must_match(name, fetched.path, mine, ground.shared)
            rests = {name: lock.folders[name]} if name in lock.folders else {}
            place.commit(staging, Change("place", name, mine, rests, "sync", came_from(source)), fetched.path)
            yield name, "placed"


def _refuse_edits(ground: Ground, mine: Mapping[str, Entry]) -> None:
    """Files that somebody wrote here, and that neither the lock nor metier put there, are not replaced unasked."""
    for key, entry in mine.items():
        now = marks_at(f"{ground.root}/{key}")
        odd = dict(differences(entry.files, now, ground.shared))
        before = _placed_before(ground, key)
        edited = [
            path
            for path, how in odd.items()
            if how in ("changed", "added") and (before is None or before.files.get(path) != now.get(path))
        ]
        if edited:
            raise Refused(
                f"{', '.join(edited[:5])} of `{key}` was edited here, and is not what the lock says",
                "say --force to have the lock's; yours then goes to the trash (`metier restore` lists it)",
            )


def _placed_before(ground: Ground, key: str) -> Entry | None:
    """What metier itself last put there, as the history of the root has it: an older lock's is nobody's edit."""
    try:
        for version in history.versions(ground.history, key) if ground.history else ():
            if version.act in ("add", "update", "sync", "restore", "approve", "freeze", "thaw"):
                said = history.lock(ground.history, key, version.rev)
                return read_skill(json.loads(said)) if said else None
    except MetierError:
        return None
    return None


def _matches(ground: Ground, mine: Mapping[str, Entry]) -> bool:
    return all(
        not list(differences(entry.files, marks_at(f"{ground.root}/{key}"), ground.shared))
        for key, entry in mine.items()
    )


def _exactly(source: Provenance, staging: Staging, outfit: Outfit) -> Fetched:
    if source.kind in ("github", "git"):
        return from_git(reference_of(source), staging.inner, outfit, source.commit)
    return again(source, staging, outfit)


def _rebuild(state: str, ground: Ground, lock: Lock, name: str, path: str) -> None:
    """Edits that the lock knows, put back into upstream's files; from what is there, or from what was kept."""
    for key, entry in lock.skills.items():
        if entry.folder != name:
            continue
        inside = key[len(name) + 1 :]
        for inner in entry.base:
            there = f"{path}/{inside}/{inner}" if inside else f"{path}/{inner}"
            mark = entry.files.get(inner)
            if mark is None:
                swap.remove_tree(there)
                continue
            data = kept(state, mark.digest)
            here = f"{ground.root}/{key}/{inner}"
            if data is None and paths.exists(here) and marks_at(f"{ground.root}/{key}").get(inner) == mark:
                data = head_of(here, 1 << 40)
            if data is None:
                raise HostError(f"the edited {inner} of `{key}` is lost here", "bring it back from git or a backup")
            swap.put_bytes(there, data, int(mark.mode, 8))


def _must_match(name: str, path: str, mine: Mapping[str, Entry], shared: bool) -> None:
    for key, entry in mine.items():
        inside = key[len(name) + 1 :]
        now = marks_at(f"{path}/{inside}" if inside else path)
        odd = [one for one, _ in differences(entry.files, now, shared)]
        if odd:
            raise Refused(
                f"what was fetched for `{key}` is not what the lock says: {', '.join(odd[:5])}",
                f"nothing was placed; the lock wants {tree_digest(entry.files)}",
            )

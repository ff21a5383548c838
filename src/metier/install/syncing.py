"""metier sync: a root made what its lock says, to the commit and the byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

from ..host import paths, swap
from ..host.writing import head_of
from ..record import history
from ..types.errors import MetierError, Refused
from ..types.installed import Entry, FileMark, Files, Lock, Provenance, Rest
from . import place
from .adding import Wish, came_from
from .compare import differences, marks_at
from .edits import edited
from .fetch import from_git
from .lockfile import read_skill, tree_digest
from .outfit import Fetched, Outfit
from .place import Change, Ground, Staging
from .store import kept
from .updating import again, folders, reference_of


class Synced(NamedTuple):
    """What became of one folder."""

    folder: str
    state: str
    """`unchanged`, `placed`, or `failed`."""
    fault: MetierError | None = None
    without: tuple[str, ...] = ()
    """Edited files that were nowhere to be found, and are upstream's now."""


def synchronise(wish: Wish, outfit: Outfit, waiting: Callable[[], None] | None = None) -> Iterator[Synced]:
    """Make a root what its lock says: what is missing or differs is fetched again, at the very commit.

    A folder that can't be had stops none of the others.
    """
    lock = place.read_lock(wish.ground)
    for name, source in folders(lock, ()).items():
        try:
            with place.staging(wish.ground) as staging, place.turn(wish.ground, [name], waiting):
                done = _synchronised(wish, lock, name, source, (staging, outfit))
        except MetierError as error:
            done = Synced(name, "failed", error)
        yield done
    for key, entry in sorted(lock.skills.items()):
        if entry.frozen and entry.provenance.kind == "local" and not _matches(wish.ground, {key: entry}):
            yield _own(wish, key, entry, waiting)


def _own(wish: Wish, key: str, entry: Entry, waiting: Callable[[], None] | None) -> Synced:
    """A skill of one's own made what it was when it was frozen, from what was kept of it."""
    ground = wish.ground
    try:
        with place.staging(ground) as staging, place.turn(ground, [key], waiting):
            if not wish.force:
                _refuse_edits(ground, {key: entry})
            new, lost = staging.inner(), []
            for inner, mark in entry.files.items():
                data = _edited(wish.state, ground, key, entry, inner)
                if data is None:
                    lost.append(inner)
                else:
                    swap.put_bytes(f"{new}/{inner}", data, int(mark.mode, 8) & 0o777)
            if lost:
                raise _lost(key, lost, own=True)
            _must_match(key, new, {key: entry}, ground.shared)
            place.commit(staging, Change("place", key, {key: entry}, act="sync", evidence="as it was frozen"), new)
    except MetierError as error:
        return Synced(key, "failed", error)
    return Synced(key, "placed")


def _synchronised(wish: Wish, lock: Lock, name: str, source: Provenance, kit: tuple[Staging, Outfit]) -> Synced:
    ground, (staging, outfit) = wish.ground, kit
    mine = {key: entry for key, entry in lock.skills.items() if entry.folder == name}
    rests = {name: lock.folders[name]} if name in lock.folders else {}
    if _matches(ground, mine):
        return Synced(name, "unchanged")
    if not wish.force:
        _refuse_edits(ground, mine)
    fetched = _exactly(source, staging, outfit)
    lost: list[str] = []
    every: dict[str, Entry | Rest] = {**mine, **rests}
    for key, entry in every.items():
        gone = _rebuild(wish.state, ground, key, entry, f"{fetched.path}/{key[len(name) + 1 :]}".rstrip("/"))
        if gone and not wish.force:
            raise _lost(key, gone)
        lost += gone
        if gone and isinstance(entry, Rest):
            files, base = _given_up(entry, gone)
            rests[key] = replace(entry, files=files, base=base)
        elif gone and isinstance(entry, Entry):
            files, base = _given_up(entry, gone)
            mine[key] = replace(entry, files=files, base=base, approval=None)  # nobody has said yes to upstream's
    _must_match(name, fetched.path, mine, ground.shared)
    place.commit(staging, Change("place", name, mine, rests, "sync", came_from(source)), fetched.path)
    return Synced(name, "placed", None, tuple(lost))


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


def _rebuild(state: str, ground: Ground, key: str, entry: Entry | Rest, path: str) -> list[str]:
    """Edits that the lock knows, put back into upstream's files.  Those that are nowhere to be found."""
    lost = []
    for inner in entry.base:
        mark = entry.files.get(inner)
        if mark is None:
            swap.remove_tree(f"{path}/{inner}")
            swap.remove_empty(path, inner.rpartition("/")[0])
            continue
        data = _edited(state, ground, key, entry, inner)
        if data is None:
            lost.append(inner)
        else:
            swap.put_bytes(f"{path}/{inner}", data, int(mark.mode, 8) & 0o777)
    return lost


def _given_up(entry: Entry | Rest, lost: list[str]) -> tuple[Files, Mapping[str, FileMark | None]]:
    """An entry's files with upstream's in place of those that are lost, and the base that is left."""
    marks = {**entry.files, **{path: entry.base[path] for path in lost}}
    files = {path: mark for path, mark in marks.items() if mark is not None}
    return files, {path: mark for path, mark in entry.base.items() if path not in lost}


def _edited(state: str, ground: Ground, key: str, entry: Entry | Rest, inner: str) -> bytes | None:
    """An edited file: from the lock, from what was kept, from what is there, from what was there."""
    mark = entry.files[inner]
    if mark.mode in ("link", "special"):
        return None
    data = edited(entry, inner)
    data = kept(state, mark.digest) if data is None else data
    if data is None and _is_here(f"{ground.root}/{key}", inner, mark):
        data = head_of(f"{ground.root}/{key}/{inner}", 1 << 40)
    for version in history.versions(ground.history, key) if data is None and ground.history else ():
        _, was = history.files(ground.history, key, version.rev).get(inner, (0, b""))
        if "sha256:" + sha256(was).hexdigest() == mark.digest:
            return was
    return data


def _is_here(folder: str, inner: str, mark: FileMark) -> bool:
    return paths.exists(f"{folder}/{inner}") and marks_at(folder).get(inner) == mark


def _lost(key: str, paths: list[str], own: bool = False) -> MetierError:
    if own:
        return MetierError(
            f"{', '.join(paths[:5])} of `{key}` is not what the lock says, and the text that it names is not here",
            f"bring the file back from where it is kept, or `metier approve {key}` takes it as it is",
        )
    return MetierError(
        f"{', '.join(paths[:5])} of `{key}` was edited by whoever made the lock, and that text is not here",
        f"`metier approve {key}` where it still is enters it in the lock, or commit the file itself;"
        " --force takes upstream's",
    )


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

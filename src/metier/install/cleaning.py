"""What nobody needs any more: the trash of a root, and texts kept for merging that no lock names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..host import paths, swap
from ..types.installed import Entry, FileMark, Lock, Rest
from . import place, store
from .place import Ground

DAYS = 30
"""How long things lie in the trash, unless somebody says otherwise."""
TEXT_DAYS = 365
"""How long a text is kept that no lock at hand names: the lock of another project may."""
MOST = 1 << 30
"""Bytes that the trash of a root may hold: beyond that the oldest goes first."""


class Old(NamedTuple):
    """Something that may go."""

    path: str
    what: str
    """What it was called in its root; empty for a text of the store."""
    bytes: int
    days: float


def old_trash(ground: Ground, days: float = DAYS, most: int = MOST) -> list[Old]:
    """What has lain in the trash for so long, and the oldest of the rest while there is too much."""
    found, total = [], 0
    for name, what, _ in place.trash(ground):  # the latest first
        path = f"{ground.work}/trash/{name}"
        size = swap.size_of_tree(path)
        total += size
        age = swap.days_old(path)
        if age >= days or size < total > most:  # what came last stays, however large
            found.append(Old(path, what, size, age))
    return found


def empty_trash(ground: Ground, days: float = DAYS, most: int = MOST) -> list[Old]:
    """Take it away for good, with nobody else at work in the root meanwhile."""
    if not paths.exists(f"{ground.work}/trash"):
        return []
    with place.alone(ground):
        found = old_trash(ground, days, most)
        for one in found:
            swap.remove_tree(one.path)
    return found


def old_texts(state: str, locks: Iterable[Lock], days: float = TEXT_DAYS) -> list[Old]:
    """Kept texts that no lock at hand names and that nobody kept anew for so long."""
    needed = {mark.digest for lock in locks for mark in _marks(lock)}
    return [
        Old(path, "", paths.size_of(path), age)
        for digest, path in store.every(state)
        if digest not in needed and (age := swap.days_old(path)) >= days
    ]


def _marks(lock: Lock) -> Iterator[FileMark]:
    every: list[Entry | Rest] = [*lock.skills.values(), *lock.folders.values()]
    for entry in every:
        yield from entry.files.values()
        yield from (mark for mark in entry.base.values() if mark is not None)


def forget(texts: Iterable[Old]) -> None:
    for one in texts:
        swap.remove_file(one.path)

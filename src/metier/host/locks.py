"""Locks between processes: the kernel lets go of them when their owner ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator

from ..types.errors import HostError
from .clock import monotonic, sleep

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_PAUSE = 0.02


@contextlib.contextmanager
def held(paths: Iterable[str], seconds: float = 600, waiting: Callable[[], None] | None = None) -> Iterator[list[int]]:
    """Hold all of these locks, taken in one order by everybody so that nobody waits for each other in a circle.

    A child that is given what is yielded holds them too, as long as it runs.
    """
    opened: list[int] = []
    until = monotonic() + seconds
    told = False
    try:
        for path in sorted(set(paths)):
            one = _opened(path)
            opened.append(one)
            while not _take(one):
                if monotonic() > until:
                    raise HostError(f"another metier has held {path} for too long", "end it, then try again", path)
                if waiting is not None and not told:
                    waiting()
                    told = True
                sleep(_PAUSE)
        yield opened
    finally:
        for one in opened:
            os.close(one)


def take_now(path: str) -> int | None:
    """The lock, open until it is closed; None when somebody holds it or it is gone."""
    try:
        opened = os.open(path, _FLAGS & ~os.O_CREAT)
    except OSError:
        return None
    if _take(opened):
        return opened
    os.close(opened)
    return None


def take_new(path: str) -> int:
    """A lock of our own that nobody can have yet."""
    opened = _opened(path)
    _take(opened)
    return opened


def let_go(opened: int) -> None:
    os.close(opened)


def _opened(path: str) -> int:
    try:
        return os.open(path, _FLAGS, 0o600)
    except OSError as error:
        raise HostError(f"{path} can't be locked: {error.strerror}", "check its permissions", path) from error


def _take(opened: int) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True

"""Whether whoever asked for the work at hand still wants it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar


def _never() -> bool:
    return False


_asked: ContextVar[Callable[[], bool]] = ContextVar("metier_stopped", default=_never)


@contextlib.contextmanager
def until(stopped: Callable[[], bool]) -> Iterator[None]:
    """Programs that are started meanwhile end as soon as `stopped` is true, or what already held is."""
    outer = _asked.get()
    token = _asked.set(stopped if outer is _never else lambda: stopped() or outer())
    try:
        yield
    finally:
        _asked.reset(token)


def asked() -> Callable[[], bool]:
    """What says whether to stop, as it is now: to be asked again and again, also from elsewhere."""
    return _asked.get()

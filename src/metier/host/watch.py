"""Wait for changes in folders: events are hints, and a timeout is one too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from ..types.errors import MissingExtra

DEBOUNCE_MS = 250
_LONGEST_MS = 2_000
_MOST_FOLDERS = 4_096


class Stop(Protocol):
    def is_set(self) -> bool: ...


def batches(
    folders: Iterable[str], wanted: Callable[[str], bool], every_ms: int, stop: Stop | None
) -> Iterator[frozenset[str]]:
    """The paths that changed, a settled batch at a time; an empty batch whenever `every_ms` have passed."""
    try:
        from watchfiles import watch
    except ImportError as error:
        raise MissingExtra("watching for changes", "watch") from error

    there = sorted({folder for folder in folders if os.path.isdir(folder)})
    if not there or len(there) > _MOST_FOLDERS:
        yield from _ticks(every_ms, stop)
        return
    try:
        for changes in watch(
            *there,
            watch_filter=lambda _, path: wanted(path),
            debounce=_LONGEST_MS,
            step=DEBOUNCE_MS,
            rust_timeout=every_ms,
            yield_on_timeout=True,
            recursive=False,
            raise_interrupt=True,
            stop_event=stop,
            ignore_permission_denied=True,
        ):
            yield frozenset(path for _, path in changes)
    except (OSError, RuntimeError):  # no watches or no instances left, which it raises as the latter: look at intervals
        yield from _ticks(every_ms, stop)


def _ticks(every_ms: int, stop: Stop | None) -> Iterator[frozenset[str]]:
    from .clock import monotonic, sleep

    while stop is None or not stop.is_set():
        until = monotonic() + every_ms / 1000
        while monotonic() < until and not (stop is not None and stop.is_set()):
            sleep(min(0.05, max(0.0, until - monotonic())))
        yield frozenset()

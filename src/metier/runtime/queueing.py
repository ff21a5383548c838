"""Queues in this process: so many pieces of work at a time, or one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Pool:
    """Threads: what they wait for is mostly a model."""

    jobs: int = 4
    stop: Flag = field(default_factory=Flag)
    """Is set when nobody waits for the results any more."""

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Results as they come.  Whoever stops reading, or work that fails, stops what was not begun."""
        pool = ThreadPoolExecutor(max(1, self.jobs), thread_name_prefix="metier-work")
        finished = False
        try:
            waiting = {pool.submit(work, item): item for item in items}
            for done in as_completed(waiting):
                yield waiting[done], done.result()
            finished = True
        finally:
            if not finished:
                self.stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


class InTurn:
    """One after the other, here: for what takes no time, or may not leave its thread."""

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        return ((item, work(item)) for item in items)

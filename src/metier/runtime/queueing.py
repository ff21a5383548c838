"""A queue in this process: so many pieces of work at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Pool:
    """Threads: what they wait for is mostly a model."""

    jobs: int = 4

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Results as they come.  Whoever stops reading, or work that fails, stops what was not begun."""
        pool = ThreadPoolExecutor(max(1, self.jobs), thread_name_prefix="metier-work")
        try:
            waiting = {pool.submit(work, item): item for item in items}
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

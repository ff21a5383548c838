"""A gate that lets so many through at a time, in the order they came, and turns away what can't wait."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterator


class Gate:
    """At most `room` are inside and at most `queue` wait."""

    def __init__(self, room: int, queue: int) -> None:
        self.room = room
        self.queue = queue
        self._inside = 0
        self._waiting: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def enter(self) -> Iterator[bool]:
        """Wait for a turn; False when too many wait already."""
        turn = self._ask()
        if turn is None:
            yield False
            return
        try:
            turn.wait()
            yield True
        finally:
            self._leave(turn)

    def _ask(self) -> threading.Event | None:
        with self._lock:
            turn = threading.Event()
            if self._inside < self.room:
                self._inside += 1
                turn.set()
            elif len(self._waiting) >= self.queue:
                return None
            else:
                self._waiting.append(turn)
            return turn

    def _leave(self, turn: threading.Event) -> None:
        with self._lock:
            if not turn.is_set():  # it gave up while it waited
                self._waiting.remove(turn)
            elif self._waiting:
                self._waiting.popleft().set()
            else:
                self._inside -= 1


PROGRAMS = Gate(room=max(8, 2 * (os.cpu_count() or 1)), queue=128)
"""What all programs of this process go through."""

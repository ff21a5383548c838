"""Follow a program to its end: keep some of its output, end it in time, leave no pipe open."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
from collections.abc import Callable
from typing import NamedTuple

from .clock import monotonic
from .stopping import asked

GRACE = 1.0
"""Seconds between being asked to end and being ended."""
PATIENCE = 5.0
"""Seconds that ending may take before we go on without it."""
FLOOD = 256 << 20
"""Bytes of output after which a program is ended: nobody reads that much."""
_TICK = 0.1
_CHUNK = 1 << 16


class Spawned(NamedTuple):
    """A program that has been started, and how to reach it."""

    process: subprocess.Popen[bytes]
    streams: tuple[int, ...]
    """Its output, and its errors where they are apart."""
    report: int
    """A pipe that stays open until the program and all it started have ended."""
    term: Callable[[], None]
    kill: Callable[[], None]
    heard: Callable[[bytes], None]
    """Is given all that came through the report so far, whenever more comes."""
    watch: Callable[[], str]
    """Why the program has to be ended now; empty while all is well."""


class Followed(NamedTuple):
    """What was seen of a program."""

    texts: tuple[str, ...]
    left_out: int
    report: bytes
    timed_out: bool
    reason: str
    """Why it was ended before its time; empty when it was not."""


class Kept:
    """The head and the tail of a stream, and how much was between them."""

    def __init__(self, most: int) -> None:
        self._head_size = most - most // 2
        self._tail_size = most // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > self._tail_size + _CHUNK:
            self._trim()

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_size)]

    @property
    def left_out(self) -> int:
        self._trim()
        return self.total - len(self._head) - len(self._tail)

    def text(self) -> str:
        """As text, with a line that says how much is missing; a character cut in two is left away."""
        missing = self.left_out
        if not missing:
            return (self._head + self._tail).decode(errors="replace")
        head, tail = bytes(self._head), bytes(self._tail)
        return f"{_whole_end(head)}\n[… {missing} bytes left out …]\n{_whole_start(tail)}"


def _whole_end(data: bytes) -> str:
    """Without the beginning of a character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            if byte >= 0xC0 and back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4):
                data = data[:-back]
            break
    return data.decode(errors="replace")


def _whole_start(data: bytes) -> str:
    """Without the rest of a character at its start."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode(errors="replace")


class _Course:
    """The order of things: asked to end at the deadline, ended after the grace, given up after the patience."""

    def __init__(self, spawned: Spawned, seconds: float, grace: float) -> None:
        self._spawned = spawned
        self._grace = grace
        self._unwanted = asked()
        self.next = monotonic() + seconds
        self._steps: list[Callable[[], None]] = [self._ask, self._end]
        self.timed_out = False
        self.reason = ""
        self.over = False

    def tick(self) -> None:
        if not self.reason and (reason := "interrupted" if self._unwanted() else self._spawned.watch()):
            self.stop(reason)
        if monotonic() >= self.next:
            if not self._steps:
                self.over = True
                self.reason = self.reason or "it could not be ended"
                return
            self.timed_out = self.timed_out or not self.reason
            self._steps.pop(0)()

    def stop(self, reason: str) -> None:
        """End it now: there is no time for manners when a limit was passed."""
        self.reason = reason
        self._steps = [self._end]
        self.next = 0.0

    def _ask(self) -> None:
        self._spawned.term()
        self.next = monotonic() + self._grace

    def _end(self) -> None:
        self._spawned.kill()
        self.next = monotonic() + PATIENCE


def follow(spawned: Spawned, seconds: float, keep: int, grace: float = GRACE) -> Followed:
    """Read until everything has ended.  Whatever happens here, nothing stays: no process and no pipe."""
    course = _Course(spawned, seconds, grace)
    kept = [Kept(keep) for _ in spawned.streams]
    report = bytearray()
    try:
        with selectors.DefaultSelector() as selector:
            for at, stream in enumerate(spawned.streams):
                selector.register(stream, selectors.EVENT_READ, at)
            selector.register(spawned.report, selectors.EVENT_READ, -1)
            _read(selector, course, kept, report, spawned.heard)
    finally:
        _finish(spawned, course)
    texts = tuple(one.text() for one in kept)
    left_out = sum(one.left_out for one in kept)
    return Followed(texts, left_out, bytes(report), course.timed_out, course.reason)


def _read(
    selector: selectors.BaseSelector,
    course: _Course,
    kept: list[Kept],
    report: bytearray,
    heard: Callable[[bytes], None],
) -> None:
    while selector.get_map() and not course.over:
        for key, _ in selector.select(max(0.0, min(_TICK, course.next - monotonic()))):
            data = os.read(key.fd, _CHUNK)
            if not data:
                selector.unregister(key.fd)
                if key.data < 0:  # all has ended: what the pipes still hold is all there will be
                    course.next = min(course.next, monotonic() + PATIENCE)
            elif key.data < 0:
                report += data
                heard(bytes(report))
            else:
                kept[key.data].add(data)
                if not course.reason and sum(one.total for one in kept) > FLOOD:
                    course.stop(f"output: more than {FLOOD >> 20} MiB")
        course.tick()


def _finish(spawned: Spawned, course: _Course) -> None:
    """Close what we hold and reap; when we are here early, everything is ended first."""
    if spawned.process.poll() is None:
        try:
            spawned.process.wait(0 if course.over else 0.5)
        except subprocess.TimeoutExpired:
            spawned.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                spawned.process.wait(PATIENCE)
            spawned.process.kill()
            spawned.process.wait()
    for opened in (*spawned.streams, spawned.report):
        os.close(opened)

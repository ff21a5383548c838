"""How far long work has come: a bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys

from ...host.clock import monotonic
from ...install.reference import without_password
from ...types.text import shortened
from .printing import clean, width

_EVERY = 0.08
_BAR = 24


class Bar:
    """A line on standard error that is drawn over itself, and is gone when the work is done."""

    def __init__(self, label: str) -> None:
        self._label = shortened(without_password(label).rstrip("/").rpartition("/")[2] or label, 32)
        self._on = sys.stderr is not None and sys.stderr.isatty()
        self._next = 0.0
        self._drawn = False

    def __call__(self, what: str, done: int, total: int) -> None:
        now = monotonic()
        if not self._on or (now < self._next and done < total):
            return
        self._next = now + _EVERY
        full = _BAR * min(done, total) // total if total else 0
        bar = f"[{'#' * full}{'.' * (_BAR - full)}] {100 * done // total:3d}%" if total else _size(done)
        line = f"{clean(self._label)}: {what} {bar}"
        sys.stderr.write("\r\x1b[K" + line[: width() - 1])
        sys.stderr.flush()
        self._drawn = True

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False


def _size(count: int) -> str:
    return "…" if not count else f"{count / 1_048_576:.1f} MB" if count >= 1_048_576 else f"{count // 1024} kB"

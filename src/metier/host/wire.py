"""Standard input and output as a wire: lines of bounded length, and nobody else writes on it."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from dataclasses import dataclass, field

_PART = 65_536


@dataclass
class Wire:
    """Two descriptors, and what was read beyond the last line."""

    read_from: int
    write_to: int
    longest: int
    wake: tuple[int, int]
    """A pipe: what is written on it ends the waiting for a line."""
    held: bytearray = field(default_factory=bytearray)
    skipping: bool = False

    def line(self) -> bytes | None:
        """The next line without its end; None at the end.  Of one that is too long, ValueError, and no byte is kept."""
        while True:
            end = self.held.find(b"\n")
            if end >= 0:
                found = bytes(self.held[:end])
                del self.held[: end + 1]
                if not self.skipping:
                    return found
                self.skipping = False
                continue
            if len(self.held) > self.longest or self.skipping:
                self.held.clear()
                if not self.skipping:
                    self.skipping = True
                    raise ValueError("too long")
            part = os.read(self.read_from, _PART) if self._waited() else b""
            if not part:
                rest, self.held = bytes(self.held), bytearray()
                return rest if rest and not self.skipping else None
            self.held += part

    def _waited(self) -> bool:
        """True when there is something to read; False when the waiting was ended."""
        waiting = select.poll()
        waiting.register(self.read_from, select.POLLIN)
        waiting.register(self.wake[0], select.POLLIN)
        return self.wake[0] not in [number for number, _ in waiting.poll()]

    def stop(self) -> None:
        """Let whoever waits for a line find the end."""
        os.write(self.wake[1], b".")

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.write_to, view) :]


def claim(longest: int) -> tuple[Wire, Callable[[], None]]:
    """Take standard input and output for a wire, and give the way back.

    In the meantime whoever reads the one finds nothing, and what is printed on the other goes to standard error.
    """
    wire = Wire(os.dup(0), os.dup(1), longest, os.pipe())
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)

    def give_back() -> None:
        os.dup2(wire.read_from, 0)
        os.dup2(wire.write_to, 1)
        os.close(wire.write_to)

    return wire, give_back

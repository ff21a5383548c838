"""The sign that a turn runs: it moves, and says for how long and what stops it."""

from __future__ import annotations

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from ...host.facts import monotonic

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.15


class TurnIndicator(Static):
    """One quiet line above the line to type in; it is there only while there is something to wait for."""

    timer: Timer
    began = 0.0
    step = 0
    asking = False
    """The turn waits for a person."""
    waiting = 0
    """So many requests wait for the turn to end."""

    def on_mount(self) -> None:
        self.display = False
        self.timer = self.set_interval(_FRAME_SECONDS, self.draw, pause=True)

    def begin(self) -> None:
        self.began, self.step, self.asking = monotonic(), 0, False
        self.display = True
        self.draw()
        self.timer.resume()

    def end(self) -> None:
        self.timer.pause()
        self.display = False

    def draw(self) -> None:
        self.step += 1
        status = indicator_text(int(monotonic() - self.began), self.asking, self.waiting)
        symbol = "?" if self.asking else _FRAMES[self.step % len(_FRAMES)]
        self.update(Content(f"{symbol} {status}"))


def indicator_text(seconds: int, asking: bool, waiting: int) -> str:
    status = "waits for your answer" if asking else f"working · {seconds} s"
    queued = f" · {waiting} more of yours to come" if waiting else ""
    return f"{status} · Esc stops{queued}"

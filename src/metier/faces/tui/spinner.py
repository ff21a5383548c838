"""The indicator of a running turn: elapsed time, queued requests, and the key that stops it."""

from __future__ import annotations

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from ...host.facts import monotonic

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.15


class TurnIndicator(Static):
    """One line above the prompt, visible while a turn runs."""

    timer: Timer
    began = 0.0
    step = 0
    asking = False
    """The turn waits for the user."""
    waiting = 0
    """Number of queued requests."""

    def on_mount(self) -> None:
        self.display = False
        # Paused between turns: an idle app should not wake the terminal.
        self.timer = self.set_interval(_FRAME_SECONDS, self.draw, pause=True)

    stopping = False
    """Esc was pressed; the turn ends as soon as it can."""

    def begin(self) -> None:
        self.began, self.step, self.asking, self.stopping = monotonic(), 0, False, False
        self.display = True
        self.draw()
        self.timer.resume()

    def end(self) -> None:
        self.timer.pause()
        self.display = False

    def draw(self) -> None:
        self.step += 1
        status = indicator_text(int(monotonic() - self.began), self.asking, self.waiting)
        if self.stopping:
            status = "stopping…"
        symbol = "?" if self.asking else _FRAMES[self.step % len(_FRAMES)]
        self.update(Content(f"{symbol} {status}"))


def indicator_text(seconds: int, asking: bool, waiting: int) -> str:
    status = "waiting for your answer" if asking else f"working · {seconds} s"
    queued = f" · {waiting} queued" if waiting else ""
    return f"{status} · Esc stops{queued}"

"""The bar that searches in the conversation."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static


class FindBar(Horizontal):
    """One line above the prompt: Enter and Up go to older matches, Down to newer ones, Esc closes it."""

    class Sought(Message):
        """Show a match: the newest with step 0, else the next in that direction."""

        def __init__(self, text: str, step: int) -> None:
            super().__init__()
            self.text, self.step = text, step

    class Closed(Message):
        """The search is over."""

    def compose(self) -> ComposeResult:
        yield Input(id="sought", placeholder="Find in the conversation", select_on_focus=True, compact=True)
        yield Static(id="hits", markup=False)

    def on_mount(self) -> None:
        self.display = False

    @property
    def box(self) -> Input:
        return self.query_one("#sought", Input)

    def open(self) -> None:
        self.display = True
        self.box.focus()

    def show_hits(self, place: int, number: int) -> None:
        text = f"{place} of {number}" if number else "no match" if self.box.value else ""
        self.query_one("#hits", Static).update(Content(text))

    @on(Input.Changed, "#sought")
    def changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Sought(event.value, 0))

    def on_key(self, event: events.Key) -> None:
        step = {"enter": -1, "up": -1, "down": 1, "shift+enter": 1, "ctrl+f": -1}.get(event.key)
        if step is not None:
            event.stop()
            event.prevent_default()
            self.post_message(self.Sought(self.box.value, step))

    def close(self) -> bool:
        """Close it; False when it was not open."""
        was_open, self.display = bool(self.display), False
        if was_open:
            self.post_message(self.Closed())
        return was_open

"""The editor of the prompt: several lines, folded pastes, and keys that answer a question."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from ...host.facts import monotonic
from ...types.text import visible_text

_FOLDED_LINES = 8
_FOLDED_CHARACTERS = 2_000
_NEW_LINE_KEYS = ("shift+enter", "alt+enter", "ctrl+j")


class PromptInput(TextArea):
    """Enter sends, Shift+Enter breaks the line.  A hint is only shown: the right arrow does not take it."""

    class Submitted(Message):
        """What is to be sent."""

        def __init__(self, value: str) -> None:
            super().__init__()
            self.value = value

    def __init__(self, placeholder: str, id: str) -> None:
        super().__init__(placeholder=placeholder, id=id, compact=True, highlight_cursor_line=False)
        self.keys: Mapping[str, str] = {}
        """Keys that answer the open question when pressed on an empty line."""
        self.since = 0.0
        self.grace = 0.4
        """Seconds after a question during which keys are ignored: the user may have been typing when it appeared."""
        self.pastes: dict[str, str] = {}
        """Long pastes, by the text that stands for them."""

    @property
    def value(self) -> str:
        """The text as it is shown."""
        return self.text

    @property
    def whole(self) -> str:
        """The text with every paste."""
        return self.unfold(self.text)

    @property
    def before_cursor(self) -> str:
        """The current line up to the cursor."""
        row, column = self.cursor_location
        return self.document[row][:column]

    def fill(self, text: str) -> None:
        """Replace the text; a long one is folded."""
        self.text = self.fold(text)
        self.move_cursor(self.document.end)

    def fold(self, text: str) -> str:
        """A text, or what stands for it where it is long."""
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= _FOLDED_LINES and len(text) <= _FOLDED_CHARACTERS:
            return visible_text(text)
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        sign, number = f"[pasted {size}]", 1
        while self.pastes.get(sign, text) != text:
            number += 1
            sign = f"[pasted {size}, {number}]"
        self.pastes[sign] = text
        return sign

    def unfold(self, text: str) -> str:
        for sign, paste in self.pastes.items():
            text = text.replace(sign, paste)
        return text

    def on_key(self, event: events.Key) -> None:
        if event.key in _NEW_LINE_KEYS or (event.key == "enter" and self.before_cursor.endswith("\\")):
            if event.key == "enter":
                # A backslash works in every terminal; some can't tell Shift+Enter from Enter.
                self.action_delete_left()
            self.insert("\n")
        elif event.key == "enter":
            self.post_message(self.Submitted(self.whole))
        elif event.key == "backspace" and (sign := self._sign_before_cursor()):
            row, column = self.cursor_location
            self.delete((row, column - len(sign)), (row, column))
        elif not self.text and event.key in self.keys and monotonic() >= self.since + self.grace:
            self.post_message(self.Submitted(event.key))
        else:
            return
        event.stop()
        event.prevent_default()

    def _sign_before_cursor(self) -> str:
        return next((sign for sign in self.pastes if self.before_cursor.endswith(sign)), "")

    def on_paste(self, event: events.Paste) -> None:
        """Take all of a paste; a long one is shown as one word."""
        event.stop()
        event.prevent_default()
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        self.replace(self.fold(text), *self.selection, maintain_selection_offset=False)

    def action_cursor_right(self, select: bool = False) -> None:
        if not (self.suggestion and self.cursor_at_end_of_text):
            super().action_cursor_right(select)

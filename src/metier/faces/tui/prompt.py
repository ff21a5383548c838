"""The prompt: the input line, and the picker above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.fuzzy import Matcher
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ...host.facts import monotonic
from .picker import PickerChoice, filter_choices, hint_for, typed_command

_MOST_ROWS = 10
PLACEHOLDER = "Ask for something, or type / for skills"


class HintSuggester(Suggester):
    """Shows a command's argument hint behind the input."""

    def __init__(self, prompt: PromptArea) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.prompt = prompt

    async def get_suggestion(self, value: str) -> str | None:
        hint = hint_for(value, self.prompt.choices)
        return f"{value.rstrip()} {hint}" if hint else None


class PromptInput(Input):
    """The input line.  A hint is only shown: the right arrow, which would accept it, just moves the cursor."""

    keys = ""
    """Keys that answer the open question when pressed on an empty line."""
    since = 0.0
    grace = 0.4
    """Seconds after a question during which keys are ignored: the user may have been typing when it appeared."""

    def on_key(self, event: events.Key) -> None:
        if self.value or event.key not in self.keys or monotonic() < self.since + self.grace:
            return
        event.stop()
        event.prevent_default()
        self.post_message(self.Submitted(self, event.key))

    def action_cursor_right(self, select: bool = False) -> None:
        if self.cursor_position < len(self.value):
            super().action_cursor_right(select)


class PromptArea(Vertical):
    """The prompt; what was entered is posted as `PromptArea.Entered`."""

    class Entered(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__()
        self.choices: Sequence[PickerChoice] = ()
        self.uses: Counter[str] = Counter()
        self.offered: list[PickerChoice] = []
        self.filtered_input: str | None = None
        """The input that `offered` was computed for."""
        self.plain = False
        """Whether an answer is expected, so that `/` opens no picker."""
        self.draft = ""
        """The input that a question interrupted."""
        self.history: list[str] = []
        self.recalled = 0

    def compose(self) -> ComposeResult:
        yield OptionList(id="picker", markup=False)
        yield Static(id="more", markup=False)
        yield PromptInput(id="line", placeholder=PLACEHOLDER, select_on_focus=False, suggester=HintSuggester(self))

    def on_mount(self) -> None:
        self.picker.display = self.more.display = False
        self.line.focus()

    @property
    def picker(self) -> OptionList:
        return self.query_one("#picker", OptionList)

    @property
    def more(self) -> Static:
        return self.query_one("#more", Static)

    @property
    def line(self) -> PromptInput:
        return self.query_one("#line", PromptInput)

    def expect_answer(self, placeholder: str, keys: str = "") -> None:
        """Expect an answer, which single keys may give; the current input is kept for later."""
        if not self.plain:
            self.draft, self.line.since = self.line.value, monotonic()
        self.plain, self.line.keys = True, keys
        self.line.placeholder = placeholder
        self.fill("")

    def accept_requests(self) -> None:
        """Accept requests and commands again."""
        self.plain, self.line.keys = False, ""
        self.line.placeholder = PLACEHOLDER
        self.fill(self.draft)
        self.draft = ""

    def fill(self, text: str) -> None:
        self.line.value = text
        self.line.cursor_position = len(text)

    @on(Input.Changed, "#line")
    def update_picker(self) -> None:
        """Update the picker for the current input: keys may arrive before the event for an earlier change."""
        if self.filtered_input == self.line.value:
            return
        self.filtered_input = self.line.value
        typed = None if self.plain else typed_command(self.filtered_input)
        self.offered = [] if typed is None else filter_choices(self.choices, typed, _match_score, self.uses)
        self.picker.clear_options()
        self.picker.add_options([Option(_choice_content(choice)) for choice in self.offered])
        self.picker.display = bool(self.offered)
        if self.offered:
            self.picker.highlighted = 0
        self.update_more(typed)

    def update_more(self, typed: str | None) -> None:
        """Show how many choices are hidden, or that none matches; the picker never covers the input."""
        # Leaves space for the title, the input and a little of the log.
        room = max(1, min(_MOST_ROWS, self.app.size.height - 6))
        self.picker.styles.max_height = room
        hidden = len(self.offered) - room
        text = f"{hidden} more: press Down, or keep typing" if hidden > 0 else "" if self.offered else "no match"
        self.more.display = typed is not None and bool(text)
        self.more.update(Content(text))

    def close(self) -> bool:
        """Close the picker; False when it was not open."""
        open_, self.filtered_input = bool(self.picker.display), self.line.value
        self.picker.display = self.more.display = False
        return open_

    def on_key(self, event: events.Key) -> None:
        if event.key in ("up", "down", "tab"):
            self.update_picker()
        if event.key in ("up", "down") and self.picker.display:
            self.picker.action_cursor_up() if event.key == "up" else self.picker.action_cursor_down()
        elif event.key in ("up", "down"):
            self.recall(-1 if event.key == "up" else 1)
        elif event.key == "tab" and self.picker.display:
            self.complete()
        else:
            return
        event.stop()
        event.prevent_default()

    def recall(self, step: int) -> None:
        """Move through the input history."""
        if self.history:
            self.recalled = max(0, min(len(self.history), self.recalled + step))
            self.fill(self.history[self.recalled] if self.recalled < len(self.history) else "")

    @on(OptionList.OptionSelected, "#picker")
    def complete(self) -> None:
        """Take the highlighted command into the line, ready for its arguments."""
        place = self.picker.highlighted or 0
        if place < len(self.offered) and self.offered[place].kind != "broken":
            self.fill(f"/{self.offered[place].name} ")
        self.line.focus()

    @on(Input.Submitted, "#line")
    def entered(self, submitted: Input.Submitted) -> None:
        submitted.stop()
        self.update_picker()
        text = submitted.value
        typed = None if self.plain else typed_command(text)
        if self.picker.display and typed is not None and all(choice.name != typed for choice in self.choices):
            # Enter on a part of a name completes it; the next Enter runs it.
            self.complete()
            return
        if not self.plain:
            if not text.strip():
                return
            self.history.append(text)
            self.recalled = len(self.history)
            self.fill("")
        self.post_message(self.Entered(text))


def _match_score(typed: str, name: str) -> float:
    return Matcher(typed).match(name)


def _choice_content(choice: PickerChoice) -> Content:
    style = {"skill": "bold", "app": "", "broken": "bold $error", "scheduled": "bold #b98ae8"}[choice.kind]
    hint = f" {choice.hint}" if choice.hint else ""
    return Content.assemble((f"/{choice.name}", style), (hint, "italic"), ("  " + choice.description, "dim"))

"""The prompt: the editor, and the picker above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.fuzzy import Matcher
from textual.message import Message
from textual.widgets import OptionList, Static, TextArea
from textual.widgets.option_list import Option

from ...host.facts import monotonic
from .editor import PromptInput
from .lines import AnswerChoice
from .picker import (
    PickerChoice,
    command_argument,
    filter_choices,
    filter_files,
    hint_for,
    mentioned_file,
    typed_command,
)

_MOST_ROWS = 10
_MOST_OFFERED = 200
"""Rows that the picker holds at once: nobody looks through three thousand, and each costs time to make."""
PLACEHOLDER = "Ask for something, or type / for skills"


class PromptArea(Vertical):
    """The prompt; what was entered is posted as `PromptArea.Entered`."""

    class Entered(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class FilesWanted(Message):
        """A file is being named, and the files are not known yet."""

    def __init__(self) -> None:
        super().__init__()
        self.choices: Sequence[PickerChoice] = ()
        self.arguments: Mapping[str, Callable[[], Sequence[PickerChoice]]] = {}
        """What the app's own commands can be given, by command."""
        self.uses: Counter[str] = Counter()
        self.files: Sequence[str] | None = None
        self.offered: list[PickerChoice] = []
        self.hidden = 0
        """Choices that match and have no row."""
        self.filtered_input: tuple[str, tuple[int, int]] | None = None
        """The input that `offered` was computed for."""
        self.plain = False
        """Whether an answer is expected, so that `/` opens no picker."""
        self.answers: Sequence[AnswerChoice] = ()
        self.draft = ""
        """The input that a question interrupted."""
        self.history: list[str] = []
        self.recalled = 0

    def compose(self) -> ComposeResult:
        yield OptionList(id="picker", markup=False)
        yield Static(id="more", markup=False)
        yield PromptInput(PLACEHOLDER, id="line")

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

    def expect_answer(self, placeholder: str, answers: Sequence[AnswerChoice] = ()) -> None:
        """Expect an answer, which keys may give; the current input is kept for later."""
        if not self.plain:
            self.draft, self.line.since = self.line.whole, monotonic()
        self.plain, self.answers = True, answers
        self.line.keys = {answer.key: answer.answer for answer in answers}
        self.line.placeholder = placeholder
        self.fill("")
        self.filtered_input = None
        self.update_picker()

    def accept_requests(self) -> None:
        """Accept requests and commands again."""
        self.plain, self.answers, self.line.keys = False, (), {}
        self.line.placeholder = PLACEHOLDER
        self.fill(self.draft)
        self.draft = ""
        self.update_picker()

    def fill(self, text: str) -> None:
        self.line.fill(text)

    # --- The picker ---

    @on(TextArea.Changed, "#line")
    def update_picker(self) -> None:
        """Update the picker for the current input: keys may arrive before the event for an earlier change."""
        now = (self.line.text, self.line.cursor_location)
        if self.filtered_input == now:
            return
        self.filtered_input = now
        hint = "" if self.plain or "\n" in now[0] else hint_for(now[0], self.choices)
        self.line.suggestion = hint if not hint or now[0].endswith(" ") else f" {hint}"
        typed, matching = self._matching()
        self.offered, self.hidden = matching[:_MOST_OFFERED], max(0, len(matching) - _MOST_OFFERED)
        self.picker.clear_options()
        self.picker.add_options([Option(_choice_content(choice)) for choice in self.offered])
        self.picker.display = bool(self.offered)
        # Nothing is marked before the user moves there: Enter alone must not answer a question.
        self.picker.highlighted = 0 if self.offered and not self.plain else None
        self.update_more(typed)

    def _matching(self) -> tuple[bool, list[PickerChoice]]:
        """Whether something to pick is being typed, and what matches it."""
        if self.plain:
            shown = [] if self.line.text else [PickerChoice(a.key, a.label, kind="answer") for a in self.answers]
            return False, shown
        if (argument := command_argument(self.line.text, self.arguments)) is not None:
            name, typed = argument
            return True, filter_choices(self.arguments[name](), typed, _match_score(typed), {}, described=True)
        if (typed_name := typed_command(self.line.text)) is not None:
            return True, filter_choices(self.choices, typed_name, _match_score(typed_name), self.uses)
        if (file := mentioned_file(self.line.before_cursor)) is not None:
            if self.files is None:
                self.post_message(self.FilesWanted())
                return False, []
            return True, [PickerChoice(path, "", kind="file") for path in filter_files(self.files, file)]
        return False, []

    def use_files(self, files: Sequence[str]) -> None:
        self.files, self.filtered_input = files, None
        self.update_picker()

    def update_more(self, typed: bool) -> None:
        """Show how many choices are hidden, or that none matches; the picker never covers the input."""
        # Leaves space for the title, the input and a little of the log.
        room = max(1, min(_MOST_ROWS, self.app.size.height - 6))
        self.picker.styles.max_height = room
        hidden = len(self.offered) + self.hidden - room
        text = f"{hidden:,} more: press Down, or keep typing" if hidden > 0 else "" if self.offered else "no match"
        self.more.display = typed and bool(text)
        self.more.update(Content(text))

    def close(self) -> bool:
        """Close the picker; False when it was not open."""
        open_ = bool(self.picker.display) and not self.plain
        self.filtered_input = (self.line.text, self.line.cursor_location)
        if open_:
            self.picker.display = self.more.display = False
        return open_

    def on_key(self, event: events.Key) -> None:
        if event.key in ("up", "down", "tab"):
            self.update_picker()
        if event.key in ("up", "down") and self.picker.display:
            self.picker.action_cursor_up() if event.key == "up" else self.picker.action_cursor_down()
        elif event.key == "up" and self.line.cursor_at_first_line:
            self.recall(-1)
        elif event.key == "down" and self.line.cursor_at_last_line:
            self.recall(1)
        elif event.key == "tab" and self.picker.display:
            self.complete()
        elif event.key != "tab":
            return
        event.stop()
        event.prevent_default()

    def recall(self, step: int) -> None:
        """Move through what was entered before, in this conversation and earlier ones."""
        if self.plain or not self.history:
            return
        if self.recalled >= len(self.history) and self.line.text:
            # What was begun comes back below the newest.
            self.draft = self.line.whole
        self.recalled = max(0, min(len(self.history), self.recalled + step))
        newest = self.recalled >= len(self.history)
        self.fill(self.draft if newest else self.history[self.recalled])
        self.draft = "" if newest else self.draft

    @on(OptionList.OptionSelected, "#picker")
    def picked(self) -> None:
        """A click on a row is that row and Enter."""
        self.complete()
        if self.plain or command_argument(self.line.text, self.arguments) is not None:
            self.entered(PromptInput.Submitted(self.line.whole))

    def complete(self) -> None:
        """Take the highlighted choice into the line, ready for what follows."""
        place = self.picker.highlighted or 0
        if place < len(self.offered) and (choice := self.offered[place]).kind != "broken":
            match choice.kind:
                case "answer":
                    self.fill(choice.name)
                case "argument":
                    self.fill(f"{self.line.text.partition(' ')[0]} {choice.name}")
                case "file":
                    row, column = self.line.cursor_location
                    start = column - len(mentioned_file(self.line.before_cursor) or "")
                    self.line.replace(f"{choice.name} ", (row, start), (row, column))
                case _:
                    self.fill(f"/{choice.name} ")
        self.line.focus()

    @on(PromptInput.Submitted)
    def entered(self, submitted: PromptInput.Submitted) -> None:
        submitted.stop()
        self.update_picker()
        text = submitted.value
        if self.picker.display and self._completes(text):
            return
        if not self.plain:
            if not text.strip():
                return
            self.remember(text)
            self.fill("")
            self.line.pastes.clear()
        self.post_message(self.Entered(text))

    def _completes(self, text: str) -> bool:
        """Whether Enter takes the highlighted choice instead of sending."""
        if self.plain:
            if not text and self.picker.highlighted is not None:
                self.post_message(self.Entered(self.offered[self.picker.highlighted].name))
                return True
            return False
        if command_argument(text, self.arguments) is not None:
            self.complete()
            self.close()
            self.post_message(PromptInput.Submitted(self.line.whole))
            return True
        typed, file = typed_command(text), mentioned_file(self.line.before_cursor)
        # Enter on a part of a name completes it; the next Enter runs it.
        if (typed is not None and all(choice.name != typed for choice in self.choices)) or (
            typed is None and file is not None and file not in (self.files or ())
        ):
            self.complete()
            return True
        return False

    def remember(self, text: str) -> None:
        if not self.history or self.history[-1] != text:
            self.history.append(text)
        self.recalled, self.draft = len(self.history), ""


def _match_score(typed: str) -> Callable[[str], float]:
    # One matcher for all names: it keeps what it has computed.
    return Matcher(typed).match


def _choice_content(choice: PickerChoice) -> Content:
    style = {"skill": "bold", "broken": "bold $text-error", "scheduled": "bold #b98ae8"}.get(choice.kind, "")
    hint = f" {choice.hint}" if choice.hint else ""
    slash = "/" if choice.kind in ("skill", "app", "broken", "scheduled") else ""
    return Content.assemble((f"{slash}{choice.name}", style), (hint, "italic"), ("  " + choice.description, "dim"))

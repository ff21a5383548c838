"""The log of a conversation: events in order, and replies as Markdown while they are written.

`ChatLog` keeps what is shown as entries, makes rows of them, and takes what a turn writes from its thread; `view` draws
the rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from threading import Event as Flag

from textual import events
from textual.content import Content
from textual.timer import Timer

from ...host.facts import monotonic, thread_seconds
from ...types.event import Ended, Event, Replied, Retried, Used, Waited, Wrote, innermost_event
from ...types.text import visible_text
from .growing import GrowingReply
from .lines import LineStyle, StyledLine, lines_of, translate_hint
from .markdown import BLANK, LogRow
from .view import LogView

_LINE_STYLES: dict[LineStyle, str] = {
    "request": "$text-accent",
    "skill": "$text-success",
    "tool": "$text-muted",
    "failed": "$text-error",
    "quiet": "$text-muted",
    "warning": "$text-warning",
}
DRAW_SECONDS = 0.12
"""Seconds between two drawings of a reply that is being written."""
_SHARE = 120
"""A drawing is followed by so many times its own duration of rest, whatever it cost."""
_MOST_WAITING = 16_000
"""Characters that may wait to be drawn: a faster model waits, so that no drawing takes long and Esc is answered."""
_LIVE_LINES = 6
"""Lines of a running program's output that are shown."""


@dataclass
class LogEntry:
    """Something in the log: a line, or a reply."""

    line: StyledLine | None = None
    reply: GrowingReply | None = None
    growing: bool = False
    folded: bool = True
    rows: list[LogRow] = field(default_factory=list)

    @property
    def text(self) -> str:
        if self.reply is not None:
            return self.reply.text
        assert self.line is not None
        return self.line.text

    def lay_out(self, width: int) -> None:
        """Make its rows for that width."""
        if self.reply is not None:
            self.rows = [*self.reply.standing, *self.reply.tail(width)] if self.growing else self.reply.finish(width)
            return
        assert self.line is not None
        style = _LINE_STYLES[self.line.style]
        texts = [self.line.text] if self.folded or not self.line.more else [*self.line.more, self.line.fold_text]
        rows = [BLANK] if self.line.style == "request" else []
        for text in texts:
            for part in Content(text).stylize(style).split(allow_blank=True):
                rows += [LogRow(row, joined=at > 0) for at, row in enumerate(part.wrap(max(width, 1)))]
        self.rows = rows


class ChatLog(LogView):
    """Shows lines and events.  Their text is never read as markup, and control characters are made visible."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.entries: list[LogEntry] = []
        self.starts: list[int] = []
        """The first row of each entry."""
        self.incoming: deque[str] = deque()
        self.waiting = 0
        self.output: deque[str] = deque(maxlen=_LIVE_LINES)
        self.printed: deque[str] = deque()
        self.live: LogEntry | None = None
        """The output of the program that runs now."""
        self.rest_until = 0.0
        self.drawn = Flag()
        self.timer: Timer

    def on_mount(self) -> None:
        # Paused between turns: an idle app should not wake the terminal.
        self.timer = self.set_interval(DRAW_SECONDS, self.draw_waiting, pause=True)

    @property
    def text(self) -> str:
        """All that it says."""
        return "\n".join(entry.text for entry in self.entries)

    # --- What comes in ---

    def show(self, *lines: StyledLine) -> None:
        for line in lines:
            self._add(LogEntry(line))
        self.follow_end()

    def note(self, text: str) -> None:
        self.show(StyledLine("quiet", visible_text(text)))

    def error(self, message: str, hint: str = "") -> None:
        self.show(
            StyledLine("failed", visible_text(message)),
            *([StyledLine("quiet", f"→ {translate_hint(visible_text(hint))}")] if hint else []),
        )

    def write(self, text: str) -> None:
        """A piece of a reply, from any thread; it waits there while too much is not drawn yet."""
        self.incoming.append(text)
        self.waiting += len(text)
        while self.waiting > _MOST_WAITING and self.timer_runs:
            self.drawn.clear()
            self.drawn.wait(DRAW_SECONDS)

    def print_output(self, text: str) -> None:
        """What the running program prints, from any thread."""
        self.printed.append(text)

    timer_runs = False

    def begin_turn(self) -> None:
        self.timer_runs = True
        self.timer.resume()

    def end_turn(self) -> None:
        self.timer_runs = False
        self.timer.pause()
        self.draw_waiting(all_of_it=True)

    def draw(self, event: Event) -> None:
        """Show what happened."""
        if isinstance(event, Waited):  # the spinner counts the seconds
            return
        if isinstance(event, Wrote):
            if not event.thinking:
                self.write(event.text)
            return
        self.draw_waiting(all_of_it=True)
        if isinstance(innermost_event(event), Used | Ended):
            self._end_live()
        growing = self._growing()
        if isinstance(event, Retried) and growing is not None:
            # A retry writes the reply again from its start.
            self._drop_last()
        elif growing is not None:
            growing.growing = False
            self._lay_out_last()
        elif isinstance(event, Replied) and event.text:
            self._add(LogEntry(reply=GrowingReply(visible_text(event.text))))
        self.show(*lines_of(event))

    def draw_waiting(self, all_of_it: bool = False) -> None:
        """Draw what was written since the last time, unless that was a moment ago and took long."""
        if not all_of_it and (not (self.incoming or self.printed) or monotonic() < self.rest_until):
            return
        began = thread_seconds()
        if pieces := [self.incoming.popleft() for _ in range(len(self.incoming))]:
            text = "".join(pieces)
            self.waiting -= len(text)
            self._grow(visible_text(text))
        if printed := [self.printed.popleft() for _ in range(len(self.printed))]:
            self._show_output(visible_text("".join(printed)))
        self.drawn.set()
        self.rest_until = monotonic() + _SHARE * (thread_seconds() - began)

    def _growing(self) -> LogEntry | None:
        return self.entries[-1] if self.entries and self.entries[-1].growing else None

    def _grow(self, text: str) -> None:
        entry = self._growing()
        if entry is None:
            entry = LogEntry(reply=GrowingReply(), growing=True)
            self._add(entry)
        assert entry.reply is not None
        entry.reply.write(text)
        self._lay_out_last()
        self.follow_end()

    def _show_output(self, text: str) -> None:
        lines = text.split("\n")
        if self.output and self.live is not None:
            lines[0] = self.output.pop() + lines[0]
        self.output.extend(line[-500:] for line in lines)
        if self.live is None:
            self.live = LogEntry(StyledLine("quiet", ""))
            self._add(self.live)
        shown = "\n".join(f"  │ {line}" for line in self.output if line)
        self.live.line = StyledLine("quiet", shown)
        self._lay_out_all(from_entry=self.entries.index(self.live))
        self.follow_end()

    def _end_live(self) -> None:
        """Remove the live output: the answer of the tool shows what is worth keeping."""
        if self.live is not None:
            self.entries.remove(self.live)
            self.live = None
            self._lay_out_all(from_entry=0, again=False)
        self.output.clear()

    # --- Rows ---

    def clear(self) -> None:
        self.entries, self.rows, self.starts, self.live = [], [], [], None
        self.following, self.sought, self.found = True, "", None
        self.take_rows()

    def _add(self, entry: LogEntry) -> None:
        entry.lay_out(self.columns)
        self.entries.append(entry)
        self._place(entry)
        self.take_rows()

    def _place(self, entry: LogEntry) -> None:
        self.starts.append(len(self.rows))
        self.rows += [BLANK] if self.rows and entry.reply is not None else []
        self.rows += entry.rows

    def _drop_last(self) -> None:
        self.entries.pop()
        del self.rows[self.starts.pop() :]
        self.take_rows()

    def _lay_out_last(self) -> None:
        entry, start = self.entries[-1], self.starts[-1]
        if entry.reply is None or not entry.growing:
            self._lay_out_all(from_entry=len(self.entries) - 1)
            return
        # Only behind what stands already: a long reply is not copied for each piece.
        lead, before = start + bool(start), len(entry.reply.standing)
        tail = entry.reply.tail(self.columns)
        # What stands may have been drawn again from a place further up.
        keep = lead + min(before, entry.reply.redrawn, len(entry.reply.standing))
        old, new = self.rows[keep:], [*entry.reply.standing[keep - lead :], *tail]
        same = next(
            (at for at, (a, b) in enumerate(zip(old, new, strict=False)) if not _is_same(a, b)), min(len(old), len(new))
        )
        self.rows[keep + same :] = new[same:]
        self.take_rows(changed=keep + same)

    def _lay_out_all(self, from_entry: int = 0, again: bool = True) -> None:
        """Make the rows of the entries from this one on."""
        if from_entry < len(self.starts):
            del self.rows[self.starts[from_entry] :], self.starts[from_entry:]
        for entry in self.entries[from_entry:]:
            if again:
                entry.lay_out(self.columns)
            self._place(entry)
        self.take_rows()

    def on_resize(self, event: events.Resize) -> None:
        at_end = self.following
        self._lay_out_all()
        if at_end:
            self.to_end()

    # --- Folding ---

    def on_click(self, event: events.Click) -> None:
        if self.text_selection is None:
            self.fold(bisect_right(self.starts, round(self.scroll_y) + event.y) - 1)

    def fold(self, place: int) -> None:
        """Open or close what one entry hides."""
        if 0 <= place < len(self.entries) and (line := self.entries[place].line) is not None and line.more:
            self.entries[place].folded = not self.entries[place].folded
            self._lay_out_all(from_entry=place)

    def fold_all(self) -> None:
        """Open everything that is folded; where all is open, fold it."""
        hiding = [entry for entry in self.entries if entry.line is not None and entry.line.more]
        folded = not any(entry.folded for entry in hiding)
        for entry in hiding:
            entry.folded = folded
        self._lay_out_all()
        self.follow_end()


def _is_same(one: LogRow, other: LogRow) -> bool:
    """Whether two rows look alike."""
    return one is other or (one[1:] == other[1:] and one.content.is_same(other.content))

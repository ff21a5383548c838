"""Printing: plain lines, colour only on a terminal, nothing from a skill without filtering."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ...host.facts import monotonic
from ...light_typing import TYPE_CHECKING
from ...types.problem import Problem
from ...types.text import clean_line, escape_hidden_in_json, one_line, shorten_text
from ...types.verdict import Verdict, state_of

if TYPE_CHECKING:
    from ...library.library import Library
    from ...types.errors import MetierError
    from ...types.skill import BrokenSkill

_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_SEVERITY_STYLES = {"error": "red", "warning": "yellow", "info": "dim"}
PIPE_WIDTH = 100
MIN_LAST_COLUMN = 10
"""A narrower last column would be useless, and is left out."""
LONGEST_NAME = 64
"""The longest name the standard allows: piped output never cuts names."""


def color_enabled() -> bool:
    # NO_COLOR counts if it is set to anything (no-color.org).
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if color_enabled() and text else text


def terminal_width() -> int:
    """The terminal's width; fixed for a pipe, so that its output does not depend on the terminal."""
    if not sys.stdout.isatty():
        return PIPE_WIDTH
    try:
        # Some terminals report 0 columns, and in less than 40 no table is readable.
        return max(40, os.get_terminal_size().columns or PIPE_WIDTH)
    except OSError:
        return PIPE_WIDTH


# --- Lines and columns ---

_NARROWEST_NAME = 16
"""Columns that names keep where one long name would take those of every row."""


def say(line: str = "") -> None:
    sys.stdout.write(line + "\n")


def warn(line: str) -> None:
    """Print to standard error, which may be closed."""
    with suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def warn_failure(subject: str, error: MetierError) -> None:
    """Print the error of one of several things, in the form of the error that ends a command."""
    # Where the message names its subject itself, it is not named twice.
    named = "" if error.message.startswith((f"{subject}: ", f"{subject} ")) else f"{printable(subject)}: "
    warn(f"error: {named}{printable(error.message)}")
    if error.hint:
        warn(f"hint: {printable(error.hint)}")


def say_json(value: object) -> None:
    """Print a JSON document, with characters that could affect a terminal as escapes."""
    from json import dumps

    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = dumps(value, ensure_ascii=not utf8, indent=2, default=str)
    say(text if text.isascii() and "\x7f" not in text else escape_hidden_in_json(text))


def format_columns(rows: Sequence[Sequence[str]], last_cut: bool = True, indent: int = 0) -> list[str]:
    """Align rows in columns; the last column takes the remaining width, the others at most half of it.

    The first column names things, so it is never cut below the longest name: a name that is too wide for its column
    takes from its own row, not from all of them.
    """
    if not rows:
        return []
    share = max(20, (terminal_width() - indent) // 2) if sys.stdout.isatty() else LONGEST_NAME
    widths = [max(map(display_width, column)) for column in list(zip(*rows, strict=True))[:-1]]
    cut = rows
    if max(widths, default=0) > share:
        cut = [
            [fit_width(row[0], max(share, LONGEST_NAME)), *(fit_width(cell, share) for cell in row[1:-1]), row[-1]]
            if len(row) > 1
            else row
            for row in rows
        ]
        widths = [min(share, size) for size in widths]
    room = terminal_width() - indent - sum(widths) - 2 * len(widths)
    if widths and room < MIN_LAST_COLUMN:
        narrower = max(_NARROWEST_NAME, widths[0] - (MIN_LAST_COLUMN - room))
        room, widths[0] = room + max(0, widths[0] - narrower), min(widths[0], narrower)
    lines = []
    for row in cut:
        cells = [cell + " " * (size - display_width(cell)) for cell, size in zip(row[:-1], widths, strict=True)]
        left = room - max(0, display_width(row[0]) - widths[0]) if widths else room
        last = row[-1] if not last_cut else fit_width(row[-1], left) if left >= MIN_LAST_COLUMN else ""
        lines.append("  ".join([*cells, last]).rstrip())
    return lines


def display_width(text: str) -> int:
    """The number of terminal columns of a text: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width  # most text is ASCII

    return sum(
        0 if category(character) in ("Mn", "Me", "Cf") else 2 if east_asian_width(character) in "WF" else 1
        for character in text
    )


def fit_width(text: str, room: int) -> str:
    """Shorten a text to a number of columns, with an ellipsis."""
    if text.isascii():
        return shorten_text(text, room)
    if display_width(text) <= room:
        return text
    # Each wide character takes two columns, so cut by half of what is too much, until it fits.
    most = min(len(text) - 1, room)
    while most > 1 and display_width(cut := shorten_text(text, most)) > room:
        most -= max(1, (display_width(cut) - room) // 2)
    return shorten_text(text, most)


def printable(text: str) -> str:
    return clean_line(text)


def clean_path(path: str) -> str:
    """A path on one line, with its blanks, without control characters."""
    return one_line(path)


def count_of(number: int, noun: str) -> str:
    """`1 skill`, `2 skills`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def hint_line(text: str) -> str:
    """A line that says what to do next."""
    return f"{paint('→', 'cyan')} {text}"


def say_waiting(state: str) -> None:
    """Say which proposed changes wait for a person, if any do."""
    from ...host import paths

    # Without the folder there are none, and nothing has to be imported to know that.
    if paths.is_folder(f"{state}/proposals"):
        from ...improve.proposal_store import waiting_line

        if line := waiting_line(state):
            say(hint_line(printable(line)))


# --- Values as lines and as JSON ---


def problem_lines(problem: Problem, hint: bool = True, place: bool = True) -> Iterable[str]:
    """`place: severity: message [code]` and, on the next line, what to do."""
    where = f"{clean_path(problem.place)}: " if place and problem.place else ""
    severity = paint(problem.severity, _SEVERITY_STYLES[problem.severity])
    yield f"{where}{severity}: {printable(problem.message)} [{problem.code}]"
    if hint and problem.hint:
        yield "  " + hint_line(printable(problem.hint))


def problem_dict(problem: Problem) -> dict[str, object]:
    return {
        "code": problem.code,
        "severity": problem.severity,
        "message": problem.message,
        "hint": problem.hint,
        "path": problem.path,
        "line": problem.line,
        "column": problem.column,
    }


def library_dict(library: Library) -> dict[str, object]:
    return {
        "dialect": library.dialect.name,
        "skills": [verdict_dict(verdict) for verdict in library.verdicts],
        "broken": [broken_dict(item) for item in library.broken],
        "problems": [problem_dict(problem) for problem in library.problems],
    }


def broken_dict(item: BrokenSkill) -> dict[str, object]:
    return {
        "id": item.id,
        "path": item.path,
        "root": item.origin.root,
        "state": "broken",
        "problems": [problem_dict(problem) for problem in item.problems],
    }


def verdict_dict(verdict: Verdict) -> dict[str, object]:
    skill = verdict.skill
    return {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "path": skill.path,
        "root": skill.origin.root,
        "source": skill.origin.source,
        "dialect": skill.origin.dialect.name,
        "state": state_of(verdict),
        "eligible": verdict.eligible,
        "usable": verdict.usable,
        "user_invocable": skill.user_may_invoke,
        "model_invocable": skill.model_may_invoke,
        "shadowed_by": verdict.shadowed_by.path if verdict.shadowed_by else None,
        "diagnostics": list(verdict.diagnostics),
        "problems": [problem_dict(problem) for problem in verdict.problems],
    }


STATE_STYLES = {
    "ready": "green",
    "user only": "green",
    "model only": "green",
    "broken": "red",
    "untrusted": "yellow",
    "unapproved": "yellow",
    "misnamed": "yellow",
    "shadowed": "dim",
    "not allowed": "dim",
    "disabled": "dim",
}


def paint_state(state: str) -> str:
    return paint(state, STATE_STYLES.get(state.strip(), "yellow"))


# Smooth enough to the eye; drawing each chunk of a download would slow it down.
_REDRAW_SECONDS = 0.08
_BAR_WIDTH = 24


class ProgressBar:
    """A progress bar on standard error, erased when the work is done."""

    def __init__(self, label: str) -> None:
        # Imported here, as only slow commands show a bar. The label is often a URL, which may hold a password.
        from ...registries.reference import without_password

        self._label = shorten_text(without_password(label).rstrip("/").rpartition("/")[2] or label, 32)
        self._on = sys.stderr is not None and sys.stderr.isatty()
        self._next = 0.0
        self._drawn = False

    def __call__(self, activity: str, done: int, total: int) -> None:
        now = monotonic()
        if not self._on or (now < self._next and done < total):
            return
        self._next = now + _REDRAW_SECONDS
        full = _BAR_WIDTH * min(done, total) // total if total else 0
        bar = f"[{'#' * full}{'.' * (_BAR_WIDTH - full)}] {100 * done // total:3d}%" if total else _format_size(done)
        line = f"{printable(self._label)}: {activity} {bar}"
        # One column less than the terminal has: a full line would wrap, and `\r` return to the wrong one.
        sys.stderr.write("\r\x1b[K" + line[: terminal_width() - 1])
        sys.stderr.flush()
        self._drawn = True

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False


def _format_size(count: int) -> str:
    return "…" if not count else f"{count / 1_048_576:.1f} MB" if count >= 1_048_576 else f"{count // 1024} kB"

"""How the command line speaks: plain lines, colour only on a terminal, nothing from a skill unfiltered."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from json import dumps

from ...types.problem import Code, Problem
from ...types.text import flat, one_line, shortened, unseen_escaped
from ...types.verdict import Verdict

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
_SEVERITY = {"error": "red", "warning": "yellow", "info": "dim"}
UNTRUSTED: tuple[Code, ...] = ("untrusted", "changed-since-trust")
UNAPPROVED: tuple[Code, ...] = ("unapproved", "changed-since-approval", "lock-unreadable")
WITHHELD = UNTRUSTED + UNAPPROVED
"""Why a skill waits for a person."""
PIPE_WIDTH = 100
LEAST = 10
"""A last column of less than this says nothing, and is left out."""
LONGEST_NAME = 64
"""The longest name the standard allows: a program that reads our lines gets such names whole."""


def coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if coloured() and text else text


def width() -> int:
    """The terminal's width; a pipe gets a fixed one, so that its bytes do not depend on the terminal."""
    if not sys.stdout.isatty():
        return PIPE_WIDTH
    try:
        return max(40, os.get_terminal_size().columns or PIPE_WIDTH)
    except OSError:
        return PIPE_WIDTH


def say(line: str = "") -> None:
    sys.stdout.write(line + "\n")


def warn(line: str) -> None:
    """To standard error, which may be closed: then there is nobody to tell."""
    with suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def say_json(value: object) -> None:
    """One JSON document.  What would do something to a terminal is written as an escape; the value is the same."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = dumps(value, ensure_ascii=not utf8, indent=2, default=str)
    say(text if text.isascii() and "\x7f" not in text else unseen_escaped(text))


def columns(rows: Sequence[Sequence[str]], last_cut: bool = True, indent: int = 0) -> list[str]:
    """Rows as aligned lines; the last column takes what room is left, and no other takes more than its share."""
    if not rows:
        return []
    share = max(20, (width() - indent) // 2) if sys.stdout.isatty() else LONGEST_NAME
    widths = [max(map(wide, column)) for column in list(zip(*rows, strict=True))[:-1]]
    cut = rows
    if max(widths, default=0) > share:
        cut = [[*(fitted(cell, share) for cell in row[:-1]), row[-1]] for row in rows]
        widths = [min(share, size) for size in widths]
    room = width() - indent - sum(widths) - 2 * len(widths)
    lines = []
    for row in cut:
        cells = [cell + " " * (size - wide(cell)) for cell, size in zip(row[:-1], widths, strict=True)]
        last = row[-1] if not last_cut else fitted(row[-1], room) if room >= LEAST else ""
        lines.append("  ".join([*cells, last]).rstrip())
    return lines


def wide(text: str) -> int:
    """How many columns of a terminal a text takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width  # most text is ASCII

    return sum(
        0 if category(character) in ("Mn", "Me", "Cf") else 2 if east_asian_width(character) in "WF" else 1
        for character in text
    )


def fitted(text: str, room: int) -> str:
    """Cut to a number of columns, with a mark that says so."""
    if text.isascii():
        return shortened(text, room)
    if wide(text) <= room:
        return text
    most = min(len(text) - 1, room)
    while most > 1 and wide(cut := shortened(text, most)) > room:
        most -= max(1, (wide(cut) - room) // 2)
    return shortened(text, most)


def clean(text: str) -> str:
    return flat(text)


def clean_path(path: str) -> str:
    """A path as it is, blanks and all, if nothing in it could do harm."""
    return one_line(path)


def counted(number: int, what: str) -> str:
    """`1 skill`, `2 skills`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def arrow(text: str) -> str:
    """What to do next."""
    return f"{paint('→', 'cyan')} {text}"


def problem_lines(problem: Problem, hint: bool = True, place: bool = True) -> Iterable[str]:
    """`place: severity: message [code]` and, on the next line, what to do."""
    where = f"{clean_path(problem.place)}: " if place and problem.place else ""
    severity = paint(problem.severity, _SEVERITY[problem.severity])
    yield f"{where}{severity}: {clean(problem.message)} [{problem.code}]"
    if hint and problem.hint:
        yield "  " + arrow(clean(problem.hint))


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


def state_of(verdict: Verdict) -> str:
    """One word or two for what a skill is here."""
    codes = {mark.code for mark in verdict.marks}
    if not codes.isdisjoint(UNTRUSTED):
        return "untrusted"
    if not codes.isdisjoint(UNAPPROVED):
        return "unapproved"
    if verdict.shadowed_by is not None:
        return "shadowed"
    if "not-allowed" in codes:
        return "not allowed"
    if verdict.diagnostics:
        return _lacking(verdict.diagnostics)
    skill = verdict.skill
    if not skill.model_may_invoke:
        return "user only"
    if not skill.user_may_invoke:
        return "model only"
    return "ready"


def _lacking(diagnostics: Sequence[str]) -> str:
    """What a skill lacks, in few words; `metier status NAME` has them all."""
    alone = {"disabled": "disabled", "not_in_allowlist": "not allowed", "platform": "other platform"}
    if diagnostics[0] in alone:
        return alone[diagnostics[0]]
    kinds = list(dict.fromkeys("binary" if code == "any_binary" else code for code in diagnostics))
    return "needs " + ", ".join(kinds[:2]) + (", …" if len(kinds) > 2 else "")


STATE_STYLES = {
    "ready": "green",
    "user only": "green",
    "model only": "green",
    "broken": "red",
    "untrusted": "yellow",
    "unapproved": "yellow",
    "shadowed": "dim",
    "not allowed": "dim",
    "disabled": "dim",
}


def paint_state(state: str) -> str:
    return paint(state, STATE_STYLES.get(state.strip(), "yellow"))

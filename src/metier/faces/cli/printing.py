"""How the command line speaks: plain lines, colour only on a terminal, nothing from a skill unfiltered."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from json import dumps

from ...types.problem import Problem
from ...types.text import flat, shortened
from ...types.verdict import Verdict

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_SEVERITY = {"error": "red", "warning": "yellow", "info": "dim"}
PIPE_WIDTH = 100


def coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if coloured() and text else text


def width() -> int:
    """The terminal's width; a pipe gets a fixed one, so that its bytes do not depend on the terminal."""
    if not sys.stdout.isatty():
        return PIPE_WIDTH
    try:
        return max(40, os.get_terminal_size().columns)
    except OSError:
        return PIPE_WIDTH


def say(line: str = "") -> None:
    sys.stdout.write(line + "\n")


def warn(line: str) -> None:
    sys.stderr.write(line + "\n")


def say_json(value: object) -> None:
    say(dumps(value, ensure_ascii=False, indent=2, default=str))


def columns(rows: Sequence[Sequence[str]], last_cut: bool = True) -> list[str]:
    """Rows as aligned lines; the last column takes what room is left."""
    if not rows:
        return []
    widths = [max(_wide(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
    room = width() - sum(widths) - 2 * len(widths)
    lines = []
    for row in rows:
        cells = [cell + " " * (size - _wide(cell)) for cell, size in zip(row[:-1], widths, strict=True)]
        last = shortened(row[-1], max(20, room)) if last_cut else row[-1]
        lines.append("  ".join([*cells, last]).rstrip())
    return lines


def _wide(text: str) -> int:
    return len(text)


def clean(text: str) -> str:
    return flat(text)


def problem_lines(problem: Problem, hint: bool = True, place: bool = True) -> Iterable[str]:
    """`place: severity: message [code]` and, on the next line, what to do."""
    where = f"{clean(problem.place)}: " if place and problem.place else ""
    severity = paint(problem.severity, _SEVERITY[problem.severity])
    yield f"{where}{severity}: {clean(problem.message)} [{problem.code}]"
    if hint and problem.hint:
        yield f"  {paint('→', 'cyan')} {clean(problem.hint)}"


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
    if "untrusted" in codes or "changed-since-trust" in codes:
        return "untrusted"
    if verdict.shadowed_by is not None:
        return "shadowed"
    if "not-allowed" in codes:
        return "not allowed"
    if verdict.diagnostics:
        return "needs " + ", ".join(verdict.diagnostics) if "disabled" not in codes else "disabled"
    skill = verdict.skill
    if not skill.model_may_invoke:
        return "user only"
    if not skill.user_may_invoke:
        return "model only"
    return "ready"


STATE_STYLES = {
    "ready": "green",
    "user only": "green",
    "model only": "green",
    "broken": "red",
    "untrusted": "yellow",
    "shadowed": "dim",
    "not allowed": "dim",
    "disabled": "dim",
}


def paint_state(state: str) -> str:
    return paint(state, STATE_STYLES.get(state.strip(), "yellow"))

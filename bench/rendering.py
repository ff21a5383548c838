"""R: a body is rendered, against one substitution of the same placeholders by a regular expression."""

from __future__ import annotations

import re
import timeit
from typing import TYPE_CHECKING

from report import Row, at_most

from metier.activate.render import RenderOptions, render, split_body
from metier.dialects import DIALECTS
from metier.types.activation import Call
from metier.types.skill import Origin, Skill

if TYPE_CHECKING:
    from parts import Plan

RENDER_LIMIT = 5.0
FLAT_LIMIT = 1.2
PLACEHOLDERS = 50
SIZES = (20_000, 200_000, 2_000_000)
_FORMS = ("$1 ", "$2 ", "$ARGUMENTS ", "$@ ", "${@:2} ")
_LINE = "Take the report of the day and sum up what it says in three lines, with names.\n"
_pattern = re.compile(r"\$(?:([0-9]+)|(ARGUMENTS|@)|\{@:([0-9]+)(?::([0-9]+))?\})")
_WORDS = ["staging", "now", "please"]


def rendering(plan: Plan) -> list[Row]:
    """Whole renderings, reading the body included; the last row asks that it grows with the body as that does."""
    rows = []
    ratios = []
    for size in SIZES:
        many = max(PLACEHOLDERS, PLACEHOLDERS * size // SIZES[0])
        body = body_of(size, many)
        assert _plain(body) == _rendered(body), "both must give the same text"
        count = max(3, 2_000_000 // size)
        floor, ours = _best(body, count, plan.repeats)
        ratios.append(ours / floor)
        rows.append(at_most(f"R render {size:,} bytes, {many:,} placeholders", ours, floor, RENDER_LIMIT))
    growth = ratios[-1] / ratios[0]
    met = growth <= FLAT_LIMIT
    rows.append(Row(what="R the last over the first", ratio=growth, target=f"<= {FLAT_LIMIT:g}x", met=met))
    return rows


def body_of(size: int, placeholders: int) -> str:
    lines = [_LINE] * (size // len(_LINE))
    for number in range(placeholders):
        lines[number * len(lines) // placeholders] = _FORMS[number % len(_FORMS)] + _LINE
    return "".join(lines)


def _plain(body: str) -> str:
    """What a one-line substitution would do."""

    def put(found: re.Match[str]) -> str:
        number, whole, start, length = found.groups()
        if number:
            place = int(number) - 1
            return _WORDS[place] if 0 <= place < len(_WORDS) else ""
        if whole:
            return " ".join(_WORDS)
        first = max(0, int(start) - 1)
        return " ".join(_WORDS[first:] if length is None else _WORDS[first : first + int(length)])

    return _pattern.sub(put, body)


_SKILL = Skill(
    "s", "s", "d", "/skills/s/SKILL.md", (1, 0, 0, 0), Origin("user", 1, "user", "/skills", DIALECTS["umbra"])
)


def _rendered(body: str) -> str:
    split_body.cache_clear()
    return render(_SKILL, body, Call("s", " ".join(_WORDS)), RenderOptions()).text


def _best(body: str, count: int, repeats: int) -> tuple[float, float]:
    """The least that one call of each took, in milliseconds; they take turns, so that a busy machine is fair."""
    plain, rendered = timeit.Timer(lambda: _plain(body)), timeit.Timer(lambda: _rendered(body))
    pairs = [(plain.timeit(count), rendered.timeit(count)) for _ in range(repeats)]
    return min(one for one, _ in pairs) / count * 1_000, min(other for _, other in pairs) / count * 1_000

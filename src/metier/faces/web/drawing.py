"""Small pictures as SVG, made on the server: no script draws anything.

Text in them is escaped like all other text, and every picture says in words what it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

_BUDGET_WIDTH = 1000


def draw_sparkline(weeks: Sequence[int], label: str) -> Markup:
    """Uses in each of the last weeks, the newest at the right."""
    most = max([*weeks, 1])
    step, height = 8, 20
    bars = Markup("").join(
        Markup('<rect x="{}" y="{}" width="6" height="{}"/>').format(
            at * step, height - max(1, round(height * count / most)), max(1, round(height * count / most))
        )
        for at, count in enumerate(weeks)
    )
    return Markup('<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        len(weeks) * step, height, label, bars
    )


class BudgetPart(NamedTuple):
    """One skill in the picture of the catalog's budget."""

    name: str
    characters: int
    kind: str
    """`listed`, `ranked` or `cut`."""


def draw_budget(parts: Sequence[BudgetPart], limit: int) -> Markup:
    """The whole budget as one bar: what each skill takes of it, what is free, and what did not fit."""
    total = max(limit, sum(part.characters for part in parts if part.kind != "cut"), 1)
    at, pieces = 0.0, []
    for part in parts:
        if part.kind == "cut":
            continue
        width = _BUDGET_WIDTH * part.characters / total
        pieces.append(
            Markup('<rect class="{}" x="{:.1f}" y="0" width="{:.1f}" height="40"><title>{}</title></rect>').format(
                part.kind, at, max(0.5, width - 1), f"{part.name}: {part.characters:,} characters"
            )
        )
        at += width
    words = f"{sum(part.kind != 'cut' for part in parts)} skills take {at / _BUDGET_WIDTH:.0%} of {total:,} characters"
    return Markup(
        '<svg class="budget" viewBox="0 0 {} 40" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="free" x="0" y="0" width="{}" height="40"/>{}</svg>'
    ).format(_BUDGET_WIDTH, words, _BUDGET_WIDTH, Markup("").join(pieces))


def draw_interval(low: float, mean: float, high: float) -> Markup:
    """A share with its interval, on a line from 0 to 100 percent."""
    words = f"{mean:.0%}, between {low:.0%} and {high:.0%}"
    return Markup(
        '<svg class="interval" viewBox="0 0 200 14" role="img" aria-label="{}"><line x1="0" y1="7" x2="200" y2="7"/>'
        '<rect x="{:.0f}" y="4" width="{:.0f}" height="6"/><circle cx="{:.0f}" cy="7" r="5"/></svg>'
    ).format(words, low * 200, max(1.0, (high - low) * 200), mean * 200)


def draw_trend(shares: Sequence[float], label: str) -> Markup:
    """How a share went over time."""
    step = 180 / max(1, len(shares) - 1)
    points = " ".join(f"{10 + at * step:.0f},{34 - 28 * share:.0f}" for at, share in enumerate(shares))
    return Markup(
        '<svg class="trend" viewBox="0 0 200 40" role="img" aria-label="{}"><polyline points="{}"/></svg>'
    ).format(label, points)

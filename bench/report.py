"""Rows, and the one table that they are printed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEADINGS = ("what", "metier", "floor", "ratio", "peer", "ratio", "target", "met?")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One comparison.  A missing number is a dash; `met` is None where nothing was asked or can be said."""

    what: str
    metier: float | None = None
    floor: float | None = None
    ratio: float | None = None
    """metier over floor: smaller is better."""
    peer: str = ""
    peer_ratio: float | None = None
    """peer over metier: larger is better."""
    unit: str = "ms"
    target: str = ""
    met: bool | None = None
    note: str = ""


def at_most(
    what: str, metier: float | None, floor: float | None, limit: float, *, unit: str = "ms", note: str = ""
) -> Row:
    """What metier costs may be at most `limit` times the floor; unmeasured is not met."""
    ratio = over(metier, floor)
    met = ratio is not None and ratio <= limit and not note
    target = f"<= {limit:g}x floor"
    return Row(what=what, metier=metier, floor=floor, ratio=ratio, unit=unit, target=target, met=met, note=note)


def at_least(what: str, metier: float | None, floor: float | None, peer: str, cost: float, limit: float) -> Row:
    """The peer must cost at least `limit` times what metier does."""
    ratio = over(cost, metier)
    met = ratio is not None and ratio >= limit
    return Row(
        what=what,
        metier=metier,
        floor=floor,
        ratio=over(metier, floor),
        peer=peer,
        peer_ratio=ratio,
        target=f">= {limit:g}x faster",
        met=met,
    )


def over(one: float | None, other: float | None) -> float | None:
    """Their ratio, where there is one."""
    return one / other if one is not None and other else None


def number(value: float | None, unit: str = "") -> str:
    """A number as people read it: three figures or so, thousands apart."""
    if value is None:
        return "-"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}{'' if unit == 'x' else ' '}{unit}".rstrip()


def table(rows: Sequence[Row]) -> str:
    """Every row, in aligned columns; notes below, numbered."""
    lines: list[tuple[str, ...]] = [HEADINGS]
    notes: list[str] = []
    for row in rows:
        met = {True: "yes", False: "NO", None: "not measured" if row.target else ""}[row.met]
        if row.note:
            notes.append(row.note)
            met = f"{met} [{len(notes)}]".strip()
        lines.append(
            (
                row.what,
                number(row.metier, row.unit),
                number(row.floor, row.unit),
                number(row.ratio, "x"),
                row.peer or "-",
                number(row.peer_ratio, "x"),
                row.target or "-",
                met,
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    numeric = {1, 2, 3, 5}
    text = [
        "  ".join(
            cell.rjust(width) if place in numeric else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*text, *(f"[{place}] {note}" for place, note in enumerate(notes, 1))])

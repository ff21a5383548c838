"""The longest run of entries, from the front, whose written form is within the budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Literal, NamedTuple

from ..types.catalog import Entry, LeftOut
from .write import Layout


@dataclass(frozen=True)
class Budget:
    """None is no limit."""

    skills: int | None = None
    characters: int | None = None


class Fitted(NamedTuple):
    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...]
    text: str


def fit(entries: Sequence[Entry], layout: Layout, budget: Budget) -> Fitted:
    """Always a prefix, never a selection.  The note of what was left out is not counted."""
    if not entries:
        return Fitted((), (), "")
    allowed = len(entries) if budget.skills is None else max(0, min(budget.skills, len(entries)))
    count = allowed
    if budget.characters is not None:
        # Where nothing stands behind the entries, the last one's line feed is not written.
        room = budget.characters - len(layout.head) - len(layout.tail) + (not layout.tail)
        lengths = (sum(map(len, pieces)) for pieces in layout.pieces(entries[:allowed]))
        count = bisect_right(list(accumulate(lengths)), room) if room >= 0 else 0
    text = _written(entries[:count], layout) if count else ""
    if count == len(entries):
        return Fitted(tuple(entries), (), text)
    reason: Literal["limit-listed", "limit-characters"] = "limit-characters" if count < allowed else "limit-listed"
    left_out = tuple(LeftOut(entry.name, reason, entry.location) for entry in entries[count:])
    note = f"⚠️ Skills truncated: included {count} of {len(entries)}. Run `metier status` to audit."
    return Fitted(tuple(entries[:count]), left_out, f"{note}\n{text}" if text else note)


def _written(entries: Sequence[Entry], layout: Layout) -> str:
    text = "".join(chain((layout.head,), chain.from_iterable(layout.pieces(entries)), (layout.tail,)))
    return text if layout.tail else text.rstrip("\n")

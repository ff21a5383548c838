"""A catalog that does not fit: a block that stays the same, and one for the request at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import ceil
from typing import Literal, NamedTuple

from ..types.catalog import Catalog, Entry, Habits, LeftOut
from ..types.search import Hit
from ..types.text import inert, shortened
from .fit import Budget
from .write import Layout

STABLE = 0.6
"""How much of a limit the stable block may take; the ranked block has the rest."""
_BY_USE = 0.5
"""How much of the stable block may go by use: what was never used keeps its place in the other half."""
FEWEST, MOST = 10, 25
"""Entries of the ranked block."""
_DEEPEST = 60
"""How far down the ranking a skill that was never used may come from."""
_CUT = 160
NOTE = "More skills are installed than are listed here: `skill_search` finds them by what they are for."


@dataclass(frozen=True)
class Wish:
    """What a request asks of a catalog that must be folded."""

    request: str = ""
    habits: Habits = field(default_factory=Habits)
    rank: Callable[[int], Sequence[Hit]] = lambda most: ()
    """So many of the skills that answer the request, best first."""
    located: bool = False
    """The model reads files itself: a line says where."""


class Stable(NamedTuple):
    entries: tuple[Entry, ...]
    text: str
    reason: Literal["limit-listed", "limit-characters"]


def fold(entries: Sequence[Entry], layout: Layout, budget: Budget, wish: Wish) -> Catalog:
    """The two blocks, and everything that is in neither."""
    stable = stable_block(entries, layout, budget, wish.habits)
    above = {id(entry.skill) for entry in stable.entries}
    room = _rest(budget, stable)
    hits = wish.rank(_DEEPEST) if wish.request else ()
    suggested, lines, merged = ranked_block(entries, hits, above, room, wish)
    below = {id(entry.skill) for entry in suggested}
    left = tuple(
        LeftOut(entry.name, "merged" if id(entry.skill) in merged else stable.reason, entry.location)
        for entry in entries
        if id(entry.skill) not in above and id(entry.skill) not in below
    )
    return Catalog(stable.entries, left, stable.text, suggested, _written(lines, hits, len(left)))


def stable_block(entries: Sequence[Entry], layout: Layout, budget: Budget, habits: Habits) -> Stable:
    """Pinned, then most used, then in order of precedence, as far as its share goes; written in the usual order."""
    most = len(entries) if budget.skills is None else ceil(budget.skills * STABLE)
    room = None
    if budget.characters is not None:
        room = int(budget.characters * STABLE) - len(layout.head) - len(layout.tail) - len(NOTE) - 1
    chosen: set[int] = set()
    reason: Literal["limit-listed", "limit-characters"] = "limit-listed"
    by_use = 0
    for place, used in _by_priority(entries, habits):
        if place in chosen:
            continue
        if len(chosen) >= most:
            break
        if used and by_use >= most * _BY_USE:
            continue
        size = len(layout.entry(entries[place]))
        if room is not None and size > room:
            reason = "limit-characters"
            break
        room = None if room is None else room - size
        chosen.add(place)
        by_use += used
    kept = [entries[place] for place in sorted(chosen)]
    body = (layout.head + "".join(map(layout.entry, kept)) + layout.tail).rstrip("\n") + "\n" if kept else ""
    return Stable(tuple(kept), body + NOTE, reason)


def _by_priority(entries: Sequence[Entry], habits: Habits) -> list[tuple[int, bool]]:
    """Places of entries, and whether use alone put them there; a place may come twice."""
    names = {entry.name: place for place, entry in reversed(list(enumerate(entries)))}
    pinned = [(names[name], False) for name in habits.pinned if name in names]
    counts = {place: _used(entry, habits.used) for place, entry in enumerate(entries)} if habits.used else {}
    used = sorted((place for place, count in counts.items() if count), key=lambda place: (-counts[place], place))
    return [*pinned, *((place, True) for place in used), *((place, False) for place in range(len(entries)))]


def _used(entry: Entry, used: Mapping[str, int]) -> int:
    return used.get(entry.skill.path, 0) if entry.skill is not None else 0


def _rest(budget: Budget, stable: Stable) -> tuple[int, int | None]:
    """Entries and characters that the ranked block may have."""
    entries = MOST if budget.skills is None else min(MOST, max(0, budget.skills - len(stable.entries)))
    return entries, None if budget.characters is None else max(0, budget.characters - len(stable.text))


def ranked_block(
    entries: Sequence[Entry], hits: Sequence[Hit], above: set[int], room: tuple[int, int | None], wish: Wish
) -> tuple[tuple[Entry, ...], list[str], set[int]]:
    """The entries for a request, their lines, and the skills that were merged into a neighbour's line."""
    known = {id(entry.skill): entry for entry in entries}
    groups, merged = _merged([known[id(hit.skill)] for hit in hits if id(hit.skill) in known])
    most, characters = room
    suggested: list[Entry] = []
    lines: list[str] = []
    for first, others in _with_a_chance(groups, most, wish):
        line = _line(first, others, id(first.skill) in above, wish.located)
        if len(lines) >= most or (characters is not None and len(line) + 1 > characters - _TAIL):
            break
        characters = None if characters is None else characters - len(line) - 1
        lines.append(line)
        suggested.append(first)
    return tuple(suggested), lines, merged


_TAIL = 240
"""Characters kept for the lines around the block."""


def _merged(found: Sequence[Entry]) -> tuple[list[tuple[Entry, list[str]]], set[int]]:
    """Skills of one name and description, from several sources, as one; the others by their qualified names."""
    groups: dict[tuple[str, str], tuple[Entry, list[str]]] = {}
    merged: set[int] = set()
    for entry in found:
        assert entry.skill is not None
        key = (entry.skill.name, entry.description)
        if key in groups:
            groups[key][1].append(entry.name if entry.name != groups[key][0].name else entry.skill.qualified)
            merged.add(id(entry.skill))
        else:
            groups[key] = (entry, [])
    return list(groups.values()), merged


def _with_a_chance(groups: list[tuple[Entry, list[str]]], most: int, wish: Wish) -> list[tuple[Entry, list[str]]]:
    """The best ones; where use is known, the last place goes to one from further down that was never used."""
    used = wish.habits.used
    unused = [one for one in groups[most:] if not _used(one[0], used)]
    if not used or most < FEWEST or not unused:
        return groups
    drawn = sha256(f"{wish.habits.seed}\0{wish.request}".encode("utf-8", "replace")).digest()
    chance = unused[int.from_bytes(drawn[:4], "big") % len(unused)]
    return [*groups[: most - 1], chance]


def _line(entry: Entry, others: Sequence[str], above: bool, located: bool) -> str:
    name = inert(entry.name) + (f" (also {', '.join(map(inert, others))})" if others else "")
    if above:
        return f"- {name} (listed above)"
    where = f" [{inert(entry.location)}]" if located else ""
    description = inert(shortened(entry.description, _CUT))
    return f"- {name}: {description}{where}" if description else f"- {name}{where}"


def _written(lines: Sequence[str], hits: Sequence[Hit], more: int) -> str:
    """The block as text; how many more there are is said here, so that the stable block need not change."""
    found = []
    if lines:
        sure = any(hit.clear for hit in hits)
        found.append("Skills for this request, the likeliest first:" if sure else "No skill clearly fits; the nearest:")
        found += lines
    if more:
        found.append(f"{more} more {'skill is' if more == 1 else 'skills are'} installed; `skill_search` finds them.")
    return "\n".join(found)

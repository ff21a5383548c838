"""Makes a catalog fit its budget: cut at the end, or folded into a stable and a ranked block.

*Fit* keeps the longest prefix of the entries whose text is within the budget.  It never selects: entries come in order
of precedence, and what is cut is always what comes last.  The lengths of the entries add up (see `formats`), so the
place to cut is found by one pass over the pieces and a binary search.

*Fold* is for callers that know the request.  The text before a conversation must not change from turn to turn, or every
provider's prompt cache is lost; what helps most does change, because it depends on the request.  So the catalog becomes
two blocks.  The stable block takes 60 percent of the budget: pinned skills, then the most used, then by precedence,
written in the usual order.  The ranked block takes the rest and is sent with the request: the skills that answer it
best.  Half of the stable block stays free of habit, and one ranked place is drawn from skills never used; otherwise a
skill that was never shown could never become a habit.  Refused: ranking a catalog that fits (it is the dialect's own,
byte for byte), and the number of further skills in the stable block, which would change with every skill installed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain
from math import ceil

from ..light_typing import TYPE_CHECKING, Literal, NamedTuple
from ..types.catalog import Catalog, CatalogEntry, LeftOut, UsageHabits
from ..types.text import neutralize_tags, shorten_text
from .formats import ListingLayout

if TYPE_CHECKING:
    from ..types.search import SearchHit


class CatalogBudget(NamedTuple):
    """What a catalog may take; None is no limit."""

    skills: int | None = None
    characters: int | None = None


class FittedEntries(NamedTuple):
    """The entries that fit, the others with a reason, and the text."""

    entries: tuple[CatalogEntry, ...]
    left_out: tuple[LeftOut, ...]
    text: str


def fit_entries(entries: Sequence[CatalogEntry], layout: ListingLayout, budget: CatalogBudget) -> FittedEntries:
    """Keep the longest prefix within the budget.  The note on what was left out is not counted."""
    if not entries:
        return FittedEntries((), (), "")
    allowed = len(entries) if budget.skills is None else max(0, min(budget.skills, len(entries)))
    count = allowed
    if budget.characters is not None:
        # Without a tail, the line feed of the last entry is not written.
        room = budget.characters - len(layout.head) - len(layout.tail) + (not layout.tail)
        lengths = (sum(map(len, pieces)) for pieces in layout.pieces(entries[:allowed]))
        count = bisect_right(list(accumulate(lengths)), room) if room >= 0 else 0
    text = _listing_text(entries[:count], layout) if count else ""
    if count == len(entries):
        return FittedEntries(tuple(entries), (), text)
    reason: Literal["limit-listed", "limit-characters"] = "limit-characters" if count < allowed else "limit-listed"
    left_out = tuple(LeftOut(entry.name, reason, entry.location) for entry in entries[count:])
    note = f"⚠️ Skills truncated: included {count} of {len(entries)}. Run `metier status` to audit."
    return FittedEntries(tuple(entries[:count]), left_out, f"{note}\n{text}" if text else note)


def _listing_text(entries: Sequence[CatalogEntry], layout: ListingLayout) -> str:
    text = "".join(chain((layout.head,), chain.from_iterable(layout.pieces(entries)), (layout.tail,)))
    return text if layout.tail else text.rstrip("\n")


# --- Fold ---

STABLE_SHARE = 0.6
"""The share of a limit for the stable block; the ranked block has the rest."""
_USE_SHARE = 0.5
"""The share of the stable block that goes by use."""
MIN_RANKED, MAX_RANKED = 10, 25
"""Entries of the ranked block; a smaller one has no place to draw."""
_MAX_RANK_DEPTH = 60
"""How far down the ranking an unused skill may be drawn from."""
_MAX_DESCRIPTION = 160
NOTE = "More skills are installed than are listed here: `skill_search` finds them by what they are for."


class RankingHints(NamedTuple):
    """What is known about a request, for a catalog that must be folded."""

    request: str = ""
    habits: UsageHabits = UsageHabits()
    rank: Callable[[int], Sequence[SearchHit]] = lambda most: ()
    """The skills that answer the request best, at most so many."""
    located: bool = False
    """The model reads files itself, so each line says where the skill is."""


class StableBlock(NamedTuple):
    """The part of a folded catalog that does not depend on the request."""

    entries: tuple[CatalogEntry, ...]
    text: str
    reason: Literal["limit-listed", "limit-characters"]


def fold_catalog(
    entries: Sequence[CatalogEntry], layout: ListingLayout, budget: CatalogBudget, hints: RankingHints
) -> Catalog:
    """Both blocks, and what is in neither."""
    stable = stable_block(entries, layout, budget, hints.habits)
    above = {id(entry.skill) for entry in stable.entries}
    room = _remaining_room(budget, stable)
    hits = hints.rank(_MAX_RANK_DEPTH) if hints.request else ()
    suggested, lines, merged = ranked_block(entries, hits, above, room, hints)
    below = {id(entry.skill) for entry in suggested}
    left_out = tuple(
        LeftOut(entry.name, "merged" if id(entry.skill) in merged else stable.reason, entry.location)
        for entry in entries
        if id(entry.skill) not in above and id(entry.skill) not in below
    )
    return Catalog(stable.entries, left_out, stable.text, suggested, _ranked_text(lines, hits, len(left_out)))


def stable_block(
    entries: Sequence[CatalogEntry], layout: ListingLayout, budget: CatalogBudget, habits: UsageHabits
) -> StableBlock:
    """Pinned, then most used, then by precedence, up to its share; written in the usual order."""
    most = len(entries) if budget.skills is None else ceil(budget.skills * STABLE_SHARE)
    room = None
    if budget.characters is not None:
        room = int(budget.characters * STABLE_SHARE) - len(layout.head) - len(layout.tail) - len(NOTE) - 1
    chosen: set[int] = set()
    reason: Literal["limit-listed", "limit-characters"] = "limit-listed"
    by_use = 0
    for place, used in _by_priority(entries, habits):
        if place in chosen:
            continue
        if len(chosen) >= most:
            break
        # Not `break`: the same entry may come again by precedence.
        if used and by_use >= most * _USE_SHARE:
            continue
        size = len(layout.entry(entries[place]))
        # The first entry that does not fit ends the block, as in `fit_entries`: no smaller one overtakes it.
        if room is not None and size > room:
            reason = "limit-characters"
            break
        room = None if room is None else room - size
        chosen.add(place)
        by_use += used
    chosen_entries = [entries[place] for place in sorted(chosen)]
    body = (
        (layout.head + "".join(map(layout.entry, chosen_entries)) + layout.tail).rstrip("\n") + "\n"
        if chosen_entries
        else ""
    )
    return StableBlock(tuple(chosen_entries), body + NOTE, reason)


def _by_priority(entries: Sequence[CatalogEntry], habits: UsageHabits) -> list[tuple[int, bool]]:
    """Places of entries, and whether only use put them there; a place may come twice."""
    # Reversed, so that the first entry of a name wins.
    names = {entry.name: place for place, entry in reversed(list(enumerate(entries)))}
    pinned = [(names[name], False) for name in habits.pinned if name in names]
    counts = {place: _use_count(entry, habits.used) for place, entry in enumerate(entries)} if habits.used else {}
    used = sorted((place for place, count in counts.items() if count), key=lambda place: (-counts[place], place))
    return [*pinned, *((place, True) for place in used), *((place, False) for place in range(len(entries)))]


def _use_count(entry: CatalogEntry, used: Mapping[str, int]) -> int:
    return used.get(entry.skill.path, 0) if entry.skill is not None else 0


def _remaining_room(budget: CatalogBudget, stable: StableBlock) -> tuple[int, int | None]:
    """Entries and characters that the ranked block may have."""
    entries = MAX_RANKED if budget.skills is None else min(MAX_RANKED, max(0, budget.skills - len(stable.entries)))
    return entries, None if budget.characters is None else max(0, budget.characters - len(stable.text))


def ranked_block(
    entries: Sequence[CatalogEntry],
    hits: Sequence[SearchHit],
    above: set[int],
    room: tuple[int, int | None],
    hints: RankingHints,
) -> tuple[tuple[CatalogEntry, ...], list[str], set[int]]:
    """The entries for a request, their lines, and the skills that were merged into a neighbour's line."""
    by_skill = {id(entry.skill): entry for entry in entries}
    groups, merged = _merge_duplicates([by_skill[id(hit.skill)] for hit in hits if id(hit.skill) in by_skill])
    most, characters = room
    suggested: list[CatalogEntry] = []
    lines: list[str] = []
    for first, others in _draw_unused(groups, most, hints):
        line = _ranked_line(first, others, id(first.skill) in above, hints.located)
        if len(lines) >= most or (characters is not None and len(line) + 1 > characters - _RESERVED_CHARACTERS):
            break
        characters = None if characters is None else characters - len(line) - 1
        lines.append(line)
        suggested.append(first)
    return tuple(suggested), lines, merged


_RESERVED_CHARACTERS = 240
"""Characters kept for the lines around the block."""


def _merge_duplicates(entries: Sequence[CatalogEntry]) -> tuple[list[tuple[CatalogEntry, list[str]]], set[int]]:
    """Skills with the same name and description, from several sources, as one; the others by their qualified names."""
    groups: dict[tuple[str, str], tuple[CatalogEntry, list[str]]] = {}
    merged: set[int] = set()
    for entry in entries:
        assert entry.skill is not None
        key = (entry.skill.name, entry.description)
        if key in groups:
            groups[key][1].append(entry.name if entry.name != groups[key][0].name else entry.skill.qualified)
            merged.add(id(entry.skill))
        else:
            groups[key] = (entry, [])
    return list(groups.values()), merged


def _draw_unused(
    groups: list[tuple[CatalogEntry, list[str]]], most: int, hints: RankingHints
) -> list[tuple[CatalogEntry, list[str]]]:
    """The best ones; if use is known, the last place goes to an unused one from further down.

    The draw depends on the request, not on chance: the same request gets the same catalog.
    """
    used = hints.habits.used
    unused = [group for group in groups[most:] if not _use_count(group[0], used)]
    if not used or most < MIN_RANKED or not unused:
        return groups
    from hashlib import sha256  # slow to load, and most catalogs fit

    drawn = sha256(f"{hints.habits.seed}\0{hints.request}".encode("utf-8", "replace")).digest()
    chance = unused[int.from_bytes(drawn[:4], "big") % len(unused)]
    return [*groups[: most - 1], chance]


def _ranked_line(entry: CatalogEntry, others: Sequence[str], above: bool, located: bool) -> str:
    name = neutralize_tags(entry.name) + (f" (also {', '.join(map(neutralize_tags, others))})" if others else "")
    if above:
        return f"- {name} (listed above)"
    where = f" [{neutralize_tags(entry.location)}]" if located else ""
    description = neutralize_tags(shorten_text(entry.description, _MAX_DESCRIPTION))
    return f"- {name}: {description}{where}" if description else f"- {name}{where}"


def _ranked_text(lines: Sequence[str], hits: Sequence[SearchHit], remaining: int) -> str:
    """The block as text.  It says how many more there are, since the stable block must not change."""
    block = []
    if lines:
        sure = any(hit.clear for hit in hits)
        block.append("Skills for this request, most likely first:" if sure else "No skill clearly fits; the nearest:")
        block += lines
    if remaining:
        block.append(
            f"{remaining} more {'skill is' if remaining == 1 else 'skills are'} installed; `skill_search` finds them."
        )
    return "\n".join(block)

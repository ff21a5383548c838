"""Makes a catalog fit its budget: cut at the end, or folded into a stable and a ranked block.

*Fit* keeps the longest prefix of the entries whose text is within the budget.  It never selects: entries come in order
of precedence, and what is cut is always what comes last.  The lengths of the entries add up (see `formats`), so the
place to cut is found by one pass over the pieces and a binary search.

*Fold* is for callers that know the request.  The text before a conversation must not change from turn to turn, or every
provider's prompt cache is lost; what helps most does change, because it depends on the request.  So the catalog becomes
two blocks.  The stable block has what earns a place by itself: pinned skills, then the most used, then by precedence if
the limit is large, written in the usual order; a quarter of the limit, more only for pins.  The ranked block takes all
the rest and is sent with the request: the skills that answer it best, as many as fit.  Of what is used, half a share is
the most, and one ranked place is drawn from skills never used; otherwise a skill that was never shown could never
become a habit.  A near copy of a skill already in the ranked block is named without its description, so that copies do
not crowd out the second skill that a task needs.  Refused: ranking a catalog that fits (it is the dialect's own, byte
for byte), and the number of further skills in the stable block, which would change with every skill installed.

A caller that never sends a ranked block asks for the stable one `alone`, and gets it over the whole limit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from math import ceil

from ..light_typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias
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

STABLE_SHARE = 0.25
"""The share of a limit for the stable block; the ranked block has the rest."""
_PINNED_SHARE = 0.6
"""The share up to which pins may widen the stable block."""
_USE_SHARE = 0.5
"""The share of the stable block that goes by use."""
_RANKED_FIRST = (24, 4_400)
"""Entries and characters that the ranked block needs before any skill is in the stable block by precedence alone."""
MIN_RANKED, MAX_RANKED = 10, 250
"""Entries of the ranked block; a smaller one has no place to draw."""
_SMALLEST_RANKED = 2_400
"""Characters of a catalog in which a ranked block of ten lines fits."""
_USUAL_LINE = 130
"""Characters of a short ranked line: how many hits are asked for."""
_DRAW_DEPTH = 35
"""How far below the last line an unused skill may be drawn from."""
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
    alone: bool = False
    """No ranked block follows: the stable block has the whole limit."""


EntryOrigin: TypeAlias = Literal["pinned", "used", "listed"]
"""What puts an entry in the stable block: a pin, use, or only its precedence."""


class StableBlock(NamedTuple):
    """The part of a folded catalog that does not depend on the request."""

    entries: tuple[CatalogEntry, ...]
    text: str
    reason: Literal["limit-listed", "limit-characters"]


class PreparedFold(NamedTuple):
    """All of a folded catalog that does not depend on the request; kept, since a large library makes it slowly."""

    stable: StableBlock
    above: frozenset[int]
    """The skills of the stable block, by identity."""
    below: Mapping[int, tuple[int, CatalogEntry]]
    """Every other skill by identity: its place in `rest`, and its entry."""
    rest: tuple[LeftOut, ...]
    """What is left out as long as nothing is suggested."""
    room: tuple[int, int | None]
    """Entries and characters for the ranked block."""


def prepare_fold(
    entries: Sequence[CatalogEntry], layout: ListingLayout, budget: CatalogBudget, hints: RankingHints
) -> PreparedFold:
    """The stable block, and what a ranked one may draw on."""
    stable = stable_block(entries, layout, budget, hints)
    above = frozenset(id(entry.skill) for entry in stable.entries)
    remaining = [entry for entry in entries if id(entry.skill) not in above]
    below = {id(entry.skill): (at, entry) for at, entry in enumerate(remaining)}
    rest = tuple(LeftOut(entry.name, stable.reason, entry.location) for entry in remaining)
    return PreparedFold(stable, above, below, rest, _remaining_room(budget, stable))


def fold_catalog(prepared: PreparedFold, hints: RankingHints) -> Catalog:
    """Both blocks, and what is in neither."""
    stable = prepared.stable
    if not hints.request or hints.alone:
        return Catalog(stable.entries, prepared.rest, stable.text, (), _ranked_text((), (), len(prepared.rest)))
    hits = hints.rank(_asked_hits(prepared.room))
    suggested, lines, merged = ranked_block(prepared, hits, hints)
    left_out = list(prepared.rest)
    for key in merged & prepared.below.keys():
        at, entry = prepared.below[key]
        left_out[at] = LeftOut(entry.name, "merged", entry.location)
    shown = [prepared.below[id(entry.skill)][0] for entry in suggested if id(entry.skill) in prepared.below]
    for at in sorted(shown, reverse=True):
        del left_out[at]
    return Catalog(stable.entries, tuple(left_out), stable.text, suggested, _ranked_text(lines, hits, len(left_out)))


def stable_block(
    entries: Sequence[CatalogEntry], layout: ListingLayout, budget: CatalogBudget, hints: RankingHints
) -> StableBlock:
    """Pinned, then most used, then by precedence, each up to its share; written in the usual order."""
    around = len(layout.head) + len(layout.tail) + len(NOTE) + 1
    allowances = _allowances(budget, len(entries), hints.alone)
    chosen: set[int] = set()
    reason: Literal["limit-listed", "limit-characters"] = "limit-listed"
    taken = by_use = 0
    full: set[EntryOrigin] = set()
    for place, origin in _by_priority(entries, hints.habits):
        if origin in full:
            # Nothing comes after those by precedence, and there may be tens of thousands of them.
            if origin == "listed":
                break
            continue
        if place in chosen:
            continue
        most, room = allowances[origin]
        if len(chosen) >= most or (origin == "used" and by_use >= most * _USE_SHARE):
            full.add(origin)
            continue
        size = len(layout.entry(entries[place]))
        # The first entry of a kind that does not fit ends that kind, as in `fit_entries`: no smaller one overtakes it.
        if room is not None and around + taken + size > room:
            reason = "limit-characters"
            full.add(origin)
            continue
        taken += size
        chosen.add(place)
        by_use += origin == "used"
    chosen_entries = [entries[place] for place in sorted(chosen)]
    body = (
        (layout.head + "".join(map(layout.entry, chosen_entries)) + layout.tail).rstrip("\n") + "\n"
        if chosen_entries
        else ""
    )
    return StableBlock(tuple(chosen_entries), body + NOTE, reason)


def _allowances(budget: CatalogBudget, total: int, alone: bool) -> dict[EntryOrigin, tuple[int, int | None]]:
    """Entries and characters that the block may have reached when an entry of each origin comes in."""
    skills, characters = budget.skills, budget.characters
    if alone:
        whole = (total if skills is None else skills, characters)
        return {"pinned": whole, "used": whole, "listed": whole}
    first_entries, first_characters = _RANKED_FIRST

    def share(part: float) -> tuple[int, int | None]:
        return (
            total if skills is None else ceil(skills * part),
            None if characters is None else int(characters * part),
        )

    if (skills is not None and skills < MIN_RANKED) or (characters is not None and characters < _SMALLEST_RANKED):
        # Too little room to rank in: most of it is the stable block's, for all who never see another.
        return {"pinned": share(_PINNED_SHARE), "used": share(_PINNED_SHARE), "listed": share(_PINNED_SHARE)}
    most, room = share(STABLE_SHARE)
    return {
        "pinned": share(_PINNED_SHARE),
        "used": (most, room),
        # A small catalog has better uses for its places than skills that nobody asked for.
        "listed": (
            most if skills is None else min(most, max(0, skills - first_entries)),
            None if room is None or characters is None else min(room, characters - first_characters),
        ),
    }


def _by_priority(entries: Sequence[CatalogEntry], habits: UsageHabits) -> Iterator[tuple[int, EntryOrigin]]:
    """Places of entries, and what puts them there; a place may come twice."""
    if habits.pinned:
        # Reversed, so that the first entry of a name wins.
        names = {entry.name: place for place, entry in reversed(list(enumerate(entries)))}
        yield from ((names[name], "pinned") for name in habits.pinned if name in names)
    if habits.used:
        counts = {place: _use_count(entry, habits.used) for place, entry in enumerate(entries)}
        used = sorted((place for place, count in counts.items() if count), key=lambda place: (-counts[place], place))
        yield from ((place, "used") for place in used)
    yield from ((place, "listed") for place in range(len(entries)))


def _use_count(entry: CatalogEntry, used: Mapping[str, int]) -> int:
    return used.get(entry.skill.path, 0) if entry.skill is not None else 0


def _remaining_room(budget: CatalogBudget, stable: StableBlock) -> tuple[int, int | None]:
    """Entries and characters that the ranked block may have."""
    entries = MAX_RANKED if budget.skills is None else min(MAX_RANKED, max(0, budget.skills - len(stable.entries)))
    return entries, None if budget.characters is None else max(0, budget.characters - len(stable.text))


def _asked_hits(room: tuple[int, int | None]) -> int:
    """How many hits can fill that room, and some to draw from."""
    most, characters = room
    fitting = most if characters is None else min(most, characters // _USUAL_LINE + 1)
    return fitting + _DRAW_DEPTH


def ranked_block(
    prepared: PreparedFold, hits: Sequence[SearchHit], hints: RankingHints
) -> tuple[tuple[CatalogEntry, ...], list[str], set[int]]:
    """The entries for a request, their lines, and the skills that were merged into a neighbour's line."""
    above, most, characters = prepared.above, *prepared.room
    listed = {id(entry.skill): entry for entry in prepared.stable.entries}
    found = [listed.get(id(hit.skill)) or prepared.below.get(id(hit.skill), (0, None))[1] for hit in hits]
    groups, merged = _merge_duplicates([entry for entry in found if entry is not None])
    lines = _ranked_lines(groups, above, hints.located)
    left = None if characters is None else characters - _RESERVED_CHARACTERS
    shown: list[int] = []
    for at, line in enumerate(lines):
        if len(shown) >= most or (left is not None and len(line) + 1 > left):
            break
        left = None if left is None else left - len(line) - 1
        shown.append(at)
    drawn = _draw_unused(groups, len(shown), hints)
    if drawn is not None and (left is None or len(lines[drawn]) <= left + len(lines[shown[-1]])):
        shown[-1] = drawn
    return tuple(groups[at][0] for at in shown), [lines[at] for at in shown], merged


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


def _draw_unused(groups: Sequence[tuple[CatalogEntry, list[str]]], count: int, hints: RankingHints) -> int | None:
    """If use is known, the place of an unused skill from below the first `count`, for the last line.

    The draw depends on the request, not on chance: the same request gets the same catalog.
    """
    used = hints.habits.used
    below = range(count, min(len(groups), count + _DRAW_DEPTH))
    unused = [at for at in below if not _use_count(groups[at][0], used)]
    if not used or count < MIN_RANKED or not unused:
        return None
    from hashlib import sha256  # slow to load, and most catalogs fit

    drawn = sha256(f"{hints.habits.seed}\0{hints.request}".encode("utf-8", "replace")).digest()
    return unused[int.from_bytes(drawn[:4], "big") % len(unused)]


_COPY_OVERLAP = 0.7
"""The share of common words (Jaccard) from which a description is a copy of another."""


def _ranked_lines(groups: Sequence[tuple[CatalogEntry, list[str]]], above: Collection[int], located: bool) -> list[str]:
    """The line of each entry; a near copy of an earlier one only says so."""
    originals: dict[str, list[tuple[CatalogEntry, frozenset[str]]]] = {}
    lines = []
    for entry, others in groups:
        assert entry.skill is not None
        listed_above = id(entry.skill) in above
        words = entry.description.lower().split()
        word_set = frozenset(words)
        # Copies share their name or their first words: only such entries are compared.
        keys = (entry.skill.name, " ".join(words[:6]))
        original = next(
            (one for key in keys for one, other in originals.get(key, ()) if _is_copy(word_set, other)), None
        )
        if original is None:
            for key in keys:
                originals.setdefault(key, []).append((entry, word_set))
        lines.append(_ranked_line(entry, others, located, listed_above, original))
    return lines


def _is_copy(words: frozenset[str], other: frozenset[str]) -> bool:
    return len(words & other) >= _COPY_OVERLAP * len(words | other) > 0


def _ranked_line(
    entry: CatalogEntry, others: Sequence[str], located: bool, above: bool, original: CatalogEntry | None
) -> str:
    name = neutralize_tags(entry.name) + (f" (also {', '.join(map(neutralize_tags, others))})" if others else "")
    if above:
        return f"- {name} (listed above)"
    where = f" [{neutralize_tags(entry.location)}]" if located else ""
    if original is not None:
        return f"- {name} (much like {neutralize_tags(original.name)}){where}"
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

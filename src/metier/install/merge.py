"""Three versions of a folder made one: what upstream changed, with what was edited here kept."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import Match, SequenceMatcher
from typing import Literal, NamedTuple, TypeAlias

from ..types.installed import FileMark, Files

Choice: TypeAlias = Literal["theirs", "mine", "merge", "clash"]
_MOST_LINES = 20_000
_FEW = 250_000
"""Lines of one text times lines of the other, up to which every line is looked for everywhere."""
_AROUND = 3
"""Lines shown before and after a change."""


class Step(NamedTuple):
    """What becomes of one path."""

    path: str
    choice: Choice


def steps(base: Mapping[str, FileMark], mine: Files, theirs: Files) -> Iterator[Step]:
    """What to do with every path of any version.  Files that are only here are kept; what both changed is merged."""
    for path in sorted({*base, *mine, *theirs}):
        old, here, there = base.get(path), mine.get(path), theirs.get(path)
        if here in (there, old):
            yield Step(path, "theirs")
        elif there == old or (old is not None and (here is None or there is None)):
            yield Step(path, "mine")  # what was deleted here stays so, and what was edited here is not lost
        elif old is None:
            yield Step(path, "clash")
        else:
            yield Step(path, "merge")


def merged_mode(old: FileMark, here: FileMark, there: FileMark) -> str:
    """Whoever changed the mode decides it; theirs where both did."""
    return here.mode if there.mode == old.mode else there.mode


def merge3(base: str, mine: str, theirs: str) -> str | None:
    """Both changes in one text; None where they touch the same lines."""
    old, left, right = (text.splitlines(keepends=True) for text in (base, mine, theirs))
    if max(map(len, (old, left, right))) > _MOST_LINES:
        return None
    changes = sorted([*_changes(old, left, 0), *_changes(old, right, 1)])
    out: list[str] = []
    at = 0
    for number, (start, end, side, lines) in enumerate(changes):
        if number and changes[number - 1][:2] == (start, end) and changes[number - 1][3] == lines:
            continue  # both made the same change
        if start < at or (number and start <= changes[number - 1][1] and side != changes[number - 1][2]):
            return None
        out += [*old[at:start], *lines]
        at = end
    return "".join([*out, *old[at:]])


def _changes(old: list[str], new: list[str], side: int) -> Iterator[tuple[int, int, int, list[str]]]:
    for tag, start, end, first, last in _compared(old, new).get_opcodes():
        if tag != "equal":
            yield start, end, side, new[first:last]


def diff(path: str, before: str, after: str) -> list[str]:
    """The lines of a difference, as `diff -u` writes them."""
    old, new = before.splitlines(), after.splitlines()
    out: list[str] = []
    for group in _compared(old, new).get_grouped_opcodes(_AROUND):
        (_, start, _, first, _), (_, _, end, _, last) = group[0], group[-1]
        out.append(f"@@ -{_range(start, end)} +{_range(first, last)} @@")
        for tag, start, end, first, last in group:
            if tag == "equal":
                out += [f" {line}" for line in old[start:end]]
            else:
                out += [f"-{line}" for line in old[start:end]]
                out += [f"+{line}" for line in new[first:last]]
    names = f"a/{path}" if before else "/dev/null", f"b/{path}" if after else "/dev/null"
    return [f"--- {names[0]}", f"+++ {names[1]}", *out] if out else []


def _range(start: int, end: int) -> str:
    if end - start == 1:
        return str(start + 1)
    return f"{start + (end > start)},{end - start}"


def _compared(old: Sequence[str], new: Sequence[str]) -> SequenceMatcher[str]:
    if len(old) * len(new) <= _FEW:
        return SequenceMatcher(None, old, new, autojunk=False)
    return _Anchored(old, new)


class _Anchored(SequenceMatcher[str]):
    """Compares long texts in about the time it takes to read them: by the lines that each has once, and what is alike
    next to those."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(autojunk=False)
        self.old, self.new = old, new

    def get_matching_blocks(self) -> list[Match]:
        old, new = self.old, self.new
        found: list[Match] = []
        left = right = 0
        for at, there in [*_anchors(old, new), (len(old), len(new))]:
            ahead = back = 0
            while left + ahead < at and right + ahead < there and old[left + ahead] == new[right + ahead]:
                ahead += 1
            most = min(at - left, there - right) - ahead
            while back < most and old[at - back - 1] == new[there - back - 1]:
                back += 1
            for one in (Match(left, right, ahead), Match(at - back, there - back, back)):
                last = found[-1] if found else one
                if one is not last and last.a + last.size == one.a and last.b + last.size == one.b:
                    found[-1] = last._replace(size=last.size + one.size)
                elif one.size:
                    found.append(one)
            left, right = at, there
        return [*found, Match(len(old), len(new), 0)]


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The places of lines that both texts have once: the most of them that come in the same order."""
    once = {line for line, count in Counter(old).items() if count == 1}
    once &= {line for line, count in Counter(new).items() if count == 1}
    places = {line: place for place, line in enumerate(new) if line in once}
    pairs = [(place, places[line]) for place, line in enumerate(old) if line in once]
    ends: list[int] = []  # for each length, the least place at which a run of that length ends
    holders: list[int] = []
    before: list[int] = []
    for number, (_, there) in enumerate(pairs):
        length = bisect_left(ends, there)
        before.append(holders[length - 1] if length else -1)
        ends[length : length + 1], holders[length : length + 1] = [there], [number]
    run: list[tuple[int, int]] = []
    number = holders[-1] if holders else -1
    while number >= 0:
        run.append(pairs[number])
        number = before[number]
    return run[::-1]

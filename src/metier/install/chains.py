"""Patterns with several gaps, searched in time that grows with the text and no faster.

`get .{0,120} http .{0,200} follow .{0,80} instruction` as one regular expression tries every way to divide the gaps
among its parts: the product of their lengths for each place of a line that was written for it.  Here each part is found
once, and each place of it looks for the nearest place of the part before.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple, Protocol


class ChainMatch(NamedTuple):
    first: int
    last: int

    def start(self) -> int:
        return self.first


class FoundPattern(Protocol):
    """What is left to ask of a match: where it begins."""

    def start(self) -> int: ...


class SearchPattern(Protocol):
    """A regular expression, or several of them in a chain."""

    def search(self, string: str, /) -> FoundPattern | None: ...


class PatternChain:
    """Parts that follow each other on a line, each at most so many characters behind the one before."""

    def __init__(self, first: str, *rest: tuple[int, str]) -> None:
        self.first = re.compile(first, re.IGNORECASE)
        self.rest = tuple((gap, re.compile(part, re.IGNORECASE)) for gap, part in rest)

    def search(self, string: str, /) -> ChainMatch | None:
        reached = [ChainMatch(*match.span()) for match in self.first.finditer(string)]
        for gap, part in self.rest:
            if not reached:
                return None
            ends = [match.last for match in reached]
            further = []
            for match in part.finditer(string):
                # The nearest one is enough: whatever could follow a farther one can follow it too.
                nearest = bisect_right(ends, match.start()) - 1
                if nearest >= 0 and match.start() - ends[nearest] <= gap:
                    further.append(ChainMatch(reached[nearest].first, match.end()))
            reached = further
        return reached[0] if reached else None


class AnyPattern:
    """The first of several patterns that matches."""

    def __init__(self, *patterns: SearchPattern) -> None:
        self.patterns = patterns

    def search(self, string: str, /) -> FoundPattern | None:
        return next((match for pattern in self.patterns if (match := pattern.search(string)) is not None), None)

"""What runs say: how sure one may be of a share, and of a difference.

A case counts once, however often it was run: runs of one case are alike, and it is new cases that a skill will meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import Literal, NamedTuple, TypeAlias

from ..types.evals import Arm, Sample

Z = 1.959964
"""For intervals of 95 %."""
MARGIN = 0.15
"""A difference that is surely smaller than this is none."""
Verdict: TypeAlias = Literal["better", "worse", "same", "underpowered"]


class Interval(NamedTuple):
    """A figure, and where it may lie."""

    mean: float
    low: float
    high: float
    cases: int


class Spread(NamedTuple):
    """Figures of many runs."""

    mean: float
    stddev: float
    least: float
    most: float


class Comparison(NamedTuple):
    """One arm against another, case by case."""

    delta: float
    """What is gained, as the cases show it."""
    low: float
    high: float
    cases: int
    verdict: Verdict
    lost: tuple[str, ...] = ()
    """Cases that always passed before and never do now."""
    gained: tuple[str, ...] = ()
    needed: int = 0
    """About so many cases would be needed for a verdict, if things stay as they are."""


def wilson(share: float, count: int) -> Interval:
    """The interval of a share: it is never narrower than the number of cases allows."""
    if count <= 0:
        return Interval(0.0, 0.0, 1.0, 0)
    square = Z * Z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = Z * sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half), count)


def spread(values: Sequence[float]) -> Spread:
    """Mean, sample deviation and bounds; one value deviates by nothing."""
    if not values:
        return Spread(0.0, 0.0, 0.0, 0.0)
    mean = sum(values) / len(values)
    among = sum((one - mean) ** 2 for one in values)
    return Spread(mean, sqrt(among / (len(values) - 1)) if len(values) > 1 else 0.0, min(values), max(values))


def by_case(samples: Iterable[Sample], arm: Arm) -> dict[str, list[float]]:
    """The scores of one arm's runs, case by case; runs in which nothing was decided are left out."""
    found: dict[str, list[float]] = {}
    for one in samples:
        if one.arm == arm and one.score is not None:
            found.setdefault(one.case, []).append(one.score)
    return found


def passed(samples: Iterable[Sample], arm: Arm) -> Interval:
    """The share of checks that an arm passes, each case counting once."""
    means = [sum(scores) / len(scores) for scores in by_case(samples, arm).values()]
    return wilson(sum(means) / len(means), len(means)) if means else wilson(0.0, 0)


def compared(before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]) -> Comparison:
    """Two arms on the same cases.  Two imaginary cases are added, one gained and one lost: few cases prove little."""
    shared = [case for case in before if before[case] and after.get(case)]
    gains = [_mean(after[case]) - _mean(before[case]) for case in shared]
    count = len(gains)
    middle, half = _estimate(gains)
    low, high = max(-1.0, middle - half), min(1.0, middle + half)
    return Comparison(
        sum(gains) / count if count else 0.0,
        low,
        high,
        count,
        _verdict(low, high),
        tuple(case for case in shared if min(before[case]) == 1.0 and max(after[case]) < 1.0),
        tuple(case for case in shared if max(before[case]) < 1.0 and min(after[case]) == 1.0),
        0 if _verdict(low, high) != "underpowered" else _needed(gains),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _estimate(gains: Sequence[float]) -> tuple[float, float]:
    """The middle and half the width of the interval of a mean of differences."""
    count = len(gains) + 2
    mean = sum(gains) / count
    square = (sum(one * one for one in gains) + 2) / count
    return mean, Z * sqrt(max(0.0, square - mean * mean) / count)


def _verdict(low: float, high: float) -> Verdict:
    if low > 0:
        return "better"
    if high < 0:
        return "worse"
    return "same" if low >= -MARGIN and high <= MARGIN else "underpowered"


def _needed(gains: Sequence[float]) -> int:
    """How many cases like these would give a verdict; 0 where a thousand would not."""
    for times in range(2, 1 + 1_000 // max(1, len(gains))):
        middle, half = _estimate([*gains] * times)
        if _verdict(middle - half, middle + half) != "underpowered":
            return times * len(gains)
    return 0


def worse(before: Iterable[Sample], after: Iterable[Sample]) -> bool:
    """Whether a change made a skill worse beyond noise; a case that is lost altogether is enough."""
    comparison = compared(by_case(before, "with_skill"), by_case(after, "with_skill"))
    return comparison.verdict == "worse" or bool(comparison.lost)

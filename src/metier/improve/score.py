"""Scores: how certain a pass rate is, and whether the difference between two arms is more than chance.

A case counts once, however often it was run: runs of one case resemble each other, and a skill has to work on new
cases, so more runs of the same ones must not narrow the interval.

A pass rate has a Wilson interval.  The usual mean ± z·s/√n was refused: suites have 3 to 20 cases, where it reaches
beyond 0 and 1, and for a skill that passes all of 3 cases it says 100 % ± 0.  Wilson's stays within bounds, and is wide
when there is little to go by.

Arms are compared pairwise, case by case, because cases differ more from each other than arms do.  Two imaginary cases
are added, one gained and one lost, the same idea as Wilson's for a difference (Agresti and Min): three wins in a row
are no verdict.  Four verdicts rather than a p-value: `better` and `worse` if the interval excludes 0, `same` if it lies
within the margin, else `underpowered`, which says how many cases it would take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import Literal, NamedTuple, TypeAlias

from ..types.improvement import EvalArm, EvalSample

Z = 1.959964
"""For intervals of 95 %."""
MARGIN = 0.15
"""A difference whose interval lies within this counts as none."""
ComparisonVerdict: TypeAlias = Literal["better", "worse", "same", "underpowered"]


class ConfidenceInterval(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float
    cases: int


class SampleSpread(NamedTuple):
    """Mean, deviation and range of many runs."""

    mean: float
    stddev: float
    least: float
    most: float


class ArmComparison(NamedTuple):
    """One arm against another, case by case."""

    delta: float
    """The mean gain, without the imaginary cases."""
    low: float
    high: float
    cases: int
    verdict: ComparisonVerdict
    lost: tuple[str, ...] = ()
    """Cases that always passed before and never do now."""
    gained: tuple[str, ...] = ()
    needed: int = 0
    """About how many cases a verdict would take, if further ones are like these."""


def wilson_interval(share: float, count: int) -> ConfidenceInterval:
    """Wilson's interval of a share."""
    if count <= 0:
        return ConfidenceInterval(0.0, 0.0, 1.0, 0)
    square = Z * Z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = Z * sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
    return ConfidenceInterval(share, max(0.0, middle - half), min(1.0, middle + half), count)


def spread_of_values(values: Sequence[float]) -> SampleSpread:
    """Mean, sample deviation and range; the deviation of one value is 0."""
    if not values:
        return SampleSpread(0.0, 0.0, 0.0, 0.0)
    mean = sum(values) / len(values)
    among = sum((value - mean) ** 2 for value in values)
    return SampleSpread(mean, sqrt(among / (len(values) - 1)) if len(values) > 1 else 0.0, min(values), max(values))


def scores_by_case(samples: Iterable[EvalSample], arm: EvalArm) -> dict[str, list[float]]:
    """The scores of an arm's runs, by case; runs in which nothing was decided are left out."""
    scores: dict[str, list[float]] = {}
    for sample in samples:
        if sample.arm == arm and sample.score is not None:
            scores.setdefault(sample.case, []).append(sample.score)
    return scores


def pass_rate(samples: Iterable[EvalSample], arm: EvalArm) -> ConfidenceInterval:
    """The share of checks that an arm passes, each case counting once."""
    means = [sum(scores) / len(scores) for scores in scores_by_case(samples, arm).values()]
    return wilson_interval(sum(means) / len(means), len(means)) if means else wilson_interval(0.0, 0)


def compare_arms(before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]) -> ArmComparison:
    """Compare two arms on the cases that both have."""
    shared = [case for case in before if before[case] and after.get(case)]
    gains = [_mean(after[case]) - _mean(before[case]) for case in shared]
    count = len(gains)
    middle, half = _interval_estimate(gains)
    low, high = max(-1.0, middle - half), min(1.0, middle + half)
    return ArmComparison(
        sum(gains) / count if count else 0.0,
        low,
        high,
        count,
        _interval_verdict(low, high),
        tuple(case for case in shared if min(before[case]) == 1.0 and max(after[case]) < 1.0),
        tuple(case for case in shared if max(before[case]) < 1.0 and min(after[case]) == 1.0),
        0 if _interval_verdict(low, high) != "underpowered" else _cases_needed(gains),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _interval_estimate(gains: Sequence[float]) -> tuple[float, float]:
    """The middle and half the width of the interval of the mean gain, with the two imaginary cases."""
    count = len(gains) + 2
    mean = sum(gains) / count
    # +1 and -1: they cancel in the mean, not here.
    square = (sum(gain * gain for gain in gains) + 2) / count
    return mean, Z * sqrt(max(0.0, square - mean * mean) / count)


def _interval_verdict(low: float, high: float) -> ComparisonVerdict:
    if low > 0:
        return "better"
    if high < 0:
        return "worse"
    return "same" if low >= -MARGIN and high <= MARGIN else "underpowered"


def _cases_needed(gains: Sequence[float]) -> int:
    """How many cases like these would give a verdict; 0 if a thousand would not."""
    for times in range(2, 1 + 1_000 // max(1, len(gains))):
        middle, half = _interval_estimate([*gains] * times)
        if _interval_verdict(middle - half, middle + half) != "underpowered":
            return times * len(gains)
    return 0


def is_worse(before: Iterable[EvalSample], after: Iterable[EvalSample]) -> bool:
    """Whether a change made a skill worse; losing one case altogether is enough."""
    comparison = compare_arms(scores_by_case(before, "with_skill"), scores_by_case(after, "with_skill"))
    return comparison.verdict == "worse" or bool(comparison.lost)

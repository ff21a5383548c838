"""Prove: what a skill's own evals say of a change to it.  Few of them can refuse a change, and never recommend one."""

from __future__ import annotations

from ..types.dialect import Improving
from ..types.proposal import Gate
from .score import Comparison

HELD_OUT = 20
"""So many cases can tell a gain from chance."""


def weighed(comparison: Comparison | None, cases: int, mode: Improving) -> Gate:
    """Worse beyond noise is a no.  Without enough cases nobody can say better: outside `auto` a person decides."""
    if comparison is None:
        return _unproven("it has no evals", mode)
    told = f"{comparison.delta:+.0%} over {comparison.cases} evals ({comparison.low:+.0%} to {comparison.high:+.0%})"
    if comparison.verdict == "worse" or comparison.lost:
        lost = f"; lost: {', '.join(comparison.lost[:3])}" if comparison.lost else ""
        return Gate("evals", "no", f"worse: {told}{lost}")
    if not comparison.cases:
        return _unproven("none of its evals could be judged", mode)
    if cases < HELD_OUT:
        return _unproven(f"{told}; {HELD_OUT} evals would tell a gain from chance", mode)
    return Gate("evals", "yes", told) if comparison.delta > 0 else Gate("evals", "no", f"no gain: {told}")


def _unproven(words: str, mode: Improving) -> Gate:
    return Gate("evals", "yes" if mode == "auto" else "person", words)


def confirmed(first: Gate, again: Comparison) -> Gate:
    """A gain that does not show again was chance."""
    if again.delta < 0 or again.lost or again.verdict == "worse":
        return Gate("evals", "no", f"{first.words}, and {again.delta:+.0%} when it was tried again")
    return Gate("evals", "yes", f"{first.words}, and {again.delta:+.0%} when it was tried again")

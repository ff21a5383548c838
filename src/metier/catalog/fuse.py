"""Several rankings as one, by reciprocal rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..types.search import Ranked

_SOFTENING = 60


def fused(rankings: Mapping[str, Sequence[Ranked]], weights: Mapping[str, float]) -> list[Ranked]:
    """Each path once: what it is worth is the sum of weight / (60 + rank) over the rankings that have it.

    What is known of a path besides comes from the first ranking that has it.
    """
    worth: dict[str, float] = {}
    known: dict[str, Ranked] = {}
    for engine, ranking in rankings.items():
        for rank, one in enumerate(ranking, 1):
            worth[one.path] = worth.get(one.path, 0.0) + weights.get(engine, 1.0) / (_SOFTENING + rank)
            known.setdefault(one.path, one)
    best = sorted(worth, key=lambda path: (-worth[path], path))
    return [known[path]._replace(score=worth[path]) for path in best]


def ranks(rankings: Mapping[str, Sequence[Ranked]]) -> dict[str, dict[str, int]]:
    """The rank of every path in each ranking that has it, 1 being the best."""
    found: dict[str, dict[str, int]] = {}
    for engine, ranking in rankings.items():
        for rank, one in enumerate(ranking, 1):
            found.setdefault(one.path, {})[engine] = rank
    return found

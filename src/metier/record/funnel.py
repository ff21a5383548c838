"""The funnel: what was shown, at which rank, what was activated and used, and how other rankers would have done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..types.activation import By
from ..types.event import Activated, Ended, Event, Heard, Started, Suggested, Used

DEPTHS = (1, 3, 10, 25, 50)


class Turn(NamedTuple):
    """One turn of a conversation, as far as choosing a skill goes.  Skills are named by the paths of their files.

    A turn in which more than one skill was activated counts once for each.
    """

    shown: Mapping[str, int] = {}
    """The rank at which each skill stood in the ranked block; 0 for the stable block."""
    would: Mapping[str, Sequence[str]] = {}
    """What each engine would have shown, best first; the live one is among them."""
    activated: str = ""
    by: By = "model"
    used: bool = False
    """Whether anything was done with it; if not, it was abandoned."""
    outcome: str = ""
    listed: bool = False
    """Whether the catalog listed anything."""


class Funnel(NamedTuple):
    turns: int
    shown: int
    """Turns in which something was shown: in the catalog, or suggested for the request."""
    activated: int
    by: Mapping[str, int]
    ranks: Mapping[int, int]
    """How often a skill was activated from each rank; -1 is one that was not shown."""
    used: int
    abandoned: int
    finished: int
    recall: Mapping[str, Mapping[int, float]]
    """For each engine: the share of activated skills among its first 1, 3, 10, 25 and 50."""


def funnel(turns: Iterable[Turn]) -> Funnel:
    """All turns in figures."""
    every = list(turns)
    chosen = [turn for turn in every if turn.activated]
    used = [turn for turn in chosen if turn.used]
    return Funnel(
        turns=len(every),
        shown=sum(bool(turn.shown) or turn.listed for turn in every),
        activated=len(chosen),
        by=Counter(turn.by for turn in chosen),
        ranks=Counter(turn.shown.get(turn.activated, -1) for turn in chosen),
        used=len(used),
        abandoned=len(chosen) - len(used),
        finished=sum(turn.outcome == "finished" for turn in used),
        recall={engine: _recall(chosen, engine) for engine in _engines(chosen)},
    )


def _engines(turns: Iterable[Turn]) -> list[str]:
    return list(dict.fromkeys(engine for turn in turns for engine in turn.would))


def _recall(turns: Sequence[Turn], engine: str) -> dict[int, float]:
    """Only turns in which the engine was asked count, and only skills that the model chose: a person needs no rank."""
    asked = [turn for turn in turns if engine in turn.would and turn.by == "model"]
    return {
        depth: sum(turn.activated in turn.would[engine][:depth] for turn in asked) / len(asked) if asked else 0.0
        for depth in DEPTHS
    }


@dataclass
class _Going:
    """A turn while it is read."""

    listed: frozenset[str]
    suggested: Suggested = field(default_factory=Suggested)
    chosen: list[Activated] = field(default_factory=list)
    used: list[bool] = field(default_factory=list)
    outcome: str = "cut off"

    def turns(self) -> list[Turn]:
        ranks = {path: at for at, path in enumerate(self.suggested.shown, 1)}
        would = self.suggested.would
        if not self.chosen:
            return [Turn(ranks, would, outcome=self.outcome, listed=bool(self.listed))]
        if self.outcome == "finished":
            self.used[-1] = True
        return [
            Turn(
                ranks if one.path in ranks or one.skill not in self.listed else {**ranks, one.path: 0},
                would, one.path, one.by, used, self.outcome, bool(self.listed),
            )
            for one, used in zip(self.chosen, self.used, strict=True)
        ]  # fmt: skip


def turns_of(events: Iterable[Event]) -> list[Turn]:
    """The turns of a run.  A skill was used if a tool was called after it, or if the turn came to its end with it."""
    found: list[Turn] = []
    listed: frozenset[str] = frozenset()
    going: _Going | None = None
    for event in events:
        match event:
            case Started(skills=skills):
                listed = frozenset(skills)
            case Heard():
                found += going.turns() if going else ()
                going = _Going(listed)
            case Suggested() if going:
                going.suggested = event
            case Activated() if going:
                going.chosen.append(event)
                going.used.append(False)
            case Used() if going and going.chosen:
                going.used[-1] = True
            case Ended(outcome=outcome) if going:
                going.outcome = outcome
    return found + (going.turns() if going else [])

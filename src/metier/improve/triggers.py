"""Trying a description: is the skill chosen for what it is for, and left alone otherwise?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..types.evals import Queue, Trigger
from .score import Interval, wilson

Choose: TypeAlias = Callable[[str], str]
"""The skill that is chosen for a prompt; empty for none."""
THRESHOLD = 0.5
"""A prompt counts as chosen when it is in at least this share of its runs."""
ENOUGH = 8
"""Prompts of each kind that a verdict needs."""


class Tried(NamedTuple):
    """One prompt, and what was chosen for it each time."""

    query: str
    should: bool
    chosen: tuple[str, ...]
    skill: str

    @property
    def triggers(self) -> int:
        return sum(one == self.skill for one in self.chosen)

    @property
    def rate(self) -> float:
        return self.triggers / len(self.chosen) if self.chosen else 0.0

    @property
    def passed(self) -> bool:
        return (self.rate >= THRESHOLD) == self.should

    @property
    def instead(self) -> tuple[str, ...]:
        """What was chosen in its place."""
        return tuple(dict.fromkeys(one for one in self.chosen if one and one != self.skill))


class Triggering(NamedTuple):
    """All prompts of a skill, tried."""

    skill: str
    description: str
    tier: str
    """Who chose: `ranker`, or the name of a model."""
    tried: tuple[Tried, ...]

    def share(self, should: bool) -> Interval:
        """The share that went right, of the prompts that should trigger, or of those that should not."""
        kind = [one for one in self.tried if one.should == should]
        return wilson(sum(one.passed for one in kind) / len(kind), len(kind)) if kind else wilson(0.0, 0)

    @property
    def underpowered(self) -> str:
        """Why there is no verdict; empty where there is one."""
        few = [(name, self.share(should).cases) for name, should in (("should", True), ("should not", False))]
        short = [f"{count} that {name} trigger" for name, count in few if count < ENOUGH]
        return f"only {' and '.join(short)}; {ENOUGH} of each are needed" if short else ""

    @property
    def verdict(self) -> str:
        if self.underpowered:
            return "underpowered"
        if min(self.share(True).mean, self.share(False).mean) >= THRESHOLD:
            return "good" if all(one.passed for one in self.tried) else "fair"
        return "poor"


def tried(triggers: Sequence[Trigger], skill: str, choose: Choose, queue: Queue, runs: int = 1) -> tuple[Tried, ...]:
    """Every prompt so many times, in the order they were given."""
    wanted = [(at, number) for number in range(runs) for at in range(len(triggers))]
    chosen: dict[int, list[str]] = {at: [] for at in range(len(triggers))}
    for (at, _), found in queue.each(lambda one: choose(triggers[one[0]].query), wanted):
        chosen[at].append(found)
    return tuple(Tried(one.query, one.should, tuple(chosen[at]), skill) for at, one in enumerate(triggers))


def document(found: Triggering) -> dict[str, Any]:
    """The results as other tools for skills write them, and how sure one may be."""
    passed = sum(one.passed for one in found.tried)
    return {
        "skill_name": found.skill,
        "description": found.description,
        "tier": found.tier,
        "results": [
            {
                "query": one.query,
                "should_trigger": one.should,
                "trigger_rate": round(one.rate, 4),
                "triggers": one.triggers,
                "runs": len(one.chosen),
                "pass": one.passed,
                "instead": list(one.instead),
            }
            for one in found.tried
        ],
        "summary": {"total": len(found.tried), "passed": passed, "failed": len(found.tried) - passed},
        "intervals": {"should_trigger": _plain(found.share(True)), "should_not_trigger": _plain(found.share(False))},
        "verdict": found.verdict,
        "underpowered": found.underpowered,
    }


def _plain(one: Interval) -> dict[str, float | int]:
    return {"rate": round(one.mean, 4), "low": round(one.low, 4), "high": round(one.high, 4), "prompts": one.cases}

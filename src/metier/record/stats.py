"""What the journals say of each skill: how often it was offered, activated and of use, and what is odd about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from ..types.activation import By
from ..types.event import Activated, Ended, Event, Heard, Offered, Outcome, Started, Suggested, Used
from ..types.usage import NOTHING_USED, Usage
from .trace import Trace

Oddity: TypeAlias = Literal["", "dead", "stuck", "over-firing"]
"""Offered again and again and never used; mostly failing; activated where nothing is done with it, or everywhere."""

_DEAD = 10
"""Turns in which a skill was offered, before its silence says something."""
_STUCK = 3
"""Failed turns, before they do."""
_FIRING = 5
"""Activations by the model, before they do."""
_BAD: frozenset[Outcome] = frozenset(
    {"failed", "refused", "out-of-turns", "out-of-tokens", "out-of-time", "over-cost", "repeating"}
)
"""Endings that count against a skill; that a person stopped, or a machine, does not."""
_ACTIVATING = frozenset({"skill_use", "run_skill"})


class Played(NamedTuple):
    """One turn of a run."""

    offered: frozenset[str]
    events: tuple[Event, ...]

    @property
    def ended(self) -> Ended | None:
        return next((one for one in reversed(self.events) if isinstance(one, Ended)), None)

    @property
    def activations(self) -> Iterator[tuple[Activated, bool]]:
        """Each skill that became part of the conversation, and whether a tool was called after it."""
        for at, one in enumerate(self.events):
            if isinstance(one, Activated):
                after = self.events[at + 1 :]
                yield one, any(isinstance(two, Used) and two.call.name not in _ACTIVATING for two in after)


def played(trace: Trace) -> Iterator[Played]:
    """The turns of a run, each with what was offered in it, if only for a while."""
    now: set[str] = set()
    offered: set[str] = set()
    heard: Heard | None = None
    events: list[Event] = []
    for event in trace.events:
        if isinstance(event, Started):
            now |= set(event.skills)
        elif isinstance(event, Offered):
            offered |= set(event.added)
            now = (now | set(event.added)) - set(event.removed)
        elif isinstance(event, Suggested):
            offered |= {path.split("/")[-2] for path in event.shown}
        elif isinstance(event, Heard):
            if heard is not None:
                yield Played(frozenset(offered), tuple(events))
            heard, events, offered = event, [], set(now)
        events.append(event)
    if heard is not None:
        yield Played(frozenset(offered), tuple(events))


@dataclass
class _Tally:
    offered: int = 0
    by: dict[By, int] = field(default_factory=dict)
    succeeded: int = 0
    failed: int = 0
    abandoned: int = 0
    calls: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    usage: Usage = NOTHING_USED
    seconds: float = 0.0
    last: float = 0.0


class SkillStats(NamedTuple):
    name: str
    offered: int
    """Turns in which the model was told of it."""
    activated: int
    by: dict[By, int]
    succeeded: int
    """Turns with it that finished."""
    failed: int
    """Turns with it that ended badly."""
    abandoned: int
    """Activations by the model after which no tool was called."""
    calls: int
    """Calls of tools that belonged to it: its scripts and files."""
    failures: dict[str, int]
    """How many of them failed, by reason."""
    tokens: int
    """Of the turns with it."""
    cost: float | None
    seconds: float
    last: float
    """When it was last activated, in seconds since 1970; 0 for never."""
    oddity: Oddity = ""


def stats_of(traces: Iterable[Trace]) -> tuple[SkillStats, ...]:
    """Every skill that was offered or activated, the most used first."""
    tallies: dict[str, _Tally] = {}
    for trace in traces:
        for turn in played(trace):
            for name in turn.offered:
                tallies.setdefault(name, _Tally()).offered += 1
            _count(tallies, turn, trace.at)
    found = [_stats(name, tally) for name, tally in tallies.items()]
    return tuple(sorted(found, key=lambda one: (-one.activated, -one.offered, one.name)))


def _count(tallies: dict[str, _Tally], turn: Played, at: float) -> None:
    ended = turn.ended
    used: dict[str, bool] = {}
    for activated, touched in turn.activations:
        tally = tallies.setdefault(activated.skill, _Tally())
        tally.by[activated.by] = tally.by.get(activated.by, 0) + 1
        tally.abandoned += activated.by == "model" and not touched
        tally.last = max(tally.last, at)
        used[activated.skill] = True
    for name in used:
        tally = tallies[name]
        if ended is not None:
            tally.succeeded += ended.outcome == "finished"
            tally.failed += ended.outcome in _BAD
            tally.usage += ended.usage
            tally.seconds += ended.seconds
    for event in turn.events:
        if isinstance(event, Used) and event.skill and event.call.name not in _ACTIVATING:
            tally = tallies.setdefault(event.skill, _Tally())
            tally.calls += 1
            if event.failed:
                reason = event.reason or "failed"
                tally.failures[reason] = tally.failures.get(reason, 0) + 1


def _stats(name: str, tally: _Tally) -> SkillStats:
    found = SkillStats(
        name, tally.offered, sum(tally.by.values()), dict(sorted(tally.by.items())), tally.succeeded, tally.failed,
        tally.abandoned, tally.calls, dict(sorted(tally.failures.items())), tally.usage.tokens, tally.usage.cost,
        round(tally.seconds, 3), tally.last,
    )  # fmt: skip
    return found._replace(oddity=_oddity(found))


def _oddity(one: SkillStats) -> Oddity:
    by_model = one.by.get("model", 0)
    if not one.activated:
        return "dead" if one.offered >= _DEAD else ""
    if one.failed >= _STUCK and one.failed >= one.succeeded:
        return "stuck"
    if by_model >= _FIRING and (one.abandoned * 2 > by_model or (one.offered >= _DEAD and by_model * 2 > one.offered)):
        return "over-firing"
    return ""

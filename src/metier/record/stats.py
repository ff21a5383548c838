"""What the journals say of each skill: how often it was offered, activated and of use, and what is odd about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from json import loads
from typing import Literal, NamedTuple, TypeAlias

from ..host import fs
from ..types.activation import InvokedBy
from ..types.event import (
    NOTHING_USED,
    Activated,
    Ended,
    Event,
    Heard,
    Offered,
    Started,
    Suggested,
    TurnOutcome,
    Usage,
    Used,
)
from .journal import run_ids, runs_folder
from .trace import Trace

DEPTHS = (1, 3, 10, 25, 50)


class FunnelTurn(NamedTuple):
    """One turn of a conversation, as far as choosing a skill goes.  Skills are named by the paths of their files.

    A turn in which more than one skill was activated counts once for each.
    """

    shown: Mapping[str, int] = {}
    """The rank at which each skill stood in the ranked block; 0 for the stable block."""
    would: Mapping[str, Sequence[str]] = {}
    """What each engine would have shown, best first; the live one is among them."""
    activated: str = ""
    by: InvokedBy = "model"
    used: bool = False
    """Whether anything was done with it; if not, it was abandoned."""
    outcome: str = ""
    listed: bool = False
    """Whether the catalog listed anything."""


class ActivationFunnel(NamedTuple):
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


def build_funnel(turns: Iterable[FunnelTurn]) -> ActivationFunnel:
    """All turns in figures."""
    every = list(turns)
    chosen = [turn for turn in every if turn.activated]
    used = [turn for turn in chosen if turn.used]
    return ActivationFunnel(
        turns=len(every),
        shown=sum(bool(turn.shown) or turn.listed for turn in every),
        activated=len(chosen),
        by=Counter(turn.by for turn in chosen),
        ranks=Counter(turn.shown.get(turn.activated, -1) for turn in chosen),
        used=len(used),
        abandoned=len(chosen) - len(used),
        finished=sum(turn.outcome == "finished" for turn in used),
        recall={engine: _recall_at_depths(chosen, engine) for engine in _engine_names(chosen)},
    )


def _engine_names(turns: Iterable[FunnelTurn]) -> list[str]:
    return list(dict.fromkeys(engine for turn in turns for engine in turn.would))


def _recall_at_depths(turns: Sequence[FunnelTurn], engine: str) -> dict[int, float]:
    """Only turns in which the engine was asked count, and only skills that the model chose: a person needs no rank."""
    ranked = [turn for turn in turns if engine in turn.would and turn.by == "model"]
    return {
        depth: sum(turn.activated in turn.would[engine][:depth] for turn in ranked) / len(ranked) if ranked else 0.0
        for depth in DEPTHS
    }


@dataclass
class _OpenTurn:
    """A turn while it is read."""

    listed: frozenset[str]
    suggested: Suggested = field(default_factory=Suggested)
    chosen: list[Activated] = field(default_factory=list)
    used: list[bool] = field(default_factory=list)
    outcome: str = "cut off"

    def turns(self) -> list[FunnelTurn]:
        ranks = {path: at for at, path in enumerate(self.suggested.shown, 1)}
        would = self.suggested.would
        if not self.chosen:
            return [FunnelTurn(ranks, would, outcome=self.outcome, listed=bool(self.listed))]
        if self.outcome == "finished":
            self.used[-1] = True
        return [
            FunnelTurn(
                ranks
                if activated.path in ranks or activated.skill not in self.listed
                else {**ranks, activated.path: 0},
                would,
                activated.path,
                activated.by,
                used,
                self.outcome,
                bool(self.listed),
            )
            for activated, used in zip(self.chosen, self.used, strict=True)
        ]


def read_turns(events: Iterable[Event]) -> list[FunnelTurn]:
    """The turns of a run.  A skill was used if a tool was called after it, or if the turn came to its end with it."""
    turns: list[FunnelTurn] = []
    listed: frozenset[str] = frozenset()
    open_turn: _OpenTurn | None = None
    for event in events:
        match event:
            case Started(skills=skills):
                listed = frozenset(skills)
            case Heard():
                turns += open_turn.turns() if open_turn else ()
                open_turn = _OpenTurn(listed)
            case Suggested() if open_turn:
                open_turn.suggested = event
            case Activated() if open_turn:
                open_turn.chosen.append(event)
                open_turn.used.append(False)
            case Used() if open_turn and open_turn.chosen:
                open_turn.used[-1] = True
            case Ended(outcome=outcome) if open_turn:
                open_turn.outcome = outcome
    return turns + (open_turn.turns() if open_turn else [])


Oddity: TypeAlias = Literal["", "dead", "stuck", "over-firing"]
"""Offered again and again and never used; mostly failing; activated where nothing is done with it, or everywhere."""

_DEAD_AFTER = 10
"""Turns in which a skill was offered, before its silence says something."""
_STUCK_AFTER = 3
"""Failed turns, before they do."""
_FIRING_AFTER = 5
"""Activations by the model, before they do."""
_BAD_OUTCOMES: frozenset[TurnOutcome] = frozenset(
    {"failed", "refused", "out-of-turns", "out-of-tokens", "out-of-time", "over-cost", "repeating"}
)
"""Endings that count against a skill; that a person stopped, or a machine, does not."""
_ACTIVATING_TOOLS = frozenset({"skill_use", "run_skill"})


class PlayedTurn(NamedTuple):
    """One turn of a run."""

    offered: frozenset[str]
    events: tuple[Event, ...]

    @property
    def ended(self) -> Ended | None:
        return next((event for event in reversed(self.events) if isinstance(event, Ended)), None)

    @property
    def activations(self) -> Iterator[tuple[Activated, bool]]:
        """Each skill that became part of the conversation, and whether a tool was called after it."""
        for at, event in enumerate(self.events):
            if isinstance(event, Activated):
                after = self.events[at + 1 :]
                yield (
                    event,
                    any(isinstance(later, Used) and later.call.name not in _ACTIVATING_TOOLS for later in after),
                )


def split_turns(trace: Trace) -> Iterator[PlayedTurn]:
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
                yield PlayedTurn(frozenset(offered), tuple(events))
            heard, events, offered = event, [], set(now)
        events.append(event)
    if heard is not None:
        yield PlayedTurn(frozenset(offered), tuple(events))


@dataclass
class _SkillTally:
    offered: int = 0
    by: dict[InvokedBy, int] = field(default_factory=dict)
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
    by: dict[InvokedBy, int]
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


def collect_stats(traces: Iterable[Trace]) -> tuple[SkillStats, ...]:
    """Every skill that was offered or activated, the most used first."""
    tallies: dict[str, _SkillTally] = {}
    for trace in traces:
        for turn in split_turns(trace):
            for name in turn.offered:
                tallies.setdefault(name, _SkillTally()).offered += 1
            _count_turn(tallies, turn, trace.at)
    stats = [_skill_stats(name, tally) for name, tally in tallies.items()]
    return tuple(sorted(stats, key=lambda row: (-row.activated, -row.offered, row.name)))


def _count_turn(tallies: dict[str, _SkillTally], turn: PlayedTurn, at: float) -> None:
    ended = turn.ended
    used: dict[str, bool] = {}
    for activated, touched in turn.activations:
        tally = tallies.setdefault(activated.skill, _SkillTally())
        tally.by[activated.by] = tally.by.get(activated.by, 0) + 1
        tally.abandoned += activated.by == "model" and not touched
        tally.last = max(tally.last, at)
        used[activated.skill] = True
    for name in used:
        tally = tallies[name]
        if ended is not None:
            tally.succeeded += ended.outcome == "finished"
            tally.failed += ended.outcome in _BAD_OUTCOMES
            tally.usage += ended.usage
            tally.seconds += ended.seconds
    for event in turn.events:
        if isinstance(event, Used) and event.skill and event.call.name not in _ACTIVATING_TOOLS:
            tally = tallies.setdefault(event.skill, _SkillTally())
            tally.calls += 1
            if event.failed:
                reason = event.reason or "failed"
                tally.failures[reason] = tally.failures.get(reason, 0) + 1


def _skill_stats(name: str, tally: _SkillTally) -> SkillStats:
    stats = SkillStats(
        name,
        tally.offered,
        sum(tally.by.values()),
        dict(sorted(tally.by.items())),
        tally.succeeded,
        tally.failed,
        tally.abandoned,
        tally.calls,
        dict(sorted(tally.failures.items())),
        tally.usage.tokens,
        tally.usage.cost,
        round(tally.seconds, 3),
        tally.last,
    )
    return stats._replace(oddity=_find_oddity(stats))


def _find_oddity(stats: SkillStats) -> Oddity:
    by_model = stats.by.get("model", 0)
    if not stats.activated:
        return "dead" if stats.offered >= _DEAD_AFTER else ""
    if stats.failed >= _STUCK_AFTER and stats.failed >= stats.succeeded:
        return "stuck"
    if by_model >= _FIRING_AFTER and (
        stats.abandoned * 2 > by_model or (stats.offered >= _DEAD_AFTER and by_model * 2 > stats.offered)
    ):
        return "over-firing"
    return ""


RECENT_RUNS = 200
"""So many are looked at: what was used long ago is no habit any more."""
_ACTIVATED_MARK = '"event":"activated"'


def count_uses(state: str, among: Collection[str]) -> dict[str, int]:
    """By path, for these skills.  Lines of other events are not even parsed."""
    counts: Counter[str] = Counter()
    for name in run_ids(state)[-RECENT_RUNS:]:
        for line in fs.read_lines(f"{runs_folder(state)}/{name}.jsonl"):
            if _ACTIVATED_MARK in line:
                try:
                    path = loads(line).get("path")
                except (ValueError, AttributeError):
                    continue
                if isinstance(path, str) and path in among:
                    counts[path] += 1
    return dict(counts)

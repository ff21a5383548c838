"""Counts over journals: the funnel from listing to use, figures for each skill, and habits.

All three read the same events and differ in what they count.  The funnel counts turns by what was shown and what was
activated from it, and is for judging rankings.  The figures count by skill, and point out skills that are never used,
mostly fail, or fire too often.  Habits are only how often a skill was activated lately, and are read on every start;
they scan the text of journals for one kind of line and parse nothing else.
"""

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

# --- The funnel ---

DEPTHS = (1, 3, 10, 25, 50)
"""The ranks at which recall is measured."""


class FunnelTurn(NamedTuple):
    """One turn of a conversation, for the choice of a skill.  Skills are named by the paths of their files.

    A turn that activated several skills counts once for each.
    """

    shown: Mapping[str, int] = {}
    """The rank of each skill in the ranked block; 0 for the stable block."""
    would: Mapping[str, Sequence[str]] = {}
    """What each engine would have shown, best first; the live one is included."""
    activated: str = ""
    by: InvokedBy = "model"
    used: bool = False
    """Whether something was done with it; if not, it was abandoned."""
    outcome: str = ""
    listed: bool = False
    """Whether the catalog listed anything."""


class ActivationFunnel(NamedTuple):
    """How many turns came how far, from shown to finished."""

    turns: int
    shown: int
    """Turns with anything listed or suggested."""
    activated: int
    by: Mapping[str, int]
    ranks: Mapping[int, int]
    """Activations by rank; -1 is a skill that was not shown."""
    used: int
    abandoned: int
    finished: int
    recall: Mapping[str, Mapping[int, float]]
    """For each engine, the share of activated skills among its first 1, 3, 10, 25 and 50."""


def build_funnel(turns: Iterable[FunnelTurn]) -> ActivationFunnel:
    """Count all turns."""
    all_turns = list(turns)
    chosen = [turn for turn in all_turns if turn.activated]
    used = [turn for turn in chosen if turn.used]
    return ActivationFunnel(
        turns=len(all_turns),
        shown=sum(bool(turn.shown) or turn.listed for turn in all_turns),
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
    """Recall over turns in which the engine was asked and the model chose: a person needs no ranking."""
    ranked = [turn for turn in turns if engine in turn.would and turn.by == "model"]
    return {
        depth: sum(turn.activated in turn.would[engine][:depth] for turn in ranked) / len(ranked) if ranked else 0.0
        for depth in DEPTHS
    }


@dataclass
class _OpenTurn:
    """A turn that is being read."""

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
        if self.outcome == "finished":  # the last skill may need no tool: its instructions were the help
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
    """The turns of a run.  A skill was used if a tool was called after it, or if the turn finished with it."""
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


# --- Figures for each skill ---

Oddity: TypeAlias = Literal["", "dead", "stuck", "over-firing"]
"""Often offered and never used; mostly failing; activated for nothing, or nearly always."""

_DEAD_AFTER = 10
"""Offers before a skill counts as dead."""
_STUCK_AFTER = 3
"""Failed turns before a skill counts as stuck."""
_FIRING_AFTER = 5
"""Activations by the model before a skill counts as over-firing."""
_BAD_OUTCOMES: frozenset[TurnOutcome] = frozenset(
    {"failed", "refused", "out-of-turns", "out-of-tokens", "out-of-time", "over-cost", "repeating"}
)
"""Outcomes that count against a skill; a turn that a person or the machine stopped does not."""
_ACTIVATING_TOOLS = frozenset({"skill_use", "run_skill"})


class PlayedTurn(NamedTuple):
    """One turn of a run."""

    offered: frozenset[str]
    events: tuple[Event, ...]

    @property
    def ended(self) -> Ended | None:
        return next((event for event in reversed(self.events) if isinstance(event, Ended)), None)

    @property
    def left_failed(self) -> bool:
        """Whether the last attempt of any step failed, after a skill was activated: an answer alone is no success."""
        active, last = False, dict[tuple[str, str], bool]()
        for event in self.events:
            active = active or isinstance(event, Activated)
            if active and isinstance(event, Used) and (event.text or event.failed):
                last[_step_of(event)] = event.failed and not _is_answer(event)
        return any(last.values())

    @property
    def activations(self) -> Iterator[tuple[Activated, bool]]:
        """Each activation, and whether a tool was called after it."""
        for at, event in enumerate(self.events):
            if isinstance(event, Activated):
                after = self.events[at + 1 :]
                yield (
                    event,
                    any(isinstance(later, Used) and later.call.name not in _ACTIVATING_TOOLS for later in after),
                )


_ANSWERING_PROGRAMS = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "test", "["})
"""Programs whose status 1 is an answer: no match, files differ."""
_STARTERS = frozenset({"python", "python3", "bash", "sh", "zsh", "node", "ruby", "perl", "sudo", "env", "uv", "npx"})


def _step_of(used: Used) -> tuple[str, str]:
    """What makes two calls attempts of one step: the tool, and the program, script or file that it is about."""
    arguments = used.call.arguments
    if "command" in arguments:
        return used.call.name, _program_of(arguments["command"])
    about = ("script_name", "file_path", "path")
    return used.call.name, str(next((arguments[key] for key in about if key in arguments), ""))


def _program_of(command: object) -> str:
    words = [str(word) for word in command] if isinstance(command, list | tuple) else str(command).split()
    named = [word for word in words if not word.startswith("-") and word.rpartition("/")[2] not in _STARTERS]
    return (named or words or [""])[0].rpartition("/")[2]


def _is_answer(used: Used) -> bool:
    return used.status == 1 and _step_of(used)[1] in _ANSWERING_PROGRAMS


def split_turns(trace: Trace) -> Iterator[PlayedTurn]:
    """The turns of a run, each with every skill that was offered in it, even briefly."""
    listed: set[str] = set()
    offered: set[str] = set()
    heard: Heard | None = None
    events: list[Event] = []
    for event in trace.events:
        if isinstance(event, Started):
            listed |= set(event.skills)
        elif isinstance(event, Offered):
            offered |= set(event.added)
            listed = (listed | set(event.added)) - set(event.removed)
        elif isinstance(event, Suggested):
            offered |= {path.split("/")[-2] for path in event.shown}
        elif isinstance(event, Heard):
            if heard is not None:
                yield PlayedTurn(frozenset(offered), tuple(events))
            heard, events, offered = event, [], set(listed)
        events.append(event)
    if heard is not None:
        yield PlayedTurn(frozenset(offered), tuple(events))


@dataclass
class _SkillTally:
    """The counts of a skill while traces are read."""

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
    """The figures of a skill."""

    name: str
    offered: int
    """Turns in which it was listed or suggested."""
    activated: int
    by: dict[InvokedBy, int]
    succeeded: int
    """Turns with it that finished, and in which the last attempt of every step went well."""
    failed: int
    """Turns with it that ended badly, or left a step failed."""
    abandoned: int
    """Activations by the model after which no tool was called."""
    calls: int
    """Tool calls for its scripts and files."""
    failures: dict[str, int]
    """How many of those failed, by reason."""
    tokens: int
    """Of the turns with it."""
    cost: float | None
    seconds: float
    last: float
    """The last activation, in seconds since 1970; 0 for never."""
    oddity: Oddity = ""


def collect_stats(traces: Iterable[Trace]) -> tuple[SkillStats, ...]:
    """The figures of every skill that was offered or activated, most used first."""
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
    used: dict[str, bool] = {}  # a turn counts once for a skill, however often it was activated
    for activated, touched in turn.activations:
        tally = tallies.setdefault(activated.skill, _SkillTally())
        tally.by[activated.by] = tally.by.get(activated.by, 0) + 1
        tally.abandoned += activated.by == "model" and not touched
        tally.last = max(tally.last, at)
        used[activated.skill] = True
    for name in used:
        tally = tallies[name]
        if ended is not None:
            left = ended.outcome == "finished" and turn.left_failed
            tally.succeeded += ended.outcome == "finished" and not left
            tally.failed += ended.outcome in _BAD_OUTCOMES or left
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
    # Over-firing: abandoned more often than not, or activated in more than half of the turns it was offered in.
    if by_model >= _FIRING_AFTER and (
        stats.abandoned * 2 > by_model or (stats.offered >= _DEAD_AFTER and by_model * 2 > stats.offered)
    ):
        return "over-firing"
    return ""


# --- Habits ---

RECENT_RUNS = 200
"""Runs that are looked at; older ones say little about habits."""
_ACTIVATED_MARK = '"event":"activated"'


def count_uses(state: str, among: Collection[str]) -> dict[str, int]:
    """Recent activations of these skills, by path.  Lines of other events are not parsed."""
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

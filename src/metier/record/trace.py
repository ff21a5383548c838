"""A trace: a run, read back from its journal."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ..host import paths
from ..types.event import (
    NOTHING_USED,
    Activated,
    Compacted,
    Ended,
    Event,
    Heard,
    Offered,
    Replied,
    Started,
    Suggested,
    Usage,
    Used,
)
from .journal import Journal, RecordedEvent, run_ids, runs_folder


@dataclass(frozen=True)
class Trace:
    """A run and its events."""

    run: str
    recorded: tuple[RecordedEvent, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(recorded.event for recorded in self.recorded)

    @cached_property
    def started(self) -> Started:
        return next((event for event in self.events if isinstance(event, Started)), Started(self.run))

    @property
    def at(self) -> float:
        """When it started, in seconds since 1970."""
        return self.recorded[0].at if self.recorded else 0.0

    @property
    def task(self) -> str:
        """The first request."""
        return next((event.text for event in self.events if isinstance(event, Heard)), "")

    @property
    def turns(self) -> int:
        return sum(isinstance(event, Heard) for event in self.events)

    @property
    def skills(self) -> tuple[str, ...]:
        """The skills it used, in order."""
        return tuple(dict.fromkeys(event.skill for event in self.events if isinstance(event, Activated)))

    @property
    def offered(self) -> tuple[str, ...]:
        """The skills that were listed or suggested to the model."""
        later = (name for event in self.events if isinstance(event, Offered) for name in event.added)
        # Suggestions are paths of SKILL.md files; a skill is named by its folder.
        ranked = (path.split("/")[-2] for event in self.events if isinstance(event, Suggested) for path in event.shown)
        return tuple(dict.fromkeys((*self.started.skills, *later, *ranked)))

    @property
    def activations(self) -> tuple[Activated, ...]:
        return tuple(event for event in self.events if isinstance(event, Activated))

    @property
    def failures(self) -> tuple[Used, ...]:
        """The tool calls that failed."""
        return tuple(event for event in self.events if isinstance(event, Used) and event.failed)

    @property
    def ended(self) -> Ended | None:
        """How its last turn ended; None while it runs, or if it was cut off."""
        last = next((event for event in reversed(self.events) if isinstance(event, Ended | Heard)), None)
        return last if isinstance(last, Ended) else None

    @property
    def outcome(self) -> str:
        return self.ended.outcome if self.ended else "cut off"

    @property
    def seconds(self) -> float:
        """The time of all its turns."""
        return round(sum(event.seconds for event in self.events if isinstance(event, Ended)), 3)

    @property
    def tools(self) -> dict[str, int]:
        """How often each tool was called."""
        return dict(Counter(event.call.name for event in self.events if isinstance(event, Used)))

    @property
    def usage(self) -> Usage:
        used = NOTHING_USED
        for event in self.events:
            if isinstance(event, Replied | Compacted):
                used += event.usage
        return used


class TraceFollower:
    """Reads a run that goes on, a turn at a time: what the last turn added, and the end of what was before it.

    To read the whole journal after each turn would make every turn of a conversation dearer than the one before.
    """

    def __init__(self, journal: Journal, most: int = 100) -> None:
        self._journal, self._at = journal, 0
        self._started: tuple[RecordedEvent, ...] = ()
        self._active: dict[str, RecordedEvent] = {}
        """The last activation of each skill: it stays active to the end."""
        self._tools: deque[RecordedEvent] = deque(maxlen=most)

    def follow(self) -> tuple[Trace, Trace]:
        """The events since the last time; and with them how it started, what is active, and the tool calls before."""
        size = paths.size_of(self._journal.path)
        new = tuple(self._journal.read(self._at if self._at <= size else 0))
        self._at = size
        before = (*self._started, *self._active.values(), *self._tools)
        for recorded in new:
            match recorded.event:
                case Started() if not self._started:
                    self._started = (recorded,)
                case Activated(skill=skill):
                    self._active.pop(skill, None)
                    self._active[skill] = recorded
                case Used():
                    self._tools.append(recorded)
        name = run_of(self._journal)
        return Trace(name, new), Trace(name, (*before, *new))


def run_of(journal: Journal) -> str:
    """The name of a journal's run."""
    return journal.path.rpartition("/")[2].removesuffix(".jsonl")


def read_trace(journal: Journal) -> Trace:
    return Trace(run_of(journal), tuple(journal.read()))


def read_traces(state: str) -> Iterator[Trace]:
    """Every run that is kept, newest first."""
    for name in reversed(run_ids(state)):
        yield read_trace(Journal(f"{runs_folder(state)}/{name}.jsonl"))


def failures_of(traces: Iterable[Trace]) -> Iterator[tuple[Trace, Used]]:
    for trace in traces:
        for used in trace.failures:
            yield trace, used

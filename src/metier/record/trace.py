"""A trace: a run, read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ..types.event import Activated, Ended, Event, Heard, Offered, Replied, Started, Suggested, Used
from ..types.usage import NOTHING_USED, Usage
from .journal import Journal, Recorded, folder_of, ids


@dataclass(frozen=True)
class Trace:
    """What a run did."""

    run: str
    recorded: tuple[Recorded, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(one.event for one in self.recorded)

    @cached_property
    def started(self) -> Started:
        return next((one for one in self.events if isinstance(one, Started)), Started(self.run))

    @property
    def at(self) -> float:
        """When it began."""
        return self.recorded[0].at if self.recorded else 0.0

    @property
    def task(self) -> str:
        """What was asked first."""
        return next((one.text for one in self.events if isinstance(one, Heard)), "")

    @property
    def turns(self) -> int:
        return sum(isinstance(one, Heard) for one in self.events)

    @property
    def skills(self) -> tuple[str, ...]:
        """The skills it used, in the order they came."""
        return tuple(dict.fromkeys(one.skill for one in self.events if isinstance(one, Activated)))

    @property
    def offered(self) -> tuple[str, ...]:
        """The skills that the model was told of, at the beginning or later."""
        later = (name for one in self.events if isinstance(one, Offered) for name in one.added)
        ranked = (path.split("/")[-2] for one in self.events if isinstance(one, Suggested) for path in one.shown)
        return tuple(dict.fromkeys((*self.started.skills, *later, *ranked)))

    @property
    def activations(self) -> tuple[Activated, ...]:
        return tuple(one for one in self.events if isinstance(one, Activated))

    @property
    def failures(self) -> tuple[Used, ...]:
        """The calls of tools that went wrong."""
        return tuple(one for one in self.events if isinstance(one, Used) and one.failed)

    @property
    def ended(self) -> Ended | None:
        """How its last turn ended; None while it goes on, or where it was cut off."""
        last = next((one for one in reversed(self.events) if isinstance(one, Ended | Heard)), None)
        return last if isinstance(last, Ended) else None

    @property
    def outcome(self) -> str:
        return self.ended.outcome if self.ended else "cut off"

    @property
    def seconds(self) -> float:
        """How long its turns took together."""
        return round(sum(one.seconds for one in self.events if isinstance(one, Ended)), 3)

    @property
    def tools(self) -> dict[str, int]:
        """How often each tool was called."""
        return dict(Counter(one.call.name for one in self.events if isinstance(one, Used)))

    @property
    def usage(self) -> Usage:
        used = NOTHING_USED
        for one in self.events:
            if isinstance(one, Replied):
                used += one.usage
        return used


def trace_of(journal: Journal) -> Trace:
    name = journal.path.rpartition("/")[2].removesuffix(".jsonl")
    return Trace(name, tuple(journal.read()))


def runs(state: str) -> Iterator[Trace]:
    """Every run that was kept, the newest first."""
    for name in reversed(ids(state)):
        yield trace_of(Journal(f"{folder_of(state)}/{name}.jsonl"))


def failures_of(traces: Iterable[Trace]) -> Iterator[tuple[Trace, Used]]:
    for trace in traces:
        for used in trace.failures:
            yield trace, used

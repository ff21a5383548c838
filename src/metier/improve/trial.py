"""Trying a skill: every case, in every arm, so many times, each run in a clean context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from ..types.evals import Arm, Case, Made, Queue, Sample
from ..types.event import Activated, Ended, Event, Nested, Used
from ..types.usage import NOTHING_USED

Progress: TypeAlias = Callable[[str, int, int], None]
"""Is told what was done, how many are, and how many there are."""


class Task(NamedTuple):
    """One run to be made."""

    case: Case
    arm: Arm
    number: int
    folder: str = ""
    """The folder of the trial."""


def tasks(cases: Sequence[Case], arms: Sequence[Arm], runs: int, folder: str = "") -> list[Task]:
    """Every run to be made, the first of each case before any second, so that a trial cut short is still fair."""
    return [Task(case, arm, number, folder) for number in range(1, runs + 1) for case in cases for arm in arms]


def tried(
    wanted: Sequence[Task],
    queue: Queue,
    sample: Callable[[Task], Sample],
    progress: Progress = lambda what, done, total: None,
) -> tuple[Sample, ...]:
    """Make the runs, each judged and kept by `sample`, and put them in the order they were asked for."""
    done: dict[tuple[str, Arm, int], Sample] = {}
    for task, one in queue.each(sample, wanted):
        done[(one.case, one.arm, one.number)] = one
        progress(task.case.slug or task.case.id, len(done), len(wanted))
    return ordered(done.values(), wanted)


def ordered(samples: Iterable[Sample], wanted: Sequence[Task]) -> tuple[Sample, ...]:
    place = {(one.case.id, one.arm, one.number): at for at, one in enumerate(wanted)}
    return tuple(sorted(samples, key=lambda one: place[(one.case, one.arm, one.number)]))


_ITS_OWN = ("empty-reply", "tool-failed", "reply-cut-off", "content-filter")
"""Failures that belong to the run; others are of the service or the machine."""


def made_of(events: Iterable[Event], skill: str, outputs: str) -> Made:
    """What a run came to, from all that happened in it."""
    inner = [inner_event(one) for one in events]
    ended = next((one for one in reversed(inner) if isinstance(one, Ended)), Ended("interrupted"))
    used = [one for one in inner if isinstance(one, Used) and one.text]
    usage = sum((one.usage for one in inner if isinstance(one, Ended)), NOTHING_USED)
    broken = ended.outcome == "failed" and ended.reason not in _ITS_OWN
    return Made(
        ended.text if ended.outcome == "finished" else "",
        outputs,
        ended.outcome,
        ended.seconds,
        usage.tokens,
        len(used),
        sum(one.error or one.status not in (None, 0) for one in used),
        any(isinstance(one, Activated) and one.skill == skill for one in inner),
        broken or ended.outcome == "interrupted",
        "" if ended.outcome == "finished" else ended.text,
    )


def inner_event(event: Event) -> Event:
    """What happened, wherever it did: in the run itself or in one that it delegated."""
    while isinstance(event, Nested):
        event = event.event
    return event

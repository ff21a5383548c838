"""The runs of a trial: plan them, run them on a queue, and summarise the events of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from ..types.event import NOTHING_USED, Activated, Ended, Event, Nested, Used
from ..types.improvement import EvalArm, EvalCase, EvalOutput, EvalQueue, EvalSample

ProgressCallback: TypeAlias = Callable[[str, int, int], None]
"""Called with the case that ended, how many runs are done, and how many there are."""


class EvalTask(NamedTuple):
    """A run to make."""

    case: EvalCase
    arm: EvalArm
    number: int
    folder: str = ""
    """The folder of the trial."""


def plan_tasks(cases: Sequence[EvalCase], arms: Sequence[EvalArm], runs: int, folder: str = "") -> list[EvalTask]:
    """All runs, the first of each case before any second, so that an interrupted trial covers every case."""
    return [EvalTask(case, arm, number, folder) for number in range(1, runs + 1) for case in cases for arm in arms]


def run_trial(
    planned: Sequence[EvalTask],
    queue: EvalQueue,
    sample: Callable[[EvalTask], EvalSample],
    progress: ProgressCallback = lambda what, done, total: None,
) -> tuple[EvalSample, ...]:
    """Make the runs with `sample`; the results in the order planned."""
    samples: dict[tuple[str, EvalArm, int], EvalSample] = {}
    for task, result in queue.each(sample, planned):
        samples[(result.case, result.arm, result.number)] = result
        progress(task.case.slug or task.case.id, len(samples), len(planned))
    return order_samples(samples.values(), planned)


def order_samples(samples: Iterable[EvalSample], planned: Sequence[EvalTask]) -> tuple[EvalSample, ...]:
    place = {(task.case.id, task.arm, task.number): at for at, task in enumerate(planned)}
    return tuple(sorted(samples, key=lambda sample: place[(sample.case, sample.arm, sample.number)]))


_OWN_FAILURES = ("empty-reply", "tool-failed", "reply-cut-off", "content-filter")
"""Failures that count; others are of the service or the machine, and make a run void."""


def summarize_run(events: Iterable[Event], skill: str, outputs: str) -> EvalOutput:
    """Summarise a run from its events."""
    inner = [inner_event(event) for event in events]
    ended = next((event for event in reversed(inner) if isinstance(event, Ended)), Ended("interrupted"))
    used = [event for event in inner if isinstance(event, Used) and event.text]
    usage = sum((event.usage for event in inner if isinstance(event, Ended)), NOTHING_USED)
    broken = ended.outcome == "failed" and ended.reason not in _OWN_FAILURES
    return EvalOutput(
        ended.text if ended.outcome == "finished" else "",
        outputs,
        ended.outcome,
        ended.seconds,
        usage.tokens,
        len(used),
        sum(event.error or event.status not in (None, 0) for event in used),
        any(isinstance(event, Activated) and event.skill == skill for event in inner),
        broken or ended.outcome == "interrupted",
        "" if ended.outcome == "finished" else ended.text,
    )


def inner_event(event: Event) -> Event:
    """The event itself, if it happened in a delegated run."""
    while isinstance(event, Nested):
        event = event.event
    return event

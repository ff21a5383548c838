"""Trying a skill: every case, in every arm, so many times, each run in a clean context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from ..types.evals import Arm, Case, Made, Queue, Sample
from .grade import Judge, judged

Progress: TypeAlias = Callable[[str, int, int], None]
"""Is told what was done, how many are, and how many there are."""


class Task(NamedTuple):
    """One run to be made."""

    case: Case
    arm: Arm
    number: int


Run: TypeAlias = Callable[[Task], Made]
"""Makes one run in a clean context."""


def tasks(cases: Sequence[Case], arms: Sequence[Arm], runs: int) -> list[Task]:
    """Every run to be made, the first of each case before any second, so that a trial cut short is still fair."""
    return [Task(case, arm, number) for number in range(1, runs + 1) for case in cases for arm in arms]


def tried(
    wanted: Sequence[Task],
    queue: Queue,
    run: Run,
    judge: Judge,
    progress: Progress = lambda what, done, total: None,
    keep: Callable[[Task, Sample], None] = lambda task, sample: None,
) -> tuple[Sample, ...]:
    """Make the runs, judge each, keep each as it is done, and put them in the order they were asked for."""

    def work(task: Task) -> Sample:
        made = run(task)
        sample = Sample(task.case.id, task.arm, task.number, made, judged(task.case, made, judge))
        keep(task, sample)
        return sample

    done: dict[tuple[str, Arm, int], Sample] = {}
    for task, sample in queue.each(work, wanted):
        done[(sample.case, sample.arm, sample.number)] = sample
        progress(task.case.slug or task.case.id, len(done), len(wanted))
    return ordered(done.values(), wanted)


def ordered(samples: Iterable[Sample], wanted: Sequence[Task]) -> tuple[Sample, ...]:
    place = {(one.case.id, one.arm, one.number): at for at, one in enumerate(wanted)}
    return tuple(sorted(samples, key=lambda one: place[(one.case, one.arm, one.number)]))

"""Trials as they lie on the disk, so that any worker can make a run of one, and one that was cut off goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from json import dumps, loads
from threading import Event as Flag
from typing import TYPE_CHECKING, TypeVar

from ..host import lines, paths, state
from ..host.place import here
from ..improve.evals import suite_of
from ..improve.trial import Task
from ..sources.bundled import digest
from ..types import batch
from ..types.errors import BadRequest, HostError
from ..types.place import Place
from ..types.schedule import Outcome
from .bench import Bench, Plan, inputs_of
from .opening import Request, open_at

if TYPE_CHECKING:
    from ..types.skill import Skill
    from .library import Library

TERMS = "trial.json"
T = TypeVar("T")
R = TypeVar("R")


def terms_of(library: Library, skill: Skill, plan: Plan) -> str:
    """All that a worker has to know to make a run, and all that must be the same for a trial to go on."""
    asked = library.request
    changed = sha256(repr((sorted((plan.new or {}).items()), sorted((plan.old or {}).items()))).encode())
    return dumps(
        {
            "skill": skill.path,
            "cwd": library.place.cwd,
            "dialect": asked.dialect,
            "root": asked.root,
            "arms": list(plan.arms),
            "runs": plan.runs,
            "model": plan.model if isinstance(plan.model, str) else plan.model.name,
            "grader": plan.grader if plan.grader is None or isinstance(plan.grader, str) else plan.grader.name,
            "digest": digest(skill.directory),
            "changed": changed.hexdigest(),
        },
        indent=1,
    )


@contextmanager
def claimed(above: str, library: Library, skill: Skill, plan: Plan) -> Iterator[str]:
    """A folder for a trial that is nobody else's for now: of one that was cut off, or a new one."""
    wanted = terms_of(library, skill, plan)
    last = _last(above)
    if last and paths.read_text_file(f"{last}/{TERMS}") == wanted and not paths.exists(f"{last}/benchmark.json"):
        with lines.claimed(f"{last}/{TERMS}") as free:
            if free:
                yield last
                return
    new = state.next_folder(above, "iteration")
    state.write_text(f"{new}/{TERMS}", wanted, sync=False)
    with lines.claimed(f"{new}/{TERMS}"):
        yield new


def _last(above: str) -> str:
    found = paths.list_names(above).folders if paths.is_folder(above) else []
    numbers = [int(one.removeprefix("iteration-")) for one in found if one.removeprefix("iteration-").isdecimal()]
    return f"{above}/iteration-{max(numbers)}" if numbers else ""


# --- Over the queue of schedules and batches ---


def can_share() -> bool:
    """Whether what the queue is made of is installed."""
    from importlib.util import find_spec

    return find_spec("dbos") is not None and find_spec("sqlalchemy") is not None


@dataclass(frozen=True)
class Shared:
    """The queue that batches go over: the daemon of this home does the work, or a worker of the trial's own."""

    place: Place
    jobs: int = 4
    stop: Flag = field(default_factory=Flag)
    """Is set when nobody waits for the results any more."""

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """A worker of our own does the work as it is given; the daemon does the same by what lies in the folder."""
        from ..schedule.batch import batch as queued

        calls = [_call(item, self.place.cwd) for item in items]
        known = {call.text: item for call, item in zip(calls, items, strict=True)}
        made: dict[str, R] = {}

        def do(call: batch.Task, step: batch.Step, stopped: Callable[[], bool]) -> Outcome:
            made[call.text] = work(known[call.text])
            return Outcome(True)

        finished = False
        try:
            for ran in queued(self.place, do, calls, self.jobs):
                if not ran.outcome.ok:
                    raise HostError(f"a run can't be made: {ran.outcome.text}", "try again: what is done is kept")
                item = known[ran.text]
                yield item, made[ran.text] if ran.text in made else work(item)
            finished = True
        finally:
            if not finished:
                self.stop.set()


def _call(item: object, cwd: str) -> batch.Task:
    assert isinstance(item, Task)
    return batch.Task(dumps([item.case.id, item.arm, item.number]), cwd, trial=item.folder)


def do_run(call: batch.Task) -> Outcome:
    """Make one run of a trial, by what lies in its folder: whoever wants it reads it there."""
    id, arm, number = loads(call.text)
    bench = _bench(call.trial)
    case = next((one for one in bench.suite.cases if one.id == id), None)
    if case is None:
        raise BadRequest(f"the trial in {call.trial} has no case `{id}`", "begin another")
    bench.sample(Task(case, arm, number, call.trial))
    return Outcome(True)


@lru_cache(2)
def _bench(folder: str) -> Bench:
    said = loads(paths.read_text_file(f"{folder}/{TERMS}") or "{}")
    library = open_at(here(said["cwd"]), Request(said["dialect"], None, said["root"]))
    skill = next((one for one in library.skills if one.path == said["skill"]), None)
    if skill is None or digest(skill.directory) != said["digest"]:
        raise BadRequest("the skill is not the one that the trial began with", "begin another")
    plan = Plan(tuple(said["arms"]), said["runs"], said["model"], said["grader"])
    suite = suite_of(skill.directory, skill.name)
    return Bench(library, skill, plan, folder, suite, inputs_of(skill, suite))

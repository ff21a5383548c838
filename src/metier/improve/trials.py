"""The queues that a trial runs on (threads, one by one, or shared with the daemon), and the folder it continues in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from json import dumps, loads
from threading import Event as Flag
from typing import TYPE_CHECKING, TypeVar

from ..host import fs, paths
from ..host.facts import find_place
from ..library.open import OpenRequest, open_at
from ..sources.skill_files import SkillFiles, folder_digest
from ..types import schedule
from ..types.errors import BadRequest, HostError
from ..types.place import Place
from ..types.schedule import RunOutcome
from .eval_runner import EvalPlan, EvalRunner, read_case_inputs
from .evals import read_suite
from .tasks import EvalTask

if TYPE_CHECKING:
    from ..library.library import Library
    from ..types.skill import Skill


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class ThreadQueue:
    """Runs tasks in threads, as they mostly wait for a model."""

    jobs: int = 4
    stop: Flag = field(default_factory=Flag)
    """Set when the results are not needed any more."""

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Results as they come.  A caller that stops reading, or a task that fails, cancels what has not started."""
        pool = ThreadPoolExecutor(max(1, self.jobs), thread_name_prefix="metier-work")
        finished = False
        try:
            waiting = {pool.submit(work, item): item for item in items}
            for future in as_completed(waiting):
                yield waiting[future], future.result()
            finished = True
        finally:
            if not finished:
                self.stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


class SerialQueue:
    """Runs tasks one by one in this thread: for quick ones, and for what belongs to a thread."""

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        return ((item, work(item)) for item in items)


# --- The folder of a trial ---

TERMS_FILE = "trial.json"


def trial_terms(library: Library, skill: Skill, plan: EvalPlan) -> str:
    """What a worker needs to make a run, and what must be equal for a trial to continue."""
    request = library.request
    # The changed files only by their hash: they are in the folders of the arms.
    changed = sha256(repr((_plain_pairs(plan.new), _plain_pairs(plan.old))).encode())
    return dumps(
        {
            "skill": skill.path,
            "cwd": library.place.cwd,
            "dialect": request.dialect,
            "root": request.root,
            "arms": list(plan.arms),
            "runs": plan.runs,
            "model": plan.model if isinstance(plan.model, str) else plan.model.name,
            "grader": plan.grader if plan.grader is None or isinstance(plan.grader, str) else plan.grader.name,
            "digest": folder_digest(skill.directory),
            "changed": changed.hexdigest(),
        },
        indent=1,
    )


def _plain_pairs(files: SkillFiles | None) -> list[tuple[str, tuple[int, bytes]]]:
    """Files as plain tuples: the text of these is what trials have stored a digest of."""
    return sorted((path, (file.mode, file.data)) for path, file in (files or {}).items())


@contextmanager
def claim_trial_folder(above: str, library: Library, skill: Skill, plan: EvalPlan) -> Iterator[str]:
    """Claim a folder for a trial: that of the last one if it is the same and was interrupted, or a new one."""
    terms = trial_terms(library, skill, plan)
    last = _latest_trial(above)
    if last and paths.read_text_file(f"{last}/{TERMS_FILE}") == terms and not paths.exists(f"{last}/benchmark.json"):
        with fs.claim_file(f"{last}/{TERMS_FILE}") as free:
            if free:
                yield last
                return
    new = fs.next_folder(above, "iteration")
    fs.write_text(f"{new}/{TERMS_FILE}", terms, sync=False)
    with fs.claim_file(f"{new}/{TERMS_FILE}"):
        yield new


def _latest_trial(above: str) -> str:
    folders = paths.list_names(above).folders if paths.is_folder(above) else []
    numbers = [
        int(folder.removeprefix("iteration-")) for folder in folders if folder.removeprefix("iteration-").isdecimal()
    ]
    return f"{above}/iteration-{max(numbers)}" if numbers else ""


# --- The shared queue ---


def can_share() -> bool:
    """Whether the packages of the queue are installed."""
    from importlib.util import find_spec

    return find_spec("dbos") is not None and find_spec("sqlalchemy") is not None


@dataclass(frozen=True)
class SharedQueue:
    """Runs tasks over the queue of batches: the daemon of this home does them, or a worker of this process."""

    place: Place
    jobs: int = 4
    stop: Flag = field(default_factory=Flag)
    """Set when the results are not needed any more."""

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """A worker of this process calls `work`; the daemon uses the trial's folder (`run_trial_task`)."""
        from ..schedule.batch import run_batch as queued

        calls = [_batch_task(item, self.place.cwd) for item in items]
        items_by_text = {call.text: item for call, item in zip(calls, items, strict=True)}
        results: dict[str, R] = {}

        # Tasks are matched by their text, which names case, arm and number: the queue stores nothing else of them.
        def do(call: schedule.BatchTask, step: schedule.DurableStep, stopped: Callable[[], bool]) -> RunOutcome:
            results[call.text] = work(items_by_text[call.text])
            return RunOutcome(True)

        finished = False
        try:
            for task_result in queued(self.place, do, calls, self.jobs):
                if not task_result.outcome.ok:
                    raise HostError(f"a run failed: {task_result.outcome.text}", "try again: finished runs are kept")
                item = items_by_text[task_result.text]
                yield item, results[task_result.text] if task_result.text in results else work(item)
            finished = True
        finally:
            if not finished:
                self.stop.set()


def _batch_task(item: object, cwd: str) -> schedule.BatchTask:
    assert isinstance(item, EvalTask)
    return schedule.BatchTask(dumps([item.case.id, item.arm, item.number]), cwd, trial=item.folder)


def run_trial_task(call: schedule.BatchTask) -> RunOutcome:
    """Make a run of a trial from its folder, and store the result there."""
    id, arm, number = loads(call.text)
    runner = _open_runner(call.trial)
    case = next((candidate for candidate in runner.suite.cases if candidate.id == id), None)
    if case is None:
        raise BadRequest(f"the trial in {call.trial} has no case `{id}`", "start a new trial")
    runner.sample(EvalTask(case, arm, number, call.trial))
    return RunOutcome(True)


# A daemon makes many runs of a trial, one after another: two, for trials that run side by side.
@lru_cache(2)
def _open_runner(folder: str) -> EvalRunner:
    terms = loads(paths.read_text_file(f"{folder}/{TERMS_FILE}") or "{}")
    library = open_at(find_place(terms["cwd"]), OpenRequest(terms["dialect"], None, terms["root"]))
    skill = next((candidate for candidate in library.skills if candidate.path == terms["skill"]), None)
    if skill is None or folder_digest(skill.directory) != terms["digest"]:
        raise BadRequest("the skill has changed since the trial started", "start a new trial")
    plan = EvalPlan(tuple(terms["arms"]), terms["runs"], terms["model"], terms["grader"])
    suite = read_suite(skill.directory, skill.name)
    return EvalRunner(library, skill, plan, folder, suite, read_case_inputs(skill, suite))

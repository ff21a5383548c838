"""Batches: run many tasks over the queue, and give their results as they end.

The daemon of this home does the work if it runs; otherwise the process of the batch is a worker while it lasts, which
takes the calls of batches but no firings.  A batch is named by a digest of its tasks, so that running the same one
again after an interrupt continues it: tasks that have ended are not done twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from hashlib import sha256
from json import dumps
from typing import TYPE_CHECKING

from ..host import daemon, facts
from ..host.facts import find_place
from ..library.open import OpenRequest, open_at
from ..types.agent import UnattendedRun
from ..types.errors import BadRequest, HostError, MachineTrouble, Refused
from ..types.event import Ended
from ..types.place import Place
from ..types.schedule import BatchResult, BatchTask, DurableStep, RunOutcome, TaskRunner
from . import queue, store
from .calls import CallExecutor, ended_calls, enqueue_calls, forget_batch, unfinished_batch
from .database import named_errors, open_engine
from .durable import DurableExecutor
from .queue import WorkerRecord
from .runner import AfterRun
from .worker import WorkerSettings, home_id, lock_path, take_over_work, utc_now

if TYPE_CHECKING:
    from ..library.library import Library
    from .database import Engine


def run_batch_task(
    task: BatchTask, step: DurableStep, stopped: Callable[[], bool], after: AfterRun | None = None
) -> RunOutcome:
    """Run one task unattended: whatever needs approval is refused, unless the task allows it."""
    request = OpenRequest(task.dialect or None, agent=task.agent or None)
    with closing(open_at(find_place(task.cwd), request)) as library:
        return _run_opened_task(library, task, step, after)


def _run_opened_task(library: Library, task: BatchTask, step: DurableStep, after: AfterRun | None) -> RunOutcome:
    from ..agent.agent import agent_for
    from ..agent.agent_files import parse_rules
    from ..agent.policies import durable_step

    agent = agent_for(library, task.model, task.agent or None)
    if after is not None:
        agent = replace(agent, after=after(library, task.model))
    rules = replace(agent.permission, allow=(*agent.permission.allow, *parse_rules(task.allow)))
    agent = replace(agent, rules=rules, step=durable_step(step, agent.hide), alone=UnattendedRun(network=agent.network))
    ended = None
    with agent, agent.start() as session:
        for event in session.say(task.text):
            ended = event if isinstance(event, Ended) else ended
    if ended is None:
        return RunOutcome(False, "the run ended before it started")
    if ended.reason == MachineTrouble.reason:
        raise MachineTrouble(ended.text, ended.hint)  # tried again by whoever does the call
    return RunOutcome(ended.outcome == "finished", ended.text or ended.outcome)


_POLL_SECONDS = 0.2


def run_batch(place: Place, do: TaskRunner, tasks: Sequence[BatchTask], jobs: int = 4) -> Iterator[BatchResult]:
    """Run tasks, and yield each result as it ends.  A batch that was interrupted continues."""
    digest = sha256(dumps([repr(task) for task in tasks]).encode("utf-8", "replace")).hexdigest()[:16]
    engine = open_engine(place)
    try:
        with _hold_batch(place, digest), named_errors(place):
            yield from _queue_batch(place, engine, do, tasks, (digest, jobs))
    finally:
        engine.dispose()


@contextmanager
def _hold_batch(place: Place, digest: str) -> Iterator[None]:
    try:
        with daemon.hold_daemon_lock(lock_path(place, f"batch-{digest}")):
            yield
    except Refused as error:
        raise BadRequest("the same batch is running in another process", "wait for it to end") from error


def _queue_batch(
    place: Place, engine: Engine, do: TaskRunner, tasks: Sequence[BatchTask], digest_and_jobs: tuple[str, int]
) -> Iterator[BatchResult]:
    (digest, jobs), home = digest_and_jobs, home_id(place)
    name, durable = f"batch-{digest}", DurableExecutor(engine, f"batch-{digest}-{facts.random_hex(4)}")
    # Decided once: a daemon that starts later takes calls from the same queue beside this process.
    private = not _daemon_alive(place, engine, home, name)
    if private:
        _start_worker(engine, durable, (home, name), do, jobs)
        # A process of the same batch may have died with calls unfinished, and no daemon runs that would requeue them.
        for worker in _dead_workers(place, engine, home, durable):
            take_over_work(engine, durable, worker, utc_now())
    batch = unfinished_batch(engine, digest) or f"{digest}-{facts.random_hex(4)}"
    enqueue_calls(engine, durable, home, batch, tasks)
    try:
        yield from _batch_results(place, engine, durable, (batch, len(tasks), private, home))
        forget_batch(engine, batch)
    finally:
        if private:
            queue.dismiss_worker(engine, durable.worker, "left")


def _batch_results(
    place: Place, engine: Engine, durable: DurableExecutor, progress: tuple[str, int, bool, str]
) -> Iterator[BatchResult]:
    (batch, total, private, home), seen, pace = progress, set[int](), WorkerSettings()
    beaten = facts.monotonic()
    while len(seen) < total:
        for result in ended_calls(engine, batch):
            if result.number not in seen:
                seen.add(result.number)
                yield result
        if facts.monotonic() - beaten >= pace.beat:
            beaten = facts.monotonic()
            if private:
                queue.record_heartbeat(engine, durable.worker)
            elif not _daemon_alive(place, engine, home, ""):
                raise HostError("the daemon that ran this batch stopped", "run it again: finished tasks are kept")
        facts.sleep(_POLL_SECONDS)


def _start_worker(engine: Engine, durable: DurableExecutor, who: tuple[str, str], do: TaskRunner, jobs: int) -> None:
    """Become a worker that takes calls but no firings."""
    home, name = who
    me = WorkerRecord(
        durable.worker, name, home, daemon.host_name(), daemon.current_pid(), store.epoch_ms(utc_now()), 0, "up"
    )
    queue.register_worker(engine, me)
    caller = CallExecutor(do, engine, durable, threading.Event())
    durable.launch([caller.binding(home, jobs, _POLL_SECONDS)])


def _daemon_alive(place: Place, engine: Engine, home: str, mine: str) -> bool:
    """Whether a daemon of this home runs."""
    return any(
        worker.state == "up" and daemon.current_holder(lock_path(place, worker.name))
        for worker in queue.list_workers(engine)
        if worker.home == home and worker.name != mine and not worker.name.startswith("batch-")
    )


def _dead_workers(place: Place, engine: Engine, home: str, durable: DurableExecutor) -> list[WorkerRecord]:
    """Workers of this home that have died.  Their lock file tells at once; no lease has to pass."""
    workers = [worker for worker in queue.list_workers(engine) if worker.home == home and worker.id != durable.worker]
    gone = [
        worker
        for worker in workers
        if worker.state != "up" or daemon.current_holder(lock_path(place, worker.name)) is None
    ]
    for worker in gone:
        queue.dismiss_worker(engine, worker.id)
    return gone

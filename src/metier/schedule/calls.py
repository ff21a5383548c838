"""A batch: many calls over the queue, done by the daemon of this home, or by a worker of its own while it lasts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from json import dumps, loads
from typing import TYPE_CHECKING

from ..types.errors import MetierError
from ..types.schedule import BatchResult, BatchTask, RunOutcome, TaskRunner
from .database import fetch_rows, run_statement
from .durable import DurableExecutor, QueueBinding
from .queue import WorkItem

if TYPE_CHECKING:
    from .database import Engine


CALL_WORKFLOW = "metier.call"


def queue_of(home: str) -> str:
    """Calls work on the files of their home, so each home has a queue of its own."""
    return f"metier-calls-{home}"


def unfinished_batch(engine: Engine, digest: str) -> str:
    """The batch of the same calls that was left in the middle; empty where there is none."""
    with engine.connect() as connection:
        matches = fetch_rows(
            connection, "SELECT batch FROM metier_calls WHERE batch LIKE :like LIMIT 1", like=f"{digest}-%"
        )
    return matches[0]["batch"] if matches else ""


def enqueue_calls(engine: Engine, durable: DurableExecutor, home: str, batch: str, tasks: Sequence[BatchTask]) -> None:
    """Write calls down and queue them, all or none; what is there already is left as it is."""
    with engine.begin() as connection:
        for number, task in enumerate(tasks, 1):
            new = run_statement(
                connection,
                "INSERT INTO metier_calls (batch, number, task, state, note) VALUES (:batch, :number, :task, '', '')"
                " ON CONFLICT DO NOTHING",
                batch=batch,
                number=number,
                task=dumps(asdict(task)),
            )
            if new:
                durable.enqueue(connection, WorkItem(batch, number), CALL_WORKFLOW, queue_of(home))


def task_of(engine: Engine, item: WorkItem) -> BatchTask | None:
    """What is to be done; None where it is done, or nobody wants it any more."""
    with engine.connect() as connection:
        matches = fetch_rows(
            connection,
            "SELECT task FROM metier_calls WHERE batch = :batch AND number = :number AND state = ''",
            batch=item.schedule,
            number=item.due,
        )
    if not matches:
        return None
    values = loads(matches[0]["task"])
    return BatchTask(**{**values, "allow": tuple(values["allow"])})


def end_call(engine: Engine, item: WorkItem, outcome: RunOutcome) -> None:
    with engine.begin() as connection:
        run_statement(
            connection,
            "UPDATE metier_calls SET state = :state, note = :note"
            " WHERE batch = :batch AND number = :number AND state = ''",
            batch=item.schedule,
            number=item.due,
            state="finished" if outcome.ok else "failed",
            note=outcome.text[:100_000],
        )


def ended_calls(engine: Engine, batch: str) -> list[BatchResult]:
    with engine.connect() as connection:
        ended_rows = fetch_rows(
            connection,
            "SELECT number, task, state, note FROM metier_calls WHERE batch = :batch AND state <> '' ORDER BY number",
            batch=batch,
        )
    return [
        BatchResult(row["number"], loads(row["task"])["text"], RunOutcome(row["state"] == "finished", row["note"]))
        for row in ended_rows
    ]


def forget_batch(engine: Engine, batch: str) -> None:
    with engine.begin() as connection:
        run_statement(connection, "DELETE FROM metier_calls WHERE batch = :batch", batch=batch)


@dataclass
class CallExecutor:
    """What a worker does with each call that it takes from the queue."""

    do: TaskRunner
    engine: Engine
    durable: DurableExecutor
    leaving: threading.Event
    working: set[WorkItem] = field(default_factory=set)
    park: Callable[[], object] = lambda: threading.Event().wait()
    """Waits for ever: this worker is leaving, and what comes next is for another."""

    def line(self, home: str, jobs: int, poll: float) -> QueueBinding:
        return QueueBinding(queue_of(home), CALL_WORKFLOW, self.work, jobs, poll)

    def work(self, item: WorkItem) -> None:
        """Do one call.  Whatever happens, it is written down."""
        if self.leaving.is_set():
            threading.Event().wait()
        task = task_of(self.engine, item)
        if task is None:
            return
        outcome: RunOutcome | None = None
        self.working.add(item)
        try:
            outcome = self.do(task, self._step, self.leaving.is_set)
        except MetierError as error:
            outcome = RunOutcome(False, f"{error.message}{'; ' + error.hint if error.hint else ''}")
        finally:
            self.working.discard(item)
            fault = sys.exception()
            if outcome is None and isinstance(fault, Exception):
                outcome = RunOutcome(False, f"{type(fault).__name__}: {fault}")
            if outcome is not None:
                end_call(self.engine, item, outcome)

    def _step(self, name: str, work: Callable[[], object]) -> object:
        if self.leaving.is_set():
            self.park()
        return self.durable.step(name, work)

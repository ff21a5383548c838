"""The calls of batches in the store and in the queue, and what a worker does with each.

`batch.py` starts a batch and waits for its results; here is what it shares with the daemon.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from json import dumps, loads
from typing import TYPE_CHECKING, TypeVar

from ..types.errors import MetierError
from ..types.schedule import BatchResult, BatchTask, RunOutcome, TaskRunner
from .database import fetch_rows, run_statement
from .durable import DurableExecutor, QueueBinding, QueueEntry
from .failures import CrashRecorder, failed_outcome
from .patience import Patience

if TYPE_CHECKING:
    from .database import Engine

T = TypeVar("T")

CALL_WORKFLOW = "metier.call"
_LONGEST_NOTE = 100_000
"""Of an answer or an error; a batch prints it, so more is kept than of a firing."""


@dataclass(frozen=True)
class QueuedCall:
    """A call in the queue, by its batch and its number, which counts from 1."""

    batch: str
    number: int

    @property
    def id(self) -> str:
        """The id of its workflow."""
        return f"{self.batch}@{self.number}"

    @property
    def arguments(self) -> tuple[str, int]:
        return self.batch, self.number


def queue_of(home: str) -> str:
    """The queue of a home: calls work on its files, so no worker of another home may take them."""
    return f"metier-calls-{home}"


def unfinished_batch(engine: Engine, digest: str) -> str:
    """The batch of the same calls that was interrupted; empty if there is none."""
    with engine.connect() as connection:
        matches = fetch_rows(
            connection, "SELECT batch FROM metier_calls WHERE batch LIKE :like LIMIT 1", like=f"{digest}-%"
        )
    return matches[0]["batch"] if matches else ""


def enqueue_calls(engine: Engine, durable: DurableExecutor, home: str, batch: str, tasks: Sequence[BatchTask]) -> None:
    """Store calls and queue them, all or none; those that exist already stay as they are."""
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
                durable.enqueue(connection, QueuedCall(batch, number), CALL_WORKFLOW, queue_of(home))


def task_of(engine: Engine, call: QueuedCall) -> BatchTask | None:
    """The task of a call; None if it has ended, or its batch was deleted."""
    with engine.connect() as connection:
        matches = fetch_rows(
            connection,
            "SELECT task FROM metier_calls WHERE batch = :batch AND number = :number AND state = ''",
            batch=call.batch,
            number=call.number,
        )
    if not matches:
        return None
    values = loads(matches[0]["task"])
    return BatchTask(**{**values, "allow": tuple(values["allow"])})


def end_call(engine: Engine, call: QueuedCall, outcome: RunOutcome) -> None:
    with engine.begin() as connection:
        run_statement(
            connection,
            "UPDATE metier_calls SET state = :state, note = :note"
            " WHERE batch = :batch AND number = :number AND state = ''",
            batch=call.batch,
            number=call.number,
            state="finished" if outcome.ok else "failed",
            note=outcome.text[:_LONGEST_NOTE],
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
    """Does the calls that a worker takes from the queue."""

    do: TaskRunner
    engine: Engine
    durable: DurableExecutor
    leaving: threading.Event
    working: set[QueueEntry] = field(default_factory=set)
    """What this worker is doing; shared with the firings of the same worker."""
    park: Callable[[], object] = lambda: threading.Event().wait()
    """Blocks forever: this worker is leaving, and another continues from here."""
    say: Callable[[str], None] = lambda line: None
    patience: Patience = field(init=False)

    def __post_init__(self) -> None:
        self.patience = Patience(self.leaving, self.park, self.say)

    def binding(self, home: str, jobs: int, poll: float) -> QueueBinding:
        return QueueBinding(
            queue_of(home), CALL_WORKFLOW, lambda batch, number: self.work(QueuedCall(batch, number)), jobs, poll
        )

    def work(self, call: QueuedCall) -> None:
        """Do one call and record its outcome, whatever it is."""
        if self.leaving.is_set():
            # Taken from the queue while leaving: left to another worker.
            threading.Event().wait()
        task = self._patiently(call, lambda: task_of(self.engine, call))
        if task is None:
            return
        self.working.add(call)
        try:
            with CrashRecorder(lambda outcome: self._end(call, outcome)):
                outcome = self._outcome(task, call)
            self._end(call, outcome)
        finally:
            self.working.discard(call)

    def _patiently(self, call: QueuedCall, work: Callable[[], T]) -> T:
        return self.patience.keep_trying(f"call {call.number}", work)

    def _end(self, call: QueuedCall, outcome: RunOutcome) -> None:
        self._patiently(call, lambda: end_call(self.engine, call, outcome))

    def _outcome(self, task: BatchTask, call: QueuedCall) -> RunOutcome:
        done: dict[str, object] = {}

        def step(name: str, work: Callable[[], object]) -> object:
            """Do a step once; `done` has those of an attempt that the machine spoiled."""
            if self.leaving.is_set():
                self.park()
            return self.patience.step_once(f"call {call.number}", name, work, self.durable, done)

        try:
            return self._patiently(call, lambda: self.do(task, step, self.leaving.is_set))
        except MetierError as error:
            return failed_outcome(error)

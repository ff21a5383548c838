"""Calls of a batch: which there are, and how each ended.  Each function is one transaction."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from json import dumps, loads
from typing import TYPE_CHECKING

from ..types.batch import Do, Ran, Task
from ..types.errors import MetierError
from ..types.schedule import Outcome
from .database import rows, run
from .engine import Durable, Line
from .runs import Turn

if TYPE_CHECKING:
    from .database import Engine

WORKFLOW = "metier.call"


def queue_of(home: str) -> str:
    """Calls work on the files of their home, so each home has a queue of its own."""
    return f"metier-calls-{home}"


def unfinished(engine: Engine, digest: str) -> str:
    """The batch of the same calls that was left in the middle; empty where there is none."""
    with engine.connect() as connection:
        found = rows(connection, "SELECT batch FROM metier_calls WHERE batch LIKE :like LIMIT 1", like=f"{digest}-%")
    return found[0]["batch"] if found else ""


def enter(engine: Engine, durable: Durable, home: str, batch: str, tasks: Sequence[Task]) -> None:
    """Write calls down and queue them, all or none; what is there already is left as it is."""
    with engine.begin() as connection:
        for number, task in enumerate(tasks, 1):
            new = run(
                connection,
                "INSERT INTO metier_calls (batch, number, task, state, note) VALUES (:batch, :number, :task, '', '')"
                " ON CONFLICT DO NOTHING",
                batch=batch,
                number=number,
                task=dumps(asdict(task)),
            )
            if new:
                durable.enqueue(connection, Turn(batch, number), WORKFLOW, queue_of(home))


def task_of(engine: Engine, turn: Turn) -> Task | None:
    """What is to be done; None where it is done, or nobody wants it any more."""
    with engine.connect() as connection:
        found = rows(
            connection,
            "SELECT task FROM metier_calls WHERE batch = :batch AND number = :number AND state = ''",
            batch=turn.schedule,
            number=turn.due,
        )
    if not found:
        return None
    kept = loads(found[0]["task"])
    return Task(**{**kept, "allow": tuple(kept["allow"])})


def end(engine: Engine, turn: Turn, outcome: Outcome) -> None:
    with engine.begin() as connection:
        run(
            connection,
            "UPDATE metier_calls SET state = :state, note = :note"
            " WHERE batch = :batch AND number = :number AND state = ''",
            batch=turn.schedule,
            number=turn.due,
            state="finished" if outcome.ok else "failed",
            note=outcome.text[:100_000],
        )


def ended(engine: Engine, batch: str) -> list[Ran]:
    with engine.connect() as connection:
        found = rows(
            connection,
            "SELECT number, task, state, note FROM metier_calls WHERE batch = :batch AND state <> '' ORDER BY number",
            batch=batch,
        )
    return [
        Ran(row["number"], loads(row["task"])["text"], Outcome(row["state"] == "finished", row["note"]))
        for row in found
    ]


def forget(engine: Engine, batch: str) -> None:
    with engine.begin() as connection:
        run(connection, "DELETE FROM metier_calls WHERE batch = :batch", batch=batch)


@dataclass
class Caller:
    """What a worker does with each call that it takes from the queue."""

    do: Do
    engine: Engine
    durable: Durable
    leaving: threading.Event
    working: set[Turn] = field(default_factory=set)
    park: Callable[[], object] = lambda: threading.Event().wait()
    """Waits for ever: this worker is leaving, and what comes next is for another."""

    def line(self, home: str, jobs: int, poll: float) -> Line:
        return Line(queue_of(home), WORKFLOW, self.work, jobs, poll)

    def work(self, turn: Turn) -> None:
        """Do one call.  Whatever happens, it is written down."""
        if self.leaving.is_set():
            threading.Event().wait()
        task = task_of(self.engine, turn)
        if task is None:
            return
        outcome: Outcome | None = None
        self.working.add(turn)
        try:
            outcome = self.do(task, self._step, self.leaving.is_set)
        except MetierError as error:
            outcome = Outcome(False, f"{error.message}{'; ' + error.hint if error.hint else ''}")
        finally:
            self.working.discard(turn)
            fault = sys.exception()
            if outcome is None and isinstance(fault, Exception):
                outcome = Outcome(False, f"{type(fault).__name__}: {fault}")
            if outcome is not None:
                end(self.engine, turn, outcome)

    def _step(self, name: str, work: Callable[[], object]) -> object:
        if self.leaving.is_set():
            self.park()
        return self.durable.step(name, work)

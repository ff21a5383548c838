"""The queue of firings, who runs them and how they ended, and the workers with their heartbeats.

A firing waits, is queued, runs, and ends.  Each move is an UPDATE that names the state it comes from, so that of two
workers that try the same move one changes a row and the other knows that it did not.  Promotion from `waiting` enters
the DBOS queue in the same transaction; a unique index allows one active firing per schedule.

A worker is alive while its `beat` grows.  The beat is a count and not a time, because the clocks of machines differ:
each worker measures on its own monotonic clock how long the count of another stands still, and declares it dead after
the lease.  The declaration names the beat that was read, so a worker that was merely slow survives it; one that was
declared dead fails its next beat and exits.  The worker that finds a dead one takes over its firings: those with
`after_crash = "at-most-once"` end as lost, the others go back into the queue and resume at their next step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from json import loads
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..types.schedule import FiringState, RunOutcome, Schedule
from .database import fetch_rows, run_statement
from .store import epoch_ms, get_schedule, instant_of, pause_in, read_trigger, schedule_of
from .times import fires_once

if TYPE_CHECKING:
    from .database import Connection, Engine


@dataclass(frozen=True)
class QueuedFiring:
    """A firing in the queue, by its schedule and its instant in milliseconds."""

    schedule: str
    due: int

    @property
    def id(self) -> str:
        """The id of its workflow."""
        return f"{self.schedule}@{self.due}"

    @property
    def arguments(self) -> tuple[str, int]:
        return self.schedule, self.due


Enqueue: TypeAlias = "Callable[[Connection, QueuedFiring], None]"
"""Enters a firing into the queue within a transaction."""
DONE_REASON = "it is done, and goes to the bin"
"""Why a one-shot that succeeded is paused, until its skill is in the trash.  Stored, so the text must not change."""
_READY_FIRINGS = (
    "SELECT schedule, due FROM metier_firings w WHERE state = 'waiting' AND NOT EXISTS"
    " (SELECT 1 FROM metier_firings a WHERE a.schedule = w.schedule AND a.state IN ('queued', 'running'))"
    " ORDER BY due LIMIT :most"
)


def promote_waiting(engine: Engine, enqueue: Enqueue, most: int = 200) -> int:
    """Queue waiting firings whose schedule has no active one; the table and the queue change in one transaction."""
    shared = engine.dialect.name == "postgresql"
    query = _READY_FIRINGS + (" FOR UPDATE SKIP LOCKED" if shared else "")
    with engine.begin() as connection:
        # Of each schedule the earliest: the others wait for it.
        first: dict[str, int] = {}
        for row in fetch_rows(connection, query, most=most):
            first.setdefault(row["schedule"], row["due"])
        return sum(_promote_firing(connection, QueuedFiring(id, due), enqueue) for id, due in first.items())


def _promote_firing(connection: Connection, firing: QueuedFiring, enqueue: Enqueue) -> int:
    # One worker per schedule at a time; SQLite has one writer anyway.
    if connection.dialect.name == "postgresql":
        advisory_lock = fetch_rows(
            connection, "SELECT pg_try_advisory_xact_lock(hashtext(:id)) AS mine", id=firing.schedule
        )
        if not advisory_lock[0]["mine"]:
            return 0
    moved = run_statement(
        connection,
        "UPDATE metier_firings SET state = 'queued' WHERE schedule = :id AND due = :due AND state = 'waiting'"
        " AND NOT EXISTS (SELECT 1 FROM metier_firings a WHERE a.schedule = :id AND a.state IN ('queued', 'running'))",
        id=firing.schedule,
        due=firing.due,
    )
    if moved:
        enqueue(connection, firing)
    return moved


def is_queued(engine: Engine) -> bool:
    """Whether a firing is queued that no worker has taken yet."""
    with engine.connect() as connection:
        return bool(fetch_rows(connection, "SELECT 1 AS one FROM metier_firings WHERE state = 'queued' LIMIT 1"))


def begin_firing(engine: Engine, firing: QueuedFiring, worker: str, now: datetime) -> Schedule | None:
    """Start a firing on a worker; None if it has ended, or its schedule was removed."""
    # Started again after a takeover: `started` keeps the first time, `attempt` counts.
    schedule = get_schedule(engine, firing.schedule)
    with engine.begin() as connection:
        mine = run_statement(
            connection,
            "UPDATE metier_firings SET state = 'running', owner = :worker, attempt = attempt + 1,"
            " started = COALESCE(started, :now) WHERE schedule = :id AND due = :due AND state IN ('queued', 'running')",
            id=firing.schedule,
            due=firing.due,
            worker=worker,
            now=epoch_ms(now),
        )
        if mine and schedule is None:
            _finish_firing(connection, firing, "cancelled", "the schedule was removed", now)
    return schedule if mine else None


def release_firing(engine: Engine, firing: QueuedFiring) -> None:
    """Record that no worker is within a step of a running firing: whoever takes over resumes it."""
    with engine.begin() as connection:
        run_statement(
            connection,
            "UPDATE metier_firings SET owner = '' WHERE schedule = :id AND due = :due AND state = 'running'",
            id=firing.schedule,
            due=firing.due,
        )


def must_stop(engine: Engine, firing: QueuedFiring) -> bool:
    with engine.connect() as connection:
        matches = fetch_rows(
            connection,
            "SELECT stop FROM metier_firings WHERE schedule = :id AND due = :due",
            id=firing.schedule,
            due=firing.due,
        )
    return not matches or bool(matches[0]["stop"])  # no row: it was deleted, and nothing waits for its end


def end_firing(engine: Engine, firing: QueuedFiring, outcome: RunOutcome, now: datetime) -> bool:
    """Record how a firing ended; whether that completes a one-shot, so that its skill can go to the trash."""
    with engine.begin() as connection:
        stopped = fetch_rows(
            connection,
            "SELECT stop FROM metier_firings WHERE schedule = :id AND due = :due",
            id=firing.schedule,
            due=firing.due,
        )
        state: FiringState = "finished" if outcome.ok else "failed"
        # It failed because it was told to stop.
        if not outcome.ok and stopped and stopped[0]["stop"]:
            state = "replaced"
        if not _finish_firing(connection, firing, state, outcome.text, now, outcome.run):
            return False
        return _settle_schedule(connection, firing, state, outcome, now)


def finished_one_shots(engine: Engine, home: str) -> list[Schedule]:
    """One-shots of a home that succeeded and are not cleared yet."""
    with engine.connect() as connection:
        done_rows = fetch_rows(connection, "SELECT * FROM metier_schedules WHERE paused = :done", done=DONE_REASON)
    return [schedule for schedule in map(schedule_of, done_rows) if schedule.home == home]


def clear_finished(engine: Engine, id: str) -> None:
    with engine.begin() as connection:
        run_statement(
            connection, "DELETE FROM metier_schedules WHERE id = :id AND paused = :done", id=id, done=DONE_REASON
        )


def refuse_firing(engine: Engine, firing: QueuedFiring, why: str, now: datetime) -> None:
    """Cancel a firing that may not run, and pause its schedule for review."""
    with engine.begin() as connection:
        if _finish_firing(connection, firing, "cancelled", why, now):
            pause_in(connection, firing.schedule, why, now)


def _finish_firing(
    connection: Connection, firing: QueuedFiring, state: FiringState, note: str, now: datetime, run_id: str = ""
) -> int:
    return run_statement(
        connection,
        "UPDATE metier_firings SET state = :state, note = :note, ended = :now, run = :run"
        " WHERE schedule = :id AND due = :due AND state IN ('queued', 'running')",
        id=firing.schedule,
        due=firing.due,
        state=state,
        # The whole answer is in the journal of the run.
        note=note[:10_000],
        now=epoch_ms(now),
        run=run_id,
    )


def _settle_schedule(
    connection: Connection, firing: QueuedFiring, state: FiringState, outcome: RunOutcome, now: datetime
) -> bool:
    """Count failures, pause after too many, and mark a one-shot that succeeded."""
    matches = fetch_rows(
        connection, "SELECT document, failures, next_due FROM metier_schedules WHERE id = :id", id=firing.schedule
    )
    # A firing that was replaced says nothing about whether the skill works.
    if not matches or state == "replaced":
        return False
    document = loads(matches[0]["document"])
    # A one-shot with a next time was run by hand, or got a new time meanwhile: it is not over.
    over = fires_once(read_trigger(document)) and matches[0]["next_due"] is None
    if state == "finished":
        if over:
            run_statement(
                connection,
                "UPDATE metier_schedules SET paused = :done WHERE id = :id",
                id=firing.schedule,
                done=DONE_REASON,
            )
            return True
        run_statement(
            connection, "UPDATE metier_schedules SET failures = 0 WHERE id = :id AND failures > 0", id=firing.schedule
        )
        return False
    failures, most = matches[0]["failures"] + 1, document["rules"]["pause_after"]
    run_statement(
        connection, "UPDATE metier_schedules SET failures = :n WHERE id = :id", id=firing.schedule, n=failures
    )
    reason = outcome.text.partition("\n")[0][:300]
    # A one-shot has no next time to try again.
    if over:
        pause_in(connection, firing.schedule, f"it failed: {reason}", now)
    elif most and failures >= most:
        pause_in(connection, firing.schedule, f"{failures} failures in a row, the last: {reason}", now)
    return False


# --- Workers ---


class WorkerRecord(NamedTuple):
    """A process that fires schedules."""

    id: str
    name: str
    home: str
    host: str
    pid: int
    started: int
    beat: int
    state: str


def register_worker(engine: Engine, worker: WorkerRecord) -> None:
    """Add a worker.  An earlier one of the same name and home is dead: this one holds their lock file."""
    with engine.begin() as connection:
        run_statement(
            connection,
            "UPDATE metier_workers SET state = 'dead' WHERE home = :home AND name = :name AND state = 'up'",
            home=worker.home,
            name=worker.name,
        )
        run_statement(
            connection,
            "INSERT INTO metier_workers (id, name, home, host, pid, started, beat, state)"
            " VALUES (:id, :name, :home, :host, :pid, :started, 0, 'up')",
            **{key: value for key, value in worker._asdict().items() if key not in ("beat", "state")},
        )


def record_heartbeat(engine: Engine, id: str) -> bool:
    """Count a beat; False if other workers declared this one dead, so it must exit."""
    with engine.begin() as connection:
        return bool(
            run_statement(
                connection, "UPDATE metier_workers SET beat = beat + 1 WHERE id = :id AND state = 'up'", id=id
            )
        )


def list_workers(engine: Engine) -> list[WorkerRecord]:
    with engine.connect() as connection:
        return [
            WorkerRecord(**row) for row in fetch_rows(connection, "SELECT * FROM metier_workers ORDER BY started, id")
        ]


def declare_dead(engine: Engine, worker: WorkerRecord) -> None:
    """Declare a worker dead, unless it has beaten since its record was read."""
    with engine.begin() as connection:
        run_statement(
            connection,
            "UPDATE metier_workers SET state = 'dead' WHERE id = :id AND beat = :beat AND state = 'up'",
            id=worker.id,
            beat=worker.beat,
        )


def dismiss_worker(engine: Engine, id: str, state: str = "dead") -> None:
    """Record that a worker is gone; one that shut down in order has `left`."""
    with engine.begin() as connection:
        run_statement(connection, "UPDATE metier_workers SET state = :state WHERE id = :id", id=id, state=state)


def delete_worker(engine: Engine, id: str) -> None:
    """Delete the record of a worker that is gone, once its work was taken over."""
    with engine.begin() as connection:
        run_statement(connection, "DELETE FROM metier_workers WHERE id = :id AND state <> 'up'", id=id)


def end_lost_firings(engine: Engine, id: str, now: datetime) -> list[QueuedFiring]:
    """End as lost what a dead worker was running and must not run again."""
    with engine.connect() as connection:
        running_rows = fetch_rows(
            connection, "SELECT schedule, due FROM metier_firings WHERE owner = :id AND state = 'running'", id=id
        )
    lost = []
    for firing in (QueuedFiring(row["schedule"], row["due"]) for row in running_rows):
        schedule = get_schedule(engine, firing.schedule)
        if schedule is not None and schedule.rules.after_crash == "at-most-once":
            note = f"its worker ended during the run ({instant_of(firing.due).isoformat()})"
            with engine.begin() as connection:
                if _finish_firing(connection, firing, "lost", note, now):
                    _settle_schedule(connection, firing, "lost", RunOutcome(False, note), now)
                    lost.append(firing)
    return lost

"""Firings at work: whose turn it is, who works on it, how it ended, and who takes over from the dead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from ..types.schedule import FiringState, RunOutcome, Schedule
from .database import fetch_rows, run_statement
from .store import epoch_ms, get_schedule, instant_of, pause_in, schedule_of

if TYPE_CHECKING:
    from .database import Connection, Engine


class WorkItem(NamedTuple):
    """A firing whose turn it is."""

    schedule: str
    due: int

    @property
    def id(self) -> str:
        """The name of its workflow: the same firing has the same one on every machine."""
        return f"{self.schedule}@{self.due}"


DONE_REASON = "it is done, and goes to the bin"
"""Why a one-shot that went well is paused, until its skill is in the bin too: a crash in between is made up for."""
_READY_FIRINGS = (
    "SELECT schedule, due FROM metier_firings w WHERE state = 'waiting' AND NOT EXISTS"
    " (SELECT 1 FROM metier_firings a WHERE a.schedule = w.schedule AND a.state IN ('queued', 'running'))"
    " ORDER BY due LIMIT :most"
)


def promote_waiting(engine: Engine, enqueue: Callable[[Connection, WorkItem], None], most: int = 200) -> int:
    """Queue what waits and has nothing of its schedule at work; book and queue change in one transaction."""
    shared = engine.dialect.name == "postgresql"
    query = _READY_FIRINGS + (" FOR UPDATE SKIP LOCKED" if shared else "")
    with engine.begin() as connection:
        first: dict[str, int] = {}
        for row in fetch_rows(connection, query, most=most):
            first.setdefault(row["schedule"], row["due"])
        return sum(_promote_firing(connection, WorkItem(id, due), enqueue) for id, due in first.items())


def _promote_firing(connection: Connection, item: WorkItem, enqueue: Callable[[Connection, WorkItem], None]) -> int:
    if connection.dialect.name == "postgresql":  # workers take turns at one schedule; SQLite has one writer anyway
        advisory_lock = fetch_rows(
            connection, "SELECT pg_try_advisory_xact_lock(hashtext(:id)) AS mine", id=item.schedule
        )
        if not advisory_lock[0]["mine"]:
            return 0
    moved = run_statement(
        connection,
        "UPDATE metier_firings SET state = 'queued' WHERE schedule = :id AND due = :due AND state = 'waiting'"
        " AND NOT EXISTS (SELECT 1 FROM metier_firings a WHERE a.schedule = :id AND a.state IN ('queued', 'running'))",
        id=item.schedule,
        due=item.due,
    )
    if moved:
        enqueue(connection, item)
    return moved


def is_queued(engine: Engine) -> bool:
    """Whether anything is queued that nobody has taken yet."""
    with engine.connect() as connection:
        return bool(fetch_rows(connection, "SELECT 1 AS one FROM metier_firings WHERE state = 'queued' LIMIT 1"))


def begin_firing(engine: Engine, item: WorkItem, worker: str, now: datetime) -> Schedule | None:
    """Put a worker's name to a firing; None when it has ended, or its schedule is gone."""
    schedule = get_schedule(engine, item.schedule)
    with engine.begin() as connection:
        mine = run_statement(
            connection,
            "UPDATE metier_firings SET state = 'running', owner = :worker, attempt = attempt + 1,"
            " started = COALESCE(started, :now) WHERE schedule = :id AND due = :due AND state IN ('queued', 'running')",
            id=item.schedule,
            due=item.due,
            worker=worker,
            now=epoch_ms(now),
        )
        if mine and schedule is None:
            _finish_firing(connection, item, "cancelled", "the schedule was removed", now)
    return schedule if mine else None


def must_stop(engine: Engine, item: WorkItem) -> bool:
    with engine.connect() as connection:
        matches = fetch_rows(
            connection,
            "SELECT stop FROM metier_firings WHERE schedule = :id AND due = :due",
            id=item.schedule,
            due=item.due,
        )
    return not matches or bool(matches[0]["stop"])


def end_firing(engine: Engine, item: WorkItem, outcome: RunOutcome, now: datetime) -> bool:
    """Write down how a firing ended; whether its one-shot is done with, so that the skill may go."""
    with engine.begin() as connection:
        stopped = fetch_rows(
            connection,
            "SELECT stop FROM metier_firings WHERE schedule = :id AND due = :due",
            id=item.schedule,
            due=item.due,
        )
        state: FiringState = "finished" if outcome.ok else "failed"
        if not outcome.ok and stopped and stopped[0]["stop"]:
            state = "replaced"
        if not _finish_firing(connection, item, state, outcome.text, now, outcome.run):
            return False
        return _settle_schedule(connection, item, state, outcome, now)


def finished_one_shots(engine: Engine, home: str) -> list[Schedule]:
    """One-shots of a home that went well, and are not cleared away yet."""
    with engine.connect() as connection:
        done_rows = fetch_rows(connection, "SELECT * FROM metier_schedules WHERE paused = :done", done=DONE_REASON)
    return [schedule for schedule in map(schedule_of, done_rows) if schedule.home == home]


def clear_finished(engine: Engine, id: str) -> None:
    with engine.begin() as connection:
        run_statement(
            connection, "DELETE FROM metier_schedules WHERE id = :id AND paused = :done", id=id, done=DONE_REASON
        )


def refuse_firing(engine: Engine, item: WorkItem, why: str, now: datetime) -> None:
    """End a firing that was not begun, and pause its schedule for review."""
    with engine.begin() as connection:
        if _finish_firing(connection, item, "cancelled", why, now):
            pause_in(connection, item.schedule, why, now)


def _finish_firing(
    connection: Connection, item: WorkItem, state: FiringState, note: str, now: datetime, run_id: str = ""
) -> int:
    return run_statement(
        connection,
        "UPDATE metier_firings SET state = :state, note = :note, ended = :now, run = :run"
        " WHERE schedule = :id AND due = :due AND state IN ('queued', 'running')",
        id=item.schedule,
        due=item.due,
        state=state,
        note=note[:10_000],
        now=epoch_ms(now),
        run=run_id,
    )


def _settle_schedule(
    connection: Connection, item: WorkItem, state: FiringState, outcome: RunOutcome, now: datetime
) -> bool:
    """Count failures, pause after too many, and take out a one-shot that went well."""
    matches = fetch_rows(
        connection, "SELECT document, failures, next_due FROM metier_schedules WHERE id = :id", id=item.schedule
    )
    if not matches or state == "replaced":
        return False
    from json import loads

    document, over = loads(matches[0]["document"]), matches[0]["next_due"] is None
    if state == "finished":
        if document["once"] and over:
            run_statement(
                connection,
                "UPDATE metier_schedules SET paused = :done WHERE id = :id",
                id=item.schedule,
                done=DONE_REASON,
            )
            return True
        run_statement(
            connection, "UPDATE metier_schedules SET failures = 0 WHERE id = :id AND failures > 0", id=item.schedule
        )
        return False
    failures, most = matches[0]["failures"] + 1, document["rules"]["pause_after"]
    run_statement(connection, "UPDATE metier_schedules SET failures = :n WHERE id = :id", id=item.schedule, n=failures)
    reason = outcome.text.partition("\n")[0][:300]
    if document["once"] and over:
        pause_in(connection, item.schedule, f"it failed: {reason}", now)
    elif most and failures >= most:
        pause_in(connection, item.schedule, f"{failures} failures in a row, the last one: {reason}", now)
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
    """Enter a worker.  One that had its name in the same home is dead: there is only one lock."""
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
    """Say that a worker lives; False when the others have given it up, so that it must go."""
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
    """Declare a worker dead, unless it has given a sign meanwhile."""
    with engine.begin() as connection:
        run_statement(
            connection,
            "UPDATE metier_workers SET state = 'dead' WHERE id = :id AND beat = :beat AND state = 'up'",
            id=worker.id,
            beat=worker.beat,
        )


def dismiss_worker(engine: Engine, id: str, state: str = "dead") -> None:
    """A worker is not there any more; one that said so itself has `left`."""
    with engine.begin() as connection:
        run_statement(connection, "UPDATE metier_workers SET state = :state WHERE id = :id", id=id, state=state)


def delete_worker(engine: Engine, id: str) -> None:
    """Take a worker out that is not there any more, after its work has gone to others."""
    with engine.begin() as connection:
        run_statement(connection, "DELETE FROM metier_workers WHERE id = :id AND state <> 'up'", id=id)


def lost_firings(engine: Engine, id: str, now: datetime) -> list[WorkItem]:
    """What a dead worker was at and must not be begun again: it is reported as lost."""
    with engine.connect() as connection:
        running_rows = fetch_rows(
            connection, "SELECT schedule, due FROM metier_firings WHERE owner = :id AND state = 'running'", id=id
        )
    gone = []
    for item in (WorkItem(row["schedule"], row["due"]) for row in running_rows):
        schedule = get_schedule(engine, item.schedule)
        if schedule is not None and schedule.rules.after_crash == "at-most-once":
            note = f"its worker ended in the middle of it ({instant_of(item.due).isoformat()})"
            with engine.begin() as connection:
                if _finish_firing(connection, item, "lost", note, now):
                    _settle_schedule(connection, item, "lost", RunOutcome(False, note), now)
                    gone.append(item)
    return gone

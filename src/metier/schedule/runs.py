"""Firings at work: whose turn it is, who works on it, how it ended, and who takes over from the dead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from ..types.schedule import Outcome, Schedule, State
from .book import get, instant_of, ms, pause_in, schedule_of
from .database import rows, run

if TYPE_CHECKING:
    from .database import Connection, Engine


class Turn(NamedTuple):
    """A firing whose turn it is."""

    schedule: str
    due: int

    @property
    def id(self) -> str:
        """The name of its workflow: the same firing has the same one on every machine."""
        return f"{self.schedule}@{self.due}"


DONE = "it is done, and goes to the bin"
"""Why a one-shot that went well is paused, until its skill is in the bin too: a crash in between is made up for."""
_TURNS = (
    "SELECT schedule, due FROM metier_firings w WHERE state = 'waiting' AND NOT EXISTS"
    " (SELECT 1 FROM metier_firings a WHERE a.schedule = w.schedule AND a.state IN ('queued', 'running'))"
    " ORDER BY due LIMIT :most"
)


def promote(engine: Engine, enqueue: Callable[[Connection, Turn], None], most: int = 200) -> int:
    """Queue what waits and has nothing of its schedule at work; book and queue change in one transaction."""
    shared = engine.dialect.name == "postgresql"
    query = _TURNS + (" FOR UPDATE SKIP LOCKED" if shared else "")
    with engine.begin() as connection:
        first: dict[str, int] = {}
        for row in rows(connection, query, most=most):
            first.setdefault(row["schedule"], row["due"])
        return sum(_promote(connection, Turn(id, due), enqueue) for id, due in first.items())


def _promote(connection: Connection, turn: Turn, enqueue: Callable[[Connection, Turn], None]) -> int:
    if connection.dialect.name == "postgresql":  # workers take turns at one schedule; SQLite has one writer anyway
        held = rows(connection, "SELECT pg_try_advisory_xact_lock(hashtext(:id)) AS mine", id=turn.schedule)
        if not held[0]["mine"]:
            return 0
    moved = run(
        connection,
        "UPDATE metier_firings SET state = 'queued' WHERE schedule = :id AND due = :due AND state = 'waiting'"
        " AND NOT EXISTS (SELECT 1 FROM metier_firings a WHERE a.schedule = :id AND a.state IN ('queued', 'running'))",
        id=turn.schedule,
        due=turn.due,
    )
    if moved:
        enqueue(connection, turn)
    return moved


def is_queued(engine: Engine) -> bool:
    """Whether anything is queued that nobody has taken yet."""
    with engine.connect() as connection:
        return bool(rows(connection, "SELECT 1 AS one FROM metier_firings WHERE state = 'queued' LIMIT 1"))


def begin(engine: Engine, turn: Turn, worker: str, now: datetime) -> Schedule | None:
    """Put a worker's name to a firing; None when it has ended, or its schedule is gone."""
    schedule = get(engine, turn.schedule)
    with engine.begin() as connection:
        mine = run(
            connection,
            "UPDATE metier_firings SET state = 'running', owner = :worker, attempt = attempt + 1,"
            " started = COALESCE(started, :now) WHERE schedule = :id AND due = :due AND state IN ('queued', 'running')",
            id=turn.schedule,
            due=turn.due,
            worker=worker,
            now=ms(now),
        )
        if mine and schedule is None:
            _finish(connection, turn, "cancelled", "the schedule was removed", now)
    return schedule if mine else None


def must_stop(engine: Engine, turn: Turn) -> bool:
    with engine.connect() as connection:
        found = rows(
            connection,
            "SELECT stop FROM metier_firings WHERE schedule = :id AND due = :due",
            id=turn.schedule,
            due=turn.due,
        )
    return not found or bool(found[0]["stop"])


def end(engine: Engine, turn: Turn, outcome: Outcome, now: datetime) -> bool:
    """Write down how a firing ended; whether its one-shot is done with, so that the skill may go."""
    with engine.begin() as connection:
        stopped = rows(
            connection,
            "SELECT stop FROM metier_firings WHERE schedule = :id AND due = :due",
            id=turn.schedule,
            due=turn.due,
        )
        state: State = "finished" if outcome.ok else "failed"
        if not outcome.ok and stopped and stopped[0]["stop"]:
            state = "replaced"
        if not _finish(connection, turn, state, outcome.text, now, outcome.run):
            return False
        return _after(connection, turn, state, outcome, now)


def done_with(engine: Engine, home: str) -> list[Schedule]:
    """One-shots of a home that went well, and are not cleared away yet."""
    with engine.connect() as connection:
        found = rows(connection, "SELECT * FROM metier_schedules WHERE paused = :done", done=DONE)
    return [one for one in map(schedule_of, found) if one.home == home]


def clear_done(engine: Engine, id: str) -> None:
    with engine.begin() as connection:
        run(connection, "DELETE FROM metier_schedules WHERE id = :id AND paused = :done", id=id, done=DONE)


def refuse(engine: Engine, turn: Turn, why: str, now: datetime) -> None:
    """End a firing that was not begun, and pause its schedule for review."""
    with engine.begin() as connection:
        if _finish(connection, turn, "cancelled", why, now):
            pause_in(connection, turn.schedule, why, now)


def _finish(connection: Connection, turn: Turn, state: State, note: str, now: datetime, made: str = "") -> int:
    return run(
        connection,
        "UPDATE metier_firings SET state = :state, note = :note, ended = :now, run = :run"
        " WHERE schedule = :id AND due = :due AND state IN ('queued', 'running')",
        id=turn.schedule,
        due=turn.due,
        state=state,
        note=note[:10_000],
        now=ms(now),
        run=made,
    )


def _after(connection: Connection, turn: Turn, state: State, outcome: Outcome, now: datetime) -> bool:
    """Count failures, pause after too many, and take out a one-shot that went well."""
    found = rows(
        connection, "SELECT document, failures, next_due FROM metier_schedules WHERE id = :id", id=turn.schedule
    )
    if not found or state == "replaced":
        return False
    from json import loads

    document, over = loads(found[0]["document"]), found[0]["next_due"] is None
    if state == "finished":
        if document["once"] and over:
            run(connection, "UPDATE metier_schedules SET paused = :done WHERE id = :id", id=turn.schedule, done=DONE)
            return True
        run(connection, "UPDATE metier_schedules SET failures = 0 WHERE id = :id AND failures > 0", id=turn.schedule)
        return False
    failures, most = found[0]["failures"] + 1, document["rules"]["pause_after"]
    run(connection, "UPDATE metier_schedules SET failures = :n WHERE id = :id", id=turn.schedule, n=failures)
    reason = outcome.text.partition("\n")[0][:300]
    if document["once"] and over:
        pause_in(connection, turn.schedule, f"it failed: {reason}", now)
    elif most and failures >= most:
        pause_in(connection, turn.schedule, f"{failures} failures in a row, the last one: {reason}", now)
    return False


# --- Workers ---


class Worker(NamedTuple):
    """A process that fires schedules."""

    id: str
    name: str
    home: str
    host: str
    pid: int
    started: int
    beat: int
    state: str


def enrol(engine: Engine, worker: Worker) -> None:
    """Enter a worker.  One that had its name in the same home is dead: there is only one lock."""
    with engine.begin() as connection:
        run(
            connection,
            "UPDATE metier_workers SET state = 'dead' WHERE home = :home AND name = :name AND state = 'up'",
            home=worker.home,
            name=worker.name,
        )
        run(
            connection,
            "INSERT INTO metier_workers (id, name, home, host, pid, started, beat, state)"
            " VALUES (:id, :name, :home, :host, :pid, :started, 0, 'up')",
            **{key: value for key, value in worker._asdict().items() if key not in ("beat", "state")},
        )


def beat(engine: Engine, id: str) -> bool:
    """Say that a worker lives; False when the others have given it up, so that it must go."""
    with engine.begin() as connection:
        return bool(run(connection, "UPDATE metier_workers SET beat = beat + 1 WHERE id = :id AND state = 'up'", id=id))


def workers(engine: Engine) -> list[Worker]:
    with engine.connect() as connection:
        return [Worker(**row) for row in rows(connection, "SELECT * FROM metier_workers ORDER BY started, id")]


def give_up(engine: Engine, worker: Worker) -> None:
    """Declare a worker dead, unless it has given a sign meanwhile."""
    with engine.begin() as connection:
        run(
            connection,
            "UPDATE metier_workers SET state = 'dead' WHERE id = :id AND beat = :beat AND state = 'up'",
            id=worker.id,
            beat=worker.beat,
        )


def dismiss(engine: Engine, id: str, state: str = "dead") -> None:
    """A worker is not there any more; one that said so itself has `left`."""
    with engine.begin() as connection:
        run(connection, "UPDATE metier_workers SET state = :state WHERE id = :id", id=id, state=state)


def strike(engine: Engine, id: str) -> None:
    """Take a worker out that is not there any more, after its work has gone to others."""
    with engine.begin() as connection:
        run(connection, "DELETE FROM metier_workers WHERE id = :id AND state <> 'up'", id=id)


def lost(engine: Engine, id: str, now: datetime) -> list[Turn]:
    """What a dead worker was at and must not be begun again: it is reported as lost."""
    with engine.connect() as connection:
        found = rows(
            connection, "SELECT schedule, due FROM metier_firings WHERE owner = :id AND state = 'running'", id=id
        )
    gone = []
    for turn in (Turn(row["schedule"], row["due"]) for row in found):
        schedule = get(engine, turn.schedule)
        if schedule is not None and schedule.rules.after_crash == "at-most-once":
            note = f"its worker ended in the middle of it ({instant_of(turn.due).isoformat()})"
            with engine.begin() as connection:
                if _finish(connection, turn, "lost", note, now):
                    _after(connection, turn, "lost", Outcome(False, note), now)
                    gone.append(turn)
    return gone

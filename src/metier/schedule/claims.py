"""Time and the book: what is due is claimed once, what was missed is written down, what is old is forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ..types.schedule import Schedule
from .database import document_field, fetch_rows, run_statement
from .plan import DueInstants, apply_overlap, compute_due, when_of
from .store import epoch_ms, insert_firings, instant_of, pause_in, schedule_of, starts_of
from .times import next_instant

if TYPE_CHECKING:
    from .database import Connection, Engine

_MOST_NAMED = 100
"""So many missed instants are written down one by one."""
_CLOCK_TOLERANCE_MS = 60_000
"""A clock that is this far behind what the book has seen was turned back."""


class ClaimCounts(NamedTuple):
    """What one look at the clock brought."""

    schedules: int
    firings: int


def claim_due(engine: Engine, now: datetime, most: int = 50) -> ClaimCounts:
    """Move the next time of what is due, and write its firings down; each instant is claimed by one worker, once."""
    lock = " FOR UPDATE SKIP LOCKED" if engine.dialect.name == "postgresql" else ""
    with engine.begin() as connection:
        due_rows = fetch_rows(
            connection,
            "SELECT * FROM metier_schedules WHERE paused = '' AND (next_start <= :now OR seen > :behind)"
            " ORDER BY next_start LIMIT :most" + lock,
            now=epoch_ms(now),
            behind=epoch_ms(now) + _CLOCK_TOLERANCE_MS,
            most=most,
        )
        return ClaimCounts(
            len(due_rows), sum(_claim_schedule(connection, schedule_of(row), row, now) for row in due_rows)
        )


def _claim_schedule(connection: Connection, schedule: Schedule, row: Any, now: datetime) -> int:
    if row["seen"] > epoch_ms(now) + _CLOCK_TOLERANCE_MS and not schedule.once:  # the clock was turned back
        due_now = DueInstants((), (), None, next_instant(when_of(schedule), schedule.zone, now))
    else:
        due_now = compute_due(schedule, now)
    since = max([*due_now.fire, *due_now.missed], default=now)
    after = replace(schedule, next=due_now.next)
    moved = run_statement(
        connection,
        "UPDATE metier_schedules SET next_due = :next, next_start = :start, seen = :now,"
        " since = :since WHERE id = :id AND revision = :revision AND seen = :seen"
        " AND COALESCE(next_due, 0) = :due",
        next=None if due_now.next is None else epoch_ms(due_now.next),
        start=starts_of(after),
        now=epoch_ms(now),
        since=epoch_ms(since),
        id=schedule.id,
        revision=schedule.revision,
        seen=row["seen"],
        due=row["next_due"] or 0,
    )
    return _record_due(connection, schedule, due_now, now) if moved else 0


def _record_due(connection: Connection, schedule: Schedule, due_now: DueInstants, now: datetime) -> int:
    """Write down what is to fire and what was missed."""
    if not (due_now.fire or due_now.missed):
        return 0
    open_now = fetch_rows(
        connection,
        "SELECT state FROM metier_firings WHERE schedule = :id AND state IN ('waiting', 'queued', 'running')",
        id=schedule.id,
    )
    at_work = sum(row["state"] != "waiting" for row in open_now)
    admission = apply_overlap(schedule.rules.overlap, due_now.fire, bool(at_work), len(open_now) - at_work)
    if admission.stop:
        run_statement(
            connection,
            "UPDATE metier_firings SET stop = 1, note = 'a later one came'"
            " WHERE schedule = :id AND state IN ('queued', 'running')",
            id=schedule.id,
        )
    if admission.dropped:
        run_statement(
            connection,
            "UPDATE metier_firings SET state = 'replaced', note = 'a later one came', ended = :now"
            " WHERE schedule = :id AND state = 'waiting'",
            id=schedule.id,
            now=epoch_ms(now),
        )
    new = [
        (schedule.id, epoch_ms(at), state, note, 0, None if state == "waiting" else epoch_ms(now))
        for at, state, note in admission.new
    ]
    entered = insert_firings(connection, new)
    _record_missed(connection, schedule, due_now, now)
    if schedule.once and not due_now.fire:
        pause_in(connection, schedule.id, f"its time passed while nobody was there: {schedule.when}", now)
    return entered


def _record_missed(connection: Connection, schedule: Schedule, due_now: DueInstants, now: datetime) -> None:
    """Write down the latest that were missed, each, and one that stands for those before."""
    older, named = due_now.missed[:-_MOST_NAMED], due_now.missed[-_MOST_NAMED:]
    insert_firings(
        connection, [(schedule.id, epoch_ms(at), "missed", "no worker was there", 0, epoch_ms(now)) for at in named]
    )
    if not older:
        return
    count_text = f"{len(older)} were missed" if due_now.uncounted is None else f"more than {len(older)} were missed"
    note = f"no worker was there; {count_text} from {older[0].isoformat()} to {older[-1].isoformat()}"
    for at in older:  # the first may have been dealt with before the clock was turned back
        if insert_firings(connection, [(schedule.id, epoch_ms(at), "missed", note, 0, epoch_ms(now))]):
            return


def recompute_next(engine: Engine, now: datetime) -> int:
    """Count every next time anew, from the last one that was dealt with: zones may have changed their rules."""
    changed = 0
    with engine.begin() as connection:
        recurring = (
            f"SELECT * FROM metier_schedules WHERE next_due IS NOT NULL AND NOT {document_field(connection, 'once')}"
        )
        for row in fetch_rows(connection, recurring):
            schedule = schedule_of(row)
            coming = next_instant(when_of(schedule), schedule.zone, instant_of(row["since"]))
            if coming is None or epoch_ms(coming) == row["next_due"]:
                continue
            after = replace(schedule, next=coming)
            changed += run_statement(
                connection,
                "UPDATE metier_schedules SET next_due = :due, next_start = :start"
                " WHERE id = :id AND revision = :revision AND next_due = :old",
                due=epoch_ms(coming),
                start=starts_of(after),
                id=schedule.id,
                revision=schedule.revision,
                old=row["next_due"],
            )
    return changed


def forget_old(engine: Engine, now: datetime, days: int = 90) -> int:
    """Drop firings that ended long ago, and pinned copies that no schedule names."""
    with engine.begin() as connection:
        dropped = run_statement(
            connection, "DELETE FROM metier_firings WHERE ended < :old", old=epoch_ms(now - timedelta(days=days))
        )
        named = f"SELECT {document_field(connection, 'digest')} FROM metier_schedules"
        run_statement(connection, f"DELETE FROM metier_pins WHERE digest NOT IN ({named})")
    return dropped

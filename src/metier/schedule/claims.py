"""Claims: each due instant is entered exactly once, missed ones are recorded, and old ones deleted.

Any number of workers look at the same schedules.  A claim computes what is due, then moves `next_due` with an UPDATE
that names the values it has read: revision, `seen` and `next_due`.  One worker changes the row; for the others it
matches nothing, and they enter nothing.  The firings are inserted in the same transaction, under the primary key
(schedule, due), so a crash leaves both or neither, and an instant that fired before a clock went back can't be entered
again.  Electing a leader was refused: it has to be noticed when it dies, and two may believe they lead.  `SKIP LOCKED`
on PostgreSQL only saves workers from waiting for one another; nothing depends on it for correctness.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ..types.schedule import Schedule
from .database import document_field, fetch_rows, run_statement
from .plan import DueInstants, apply_overlap, compute_due
from .store import epoch_ms, insert_firings, instant_of, pause_in, schedule_of, starts_of
from .times import fires_once, next_instant, trigger_text

if TYPE_CHECKING:
    from .database import Connection, Engine

_MOST_NAMED = 100
"""Missed instants that get a row each; older ones share one."""
_PASSED = "its time passed while no worker was running"
"""Why a one-shot is paused; stored, so the text must not change."""
_CLOCK_TOLERANCE_MS = 60_000
"""A clock this far behind the latest one recorded was set back; less is the difference between two machines."""


class ClaimCounts(NamedTuple):
    """How many schedules were due, and how many firings were entered."""

    schedules: int
    firings: int


def claim_due(engine: Engine, now: datetime, most: int = 50) -> ClaimCounts:
    """Claim the schedules that are due: move their next time and enter their firings."""
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
        _reopen_passed(connection, now)
        return ClaimCounts(
            len(due_rows), sum(_claim_schedule(connection, schedule_of(row), row, now) for row in due_rows)
        )


def _claim_schedule(connection: Connection, schedule: Schedule, row: Any, now: datetime) -> int:
    misjudged: datetime | None = None
    if row["seen"] > epoch_ms(now) + _CLOCK_TOLERANCE_MS and not fires_once(schedule.trigger):
        # The clock was set back: fire nothing twice, and do not stay silent until it has caught up again.  What was
        # called missed by a clock that was ahead is decided again, by this one.
        misjudged = _first_misjudged(connection, schedule.id, now)
        coming = next_instant(schedule.trigger, schedule.zone, now)
        due_now = DueInstants((), (), None, coming)
        if misjudged is not None:
            # By the trigger as it is now: it may have been edited since.
            first = next_instant(schedule.trigger, schedule.zone, misjudged - timedelta(seconds=1))
            if first is not None and (coming is None or first < coming):
                due_now = compute_due(replace(schedule, next=first), now)
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
    if moved and misjudged is not None:
        _forget_misjudged(connection, schedule.id, now)
    return _record_due(connection, schedule, due_now, now) if moved else 0


_MISJUDGED = "schedule = :id AND state = 'missed' AND ended > :behind"
"""Rows that a clock ahead of this one recorded: `ended` is when that was."""


def _first_misjudged(connection: Connection, id: str, now: datetime) -> datetime | None:
    behind = epoch_ms(now) + _CLOCK_TOLERANCE_MS
    query = f"SELECT MIN(due) AS first FROM metier_firings WHERE {_MISJUDGED}"
    first = fetch_rows(connection, query, id=id, behind=behind)[0]["first"]
    return None if first is None else instant_of(first)


def _forget_misjudged(connection: Connection, id: str, now: datetime) -> None:
    behind = epoch_ms(now) + _CLOCK_TOLERANCE_MS
    run_statement(connection, f"DELETE FROM metier_firings WHERE {_MISJUDGED}", id=id, behind=behind)


def _reopen_passed(connection: Connection, now: datetime) -> None:
    """Open one-shots again whose time had passed for a clock that was ahead of this one."""
    behind = epoch_ms(now) + _CLOCK_TOLERANCE_MS
    query = "SELECT * FROM metier_schedules WHERE seen > :behind AND paused LIKE :passed"
    for row in fetch_rows(connection, query, behind=behind, passed=f"{_PASSED}%"):
        schedule, due = schedule_of(row), _first_misjudged(connection, row["id"], now)
        if due is None:
            continue
        reopened = run_statement(
            connection,
            "UPDATE metier_schedules SET paused = '', next_due = :due, next_start = :start, seen = :now"
            " WHERE id = :id AND revision = :revision AND paused = :paused",
            due=epoch_ms(due),
            start=starts_of(replace(schedule, next=due)),
            now=epoch_ms(now),
            id=schedule.id,
            revision=schedule.revision,
            paused=row["paused"],
        )
        if reopened:
            _forget_misjudged(connection, schedule.id, now)


def _record_due(connection: Connection, schedule: Schedule, due_now: DueInstants, now: datetime) -> int:
    """Enter the firings that are due, as the overlap rule has it, and record those that were missed."""
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
            "UPDATE metier_firings SET stop = 1, note = 'replaced by a later firing'"
            " WHERE schedule = :id AND state IN ('queued', 'running')",
            id=schedule.id,
        )
    if admission.dropped:
        run_statement(
            connection,
            "UPDATE metier_firings SET state = 'replaced', note = 'replaced by a later firing', ended = :now"
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
    if fires_once(schedule.trigger) and not due_now.fire:
        pause_in(connection, schedule.id, f"{_PASSED}: {trigger_text(schedule.trigger)}", now)
    return entered


def _record_missed(connection: Connection, schedule: Schedule, due_now: DueInstants, now: datetime) -> None:
    """Record the latest missed instants one by one, and those before them in one row."""
    older, named = due_now.missed[:-_MOST_NAMED], due_now.missed[-_MOST_NAMED:]
    insert_firings(
        connection, [(schedule.id, epoch_ms(at), "missed", "no worker was running", 0, epoch_ms(now)) for at in named]
    )
    if not older:
        return
    count_text = f"{len(older)} were missed" if due_now.uncounted is None else f"more than {len(older)} were missed"
    note = f"no worker was running; {count_text} from {older[0].isoformat()} to {older[-1].isoformat()}"
    # The first may be recorded already, from before the clock was set back.
    for at in older:
        if insert_firings(connection, [(schedule.id, epoch_ms(at), "missed", note, 0, epoch_ms(now))]):
            return


def recompute_next(engine: Engine, now: datetime) -> int:
    """Recompute every next time from the last instant handled: an update may have changed the rules of a zone."""
    changed = 0
    with engine.begin() as connection:
        recurring = (
            f"SELECT * FROM metier_schedules WHERE next_due IS NOT NULL AND NOT {document_field(connection, 'once')}"
        )
        for row in fetch_rows(connection, recurring):
            schedule = schedule_of(row)
            coming = next_instant(schedule.trigger, schedule.zone, instant_of(row["since"]))
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
    """Delete firings that ended long ago, and pinned copies that no schedule uses."""
    with engine.begin() as connection:
        dropped = run_statement(
            connection, "DELETE FROM metier_firings WHERE ended < :old", old=epoch_ms(now - timedelta(days=days))
        )
        named = f"SELECT {document_field(connection, 'digest')} FROM metier_schedules"
        run_statement(connection, f"DELETE FROM metier_pins WHERE digest NOT IN ({named})")
    return dropped

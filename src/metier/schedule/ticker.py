"""Time and the book: what is due is claimed once, what was missed is written down, what is old is forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ..types.schedule import Schedule
from .book import instant_of, ms, pause_in, put, schedule_of, starts_of
from .database import inside, rows, run
from .plan import Due, admitted, due, when_of
from .when import following

if TYPE_CHECKING:
    from .database import Connection, Engine

_NAMED = 100
"""So many missed instants are written down one by one."""
_AHEAD = 60_000
"""A clock that is this far behind what the book has seen was turned back."""


class Claimed(NamedTuple):
    """What one look at the clock brought."""

    schedules: int
    firings: int


def claim(engine: Engine, now: datetime, most: int = 50) -> Claimed:
    """Move the next time of what is due, and write its firings down; each instant is claimed by one worker, once."""
    lock = " FOR UPDATE SKIP LOCKED" if engine.dialect.name == "postgresql" else ""
    with engine.begin() as connection:
        found = rows(
            connection,
            "SELECT * FROM metier_schedules WHERE paused = '' AND (next_start <= :now OR seen > :behind)"
            " ORDER BY next_start LIMIT :most" + lock,
            now=ms(now),
            behind=ms(now) + _AHEAD,
            most=most,
        )
        return Claimed(len(found), sum(_claim(connection, schedule_of(row), row, now) for row in found))


def _claim(connection: Connection, schedule: Schedule, row: Any, now: datetime) -> int:
    if row["seen"] > ms(now) + _AHEAD and not schedule.once:  # the clock was turned back
        found = Due((), (), None, following(when_of(schedule), schedule.zone, now))
    else:
        found = due(schedule, now)
    since = max([*found.fire, *found.missed], default=now)
    after = replace(schedule, next=found.next)
    moved = run(
        connection,
        "UPDATE metier_schedules SET next_due = :next, next_start = :start, seen = :now,"
        " since = :since WHERE id = :id AND revision = :revision AND seen = :seen"
        " AND COALESCE(next_due, 0) = :due",
        next=None if found.next is None else ms(found.next),
        start=starts_of(after),
        now=ms(now),
        since=ms(since),
        id=schedule.id,
        revision=schedule.revision,
        seen=row["seen"],
        due=row["next_due"] or 0,
    )
    return _enter(connection, schedule, found, now) if moved else 0


def _enter(connection: Connection, schedule: Schedule, found: Due, now: datetime) -> int:
    """Write down what is to fire and what was missed."""
    if not (found.fire or found.missed):
        return 0
    open_now = rows(
        connection,
        "SELECT state FROM metier_firings WHERE schedule = :id AND state IN ('waiting', 'queued', 'running')",
        id=schedule.id,
    )
    at_work = sum(row["state"] != "waiting" for row in open_now)
    admission = admitted(schedule.rules.overlap, found.fire, bool(at_work), len(open_now) - at_work)
    if admission.stop:
        run(
            connection,
            "UPDATE metier_firings SET stop = 1, note = 'a later one came'"
            " WHERE schedule = :id AND state IN ('queued', 'running')",
            id=schedule.id,
        )
    if admission.dropped:
        run(
            connection,
            "UPDATE metier_firings SET state = 'replaced', note = 'a later one came', ended = :now"
            " WHERE schedule = :id AND state = 'waiting'",
            id=schedule.id,
            now=ms(now),
        )
    new = [
        (schedule.id, ms(at), state, note, 0, None if state == "waiting" else ms(now))
        for at, state, note in admission.new
    ]
    entered = put(connection, new)
    _miss(connection, schedule, found, now)
    if schedule.once and not found.fire:
        pause_in(connection, schedule.id, f"its time passed while nobody was there: {schedule.when}", now)
    return entered


def _miss(connection: Connection, schedule: Schedule, found: Due, now: datetime) -> None:
    """Write down the latest that were missed, each, and one that stands for those before."""
    older, named = found.missed[:-_NAMED], found.missed[-_NAMED:]
    put(connection, [(schedule.id, ms(at), "missed", "no worker was there", 0, ms(now)) for at in named])
    if not older:
        return
    more = f"{len(older)} were missed" if found.uncounted is None else f"more than {len(older)} were missed"
    note = f"no worker was there; {more} from {older[0].isoformat()} to {older[-1].isoformat()}"
    for at in older:  # the first may have been dealt with before the clock was turned back
        if put(connection, [(schedule.id, ms(at), "missed", note, 0, ms(now))]):
            return


def recount(engine: Engine, now: datetime) -> int:
    """Count every next time anew, from the last one that was dealt with: zones may have changed their rules."""
    changed = 0
    with engine.begin() as connection:
        recurring = f"SELECT * FROM metier_schedules WHERE next_due IS NOT NULL AND NOT {inside(connection, 'once')}"
        for row in rows(connection, recurring):
            schedule = schedule_of(row)
            coming = following(when_of(schedule), schedule.zone, instant_of(row["since"]))
            if coming is None or ms(coming) == row["next_due"]:
                continue
            after = replace(schedule, next=coming)
            changed += run(
                connection,
                "UPDATE metier_schedules SET next_due = :due, next_start = :start"
                " WHERE id = :id AND revision = :revision AND next_due = :old",
                due=ms(coming),
                start=starts_of(after),
                id=schedule.id,
                revision=schedule.revision,
                old=row["next_due"],
            )
    return changed


def forget(engine: Engine, now: datetime, days: int = 90) -> int:
    """Drop firings that ended long ago, and pinned copies that no schedule names."""
    with engine.begin() as connection:
        dropped = run(connection, "DELETE FROM metier_firings WHERE ended < :old", old=ms(now - timedelta(days=days)))
        named = f"SELECT {inside(connection, 'digest')} FROM metier_schedules"
        run(connection, f"DELETE FROM metier_pins WHERE digest NOT IN ({named})")
    return dropped

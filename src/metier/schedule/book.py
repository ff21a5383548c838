"""The book of schedules: what was agreed, what fired, and how it ended.  Each function is one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from json import dumps, loads
from typing import TYPE_CHECKING, Any, NamedTuple

from ..types.errors import BadRequest
from ..types.schedule import Firing, Rules, Schedule, State, Terms
from .database import rows, run, run_many
from .plan import Due, admitted, due, start_of, when_of
from .skills import Pin
from .when import following

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_LIVING = ("next", "paused", "failures", "revision")
_NAMED = 100
"""So many missed instants are written down one by one."""
_AHEAD = 60_000
"""A clock that is this far behind what the book has seen was turned back."""
_MOST_WAITING = 100
_INSERT = (
    "INSERT INTO metier_firings (schedule, due, state, note, owner, attempt, manual, stop, started, ended)"
    " VALUES (:schedule, :due, :state, :note, '', 0, :manual, 0, NULL, :ended) ON CONFLICT DO NOTHING"
)


def ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1_000)


def instant_of(stamp: int) -> datetime:
    return datetime.fromtimestamp(stamp / 1_000, UTC)


# --- Schedules as rows ---


def _document(schedule: Schedule) -> str:
    kept = {key: value for key, value in asdict(schedule).items() if key not in _LIVING}
    return dumps(kept, default=lambda value: value.isoformat(), sort_keys=True)


def _schedule(row: Any) -> Schedule:
    kept = loads(row["document"])
    known = {field.name for field in fields(Schedule)}
    kept = {key: value for key, value in kept.items() if key in known}
    kept["rules"] = Rules(**kept["rules"])
    kept["terms"] = Terms(**{**kept["terms"], "permissions": tuple(kept["terms"]["permissions"])})
    kept["created"] = datetime.fromisoformat(kept["created"]) if kept["created"] else None
    return Schedule(
        **kept,
        next=None if row["next_due"] is None else instant_of(row["next_due"]),
        paused=row["paused"],
        failures=row["failures"],
        revision=row["revision"],
    )


def _firing(row: Any) -> Firing:
    def at(key: str) -> datetime | None:
        return None if row[key] is None else instant_of(row[key])

    return Firing(
        row["schedule"],
        instant_of(row["due"]),
        row["state"],
        row["note"],
        row["owner"],
        row["attempt"],
        bool(row["manual"]),
        at("started"),
        at("ended"),
    )


def _starts(schedule: Schedule) -> int | None:
    return None if schedule.next is None else ms(start_of(schedule, schedule.next))


# --- What people do ---


def add(engine: Engine, schedule: Schedule, pin: Pin, now: datetime) -> Schedule:
    """Write a schedule down, with the copy of its skill; the same skill at the same time twice is refused."""
    first = following(when_of(schedule), schedule.zone, now)
    if first is None:
        raise BadRequest(f"`{schedule.when}` has no time to come", "give a time ahead of now")
    schedule = replace(schedule, created=now, next=first)
    with engine.begin() as connection:
        _keep(connection, pin)
        for other in _of_skill(connection, schedule.skill):
            if (other.when, other.zone, other.session) == (schedule.when, schedule.zone, schedule.session):
                kind, same = ("task", "at the same time") if schedule.once else ("cron", "with the same expression")
                raise BadRequest(f"duplicate {kind}: {schedule.skill} already scheduled {same}", "", "")
        run(
            connection,
            "INSERT INTO metier_schedules (id, skill, document, revision, paused, failures, next_due, next_start,"
            " seen, since) VALUES (:id, :skill, :document, 0, '', 0, :due, :start, :now, :now)",
            id=schedule.id,
            skill=schedule.skill,
            document=_document(schedule),
            due=ms(first),
            start=_starts(schedule),
            now=ms(now),
        )
    return schedule


def change(engine: Engine, schedule: Schedule, now: datetime, pin: Pin | None = None) -> Schedule:
    """Write a schedule as it is now meant; its next time is counted from now, and what waits stays."""
    coming = following(when_of(schedule), schedule.zone, now)
    if coming is None and schedule.once:
        raise BadRequest(f"already gone: {schedule.when}", "give a time ahead of now")
    schedule = replace(schedule, next=coming, revision=schedule.revision + 1)
    with engine.begin() as connection:
        if pin is not None:
            _keep(connection, pin)
        changed = run(
            connection,
            "UPDATE metier_schedules SET document = :document, revision = :revision, next_due = :due,"
            " next_start = :start, seen = :now, since = :now, paused = :paused, failures = :failures"
            " WHERE id = :id AND revision = :revision - 1",
            id=schedule.id,
            document=_document(schedule),
            revision=schedule.revision,
            due=None if coming is None else ms(coming),
            start=_starts(schedule),
            now=ms(now),
            paused=schedule.paused,
            failures=schedule.failures,
        )
    if not changed:
        raise BadRequest(f"`{schedule.id}` was changed by somebody else meanwhile", "look at it again, then repeat")
    return schedule


def pause(engine: Engine, id: str, reason: str, now: datetime) -> None:
    with engine.begin() as connection:
        pause_in(connection, id, reason, now)


def pause_in(connection: Connection, id: str, reason: str, now: datetime) -> None:
    """Pause, and cancel what waits, but for what a person asked for."""
    run(
        connection,
        "UPDATE metier_schedules SET paused = :why, revision = revision + 1 WHERE id = :id",
        id=id,
        why=reason,
    )
    run(
        connection,
        "UPDATE metier_firings SET state = 'cancelled', note = 'the schedule was paused', ended = :now"
        " WHERE schedule = :id AND state = 'waiting' AND manual = 0",
        id=id,
        now=ms(now),
    )


def resume(engine: Engine, schedule: Schedule, now: datetime) -> Schedule:
    """Go on from now: what passed during a pause was meant to pass."""
    return change(engine, replace(schedule, paused="", failures=0), now)


def remove(engine: Engine, id: str, now: datetime) -> None:
    """Take a schedule out; what waits is cancelled, and what is at work is asked to stop."""
    with engine.begin() as connection:
        run(connection, "DELETE FROM metier_schedules WHERE id = :id", id=id)
        run(
            connection,
            "UPDATE metier_firings SET state = 'cancelled', note = 'the schedule was removed', ended = :now"
            " WHERE schedule = :id AND state = 'waiting'",
            id=id,
            now=ms(now),
        )
        run(
            connection,
            "UPDATE metier_firings SET stop = 1 WHERE schedule = :id AND state IN ('queued', 'running')",
            id=id,
        )


def trigger(engine: Engine, id: str, now: datetime) -> datetime:
    """Ask for a run by hand; it waits its turn like any other."""
    with engine.begin() as connection:
        waiting = rows(
            connection, "SELECT count(*) AS n FROM metier_firings WHERE schedule = :id AND state = 'waiting'", id=id
        )[0]["n"]
        if waiting >= _MOST_WAITING:
            raise BadRequest(
                f"{waiting} runs of `{id}` wait already", "let some of them end; `metier schedule history` lists them"
            )
        at = ms(now)
        while not _put(connection, [(id, at, "waiting", "", 1, None)]):
            at += 1
    return instant_of(at)


def _put(connection: Connection, found: Sequence[tuple[str, int, State, str, int, int | None]]) -> int:
    keys = ("schedule", "due", "state", "note", "manual", "ended")
    return sum(run(connection, _INSERT, **dict(zip(keys, one, strict=True))) for one in found)


def repin(engine: Engine, schedule: Schedule, pin: Pin) -> Schedule:
    """Agree to a skill as it is now: its owner's edit, or an improvement that was accepted.  No time changes."""
    after = replace(schedule, digest=pin.digest)
    with engine.begin() as connection:
        _keep(connection, pin)
        run(
            connection,
            "UPDATE metier_schedules SET document = :document WHERE id = :id AND revision = :revision",
            id=schedule.id,
            document=_document(after),
            revision=schedule.revision,
        )
    return after


def _keep(connection: Connection, pin: Pin) -> None:
    run(
        connection,
        "INSERT INTO metier_pins (digest, files) VALUES (:digest, :files) ON CONFLICT DO NOTHING",
        digest=pin.digest,
        files=pin.files,
    )


# --- What is read ---


def schedules(engine: Engine) -> list[Schedule]:
    with engine.connect() as connection:
        return [_schedule(row) for row in rows(connection, "SELECT * FROM metier_schedules ORDER BY id")]


def get(engine: Engine, id: str) -> Schedule | None:
    with engine.connect() as connection:
        found = rows(connection, "SELECT * FROM metier_schedules WHERE id = :id", id=id)
    return _schedule(found[0]) if found else None


def of_skill(engine: Engine, skill: str) -> list[Schedule]:
    with engine.connect() as connection:
        return _of_skill(connection, skill)


def _of_skill(connection: Connection, skill: str) -> list[Schedule]:
    return [
        _schedule(row) for row in rows(connection, "SELECT * FROM metier_schedules WHERE skill = :skill", skill=skill)
    ]


def history(engine: Engine, id: str = "", most: int = 20) -> list[Firing]:
    """The latest firings, the last one first."""
    where = "WHERE schedule = :id " if id else ""
    with engine.connect() as connection:
        found = rows(
            connection, f"SELECT * FROM metier_firings {where}ORDER BY due DESC, schedule LIMIT :most", id=id, most=most
        )
    return [_firing(row) for row in found]


def firing(engine: Engine, id: str, at: datetime) -> Firing | None:
    with engine.connect() as connection:
        found = rows(connection, "SELECT * FROM metier_firings WHERE schedule = :id AND due = :due", id=id, due=ms(at))
    return _firing(found[0]) if found else None


def pinned(engine: Engine, digest: str) -> Pin | None:
    with engine.connect() as connection:
        found = rows(connection, "SELECT * FROM metier_pins WHERE digest = :digest", digest=digest)
    return Pin(found[0]["digest"], found[0]["files"]) if found else None


# --- The ticker ---


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
        return Claimed(len(found), sum(_claim(connection, _schedule(row), row, now) for row in found))


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
        start=_starts(after),
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
    put = _put(connection, new)
    _put(connection, list(_missed(schedule, found, now)))
    if schedule.once and not found.fire:
        pause_in(connection, schedule.id, f"its time passed while nobody was there: {schedule.when}", now)
    return put


def _missed(schedule: Schedule, found: Due, now: datetime) -> Iterable[tuple[str, int, State, str, int, int | None]]:
    """Each that was missed, or the latest of them, and one that stands for the others."""
    older, named = found.missed[:-_NAMED], found.missed[-_NAMED:]
    for at in named:
        yield schedule.id, ms(at), "missed", "no worker was there", 0, ms(now)
    if older:
        more = f"{len(older)} were missed" if found.uncounted is None else f"more than {len(older)} were missed"
        note = f"no worker was there; {more} from {older[0].isoformat()} to {older[-1].isoformat()}"
        yield schedule.id, ms(older[0]), "missed", note, 0, ms(now)


def recount(engine: Engine, now: datetime) -> int:
    """Count every next time anew, from the last one that was dealt with: zones may have changed their rules."""
    changed = 0
    with engine.begin() as connection:
        for row in rows(connection, "SELECT * FROM metier_schedules WHERE next_due IS NOT NULL"):
            schedule = _schedule(row)
            if schedule.once:
                continue
            coming = following(when_of(schedule), schedule.zone, instant_of(row["since"]))
            if coming is None or ms(coming) == row["next_due"]:
                continue
            after = replace(schedule, next=coming)
            changed += run(
                connection,
                "UPDATE metier_schedules SET next_due = :due, next_start = :start"
                " WHERE id = :id AND revision = :revision AND next_due = :old",
                due=ms(coming),
                start=_starts(after),
                id=schedule.id,
                revision=schedule.revision,
                old=row["next_due"],
            )
    return changed


def forget(engine: Engine, now: datetime, days: int = 90) -> int:
    """Drop firings that ended long ago, and pinned copies that no schedule names."""
    with engine.begin() as connection:
        dropped = run(connection, "DELETE FROM metier_firings WHERE ended < :old", old=ms(now - timedelta(days=days)))
        known = {_schedule(row).digest for row in rows(connection, "SELECT * FROM metier_schedules")}
        kept = [row["digest"] for row in rows(connection, "SELECT digest FROM metier_pins")]
        run_many(
            connection,
            "DELETE FROM metier_pins WHERE digest = :digest",
            [{"digest": one} for one in kept if one not in known],
        )
    return dropped

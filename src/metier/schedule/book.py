"""The book of schedules: what was agreed, what fired, and how it ended.  Each function is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from json import dumps, loads
from typing import TYPE_CHECKING, Any

from ..types.errors import BadRequest
from ..types.schedule import Firing, Rules, Schedule, State, Terms
from .copies import Pin
from .database import rows, run
from .plan import start_of, when_of
from .when import following

if TYPE_CHECKING:
    from .database import Connection, Engine

_LIVING = ("next", "paused", "failures", "revision")
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


def document_of(schedule: Schedule) -> str:
    kept = {key: value for key, value in asdict(schedule).items() if key not in _LIVING}
    return dumps(kept, default=lambda value: value.isoformat(), sort_keys=True)


def schedule_of(row: Any) -> Schedule:
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
        row["run"],
    )


def starts_of(schedule: Schedule) -> int | None:
    return None if schedule.next is None else ms(start_of(schedule, schedule.next))


# --- What people do ---


def add(engine: Engine, schedule: Schedule, pin: Pin, now: datetime) -> Schedule:
    """Write a schedule down, with the copy of its skill; the same skill at the same time twice is refused."""
    first = following(when_of(schedule), schedule.zone, now)
    if first is None:
        raise BadRequest(f"`{schedule.when}` has no time to come", "give a time ahead of now")
    schedule = replace(schedule, created=now, next=first)
    with engine.begin() as connection:
        keep(connection, pin)
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
            document=document_of(schedule),
            due=ms(first),
            start=starts_of(schedule),
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
            keep(connection, pin)
        changed = run(
            connection,
            "UPDATE metier_schedules SET document = :document, revision = :revision, next_due = :due,"
            " next_start = :start, seen = :now, since = :now, paused = :paused, failures = :failures"
            " WHERE id = :id AND revision = :revision - 1",
            id=schedule.id,
            document=document_of(schedule),
            revision=schedule.revision,
            due=None if coming is None else ms(coming),
            start=starts_of(schedule),
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
        while not put(connection, [(id, at, "waiting", "", 1, None)]):
            at += 1
    return instant_of(at)


def put(connection: Connection, found: Sequence[tuple[str, int, State, str, int, int | None]]) -> int:
    keys = ("schedule", "due", "state", "note", "manual", "ended")
    return sum(run(connection, _INSERT, **dict(zip(keys, one, strict=True))) for one in found)


def repin(engine: Engine, schedule: Schedule, pin: Pin) -> Schedule:
    """Agree to a skill as it is now: its owner's edit, or an improvement that was accepted.  No time changes."""
    after = replace(schedule, digest=pin.digest)
    with engine.begin() as connection:
        keep(connection, pin)
        run(
            connection,
            "UPDATE metier_schedules SET document = :document WHERE id = :id AND revision = :revision",
            id=schedule.id,
            document=document_of(after),
            revision=schedule.revision,
        )
    return after


def keep(connection: Connection, pin: Pin) -> None:
    run(
        connection,
        "INSERT INTO metier_pins (digest, files) VALUES (:digest, :files) ON CONFLICT DO NOTHING",
        digest=pin.digest,
        files=pin.files,
    )


# --- What is read ---


def schedules(engine: Engine) -> list[Schedule]:
    with engine.connect() as connection:
        return [schedule_of(row) for row in rows(connection, "SELECT * FROM metier_schedules ORDER BY id")]


def get(engine: Engine, id: str) -> Schedule | None:
    with engine.connect() as connection:
        found = rows(connection, "SELECT * FROM metier_schedules WHERE id = :id", id=id)
    return schedule_of(found[0]) if found else None


def ids(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return [row["id"] for row in rows(connection, "SELECT id FROM metier_schedules ORDER BY id")]


def is_used(engine: Engine, skill: str, but: str = "") -> bool:
    """Whether a schedule names a skill; one look, however many do."""
    query = "SELECT 1 FROM metier_schedules WHERE skill = :skill AND id <> :but LIMIT 1"
    with engine.connect() as connection:
        return bool(rows(connection, query, skill=skill, but=but))


def of_skill(engine: Engine, skill: str) -> list[Schedule]:
    with engine.connect() as connection:
        return _of_skill(connection, skill)


def _of_skill(connection: Connection, skill: str) -> list[Schedule]:
    return [
        schedule_of(row) for row in rows(connection, "SELECT * FROM metier_schedules WHERE skill = :skill", skill=skill)
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

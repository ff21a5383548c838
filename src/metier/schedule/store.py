"""The book of schedules: what was agreed, what fired, and how it ended.  Each function is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from json import dumps, loads
from typing import TYPE_CHECKING, Any

from ..types.errors import BadRequest
from ..types.schedule import Firing, FiringState, RunTerms, Schedule, ScheduleRules
from .database import fetch_rows, run_statement
from .pins import PinnedCopy
from .plan import start_of, when_of
from .times import next_instant

if TYPE_CHECKING:
    from .database import Connection, Engine

_ROW_FIELDS = ("next", "paused", "failures", "revision")
_MOST_WAITING = 100
_INSERT_FIRING = (
    "INSERT INTO metier_firings (schedule, due, state, note, owner, attempt, manual, stop, started, ended)"
    " VALUES (:schedule, :due, :state, :note, '', 0, :manual, 0, NULL, :ended) ON CONFLICT DO NOTHING"
)


def epoch_ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1_000)


def instant_of(stamp: int) -> datetime:
    return datetime.fromtimestamp(stamp / 1_000, UTC)


# --- Schedules as rows ---


def document_of(schedule: Schedule) -> str:
    values = {key: value for key, value in asdict(schedule).items() if key not in _ROW_FIELDS}
    return dumps(values, default=lambda value: value.isoformat(), sort_keys=True)


def schedule_of(row: Any) -> Schedule:
    values = loads(row["document"])
    names = {field.name for field in fields(Schedule)}
    values = {key: value for key, value in values.items() if key in names}
    values["rules"] = ScheduleRules(**values["rules"])
    values["terms"] = RunTerms(**{**values["terms"], "permissions": tuple(values["terms"]["permissions"])})
    values["created"] = datetime.fromisoformat(values["created"]) if values["created"] else None
    return Schedule(
        **values,
        next=None if row["next_due"] is None else instant_of(row["next_due"]),
        paused=row["paused"],
        failures=row["failures"],
        revision=row["revision"],
    )


def _firing_of(row: Any) -> Firing:
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
    return None if schedule.next is None else epoch_ms(start_of(schedule, schedule.next))


# --- What people do ---


def add_schedule(engine: Engine, schedule: Schedule, pin: PinnedCopy, now: datetime) -> Schedule:
    """Write a schedule down, with the copy of its skill; the same skill at the same time twice is refused."""
    first = next_instant(when_of(schedule), schedule.zone, now)
    if first is None:
        raise BadRequest(f"`{schedule.when}` has no time to come", "give a time ahead of now")
    schedule = replace(schedule, created=now, next=first)
    with engine.begin() as connection:
        store_pin(connection, pin)
        for existing in _schedules_of_skill(connection, schedule.skill):
            if (existing.when, existing.zone, existing.session) == (schedule.when, schedule.zone, schedule.session):
                kind, same = ("task", "at the same time") if schedule.once else ("cron", "with the same expression")
                raise BadRequest(f"duplicate {kind}: {schedule.skill} already scheduled {same}", "", "")
        run_statement(
            connection,
            "INSERT INTO metier_schedules (id, skill, document, revision, paused, failures, next_due, next_start,"
            " seen, since) VALUES (:id, :skill, :document, 0, '', 0, :due, :start, :now, :now)",
            id=schedule.id,
            skill=schedule.skill,
            document=document_of(schedule),
            due=epoch_ms(first),
            start=starts_of(schedule),
            now=epoch_ms(now),
        )
    return schedule


def change_schedule(engine: Engine, schedule: Schedule, now: datetime, pin: PinnedCopy | None = None) -> Schedule:
    """Write a schedule as it is now meant; its next time is counted from now, and what waits stays."""
    coming = next_instant(when_of(schedule), schedule.zone, now)
    if coming is None and schedule.once:
        raise BadRequest(f"already gone: {schedule.when}", "give a time ahead of now")
    schedule = replace(schedule, next=coming, revision=schedule.revision + 1)
    with engine.begin() as connection:
        if pin is not None:
            store_pin(connection, pin)
        changed = run_statement(
            connection,
            "UPDATE metier_schedules SET document = :document, revision = :revision, next_due = :due,"
            " next_start = :start, seen = :now, since = :now, paused = :paused, failures = :failures"
            " WHERE id = :id AND revision = :revision - 1",
            id=schedule.id,
            document=document_of(schedule),
            revision=schedule.revision,
            due=None if coming is None else epoch_ms(coming),
            start=starts_of(schedule),
            now=epoch_ms(now),
            paused=schedule.paused,
            failures=schedule.failures,
        )
    if not changed:
        raise BadRequest(f"`{schedule.id}` was changed by somebody else meanwhile", "look at it again, then repeat")
    return schedule


def pause_schedule(engine: Engine, id: str, reason: str, now: datetime) -> None:
    with engine.begin() as connection:
        pause_in(connection, id, reason, now)


def pause_in(connection: Connection, id: str, reason: str, now: datetime) -> None:
    """Pause, and cancel what waits, but for what a person asked for."""
    run_statement(
        connection,
        "UPDATE metier_schedules SET paused = :why, revision = revision + 1 WHERE id = :id",
        id=id,
        why=reason,
    )
    run_statement(
        connection,
        "UPDATE metier_firings SET state = 'cancelled', note = 'the schedule was paused', ended = :now"
        " WHERE schedule = :id AND state = 'waiting' AND manual = 0",
        id=id,
        now=epoch_ms(now),
    )


def resume_schedule(engine: Engine, schedule: Schedule, now: datetime) -> Schedule:
    """Go on from now: what passed during a pause was meant to pass."""
    return change_schedule(engine, replace(schedule, paused="", failures=0), now)


def remove_schedule(engine: Engine, id: str, now: datetime) -> None:
    """Take a schedule out; what waits is cancelled, and what is at work is asked to stop."""
    with engine.begin() as connection:
        run_statement(connection, "DELETE FROM metier_schedules WHERE id = :id", id=id)
        run_statement(
            connection,
            "UPDATE metier_firings SET state = 'cancelled', note = 'the schedule was removed', ended = :now"
            " WHERE schedule = :id AND state = 'waiting'",
            id=id,
            now=epoch_ms(now),
        )
        run_statement(
            connection,
            "UPDATE metier_firings SET stop = 1 WHERE schedule = :id AND state IN ('queued', 'running')",
            id=id,
        )


def trigger_schedule(engine: Engine, id: str, now: datetime) -> datetime:
    """Ask for a run by hand; it waits its turn like any other."""
    with engine.begin() as connection:
        waiting = fetch_rows(
            connection, "SELECT count(*) AS n FROM metier_firings WHERE schedule = :id AND state = 'waiting'", id=id
        )[0]["n"]
        if waiting >= _MOST_WAITING:
            raise BadRequest(
                f"{waiting} runs of `{id}` wait already", "let some of them end; `metier schedule history` lists them"
            )
        at = epoch_ms(now)
        while not insert_firings(connection, [(id, at, "waiting", "", 1, None)]):
            at += 1
    return instant_of(at)


def insert_firings(
    connection: Connection, firings: Sequence[tuple[str, int, FiringState, str, int, int | None]]
) -> int:
    keys = ("schedule", "due", "state", "note", "manual", "ended")
    return sum(run_statement(connection, _INSERT_FIRING, **dict(zip(keys, firing, strict=True))) for firing in firings)


def repin_schedule(engine: Engine, schedule: Schedule, pin: PinnedCopy) -> Schedule:
    """Agree to a skill as it is now: its owner's edit, or an improvement that was accepted.  No time changes."""
    after = replace(schedule, digest=pin.digest)
    with engine.begin() as connection:
        store_pin(connection, pin)
        run_statement(
            connection,
            "UPDATE metier_schedules SET document = :document WHERE id = :id AND revision = :revision",
            id=schedule.id,
            document=document_of(after),
            revision=schedule.revision,
        )
    return after


def store_pin(connection: Connection, pin: PinnedCopy) -> None:
    run_statement(
        connection,
        "INSERT INTO metier_pins (digest, files) VALUES (:digest, :files) ON CONFLICT DO NOTHING",
        digest=pin.digest,
        files=pin.files,
    )


# --- What is read ---


def all_schedules(engine: Engine) -> list[Schedule]:
    with engine.connect() as connection:
        return [schedule_of(row) for row in fetch_rows(connection, "SELECT * FROM metier_schedules ORDER BY id")]


def get_schedule(engine: Engine, id: str) -> Schedule | None:
    with engine.connect() as connection:
        matches = fetch_rows(connection, "SELECT * FROM metier_schedules WHERE id = :id", id=id)
    return schedule_of(matches[0]) if matches else None


def schedule_ids(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return [row["id"] for row in fetch_rows(connection, "SELECT id FROM metier_schedules ORDER BY id")]


def is_used(engine: Engine, skill: str, but: str = "") -> bool:
    """Whether a schedule names a skill; one look, however many do."""
    query = "SELECT 1 FROM metier_schedules WHERE skill = :skill AND id <> :but LIMIT 1"
    with engine.connect() as connection:
        return bool(fetch_rows(connection, query, skill=skill, but=but))


def schedules_of_skill(engine: Engine, skill: str) -> list[Schedule]:
    with engine.connect() as connection:
        return _schedules_of_skill(connection, skill)


def _schedules_of_skill(connection: Connection, skill: str) -> list[Schedule]:
    return [
        schedule_of(row)
        for row in fetch_rows(connection, "SELECT * FROM metier_schedules WHERE skill = :skill", skill=skill)
    ]


def firing_history(engine: Engine, id: str = "", most: int = 20) -> list[Firing]:
    """The latest firings, the last one first."""
    where = "WHERE schedule = :id " if id else ""
    with engine.connect() as connection:
        firing_rows = fetch_rows(
            connection, f"SELECT * FROM metier_firings {where}ORDER BY due DESC, schedule LIMIT :most", id=id, most=most
        )
    return [_firing_of(row) for row in firing_rows]


def get_firing(engine: Engine, id: str, at: datetime) -> Firing | None:
    with engine.connect() as connection:
        matches = fetch_rows(
            connection, "SELECT * FROM metier_firings WHERE schedule = :id AND due = :due", id=id, due=epoch_ms(at)
        )
    return _firing_of(matches[0]) if matches else None


def get_pinned(engine: Engine, digest: str) -> PinnedCopy | None:
    with engine.connect() as connection:
        matches = fetch_rows(connection, "SELECT * FROM metier_pins WHERE digest = :digest", digest=digest)
    return PinnedCopy(matches[0]["digest"], matches[0]["files"]) if matches else None

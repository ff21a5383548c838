"""The store of schedules, firings and pinned copies.  Each public function is one transaction.

A schedule is a row: what never changes while it runs is one JSON document, what workers update is a column each, so
that claiming what is due neither parses nor rewrites documents.  Instants are integer milliseconds since the epoch, as
SQLite has no type for them.  A trigger is stored as `when` and `once`; `schedule_fields` and `read_trigger` convert it,
and nothing else knows about these two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from json import dumps, loads
from typing import TYPE_CHECKING, Any, assert_never

from ..types.errors import BadRequest
from ..types.schedule import (
    CronTrigger,
    Firing,
    FiringState,
    OnceTrigger,
    RunTerms,
    Schedule,
    ScheduleRules,
    Trigger,
)
from .database import fetch_rows, run_statement
from .pins import PinnedCopy
from .plan import start_of
from .times import fires_once, next_instant, trigger_text

if TYPE_CHECKING:
    from .database import Connection, Engine

_ROW_FIELDS = ("next", "paused", "failures", "revision")
"""Fields that have a column of their own."""
_MOST_WAITING = 100
"""Manual runs that may wait for a schedule: a loop that triggers one must not fill the table."""
_INSERT_FIRING = (
    "INSERT INTO metier_firings (schedule, due, state, note, owner, attempt, manual, stop, started, ended)"
    " VALUES (:schedule, :due, :state, :note, '', 0, :manual, 0, NULL, :ended) ON CONFLICT DO NOTHING"
)
"""The primary key is (schedule, due): an instant that is there already is left as it is."""


def epoch_ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1_000)


def instant_of(stamp: int) -> datetime:
    return datetime.fromtimestamp(stamp / 1_000, UTC)


# --- Schedules as rows ---


def schedule_fields(schedule: Schedule) -> dict[str, object]:
    """The fields of a schedule as they are stored and printed: its trigger as `when` and `once`."""
    values: dict[str, object] = {}
    for key, value in asdict(schedule).items():
        if key == "trigger":
            values |= {"when": trigger_text(schedule.trigger), "once": fires_once(schedule.trigger)}
        else:
            values[key] = value
    return values


def read_trigger(document: Mapping[str, Any]) -> Trigger:
    when: str = document["when"]
    return OnceTrigger(datetime.fromisoformat(when)) if document["once"] else CronTrigger(when)


def document_of(schedule: Schedule) -> str:
    values = {key: value for key, value in schedule_fields(schedule).items() if key not in _ROW_FIELDS}
    return dumps(values, default=lambda value: value.isoformat(), sort_keys=True)


def schedule_of(row: Any) -> Schedule:
    document = loads(row["document"])
    names = {field.name for field in fields(Schedule)}
    # Fields of a newer metier are ignored.
    values = {key: value for key, value in document.items() if key in names}
    values["trigger"] = read_trigger(document)
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
    """When its next firing may start, jitter included."""
    return None if schedule.next is None else epoch_ms(start_of(schedule, schedule.next))


# --- Changing schedules ---


def add_schedule(engine: Engine, schedule: Schedule, pin: PinnedCopy, now: datetime) -> Schedule:
    """Store a schedule and the copy of its skill; the same skill at the same time twice is refused."""
    first = next_instant(schedule.trigger, schedule.zone, now)
    if first is None:
        raise BadRequest(f"`{trigger_text(schedule.trigger)}` is in the past", "give a time in the future")
    schedule = replace(schedule, created=now, next=first)
    with engine.begin() as connection:
        # Checked in the transaction that inserts: on SQLite no other writer comes in between.
        store_pin(connection, pin)
        for existing in _schedules_of_skill(connection, schedule.skill):
            same_time = (existing.trigger, existing.zone) == (schedule.trigger, schedule.zone)
            if same_time and existing.session == schedule.session:
                raise BadRequest(_duplicate_message(schedule))
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


def _duplicate_message(schedule: Schedule) -> str:
    """In Agenvoy's words, which an agent reads."""
    match schedule.trigger:
        case CronTrigger():
            return f"duplicate cron: {schedule.skill} already scheduled with the same expression"
        case OnceTrigger():
            return f"duplicate task: {schedule.skill} already scheduled at the same time"
        case _:
            assert_never(schedule.trigger)


def change_schedule(engine: Engine, schedule: Schedule, now: datetime, pin: PinnedCopy | None = None) -> Schedule:
    """Replace a schedule; its next time is counted from now, and firings that wait stay."""
    coming = next_instant(schedule.trigger, schedule.zone, now)
    if coming is None and fires_once(schedule.trigger):
        raise BadRequest(f"already gone: {trigger_text(schedule.trigger)}", "give a time in the future")
    schedule = replace(schedule, next=coming, revision=schedule.revision + 1)
    with engine.begin() as connection:
        if pin is not None:
            store_pin(connection, pin)
        # The revision is an optimistic lock: a worker or another command that changed the row meanwhile wins.
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
        raise BadRequest(f"`{schedule.id}` was changed by another process meanwhile", "check it, then try again")
    return schedule


def pause_schedule(engine: Engine, id: str, reason: str, now: datetime) -> None:
    with engine.begin() as connection:
        pause_in(connection, id, reason, now)


def pause_in(connection: Connection, id: str, reason: str, now: datetime) -> None:
    """Pause, and cancel waiting firings except those started by hand."""
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
    """Continue from now: what passed during the pause is not caught up with."""
    return change_schedule(engine, replace(schedule, paused="", failures=0), now)


def remove_schedule(engine: Engine, id: str, now: datetime) -> None:
    """Delete a schedule, cancel its waiting firings, and ask an active one to stop."""
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
    """Add a firing by hand; it waits its turn like any other."""
    with engine.begin() as connection:
        waiting = fetch_rows(
            connection, "SELECT count(*) AS n FROM metier_firings WHERE schedule = :id AND state = 'waiting'", id=id
        )[0]["n"]
        if waiting >= _MOST_WAITING:
            raise BadRequest(f"{waiting} runs of `{id}` are waiting already", "`metier schedule history` lists them")
        at = epoch_ms(now)
        # The instant is the key, so two runs started in one millisecond get two.
        while not insert_firings(connection, [(id, at, "waiting", "", 1, None)]):
            at += 1
    return instant_of(at)


def insert_firings(
    connection: Connection, firings: Sequence[tuple[str, int, FiringState, str, int, int | None]]
) -> int:
    """How many were new."""
    keys = ("schedule", "due", "state", "note", "manual", "ended")
    return sum(run_statement(connection, _INSERT_FIRING, **dict(zip(keys, firing, strict=True))) for firing in firings)


def repin_schedule(engine: Engine, schedule: Schedule, pin: PinnedCopy) -> Schedule:
    """Pin a skill as it is now: its owner edited it, or accepted an improvement.  Its times stay."""
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


# --- Reading ---


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
    """Whether a schedule other than `but` names a skill."""
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
    """The latest firings, newest first."""
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

"""Making a schedule of what a person or an agent asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from ..host import http
from ..library import scheduled
from ..types.errors import BadRequest
from ..types.place import Place
from ..types.schedule import RunTerms, Schedule, ScheduleRules
from . import pins, store
from .times import CronExpression, ScheduleTime, cron_firings, schedule_time
from .worker import home_id

if TYPE_CHECKING:
    from .database import Engine

_valid_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}").fullmatch


@dataclass(frozen=True)
class ScheduleRequest:
    """What was asked for."""

    skill: str
    folder: str
    time: str
    zone: str
    own: bool = True
    id: str = ""
    arguments: str = ""
    session: str = ""
    rules: ScheduleRules = field(default_factory=ScheduleRules)
    terms: RunTerms = field(default_factory=RunTerms)


def create_schedule(place: Place, engine: Engine, request: ScheduleRequest, now: datetime) -> Schedule:
    """Pin the skill as it is now, and write the schedule down."""
    when = schedule_time(request.time, now, request.zone)
    check_rules(request.rules, when, request.zone, now)
    check_terms(request.terms)
    for label, value in (("id", request.id), ("session", request.session)):
        if value and _valid_name(value) is None:
            raise BadRequest(f"`{value}` can't be the {label} of a schedule", "use letters, digits, `-`, `_` and `.`")
    pin = pins.pin_folder(request.folder)
    schedule = Schedule(
        request.id or unused_id(request.skill, store.schedule_ids(engine)),
        request.skill,
        *stored_time(when),
        request.zone,
        pin.digest,
        request.folder,
        home_id(place),
        request.own,
        request.arguments,
        request.session,
        request.rules,
        request.terms,
        "" if request.own else place.project,
    )
    if request.id and store.get_schedule(engine, request.id) is not None:
        raise BadRequest(
            f"there is a schedule `{request.id}` already", "choose another id, or `metier schedule patch` it"
        )
    return store.add_schedule(engine, schedule, pin, now)


def stored_time(when: ScheduleTime) -> tuple[str, bool]:
    """A time as a schedule keeps it, and whether it comes only once."""
    return (when.expression, False) if isinstance(when, CronExpression) else (when.at.isoformat(), True)


def unused_id(skill: str, existing: Iterable[str]) -> str:
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", skill).strip("-._")[:80] or "schedule"
    taken = set(existing)
    candidate, number = base, 2
    while candidate in taken:
        candidate, number = f"{base}.{number}", number + 1
    return candidate


def check_rules(rules: ScheduleRules, when: ScheduleTime, zone: str, now: datetime) -> None:
    if rules.pause_after < 0:
        raise BadRequest("a number of failures can't be less than nothing", "0 never pauses")
    most = timedelta(hours=1)
    if isinstance(when, CronExpression):
        first, second = (instant.astimezone(UTC) for instant in islice(cron_firings(when, zone, now), 2))
        most = min(most, (second - first) / 10)
    if not 0 <= rules.jitter <= most.total_seconds():
        limit = f"a tenth of the time between two firings, here {int(most.total_seconds())} seconds"
        raise BadRequest(f"a jitter of {rules.jitter} seconds does not fit", f"it can be up to {limit}")


def check_terms(terms: RunTerms) -> None:
    http.check_sink(terms.sink)
    if not 0 <= terms.budget < float("inf"):
        raise BadRequest("a budget can't be less than nothing", "0 is the agent's own limit")


def find_schedule(engine: Engine, name: str) -> Schedule:
    """The schedule of that id, or the only one of that skill."""
    exact = store.get_schedule(engine, name)
    if exact is not None:
        return exact
    bare = name.removeprefix("/").removeprefix(scheduled.COMMAND_PREFIX)
    same = [schedule for skill in {name, bare} for schedule in store.schedules_of_skill(engine, skill)]
    if len(same) == 1:
        return same[0]
    if same:
        raise BadRequest(f"`{name}` has {len(same)} schedules", "name one: " + ", ".join(match.id for match in same))
    near = get_close_matches(name, store.schedule_ids(engine), 1, 0.6)
    hint = f"did you mean `{near[0]}`?" if near else "run `metier schedule list` to see what there is"
    raise BadRequest(f"no schedule is called `{name}`", hint)


def retime_schedule(schedule: Schedule, text: str, zone: str, now: datetime) -> Schedule:
    """The same schedule at another time."""
    when = schedule_time(text, now, zone)
    check_rules(schedule.rules, when, zone, now)
    moment, once = stored_time(when)
    return replace(schedule, when=moment, once=once, zone=zone)


def agreed_schedules(place: Place, engine: Engine, folder: str) -> list[Schedule]:
    """The schedules of this home that have agreed to a skill as it is now in its folder."""
    mine = [
        schedule
        for schedule in store.all_schedules(engine)
        if schedule.source == folder and schedule.home == home_id(place)
    ]
    now = pins.pin_folder(folder).digest if mine else ""
    return [schedule for schedule in mine if schedule.digest == now]


def repin_schedules(engine: Engine, agreed: Iterable[Schedule]) -> list[Schedule]:
    """Agree to a skill as it is now in schedules that had agreed before: an improvement of it was accepted."""
    return [store.repin_schedule(engine, schedule, pins.pin_folder(schedule.source)) for schedule in agreed]

"""Requests: check what a person or an agent asks for, make it a schedule, find one by name, change its time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, assert_never

from ..host import http
from ..library import scheduled
from ..types.errors import BadRequest
from ..types.place import Place
from ..types.schedule import CronTrigger, OnceTrigger, RunTerms, Schedule, ScheduleRules, Trigger
from . import pins, store
from .times import firing_times, schedule_time
from .worker import home_id

if TYPE_CHECKING:
    from .database import Engine

_valid_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}").fullmatch


@dataclass(frozen=True)
class ScheduleRequest:
    """What a schedule is to be; `time` is a text that `schedule_time` reads."""

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
    """Pin the skill as it is now, and store the schedule."""
    trigger = schedule_time(request.time, now, request.zone)
    check_rules(request.rules, trigger, request.zone, now)
    check_terms(request.terms)
    for label, value in (("id", request.id), ("session", request.session)):
        if value and _valid_name(value) is None:
            raise BadRequest(f"`{value}` is not a valid {label}", "use letters, digits, `-`, `_` and `.`")
    pin = pins.pin_folder(request.folder)
    schedule = Schedule(
        request.id or unused_id(request.skill, store.schedule_ids(engine)),
        request.skill,
        trigger,
        request.zone,
        pin.digest,
        request.folder,
        home_id(place),
        request.own,
        request.arguments,
        request.session,
        request.rules,
        request.terms,
        # A scheduler skill belongs to the user, wherever it is scheduled from.
        "" if request.own else place.project,
    )
    if request.id and store.get_schedule(engine, request.id) is not None:
        raise BadRequest(
            f"schedule `{request.id}` already exists", "choose another id, or change it with `metier schedule patch`"
        )
    return store.add_schedule(engine, schedule, pin, now)


def unused_id(skill: str, existing: Iterable[str]) -> str:
    """The name of the skill as an id, numbered if it is taken."""
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", skill).strip("-._")[:80] or "schedule"
    taken = set(existing)
    candidate, number = base, 2
    while candidate in taken:
        candidate, number = f"{base}.{number}", number + 1
    return candidate


_MOST_JITTER = timedelta(hours=1)


def check_rules(rules: ScheduleRules, trigger: Trigger, zone: str, now: datetime) -> None:
    if rules.pause_after < 0:
        raise BadRequest("--pause-after must be 0 or more", "0 never pauses")
    most = int(_largest_jitter(trigger, zone, now).total_seconds())
    if not 0 <= rules.jitter <= most:
        raise BadRequest(
            f"a jitter of {rules.jitter} seconds is out of range",
            f"use 0 to {most}: at most an hour, and a tenth of the time between two firings",
        )


def _largest_jitter(trigger: Trigger, zone: str, now: datetime) -> timedelta:
    """A tenth of the interval at most: firings keep their order, and start near their time."""
    match trigger:
        case CronTrigger():
            first, second = (instant.astimezone(UTC) for instant in islice(firing_times(trigger, zone, now), 2))
            return min(_MOST_JITTER, (second - first) / 10)
        case OnceTrigger():
            return _MOST_JITTER
        case _:
            assert_never(trigger)


def check_terms(terms: RunTerms) -> None:
    http.check_sink(terms.sink)
    if not 0 <= terms.budget < float("inf"):
        raise BadRequest("--budget must be 0 or more", "0 is the agent's own limit")


def find_schedule(engine: Engine, name: str) -> Schedule:
    """The schedule of an id, or the only one of a skill."""
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
    hint = f"did you mean `{near[0]}`?" if near else "run `metier schedule list` to list them"
    raise BadRequest(f"no schedule named `{name}`", hint)


def retime_schedule(schedule: Schedule, text: str, zone: str, now: datetime) -> Schedule:
    """The same schedule at another time."""
    trigger = schedule_time(text, now, zone)
    check_rules(schedule.rules, trigger, zone, now)
    return replace(schedule, trigger=trigger, zone=zone)


def agreed_schedules(place: Place, engine: Engine, folder: str) -> list[Schedule]:
    """The schedules of this home whose pinned copy is the skill as it is now in its folder."""
    mine = [
        schedule
        for schedule in store.all_schedules(engine)
        if schedule.source == folder and schedule.home == home_id(place)
    ]
    now = pins.pin_folder(folder).digest if mine else ""
    return [schedule for schedule in mine if schedule.digest == now]


def repin_schedules(engine: Engine, agreed: Iterable[Schedule]) -> list[Schedule]:
    """Pin a skill as it is now in these schedules."""
    return [store.repin_schedule(engine, schedule, pins.pin_folder(schedule.source)) for schedule in agreed]

"""Making a schedule of what a person or an agent asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from ..host import sink
from ..types.errors import BadRequest
from ..types.place import Place
from ..types.schedule import Rules, Schedule, Terms
from . import book, copies, skills
from .when import Cron, When, firings, schedule_time
from .worker import home_id

if TYPE_CHECKING:
    from .database import Engine

_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}").fullmatch


@dataclass(frozen=True)
class Wish:
    """What was asked for."""

    skill: str
    folder: str
    time: str
    zone: str
    own: bool = True
    id: str = ""
    arguments: str = ""
    session: str = ""
    rules: Rules = field(default_factory=Rules)
    terms: Terms = field(default_factory=Terms)


def arrange(place: Place, engine: Engine, wish: Wish, now: datetime) -> Schedule:
    """Pin the skill as it is now, and write the schedule down."""
    when = schedule_time(wish.time, now, wish.zone)
    check_rules(wish.rules, when, wish.zone, now)
    check_terms(wish.terms)
    for what, value in (("id", wish.id), ("session", wish.session)):
        if value and _name(value) is None:
            raise BadRequest(f"`{value}` can't be the {what} of a schedule", "use letters, digits, `-`, `_` and `.`")
    one = copies.pin(wish.folder)
    schedule = Schedule(
        wish.id or unused_id(wish.skill, book.ids(engine)),
        wish.skill,
        *written(when),
        wish.zone,
        one.digest,
        wish.folder,
        home_id(place),
        wish.own,
        wish.arguments,
        wish.session,
        wish.rules,
        wish.terms,
        "" if wish.own else place.project,
    )
    if wish.id and book.get(engine, wish.id) is not None:
        raise BadRequest(f"there is a schedule `{wish.id}` already", "choose another id, or `metier schedule patch` it")
    return book.add(engine, schedule, one, now)


def written(when: When) -> tuple[str, bool]:
    """A time as a schedule keeps it, and whether it comes only once."""
    return (when.expression, False) if isinstance(when, Cron) else (when.at.isoformat(), True)


def unused_id(skill: str, known: Iterable[str]) -> str:
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", skill).strip("-._")[:80] or "schedule"
    taken = set(known)
    found, number = base, 2
    while found in taken:
        found, number = f"{base}.{number}", number + 1
    return found


def check_rules(rules: Rules, when: When, zone: str, now: datetime) -> None:
    if rules.pause_after < 0:
        raise BadRequest("a number of failures can't be less than nothing", "0 never pauses")
    most = timedelta(hours=1)
    if isinstance(when, Cron):
        first, second = (one.astimezone(UTC) for one in islice(firings(when, zone, now), 2))
        most = min(most, (second - first) / 10)
    if not 0 <= rules.jitter <= most.total_seconds():
        limit = f"a tenth of the time between two firings, here {int(most.total_seconds())} seconds"
        raise BadRequest(f"a jitter of {rules.jitter} seconds does not fit", f"it can be up to {limit}")


def check_terms(terms: Terms) -> None:
    sink.checked(terms.sink)
    if not 0 <= terms.budget < float("inf"):
        raise BadRequest("a budget can't be less than nothing", "0 is the agent's own limit")


def found(engine: Engine, name: str) -> Schedule:
    """The schedule of that id, or the only one of that skill."""
    one = book.get(engine, name)
    if one is not None:
        return one
    bare = name.removeprefix("/").removeprefix(skills.PREFIX)
    same = [schedule for skill in {name, bare} for schedule in book.of_skill(engine, skill)]
    if len(same) == 1:
        return same[0]
    if same:
        raise BadRequest(f"`{name}` has {len(same)} schedules", "name one: " + ", ".join(one.id for one in same))
    near = get_close_matches(name, book.ids(engine), 1, 0.6)
    hint = f"did you mean `{near[0]}`?" if near else "run `metier schedule list` to see what there is"
    raise BadRequest(f"no schedule is called `{name}`", hint)


def retimed(schedule: Schedule, text: str, zone: str, now: datetime) -> Schedule:
    """The same schedule at another time."""
    when = schedule_time(text, now, zone)
    check_rules(schedule.rules, when, zone, now)
    moment, once = written(when)
    return replace(schedule, when=moment, once=once, zone=zone)


def agreed_with(place: Place, engine: Engine, folder: str) -> list[Schedule]:
    """The schedules of this home that have agreed to a skill as it is now in its folder."""
    mine = [one for one in book.schedules(engine) if one.source == folder and one.home == home_id(place)]
    now = copies.pin(folder).digest if mine else ""
    return [one for one in mine if one.digest == now]


def pinned_anew(engine: Engine, agreed: Iterable[Schedule]) -> list[Schedule]:
    """Agree to a skill as it is now in schedules that had agreed before: an improvement of it was accepted."""
    return [book.repin(engine, one, copies.pin(one.source)) for one in agreed]

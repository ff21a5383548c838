"""What is due: a schedule and the time, as the instants to fire, those that were missed, and the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

from ..types.schedule import Overlap, Schedule, State
from .when import Cron, Once, When, firings, following

WINDOW = timedelta(hours=24)
"""`one` catches up with nothing older."""
MOST = 10
"""`all` catches up with no more."""
PUNCTUAL = timedelta(seconds=60)
"""A firing this late is no catch-up."""
COUNTED = 1_000
"""Missed instants are counted one by one up to here."""


class Due(NamedTuple):
    """What follows from the time."""

    fire: tuple[datetime, ...]
    missed: tuple[datetime, ...]
    uncounted: tuple[datetime, datetime] | None
    """Between these more was missed than is worth counting."""
    next: datetime | None


def when_of(schedule: Schedule) -> When:
    return Once(datetime.fromisoformat(schedule.when)) if schedule.once else Cron(schedule.when)


def due(schedule: Schedule, now: datetime) -> Due:
    """What a schedule owes at a time.  However long nobody looked, the work here is bounded."""
    first = schedule.next
    if first is None or first > now:
        return Due((), (), None, first)
    passed, uncounted, coming = _passed(when_of(schedule), schedule.zone, first, now)
    fire = _caught_up(schedule, passed, now)
    kept = set(fire)
    return Due(fire, tuple(one for one in passed if one not in kept), uncounted, coming)


def _caught_up(schedule: Schedule, passed: list[datetime], now: datetime) -> tuple[datetime, ...]:
    if schedule.rules.catch_up == "all":
        return tuple(passed[-MOST:])
    late = now - start_of(schedule, passed[-1])
    within = PUNCTUAL if schedule.rules.catch_up == "none" else WINDOW
    return (passed[-1],) if late <= within else ()


def _passed(
    when: When, zone: str, first: datetime, now: datetime
) -> tuple[list[datetime], tuple[datetime, datetime] | None, datetime | None]:
    """The instants from the first up to now, what was left uncounted, and the one to come."""
    if isinstance(when, Once):
        return [first], None, None
    found = [first]
    for one in _in_utc(when, zone, first):
        if one > now:
            return found, None, one
        found.append(one)
        if len(found) > COUNTED:
            break
    else:
        return found, None, None
    recent = [one for one in _recent(when, zone, now) if one > found[-1]]
    gap = (found[-1], recent[0]) if recent else None
    return found + recent, gap, following(when, zone, now)


def _recent(when: Cron, zone: str, now: datetime) -> list[datetime]:
    """The last instants up to now: of a day, or of as many days as it takes to have some."""
    found: deque[datetime] = deque(maxlen=COUNTED)
    for days in (1, 8, 40, 400):
        found.clear()
        for one in _in_utc(when, zone, now - timedelta(days=days)):
            if one > now:
                break
            found.append(one)
        if len(found) >= MOST:
            break
    return list(found)


def _in_utc(when: Cron, zone: str, after: datetime) -> Iterator[datetime]:
    return (one.astimezone(UTC) for one in firings(when, zone, after))


def start_of(schedule: Schedule, instant: datetime) -> datetime:
    """When a firing may start: its instant, and its share of the jitter, which is the same every time."""
    if schedule.rules.jitter <= 0:
        return instant
    drawn = int.from_bytes(sha256(f"{schedule.id}@{instant.timestamp()}".encode()).digest()[:4])
    return instant + timedelta(seconds=drawn % (schedule.rules.jitter + 1))


class Admission(NamedTuple):
    """What becomes of new firings while earlier ones are at work, and of those that wait."""

    new: tuple[tuple[datetime, State, str], ...]
    stop: bool
    """The one at work is to stop."""
    dropped: bool
    """Those that wait are replaced."""


def admitted(overlap: Overlap, instants: tuple[datetime, ...], at_work: bool, waiting: int) -> Admission:
    """Apply the overlap rule.  There are never two at work; a backlog to catch up with waits in line."""
    new: list[tuple[datetime, State, str]] = []
    busy, ahead, backlog = at_work, waiting, len(instants) > 1
    for instant in instants:
        if overlap == "replace":
            if new:
                new[-1] = (new[-1][0], "replaced", "a later one came")
            new.append((instant, "waiting", ""))
        elif backlog:
            new.append((instant, "waiting", ""))
        elif overlap == "skip" and (busy or ahead):
            new.append((instant, "skipped", "the one before it was still at work"))
        elif overlap == "queue-one" and ahead >= (1 if busy else 2):
            new.append((instant, "skipped", "one was waiting already"))
        else:
            new.append((instant, "waiting", ""))
    replacing = overlap == "replace" and bool(new)
    return Admission(tuple(new), replacing and at_work, replacing and waiting > 0)

"""What is due: a schedule and the time, as the instants to fire, those that were missed, and the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

from ..types.schedule import FiringState, Overlap, Schedule
from .times import CronExpression, OneShotTime, ScheduleTime, cron_firings, next_instant

CATCH_UP_WINDOW = timedelta(hours=24)
"""`one` catches up with nothing older."""
MOST_CAUGHT_UP = 10
"""`all` catches up with no more."""
PUNCTUAL_WITHIN = timedelta(seconds=60)
"""A firing this late is no catch-up."""
MOST_COUNTED = 1_000
"""Missed instants are counted one by one up to here."""


class DueInstants(NamedTuple):
    """What follows from the time."""

    fire: tuple[datetime, ...]
    missed: tuple[datetime, ...]
    uncounted: tuple[datetime, datetime] | None
    """Between these more was missed than is worth counting."""
    next: datetime | None


def when_of(schedule: Schedule) -> ScheduleTime:
    return OneShotTime(datetime.fromisoformat(schedule.when)) if schedule.once else CronExpression(schedule.when)


def compute_due(schedule: Schedule, now: datetime) -> DueInstants:
    """What a schedule owes at a time.  However long nobody looked, the work here is bounded."""
    first = schedule.next
    if first is None or first > now:
        return DueInstants((), (), None, first)
    passed, uncounted, coming = _passed_instants(when_of(schedule), schedule.zone, first, now)
    fire = _instants_to_fire(schedule, passed, now)
    fired = set(fire)
    return DueInstants(fire, tuple(instant for instant in passed if instant not in fired), uncounted, coming)


def _instants_to_fire(schedule: Schedule, passed: list[datetime], now: datetime) -> tuple[datetime, ...]:
    if schedule.rules.catch_up == "all":
        return tuple(passed[-MOST_CAUGHT_UP:])
    late = now - start_of(schedule, passed[-1])
    within = PUNCTUAL_WITHIN if schedule.rules.catch_up == "none" else CATCH_UP_WINDOW
    return (passed[-1],) if late <= within else ()


def _passed_instants(
    when: ScheduleTime, zone: str, first: datetime, now: datetime
) -> tuple[list[datetime], tuple[datetime, datetime] | None, datetime | None]:
    """The instants from the first up to now, what was left uncounted, and the one to come."""
    if isinstance(when, OneShotTime):
        return [first], None, None
    passed = [first]
    for instant in _in_utc(when, zone, first):
        if instant > now:
            return passed, None, instant
        passed.append(instant)
        if len(passed) > MOST_COUNTED:
            break
    else:
        return passed, None, None
    recent = [instant for instant in _recent_instants(when, zone, now) if instant > passed[-1]]
    gap = (passed[-1], recent[0]) if recent else None
    return passed + recent, gap, next_instant(when, zone, now)


def _recent_instants(when: CronExpression, zone: str, now: datetime) -> list[datetime]:
    """The last instants up to now: of a day, or of as many days as it takes to have some."""
    recent: deque[datetime] = deque(maxlen=MOST_COUNTED)
    for days in (1, 8, 40, 400):
        recent.clear()
        for instant in _in_utc(when, zone, now - timedelta(days=days)):
            if instant > now:
                break
            recent.append(instant)
        if len(recent) >= MOST_CAUGHT_UP:
            break
    return list(recent)


def _in_utc(when: CronExpression, zone: str, after: datetime) -> Iterator[datetime]:
    return (instant.astimezone(UTC) for instant in cron_firings(when, zone, after))


def start_of(schedule: Schedule, instant: datetime) -> datetime:
    """When a firing may start: its instant, and its share of the jitter, which is the same every time."""
    if schedule.rules.jitter <= 0:
        return instant
    drawn = int.from_bytes(sha256(f"{schedule.id}@{instant.timestamp()}".encode()).digest()[:4])
    return instant + timedelta(seconds=drawn % (schedule.rules.jitter + 1))


class OverlapDecision(NamedTuple):
    """What becomes of new firings while earlier ones are at work, and of those that wait."""

    new: tuple[tuple[datetime, FiringState, str], ...]
    stop: bool
    """The one at work is to stop."""
    dropped: bool
    """Those that wait are replaced."""


def apply_overlap(overlap: Overlap, instants: tuple[datetime, ...], at_work: bool, waiting: int) -> OverlapDecision:
    """Apply the overlap rule.  There are never two at work; a backlog to catch up with waits in line."""
    new: list[tuple[datetime, FiringState, str]] = []
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
    return OverlapDecision(tuple(new), replacing and at_work, replacing and waiting > 0)

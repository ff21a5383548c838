"""What is due: from a schedule and the time, the instants to fire, those that were missed, and the next one.

Nothing here reads a clock or a database: a schedule remembers the one instant that comes next, and everything that
passed since then follows from its trigger and the time now.  A timer per schedule was refused: it is gone when the
process dies, fires late after a suspend, and has to be told about every clock change.  Counting back from now was
refused too, because what fired before a clock change would then fire again.

However long no worker ran, the work is bounded: instants are enumerated up to `MOST_COUNTED`, then only the latest ones
before now, which are all that a catch-up rule can ask for.  `apply_overlap` decides about new firings while earlier
ones are active; it does not start or stop anything itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import NamedTuple, assert_never

from ..types.schedule import CronTrigger, FiringState, OnceTrigger, Overlap, Schedule, Trigger
from .times import firing_times, next_instant

CATCH_UP_WINDOW = timedelta(hours=24)
"""`catch_up = "one"` runs nothing older."""
MOST_CAUGHT_UP = 10
"""`catch_up = "all"` runs no more than these."""
PUNCTUAL_WITHIN = timedelta(seconds=60)
"""A firing no later than this is on time, and fires whatever `catch_up` says."""
MOST_COUNTED = 1_000
"""Missed instants are enumerated up to this number."""


class DueInstants(NamedTuple):
    """What a schedule owes at a time."""

    fire: tuple[datetime, ...]
    missed: tuple[datetime, ...]
    uncounted: tuple[datetime, datetime] | None
    """Between these two, instants were missed that were not enumerated."""
    next: datetime | None


def compute_due(schedule: Schedule, now: datetime) -> DueInstants:
    """The instants that passed since `schedule.next`, split into those to fire and those missed, and the next one."""
    # Up to now and not beyond: what comes next is for the next claim.
    first = schedule.next
    if first is None or first > now:
        return DueInstants((), (), None, first)
    passed, uncounted, coming = _passed_instants(schedule.trigger, schedule.zone, first, now)
    fire = _instants_to_fire(schedule, passed, now)
    fired = set(fire)
    return DueInstants(fire, tuple(instant for instant in passed if instant not in fired), uncounted, coming)


def _instants_to_fire(schedule: Schedule, passed: list[datetime], now: datetime) -> tuple[datetime, ...]:
    if schedule.rules.catch_up == "all":
        return tuple(passed[-MOST_CAUGHT_UP:])
    # Jitter delays a firing without making it late.
    late = now - start_of(schedule, passed[-1])
    within = PUNCTUAL_WITHIN if schedule.rules.catch_up == "none" else CATCH_UP_WINDOW
    return (passed[-1],) if late <= within else ()


def _passed_instants(
    trigger: Trigger, zone: str, first: datetime, now: datetime
) -> tuple[list[datetime], tuple[datetime, datetime] | None, datetime | None]:
    """The instants from the first up to now, the gap that was not enumerated, and the next instant."""
    match trigger:
        case CronTrigger():
            return _passed_cron_instants(trigger, zone, first, now)
        case OnceTrigger():
            return [first], None, None
        case _:
            assert_never(trigger)


def _passed_cron_instants(
    cron: CronTrigger, zone: str, first: datetime, now: datetime
) -> tuple[list[datetime], tuple[datetime, datetime] | None, datetime | None]:
    passed = [first]
    for instant in _in_utc(cron, zone, first):
        if instant > now:
            return passed, None, instant
        passed.append(instant)
        if len(passed) > MOST_COUNTED:
            break
    else:
        return passed, None, None
    # Too many to enumerate: skip to the latest ones, which are the only ones that may still fire.
    recent = [instant for instant in _recent_instants(cron, zone, now) if instant > passed[-1]]
    gap = (passed[-1], recent[0]) if recent else None
    return passed + recent, gap, next_instant(cron, zone, now)


def _recent_instants(cron: CronTrigger, zone: str, now: datetime) -> list[datetime]:
    """The latest instants up to now, enough for any catch-up rule: of the last day, or of more days if it has few."""
    recent: deque[datetime] = deque(maxlen=MOST_COUNTED)
    for days in (1, 8, 40, 400):
        recent.clear()
        for instant in _in_utc(cron, zone, now - timedelta(days=days)):
            if instant > now:
                break
            recent.append(instant)
        if len(recent) >= MOST_CAUGHT_UP:
            break
    return list(recent)


def _in_utc(cron: CronTrigger, zone: str, after: datetime) -> Iterator[datetime]:
    return (instant.astimezone(UTC) for instant in firing_times(cron, zone, after))


def start_of(schedule: Schedule, instant: datetime) -> datetime:
    """When a firing may start: its instant plus its jitter."""
    if schedule.rules.jitter <= 0:
        return instant
    # A hash rather than a random number: every worker, and the same worker after a restart, gets the same delay.
    drawn = int.from_bytes(sha256(f"{schedule.id}@{instant.timestamp()}".encode()).digest()[:4])
    return instant + timedelta(seconds=drawn % (schedule.rules.jitter + 1))


class OverlapDecision(NamedTuple):
    """What happens to new firings, and to those that are active or waiting already."""

    new: tuple[tuple[datetime, FiringState, str], ...]
    stop: bool
    """Ask the active firing to stop."""
    dropped: bool
    """Replace the waiting ones."""


def apply_overlap(overlap: Overlap, instants: tuple[datetime, ...], at_work: bool, waiting: int) -> OverlapDecision:
    """Apply the overlap rule.  Never two are active at once; a backlog to catch up with waits in line."""
    new: list[tuple[datetime, FiringState, str]] = []
    busy, ahead, backlog = at_work, waiting, len(instants) > 1
    for instant in instants:
        if overlap == "replace":
            if new:
                new[-1] = (new[-1][0], "replaced", "replaced by a later firing")
            new.append((instant, "waiting", ""))
        elif backlog:  # `catch_up = "all"` asked for each of them: overlap must not drop what it asked for
            new.append((instant, "waiting", ""))
        elif overlap == "skip" and (busy or ahead):
            new.append((instant, "skipped", "the firing before it was still running"))
        elif overlap == "queue-one" and ahead >= (1 if busy else 2):  # the first of two is about to be queued
            new.append((instant, "skipped", "another firing was waiting already"))
        else:
            new.append((instant, "waiting", ""))
    replacing = overlap == "replace" and bool(new)
    return OverlapDecision(tuple(new), replacing and at_work, replacing and waiting > 0)

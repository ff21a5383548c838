"""Cron with Debian's rules when clocks change: cronsim matches the fields, and the zone is minded here.

A job that has `*` for its minute or hour follows real time.  One at a fixed time fires once a day: of two such times
the first, and after a gap where the time was skipped.  cronsim knows these rules too, but passes over firings where
clocks move by half an hour, and gives a time that has passed when it is asked within a repeated hour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_WEEK = timedelta(days=7)
"""No zone changes its clocks twice in a week."""


_LARGEST_STEPS = (59, 23, 31, 12, 7)
_steps = re.compile(r"/0*([0-9]+)").findall


def fault_of(expression: str) -> str:
    """What is wrong with five fields: they can't be read, step over all there is, or name a date that never comes."""
    for field, most in zip(expression.split(), _LARGEST_STEPS, strict=True):
        if wide := next((step for step in _steps(field) if len(step) > 2 or int(step) > most), ""):
            return f"a step of {wide[:20]} does not fit, {most} is the largest"
    from cronsim import CronSim, CronSimError  # a tenth of what starting takes

    try:
        next(CronSim(expression, datetime(2026, 1, 1)))
    except (CronSimError, AssertionError, ValueError, StopIteration, RecursionError) as error:
        return str(error).lower() or "it never comes"
    return ""


def instants(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """The firings after an instant, in UTC."""
    minute, hour = expression.split()[:2]
    start = after.astimezone(UTC)
    found = _real(expression, zone, start) if "*" in (minute[0], hour[0]) else _fixed(expression, zone, start)
    return (one for one in found if one > start)


def _walls(expression: str, after: datetime) -> Iterator[datetime]:
    """What a wall clock shows when the fields match, as if no clock ever changed."""
    from cronsim import CronSim

    return iter(CronSim(expression, after))


def _fixed(expression: str, zone: ZoneInfo, start: datetime) -> Iterator[datetime]:
    last = None
    for wall in _walls(expression, start.astimezone(zone).replace(tzinfo=None, fold=0) - timedelta(days=2)):
        local = wall.replace(tzinfo=zone)
        at = local.astimezone(UTC)
        if at.astimezone(zone).replace(tzinfo=None) != wall:  # skipped: the clock was moved past it
            at = _change(zone, at - timedelta(days=2), at)
        if last is None or at > last:
            last = at
            yield at


def _real(expression: str, zone: ZoneInfo, start: datetime) -> Iterator[datetime]:
    """One stretch of a constant offset after the other; each begins a second early, to count its first instant."""
    while True:
        offset = _offset(zone, start)
        for wall in _walls(expression, (start + offset).replace(tzinfo=None) - timedelta(seconds=1)):
            at = (wall - offset).replace(tzinfo=UTC)
            if _offset(zone, at) != offset:
                start = _change(zone, start, at)
                break
            yield at
            start = at
        else:
            return


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta(0)


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first instant with another offset than `before` had; there is one up to `after`."""
    offset = _offset(zone, before)
    while before + _WEEK < after and _offset(zone, before + _WEEK) == offset:
        before += _WEEK
    after = min(after, before + _WEEK)
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) / 2
        before, after = (middle, after) if _offset(zone, middle) == offset else (before, middle)
    return after.replace(microsecond=0)

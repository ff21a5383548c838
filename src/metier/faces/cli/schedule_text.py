"""Schedules and firings as the command line shows them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from ...types.schedule import Firing, Rules, Schedule
from .printing import clean, counted


def shown(at: datetime | None, zone: str) -> str:
    from ...schedule.when import zone_of

    return "never" if at is None else f"{at.astimezone(zone_of(zone)):%Y-%m-%d %H:%M:%S} {clean(zone)}"


def firing_row(one: Firing) -> tuple[str, str, str]:
    again = f"{counted(one.attempt, 'attempt')}; " if one.attempt > 1 else ""
    by_hand = "by hand; " if one.manual else ""
    run = f"run {one.run}; " if one.run else ""
    note = clean(f"{by_hand}{again}{run}{one.note}").rstrip("; ")
    return (one.due.strftime("%Y-%m-%dT%H:%M:%SZ"), one.state, note)


def firing_dict(one: Firing) -> dict[str, object]:
    return {
        "schedule": one.schedule,
        "instant": one.due.isoformat(),
        "state": one.state,
        "note": one.note,
        "worker": one.owner,
        "attempt": one.attempt,
        "manual": one.manual,
        "started": one.started.isoformat() if one.started else None,
        "ended": one.ended.isoformat() if one.ended else None,
        "run": one.run,
    }


def schedule_dict(one: Schedule) -> dict[str, object]:
    found = {key: value for key, value in asdict(one).items() if key not in ("home", "revision", "own")}
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in found.items()}


def rules_line(rules: Rules) -> str:
    parts = (f"catch up {rules.catch_up}", f"overlap {rules.overlap}", f"jitter {rules.jitter} s")
    rest = (f"pause after {rules.pause_after}", f"after a crash {rules.after_crash}", f"on change {rules.on_change}")
    return ", ".join((*parts, *rest))

"""Schedules: when what fires next, what happened before, and whether anybody fires them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import groupby, islice
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ....host import facts
from ....types.errors import MetierError
from ....types.schedule import Firing, Schedule
from ..web_site import WebSite, form_of, go_to, page_number, utc_now
from .today import is_daemon_running

PAGE = 50
_STRIP = 24
"""Past firings that a strip shows."""
_COMING = 30


class ScheduleRow(NamedTuple):
    """A schedule with what was and what comes."""

    entry: Schedule
    label: str
    next: str
    strip: tuple[Firing, ...]


def schedules(site: WebSite, request: Request) -> Response:
    from ....schedule.store import all_schedules, firing_history
    from ....schedule.times import trigger_label

    page = page_number(request)
    with site.schedules() as engine:
        entries = all_schedules(engine)
        history = firing_history(engine, "", 2_000)
    shown = entries[(page - 1) * PAGE : page * PAGE]
    past: dict[str, list[Firing]] = {}
    for firing in history:
        past.setdefault(firing.schedule, []).append(firing)
    rows = [
        ScheduleRow(
            entry,
            trigger_label(entry.trigger, entry.zone),
            local_instant(entry.next, entry.zone),
            tuple(reversed(past.get(entry.id, [])[:_STRIP])),
        )
        for entry in shown
    ]
    library_names = [verdict.skill.name for verdict in site.library().verdicts if verdict.usable]
    return site.render(
        request,
        "schedules.html",
        current="schedules",
        rows=rows,
        total=len(entries),
        page=page,
        pages=max(1, -(-len(entries) // PAGE)),
        coming=_calendar(entries),
        has_daemon=is_daemon_running(site),
        daemon_line=site.command("daemon"),
        names=library_names[:500],
        zone=facts.zone_name(),
        draft=_draft(site, request),
        line=site.command("schedule", "list"),
    )


def _draft(site: WebSite, request: Request) -> dict[str, Any]:
    """What the fields for a new schedule say, and what their time means."""
    skill, time = request.query_params.get("skill", ""), request.query_params.get("time", "").strip()[:200]
    arguments = request.query_params.get("arguments", "")
    draft: dict[str, Any] = {"skill": skill, "time": time, "arguments": arguments, "fault": "", "instants": []}
    words = ["schedule", "add", skill or "SKILL", time or "TIME", *(["--arguments", arguments] if arguments else [])]
    draft["line"] = site.command(*words)
    if time:
        try:
            draft["instants"], draft["warning"] = explain_time(time)
        except MetierError as error:
            draft["fault"] = f"{error.message} – {error.hint}" if error.hint else error.message
    return draft


def explain_time(text: str) -> tuple[list[str], str]:
    """The next five instants that a time means, and a warning about it."""
    from ....schedule.times import firing_times, schedule_time, trigger_warning

    zone, now = facts.zone_name(), utc_now()
    trigger = schedule_time(text, now, zone)
    instants = [local_instant(at, zone) for at in islice(firing_times(trigger, zone, now), 5)]
    return instants, trigger_warning(trigger)


def local_instant(at: datetime | None, zone: str) -> str:
    from ....schedule.times import zone_of

    return "never" if at is None else f"{at.astimezone(zone_of(zone)):%a %d %b %Y, %H:%M} {zone}"


def _calendar(entries: list[Schedule]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The next firings of all schedules, by day."""
    from ....schedule.times import firing_times, zone_of

    active = sorted(
        (entry for entry in entries if entry.next is not None and not entry.paused),
        key=lambda entry: entry.next.timestamp() if entry.next else 0.0,
    )[:_COMING]
    instants: list[tuple[datetime, Schedule]] = []
    for entry in active:
        if entry.next is not None:
            later = islice(firing_times(entry.trigger, entry.zone, entry.next), 2)
            instants += [(at, entry) for at in (entry.next, *later)]
    instants = sorted(instants, key=lambda pair: pair[0])[:_COMING]
    local = [(at.astimezone(zone_of(entry.zone)), entry.id) for at, entry in instants]
    days = groupby(local, key=lambda pair: f"{pair[0]:%A %d %B}")
    return [(day, [(f"{at:%H:%M}", name) for at, name in group]) for day, group in days]


def schedule(site: WebSite, request: Request) -> Response:
    """One schedule: its terms, what comes, its whole history, and its skill against the pinned copy."""
    from ....schedule.pins import pin_folder
    from ....schedule.requests import find_schedule
    from ....schedule.store import firing_history
    from ....schedule.times import firing_times, trigger_label
    from ....schedule.worker import home_id

    with site.schedules() as engine:
        entry = find_schedule(engine, request.query_params.get("id", ""))
        history = firing_history(engine, entry.id, 200)
    current = ""
    try:
        current = pin_folder(entry.source).digest if entry.home == home_id(site.place) else ""
    except MetierError:
        current = "gone"
    coming = [entry.next] if entry.next else []
    if entry.next and not entry.paused:
        coming += islice(firing_times(entry.trigger, entry.zone, entry.next), 4)
    return site.render(
        request,
        "schedule.html",
        current="schedules",
        entry=entry,
        label=trigger_label(entry.trigger, entry.zone),
        coming=[local_instant(at, entry.zone) for at in coming],
        history=history,
        pin=current,
        has_daemon=is_daemon_running(site),
        daemon_line=site.command("daemon"),
        lines={act: site.command("schedule", act, entry.id) for act in ("pause", "resume", "run", "remove", "patch")},
        line=site.command("schedule", "show", entry.id),
    )


def add_schedule(site: WebSite, request: Request) -> Response:
    from ....schedule.orders import ScheduleOrder, place_order

    form = form_of(request)
    order = ScheduleOrder(form.text("skill"), form.text("time"), arguments=form.text("arguments"))
    with site.schedules() as engine:
        created = place_order(site.library(), engine, order, utc_now())
    return go_to("/schedule", "scheduled", id=created.id)


def change_schedule(site: WebSite, request: Request) -> Response:
    """Pause, resume, run now, remove, or change the time."""
    from ....schedule import store
    from ....schedule.orders import remove_order, resume_order
    from ....schedule.requests import find_schedule, retime_schedule

    form, now = form_of(request), utc_now()
    act = form.text("act")
    with site.schedules() as engine:
        entry = find_schedule(engine, form.text("id"))
        if act == "pause":
            store.pause_schedule(engine, entry.id, "you paused it", now)
        elif act == "resume":
            resume_order(site.place, engine, entry, now)
        elif act == "run":
            store.trigger_schedule(engine, entry.id, now)
        elif act == "remove":
            remove_order(site.place, engine, entry, now)
            return go_to("/schedules", "removed")
        elif act == "time":
            changed = retime_schedule(replace(entry), form.text("time"), entry.zone, now)
            store.change_schedule(engine, changed, now)
    done = {"pause": "paused", "resume": "resumed", "run": "queued", "time": "scheduled"}.get(act, "")
    return go_to("/schedule", done, id=entry.id)

"""metier schedule."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

import click

from ...host import facts
from ...host.facts import find_place
from ...types.errors import BadRequest
from ...types.place import Place
from ...types.schedule import AfterCrash, CatchUp, Firing, OnChange, Overlap, RunTerms, Schedule, ScheduleRules
from . import options
from .options import CliContext, skill_names
from .output import clean_path, count_of, format_columns, hint_line, paint, printable, say, say_json

if TYPE_CHECKING:
    from ...schedule.database import Engine
    from ...schedule.notifications import Severity
    from .options import Command


# --- Values as text and as JSON ---


def format_instant(at: datetime | None, zone: str) -> str:
    from ...schedule.times import zone_of

    return "never" if at is None else f"{at.astimezone(zone_of(zone)):%Y-%m-%d %H:%M:%S} {printable(zone)}"


def firing_row(firing: Firing) -> tuple[str, str, str]:
    attempts = f"{count_of(firing.attempt, 'attempt')}; " if firing.attempt > 1 else ""
    manual = "manual; " if firing.manual else ""
    run = f"run {firing.run}; " if firing.run else ""
    note = printable(f"{manual}{attempts}{run}{firing.note}").rstrip("; ")
    return (firing.due.strftime("%Y-%m-%dT%H:%M:%SZ"), firing.state, note)


def firing_dict(firing: Firing) -> dict[str, object]:
    return {
        "schedule": firing.schedule,
        "instant": firing.due.isoformat(),
        "state": firing.state,
        "note": firing.note,
        "worker": firing.owner,
        "attempt": firing.attempt,
        "manual": firing.manual,
        "started": firing.started.isoformat() if firing.started else None,
        "ended": firing.ended.isoformat() if firing.ended else None,
        "run": firing.run,
    }


def schedule_dict(schedule: Schedule) -> dict[str, object]:
    from ...schedule.store import schedule_fields

    # Left out is what only the store needs: the home, the revision of compare-and-set, whose skill it is.
    fields = {key: value for key, value in schedule_fields(schedule).items() if key not in ("home", "revision", "own")}
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in fields.items()}


def rules_line(rules: ScheduleRules) -> str:
    parts = (f"catch up {rules.catch_up}", f"overlap {rules.overlap}", f"jitter {rules.jitter} s")
    more_parts = (
        f"pause after {rules.pause_after}",
        f"after a crash {rules.after_crash}",
        f"on change {rules.on_change}",
    )
    return ", ".join((*parts, *more_parts))


# --- The group and its shared options ---


@click.group("schedule")
def schedule() -> None:
    """Run skills on a schedule, once or repeatedly."""


def _utc_now() -> datetime:
    return datetime.fromtimestamp(facts.now_ns() / 1e9, UTC)


def _open_database(context: CliContext) -> tuple[Place, Engine]:
    from ...schedule.database import open_engine

    place = find_place(context.directory)
    engine = open_engine(place)
    click.get_current_context().call_on_close(engine.dispose)
    return place, engine


def _find_schedule(engine: Engine, name: str) -> Schedule:
    from ...schedule.requests import find_schedule

    return find_schedule(engine, name)


_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON")
_TERMS_OPTIONS = (
    click.option(
        "--catch-up",
        type=click.Choice(get_args(CatchUp)),
        help="Missed runs to catch up on: one (of the last 24 h), none, or all (up to 10)",
    ),
    click.option(
        "--overlap", type=click.Choice(get_args(Overlap)), help="What to do if the previous run is still running"
    ),
    click.option("--jitter", type=int, metavar="SECONDS", help="Delay the start by a random time up to this"),
    click.option("--pause-after", type=int, metavar="N", help="Pause after N consecutive failures; 0 for never"),
    click.option(
        "--after-crash", type=click.Choice(get_args(AfterCrash)), help="What to do with a run whose worker died"
    ),
    click.option(
        "--on-change",
        type=click.Choice(get_args(OnChange)),
        help="What to do if the skill has changed since it was scheduled",
    ),
    click.option("--model", shell_complete=options.usable_models, metavar="NAME", help="Model to use"),
    click.option(
        "--permission",
        "permissions",
        multiple=True,
        metavar="GRANT",
        help="Grant a permission beyond the default; may be repeated",
    ),
    click.option("--budget", type=float, metavar="AMOUNT", help="Maximum cost of a run"),
    click.option("--sink", metavar="WHERE", help="Also send results to file:PATH, command:WORDS or webhook:URL"),
    click.option("--arguments", metavar="TEXT", help="Arguments for the skill"),
)


def _terms_options(command: Command) -> Command:
    # Decorators apply from the last to the first: reversed, --help lists them in this order.
    for option in reversed(_TERMS_OPTIONS):
        command = option(command)
    return command


def _changed_rules(old: ScheduleRules, options: dict[str, Any]) -> ScheduleRules:
    named = ("catch_up", "overlap", "jitter", "pause_after", "after_crash", "on_change")
    return replace(old, **{key: options[key] for key in named if options[key] is not None})


def _changed_terms(old: RunTerms, options: dict[str, Any]) -> RunTerms:
    changed = {key: options[key] for key in ("model", "budget", "sink") if options[key] is not None}
    if options["permissions"]:
        changed["permissions"] = options["permissions"]
    return replace(old, **changed)


# --- Commands ---


@schedule.command("add")
@click.argument("skill", shell_complete=skill_names)
@click.argument("time", nargs=-1, required=True)
@click.option("--tz", "zone", metavar="ZONE", help="Time zone [default: the system's]")
@click.option("--id", "name", metavar="ID", help="Id of the schedule [default: the skill's name]")
@click.option("--session", default="", metavar="NAME", help="Session to run in [default: its own]")
@_terms_options
@_json_option
@click.pass_obj
def add(
    context: CliContext,
    /,
    skill: str,
    time: tuple[str, ...],
    zone: str | None,
    name: str | None,
    session: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Run SKILL at TIME: `+5m`, `tomorrow at 9am`, `every monday 8:00`, `每天 9 點`, or five cron fields."""
    from ...library.open import OpenRequest, open_at
    from ...schedule.orders import ScheduleOrder, place_order
    from ...schedule.times import trigger_warning

    if name is not None and not name.strip():
        raise BadRequest("--id must not be empty", "leave it out to use the skill's name")
    place, engine = _open_database(context)
    order = ScheduleOrder(
        skill,
        " ".join(time),
        zone or "",
        name,
        options["arguments"] or "",
        session,
        _changed_rules(ScheduleRules(), options),
        _changed_terms(RunTerms(), options),
    )
    created = place_order(open_at(place, OpenRequest()), engine, order, _utc_now())
    if as_json:
        say_json(schedule_dict(created))
        return
    say(f"Scheduled: {printable(created.id)}, next at {format_instant(created.next, created.zone)}")
    if warning := trigger_warning(created.trigger):
        say(hint_line(warning))
    if not _has_worker(engine):
        say(hint_line("no daemon is running; start one with `metier daemon`"))


@schedule.command("list")
@_json_option
@click.pass_obj
def list_schedules(context: CliContext, as_json: bool) -> None:
    """List the schedules."""
    from ...schedule.store import all_schedules
    from ...schedule.times import trigger_label

    _, engine = _open_database(context)
    entries = all_schedules(engine)
    if as_json:
        say_json([schedule_dict(entry) for entry in entries])
        return
    if not entries:
        say("No schedules.")
        say(hint_line("to add one, run `metier schedule add SKILL TIME`"))
    rows = [
        (
            printable(entry.id),
            printable(trigger_label(entry.trigger)),
            format_instant(entry.next, entry.zone),
            entry.paused and "paused",
        )
        for entry in entries
    ]
    for entry, line in zip(entries, format_columns(rows), strict=True):
        say(line)
        if entry.paused:
            say(f"  {printable(entry.paused)}")
    if entries and not _has_worker(engine):
        say(hint_line("no daemon is running; start one with `metier daemon`"))


@schedule.command("show")
@click.argument("name", shell_complete=options.schedules)
@_json_option
@click.pass_obj
def show(context: CliContext, name: str, as_json: bool) -> None:
    """Show a schedule with its next and latest runs."""
    from ...schedule.store import firing_history
    from ...schedule.times import firing_times, trigger_label

    _, engine = _open_database(context)
    entry = _find_schedule(engine, name)
    last = firing_history(engine, entry.id, 5)
    upcoming = [entry.next] if entry.next else []
    if entry.next and not entry.paused:
        upcoming += islice(firing_times(entry.trigger, entry.zone, entry.next), 2)
    if as_json:
        say_json(
            {
                **schedule_dict(entry),
                "coming": [at.astimezone(UTC).isoformat() for at in upcoming],
                "last": [firing_dict(f) for f in last],
            }
        )
        return
    say(paint(printable(entry.id), "bold"))
    time = trigger_label(entry.trigger, entry.zone)
    rows = [("Skill:", entry.skill), ("Time:", time), ("Paused:", entry.paused)]
    rows += [
        ("Next:", ", ".join(format_instant(at, entry.zone) for at in upcoming)),
        ("Pinned:", entry.digest),
        ("From:", entry.source),
    ]
    terms = entry.terms
    rows += [("Rules:", rules_line(entry.rules))]
    rows += [
        ("Arguments:", entry.arguments),
        ("Session:", entry.session),
        ("Model:", terms.model),
        ("Sink:", terms.sink),
    ]
    rows += [("Permissions:", ", ".join(terms.permissions)), ("Budget:", str(terms.budget or ""))]
    for label, text in rows:
        if text:
            say(f"  {label:<13}{printable(text)}")
    for line in format_columns([firing_row(firing) for firing in last]):
        say("  " + line)


@schedule.command("preview")
@click.argument("time", nargs=-1)
@click.option("--cron", metavar="EXPR", help="Cron expression with five fields")
@click.option("--tz", "zone", metavar="ZONE", help="Time zone [default: the system's]")
@click.option("--from", "start", metavar="ISO", help="Start time [default: now]")
@click.option("--count", type=click.IntRange(1, 10_000), default=5, show_default=True, help="Number of runs to show")
@_json_option
def preview(
    time: tuple[str, ...], cron: str | None, zone: str | None, start: str | None, count: int, as_json: bool
) -> None:
    """Print the next times that TIME or --cron means, in local time of the zone, without scheduling anything."""
    from ...schedule.times import checked_cron, firing_times, schedule_time, zone_of

    if bool(time) == (cron is not None):
        raise BadRequest("pass either TIME or --cron", "for example: metier schedule preview --cron '0 9 * * 1-5'")
    time_zone = zone_of(zone or facts.zone_name())
    after = _parse_instant(start, time_zone) if start else _utc_now()
    when = checked_cron(cron) if cron is not None else schedule_time(" ".join(time), after, time_zone.key)
    instants = list(islice(firing_times(when, time_zone.key, after), count))
    if as_json:
        say_json([instant.isoformat() for instant in instants])
        return
    for instant in instants:
        say(instant.isoformat())


def _parse_instant(text: str, zone: tzinfo) -> datetime:
    try:
        parsed = datetime.fromisoformat(text)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRequest(f"`{text}` is not an ISO 8601 time", "for example: 2026-03-08T00:00:00-05:00") from None


@schedule.command("pause")
@click.argument("name", shell_complete=options.schedules)
@click.pass_obj
def pause(context: CliContext, name: str) -> None:
    """Pause a schedule and cancel its queued runs."""
    from ...schedule import store

    _, engine = _open_database(context)
    entry = _find_schedule(engine, name)
    store.pause_schedule(engine, entry.id, "you paused it", _utc_now())
    say(f"Paused: {printable(entry.id)}")


@schedule.command("resume")
@click.argument("name", shell_complete=options.schedules)
@click.pass_obj
def resume(context: CliContext, name: str) -> None:
    """Resume a schedule from now on, with the current version of its skill."""
    from ...schedule.orders import resume_order

    place, engine = _open_database(context)
    resumed, changed = resume_order(place, engine, _find_schedule(engine, name), _utc_now())
    say(f"Resumed: {printable(resumed.id)}, next at {format_instant(resumed.next, resumed.zone)}")
    if changed:
        say("Its skill had changed; the schedule now uses the current version.")


@schedule.command("run")
@click.argument("name", shell_complete=options.schedules)
@click.option("--wait", type=float, default=0, metavar="SECONDS", help="Wait up to this long for the run to end")
@_json_option
@click.pass_context
def run(context: click.Context, name: str, wait: float, as_json: bool) -> None:
    """Queue one run of a schedule now."""
    from ...schedule import store
    from ...types.schedule import END_STATES

    _, engine = _open_database(context.obj)
    entry = _find_schedule(engine, name)
    at = store.trigger_schedule(engine, entry.id, _utc_now())
    # A worker is another process: its progress shows only in the database.
    until = facts.monotonic() + wait
    firing = store.get_firing(engine, entry.id, at)
    while firing is not None and firing.state not in END_STATES and facts.monotonic() < until:
        facts.sleep(0.1)
        firing = store.get_firing(engine, entry.id, at)
    assert firing is not None
    if as_json:
        say_json(firing_dict(firing))
    elif firing.state in END_STATES:
        say("  ".join(firing_row(firing)).rstrip())
    else:
        say(f"Queued: {printable(entry.id)}, at {format_instant(at, entry.zone)}")
        if not _has_worker(engine):
            say(hint_line("no daemon is running; start one with `metier daemon`"))
    context.exit(1 if firing.state in ("failed", "lost", "cancelled") else 0)


@schedule.command("patch")
@click.argument("name", shell_complete=options.schedules)
@click.option("--time", metavar="TIME", help="New time")
@click.option("--tz", "zone", metavar="ZONE", help="New time zone")
@_terms_options
@_json_option
@click.pass_obj
def patch(context: CliContext, /, name: str, time: str | None, zone: str | None, as_json: bool, **options: Any) -> None:
    """Change a schedule; its next run is computed from now."""
    from ...library.open import OpenRequest, open_at
    from ...schedule import runner, store
    from ...schedule.requests import check_rules, check_terms, retime_schedule
    from ...schedule.times import trigger_text

    place, engine = _open_database(context)
    entry = _find_schedule(engine, name)
    before = entry
    entry = replace(entry, rules=_changed_rules(entry.rules, options), terms=_changed_terms(entry.terms, options))
    if options["arguments"] is not None:
        entry = replace(entry, arguments=options["arguments"])
    if time or zone:
        entry = retime_schedule(entry, time or trigger_text(entry.trigger), zone or entry.zone, _utc_now())
    if entry == before:
        raise BadRequest("nothing to change", "pass --time, --tz or another option; see --help")
    check_rules(entry.rules, entry.trigger, entry.zone, _utc_now())
    check_terms(entry.terms)
    # Only what this command changes: an old model must not keep a schedule from being edited.
    runner.check_run_terms(open_at(place, OpenRequest()), _changed_terms(RunTerms(), options))
    changed = store.change_schedule(engine, entry, _utc_now())
    if as_json:
        say_json(schedule_dict(changed))
    else:
        say(f"Changed: {printable(changed.id)}, next at {format_instant(changed.next, changed.zone)}")


@schedule.command("remove")
@click.argument("name", shell_complete=options.schedules)
@click.option("--keep-skill", is_flag=True, help="Keep the scheduler skill")
@click.pass_obj
def remove(context: CliContext, name: str, keep_skill: bool) -> None:
    """Remove a schedule; its scheduler skill goes to the trash if no other schedule uses it."""
    from ...schedule.orders import remove_order

    place, engine = _open_database(context)
    entry = _find_schedule(engine, name)
    trashed = remove_order(place, engine, entry, _utc_now(), keep_skill)
    say(f"Removed: {printable(entry.id)}")
    if trashed:
        say(f"Moved its skill to {clean_path(trashed)}")


@schedule.command("history")
@click.argument("name", required=False, shell_complete=options.schedules)
@click.option("--count", type=click.IntRange(1, 100_000), default=20, show_default=True, help="Number of runs to show")
@_json_option
@click.pass_obj
def history(context: CliContext, name: str | None, count: int, as_json: bool) -> None:
    """Show past runs and missed ones with their outcome, newest first."""
    from ...schedule import store

    _, engine = _open_database(context)
    # By this id first: a schedule that was removed has a history, too.
    firings = store.firing_history(engine, name or "", count)
    if name and not firings:
        name = _find_schedule(engine, name).id
        firings = store.firing_history(engine, name, count)
    if as_json:
        say_json([firing_dict(firing) for firing in firings])
        return
    if not firings:
        say("No runs yet.")
    rows = [(*([] if name else [printable(firing.schedule)]), *firing_row(firing)) for firing in firings]
    for line in format_columns(rows):
        say(line)


@schedule.command("notify")
@click.argument("message", default="a test of metier's notices")
@click.option("--level", type=click.Choice(["info", "attention", "failure"]), default="failure", help="How bad it is")
@_json_option
@click.pass_context
def notify(context: click.Context, message: str, level: Severity, as_json: bool) -> None:
    """Send a test notice to everybody whom your configuration notifies at this level."""
    from ...host.facts import random_hex
    from ...schedule.notifications import Notice, notify_all

    settings: CliContext = context.obj
    told = notify_all(settings.library(), Notice(f"test-{random_hex(8)}", level, "metier", message))
    if not told:
        raise BadRequest(f"nobody is notified of {level}", "add a [notify.NAME] table to your configuration")
    if as_json:
        say_json([{"target": name, "ok": not failure, "error": failure} for name, failure in told])
    else:
        for name, failure in told:
            say(failure or f"notified {printable(name)}")
    context.exit(1 if any(failure for _, failure in told) else 0)


def _has_worker(engine: Engine) -> bool:
    from ...schedule.queue import list_workers

    return any(worker.state == "up" for worker in list_workers(engine))

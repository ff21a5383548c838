"""metier schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

import click

from ...host import clock
from ...host.place import here
from ...types.errors import BadRequest
from ...types.place import Place
from ...types.schedule import AfterCrash, CatchUp, OnChange, Overlap, Rules, Schedule, Terms
from . import naming
from .app import Context, skill_names
from .printing import arrow, clean, clean_path, columns, paint, say, say_json
from .schedule_text import firing_dict, firing_row, rules_line, schedule_dict, shown

if TYPE_CHECKING:
    from ...schedule.database import Engine


@click.group("schedule")
def schedule() -> None:
    """Run skills at their times: once, or again and again."""


def _now() -> datetime:
    return datetime.fromtimestamp(clock.now_ns() / 1e9, UTC)


def _open(context: Context) -> tuple[Place, Engine]:
    from ...schedule.database import open_engine

    place = here(context.project)
    return place, open_engine(place)


def _found(engine: Engine, name: str) -> Schedule:
    from ...schedule.arrange import found

    return found(engine, name)


_json = click.option("--json", "as_json", is_flag=True, help="One JSON document.")
_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--catch-up", type=click.Choice(get_args(CatchUp)), help="Of what was missed: one (of 24 h), none, all (10)."
    ),
    click.option("--overlap", type=click.Choice(get_args(Overlap)), help="When the one before it is still at work."),
    click.option("--jitter", type=int, metavar="SECONDS", help="Start up to so much later."),
    click.option("--pause-after", type=int, metavar="N", help="Pause after N failures in a row; 0 is never."),
    click.option("--after-crash", type=click.Choice(get_args(AfterCrash)), help="When a worker dies in the middle."),
    click.option(
        "--on-change", type=click.Choice(get_args(OnChange)), help="When the skill is not what was agreed to."
    ),
    click.option("--model", shell_complete=naming.asked, metavar="NAME", help="The model that runs it."),
    click.option(
        "--permission", "permissions", multiple=True, metavar="GRANT", help="More than the default; repeat it."
    ),
    click.option("--budget", type=float, metavar="AMOUNT", help="The most a run may cost."),
    click.option("--sink", metavar="WHERE", help="file:PATH, command:WORDS or webhook:URL gets the results too."),
    click.option("--arguments", metavar="TEXT", help="What the skill is called with."),
)


def _terms_options(command: Any) -> Any:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _rules(old: Rules, given: dict[str, Any]) -> Rules:
    named = ("catch_up", "overlap", "jitter", "pause_after", "after_crash", "on_change")
    return replace(old, **{key: given[key] for key in named if given[key] is not None})


def _terms(old: Terms, given: dict[str, Any]) -> Terms:
    changed = {key: given[key] for key in ("model", "budget", "sink") if given[key] is not None}
    if given["permissions"]:
        changed["permissions"] = given["permissions"]
    return replace(old, **changed)


@schedule.command("add")
@click.argument("skill", shell_complete=skill_names)
@click.argument("time", nargs=-1, required=True)
@click.option("--tz", "zone", metavar="ZONE", help="The zone of the time; this machine's otherwise.")
@click.option("--id", "name", metavar="ID", help="What to call the schedule.")
@click.option("--session", default="", metavar="NAME", help="The session it runs in; one of its own otherwise.")
@_terms_options
@_json
@click.pass_obj
def add(
    context: Context,
    /,
    skill: str,
    time: tuple[str, ...],
    zone: str | None,
    name: str | None,
    session: str,
    as_json: bool,
    **more: Any,
) -> None:
    """Run SKILL at TIME: `+5m`, `tomorrow at 9am`, `every monday 8:00`, `每天 9 點`, or five cron fields."""
    from ...runtime.scheduling import check_terms, folder_of, pinned_model
    from ...schedule.arrange import Wish, arrange
    from ...schedule.when import uneven

    if name is not None and not name.strip():
        raise BadRequest("an id can't be empty", "leave --id out, and the schedule is called as its skill")
    place, engine = _open(context)
    called, folder, own = folder_of(place, skill)
    terms = _terms(Terms(), more)
    check_terms(place, terms)
    wish = Wish(
        called,
        folder,
        " ".join(time),
        zone or clock.zone_name(),
        own,
        name or "",
        more["arguments"] or "",
        session,
        _rules(Rules(), more),
        replace(terms, model=pinned_model(place, terms.model)),
    )
    made = arrange(place, engine, wish, _now())
    if as_json:
        say_json(schedule_dict(made))
        return
    say(f"Scheduled: {clean(made.id)}, next at {shown(made.next, made.zone)}")
    if not made.once and (odd := uneven(made.when)):
        say(arrow(odd))
    if not _somebody_works(engine):
        say(arrow("nobody fires it yet: run `metier daemon`"))


@schedule.command("list")
@_json
@click.pass_obj
def list_schedules(context: Context, as_json: bool) -> None:
    """List the schedules."""
    from ...schedule.book import schedules

    _, engine = _open(context)
    known = schedules(engine)
    if as_json:
        say_json([schedule_dict(one) for one in known])
        return
    if not known:
        say("Nothing is scheduled.")
        say(arrow("`metier schedule add SKILL TIME` schedules a skill"))
    rows = [
        (clean(one.id), "once" if one.once else clean(one.when), shown(one.next, one.zone), one.paused and "paused")
        for one in known
    ]
    for one, line in zip(known, columns(rows), strict=True):
        say(line)
        if one.paused:
            say(f"  {clean(one.paused)}")
    if known and not _somebody_works(engine):
        say(arrow("nobody fires them: run `metier daemon`"))


@schedule.command("show")
@click.argument("name", shell_complete=naming.schedules)
@_json
@click.pass_obj
def show(context: Context, name: str, as_json: bool) -> None:
    """Show one schedule, its next times and its last firings."""
    from ...schedule.book import history
    from ...schedule.plan import when_of
    from ...schedule.when import Cron, firings

    _, engine = _open(context)
    one = _found(engine, name)
    when, last = when_of(one), history(engine, one.id, 5)
    coming = [one.next] if one.next else []
    if isinstance(when, Cron) and one.next and not one.paused:
        coming += list(islice(firings(when, one.zone, one.next), 2))
    if as_json:
        say_json(
            {
                **schedule_dict(one),
                "coming": [at.astimezone(UTC).isoformat() for at in coming],
                "last": [firing_dict(f) for f in last],
            }
        )
        return
    say(paint(clean(one.id), "bold"))
    time = "once" if one.once else f"{one.when} ({one.zone})"
    facts = [("Skill:", one.skill), ("Time:", time), ("Paused:", one.paused)]
    facts += [
        ("Next:", ", ".join(shown(at, one.zone) for at in coming)),
        ("Pinned:", one.digest),
        ("From:", one.source),
    ]
    terms = one.terms
    facts += [("Rules:", rules_line(one.rules))]
    facts += [("Arguments:", one.arguments), ("Session:", one.session), ("Model:", terms.model), ("Sink:", terms.sink)]
    facts += [("Permissions:", ", ".join(terms.permissions)), ("Budget:", str(terms.budget or ""))]
    for label, text in facts:
        if text:
            say(f"  {label:<13}{clean(text)}")
    for line in columns([firing_row(one) for one in last]):
        say("  " + line)


@schedule.command("preview")
@click.argument("time", nargs=-1)
@click.option("--cron", metavar="EXPR", help="Five cron fields.")
@click.option("--tz", "zone", metavar="ZONE", help="The zone; this machine's otherwise.")
@click.option("--from", "start", metavar="ISO", help="Count from this time; now otherwise.")
@click.option("--count", type=click.IntRange(1, 10_000), default=5, show_default=True, help="So many firings.")
@_json
def preview(
    time: tuple[str, ...], cron: str | None, zone: str | None, start: str | None, count: int, as_json: bool
) -> None:
    """Print the next firings of a TIME or of --cron, as instants in the zone's own time.  Nothing is scheduled."""
    from ...schedule.when import Cron, checked_cron, firings, schedule_time, zone_of

    if bool(time) == (cron is not None):
        raise BadRequest("give a TIME or --cron, one of them", "metier schedule preview --cron '0 9 * * 1-5'")
    place = zone_of(zone or clock.zone_name())
    after = _instant(start, place) if start else _now()
    when = checked_cron(cron) if cron is not None else schedule_time(" ".join(time), after, place.key)
    found = (
        [when.at.astimezone(place)]
        if not isinstance(when, Cron)
        else list(islice(firings(when, place.key, after), count))
    )
    if as_json:
        say_json([one.isoformat() for one in found])
        return
    for one in found:
        say(one.isoformat())


def _instant(text: str, zone: Any) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRequest(f"`{text}` is not an ISO 8601 time", "write it as 2026-03-08T00:00:00-05:00") from None


@schedule.command("pause")
@click.argument("name", shell_complete=naming.schedules)
@click.pass_obj
def pause(context: Context, name: str) -> None:
    """Let a schedule rest; what waits is cancelled."""
    from ...schedule import book

    _, engine = _open(context)
    one = _found(engine, name)
    book.pause(engine, one.id, "you paused it", _now())
    say(f"Paused: {clean(one.id)}")


@schedule.command("resume")
@click.argument("name", shell_complete=naming.schedules)
@click.pass_obj
def resume(context: Context, name: str) -> None:
    """Go on from now, with the skill as it is now."""
    from ...schedule import book, copies
    from ...schedule.worker import home_id

    place, engine = _open(context)
    one = _found(engine, name)
    pin = copies.pin(one.source) if one.home == home_id(place) else None
    changed = pin is not None and pin.digest != one.digest
    if pin is not None and changed:
        one = book.repin(engine, one, pin)
    made = book.resume(engine, one, _now())
    say(f"Resumed: {clean(made.id)}, next at {shown(made.next, made.zone)}")
    if changed:
        say("Its skill had changed, and is agreed to as it is now.")


@schedule.command("run")
@click.argument("name", shell_complete=naming.schedules)
@click.option("--wait", type=float, default=0, metavar="SECONDS", help="Wait so long for it to end.")
@_json
@click.pass_context
def run(context: click.Context, name: str, wait: float, as_json: bool) -> None:
    """Run a schedule once, now; it waits its turn like any other firing."""
    from ...schedule import book
    from ...types.schedule import ENDS

    _, engine = _open(context.obj)
    one = _found(engine, name)
    at = book.trigger(engine, one.id, _now())
    until = clock.monotonic() + wait
    firing = book.firing(engine, one.id, at)
    while firing is not None and firing.state not in ENDS and clock.monotonic() < until:
        clock.sleep(0.1)
        firing = book.firing(engine, one.id, at)
    assert firing is not None
    if as_json:
        say_json(firing_dict(firing))
    elif firing.state in ENDS:
        say("  ".join(firing_row(firing)).rstrip())
    else:
        say(f"Asked for: {clean(one.id)}, at {shown(at, one.zone)}")
        if not _somebody_works(engine):
            say(arrow("nobody works on it yet: run `metier daemon`"))
    context.exit(1 if firing.state in ("failed", "lost", "cancelled") else 0)


@schedule.command("patch")
@click.argument("name", shell_complete=naming.schedules)
@click.option("--time", metavar="TIME", help="Another time.")
@click.option("--tz", "zone", metavar="ZONE", help="Another zone.")
@_terms_options
@_json
@click.pass_obj
def patch(context: Context, /, name: str, time: str | None, zone: str | None, as_json: bool, **more: Any) -> None:
    """Change a schedule; its next time is counted from now."""
    from ...runtime import scheduling
    from ...schedule import book
    from ...schedule.arrange import check_rules, check_terms, retimed
    from ...schedule.plan import when_of

    place, engine = _open(context)
    one = _found(engine, name)
    before = one
    one = replace(one, rules=_rules(one.rules, more), terms=_terms(one.terms, more))
    if more["arguments"] is not None:
        one = replace(one, arguments=more["arguments"])
    if time or zone:
        one = retimed(one, time or one.when, zone or one.zone, _now())
    if one == before:
        raise BadRequest("nothing is to be changed", "give --time, --tz or one of the rules; see --help")
    check_rules(one.rules, when_of(one), one.zone, _now())
    check_terms(one.terms)
    scheduling.check_terms(place, _terms(Terms(), more))
    made = book.change(engine, one, _now())
    if as_json:
        say_json(schedule_dict(made))
    else:
        say(f"Changed: {clean(made.id)}, next at {shown(made.next, made.zone)}")


@schedule.command("remove")
@click.argument("name", shell_complete=naming.schedules)
@click.option("--keep-skill", is_flag=True, help="Leave the scheduler skill where it is.")
@click.pass_obj
def remove(context: Context, name: str, keep_skill: bool) -> None:
    """Take a schedule out; a scheduler skill that no other schedule uses goes to the bin beside it."""
    from ...host import paths
    from ...schedule import book, copies
    from ...schedule.worker import home_id

    place, engine = _open(context)
    one = _found(engine, name)
    book.remove(engine, one.id, _now())
    say(f"Removed: {clean(one.id)}")
    mine = one.own and one.home == home_id(place) and paths.exists(one.source)
    if mine and not keep_skill and not book.is_used(engine, one.skill):
        say(f"Its skill lies in {clean_path(copies.trash(place, one.source))}")


@schedule.command("history")
@click.argument("name", required=False, shell_complete=naming.schedules)
@click.option("--count", type=click.IntRange(1, 100_000), default=20, show_default=True, help="So many firings.")
@_json
@click.pass_obj
def history(context: Context, name: str | None, count: int, as_json: bool) -> None:
    """Show what fired, what was missed, and how it ended; the last one first."""
    from ...schedule import book

    _, engine = _open(context)
    known = book.history(engine, name or "", count)
    if name and not known:
        name = _found(engine, name).id
        known = book.history(engine, name, count)
    if as_json:
        say_json([firing_dict(one) for one in known])
        return
    if not known:
        say("Nothing has fired yet.")
    rows = [(*([] if name else [clean(one.schedule)]), *firing_row(one)) for one in known]
    for line in columns(rows):
        say(line)


def _somebody_works(engine: Engine) -> bool:
    from ...schedule.runs import workers

    return any(one.state == "up" for one in workers(engine))

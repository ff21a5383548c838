"""The tools by which an agent schedules: text in, text out, with Agenvoy's answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from json import dumps
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..act.tools.desk import guarded
from ..types.errors import BadRequest, Refused, UnknownSkill
from ..types.place import Place
from ..types.schedule import Schedule, Terms
from ..types.tool import Answer, Tool
from . import arrange, book, copies, skills
from .database import named_errors
from .when import Cron, schedule_time, zone_of

if TYPE_CHECKING:
    from .database import Engine


@dataclass(frozen=True)
class Desk:
    """Where an agent schedules from."""

    place: Place
    engine: Engine
    zone: str
    now: Callable[[], datetime]
    session: str = ""
    model: str = ""
    """What runs what is scheduled here."""


class Form(NamedTuple):
    """A tool before it has a desk: `call` takes its arguments as the schema has them."""

    name: str
    description: str
    schema: Mapping[str, object]
    call: Callable[[Desk, Mapping[str, object]], str]


def add_schedule(desk: Desk, given: Mapping[str, object]) -> str:
    """Bind a time to a scheduler skill that exists."""
    target, time, name = _word(given, "target"), _word(given, "time"), _word(given, "skill_name")
    folder = _folder(desk, name)
    _check_kind(target, time, desk)
    wish = arrange.Wish(name, folder, time, desk.zone, session=desk.session, terms=Terms(model=desk.model))
    made = arrange.arrange(desk.place, desk.engine, wish, desk.now())
    if made.once:
        return f"task scheduled: {name} fires at {_local(made, desk)}"
    return f"cron scheduled: {made.when} for {name}"


def patch_schedule(desk: Desk, given: Mapping[str, object]) -> str:
    """Change the time of a skill's schedules."""
    target, time, name = _word(given, "target"), _word(given, "time"), _word(given, "skill_name")
    mine = _mine(desk, target, name)
    if not mine:
        raise BadRequest(f'no {target} for skill "{name}"', "call list_schedule to see what there is")
    _check_kind(target, time, desk)
    changed = [book.change(desk.engine, arrange.retimed(one, time, desk.zone, desk.now()), desk.now()) for one in mine]
    shown = _local(changed[0], desk) if changed[0].once else changed[0].when
    what = "fire time" if target == "task" else "expression"
    return f'patched {len(changed)} {target}(s) for skill "{name}"; new {what}: {shown}'


def remove_schedule(desk: Desk, given: Mapping[str, object]) -> str:
    """Take a skill's schedules out; the skill goes to the bin when no schedule uses it any more."""
    target, name = _word(given, "target"), _word(given, "skill_name")
    mine = _mine(desk, target, name)
    if not mine:
        raise BadRequest(f'no {target} for skill "{name}"', "call list_schedule to see what there is")
    for one in mine:
        book.remove(desk.engine, one.id, desk.now())
    done = f'removed {len(mine)} {target}(s) for skill "{name}"'
    folder = skills.folders(desk.place).get(name)
    if folder is None or book.is_used(desk.engine, name):
        return done
    copies.trash(desk.place, folder)
    return f"{done} and moved skill to .Trash"


def list_schedule(desk: Desk, given: Mapping[str, object]) -> str:
    """The schedules of this session, as JSON; `{}` when there are none."""
    target = _word(given, "target") if "target" in given else "all"
    if target not in ("task", "cron", "all"):
        raise BadRequest(f'target must be task, cron or all (got "{target}")')
    found: dict[str, list[dict[str, object]]] = {}
    for one in book.schedules(desk.engine):
        kind = "task" if one.once else "cron"
        if one.session == desk.session and target in (kind, "all"):
            time: dict[str, object] = {"at": one.when} if one.once else {"expression": one.when, "zone": one.zone}
            more: dict[str, object] = {"paused": one.paused} if one.paused else {}
            found.setdefault(f"{kind}s", []).append({"id": one.id, "skill": one.skill, **time, **more})
    return dumps(found, ensure_ascii=False)


def _word(given: Mapping[str, object], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadRequest(f"`{key}` is missing", f"give `{key}` as text")
    return value.strip()


def _folder(desk: Desk, name: str) -> str:
    try:
        return skills.find(desk.place, name)
    except UnknownSkill as error:
        raise Refused(
            f'scheduler skill "{name}" does not exist: a new schedule is made with the skill `{skills.CREATOR}`, '
            "which asks for time and task, creates the skill and binds it; add_schedule only rebinds one that exists",
            error.hint if error.nearest else f"activate `{skills.CREATOR}`",
        ) from None


def _check_kind(target: str, time: str, desk: Desk) -> None:
    if target not in ("task", "cron"):
        raise BadRequest(f'target must be task or cron (got "{target}")', "task fires once, cron again and again")
    kind: Literal["cron", "task"] = "cron" if isinstance(schedule_time(time, desk.now(), desk.zone), Cron) else "task"
    if kind != target:
        said = "again and again" if kind == "cron" else "once"
        raise BadRequest(f'"{time}" fires {said}: that is a {kind}, not a {target}', f"call it with target={kind}")


def _mine(desk: Desk, target: str, name: str) -> list[Schedule]:
    if target not in ("task", "cron"):
        raise BadRequest(f'target must be task or cron (got "{target}")', "task fires once, cron again and again")
    known = book.of_skill(desk.engine, name)
    return [one for one in known if one.once == (target == "task") and one.session == desk.session]


def _local(schedule: Schedule, desk: Desk) -> str:
    return datetime.fromisoformat(schedule.when).astimezone(zone_of(desk.zone)).strftime("%Y-%m-%d %H:%M:%S")


_TARGET = {"type": "string", "enum": ["task", "cron"], "description": "task: once; cron: again and again"}
_TIME = {
    "type": "string",
    "description": "+5m, 14:30, tomorrow at 9am, 2026-12-31 23:59, RFC 3339, or for cron five fields; never a guess: "
    "ask the user when the hour is missing",
}
_SKILL = {"type": "string", "description": "the name of an existing scheduler skill, with its hash"}


def _schema(*required: str, **properties: object) -> Mapping[str, object]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


FORMS = (
    Form(
        "add_schedule",
        f"Bind a time to an existing scheduler skill. New schedules are made by the skill `{skills.CREATOR}`.",
        _schema("target", "time", "skill_name", target=_TARGET, time=_TIME, skill_name=_SKILL),
        add_schedule,
    ),
    Form(
        "patch_schedule",
        "Change the time of a scheduler skill's schedules in this session.",
        _schema("target", "time", "skill_name", target=_TARGET, time=_TIME, skill_name=_SKILL),
        patch_schedule,
    ),
    Form(
        "remove_schedule",
        "Remove a scheduler skill's schedules in this session; the skill goes to the bin when none is left.",
        _schema("target", "skill_name", target=_TARGET, skill_name=_SKILL),
        remove_schedule,
    ),
    Form(
        "list_schedule",
        "List the schedules of this session as JSON.",
        _schema(target={**_TARGET, "enum": ["task", "cron", "all"]}),
        list_schedule,
    ),
)


def tools(desk: Callable[[str], Desk]) -> tuple[Tool, ...]:
    """The tools at a desk, which is made for each call of one of them, and left after it."""

    def made(form: Form) -> Tool:
        def call(given: Mapping[str, object]) -> Answer:
            at = desk(form.name)
            try:
                with named_errors(at.place):
                    return Answer(form.call(at, given))
            finally:
                at.engine.dispose()

        return Tool(form.name, form.description, (), guarded(call), form=form.schema)

    return tuple(made(form) for form in FORMS)

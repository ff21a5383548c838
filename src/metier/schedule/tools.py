"""The tools by which an agent schedules: text in, text out, with Agenvoy's answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from json import dumps
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..library import scheduled
from ..library.skill_tools import guard_errors
from ..types.errors import BadRequest, Refused, UnknownSkill
from ..types.model import Answer, Tool
from ..types.place import Place
from ..types.schedule import RunTerms, Schedule
from . import pins, requests, store
from .database import named_errors
from .times import CronExpression, schedule_time, zone_of

if TYPE_CHECKING:
    from .database import Engine


@dataclass(frozen=True)
class ScheduleTools:
    """Where an agent schedules from."""

    place: Place
    engine: Engine
    zone: str
    now: Callable[[], datetime]
    session: str = ""
    model: str = ""
    """What runs what is scheduled here."""


class ScheduleToolSpec(NamedTuple):
    """A tool before it has a desk: `call` takes its arguments as the schema has them."""

    name: str
    description: str
    schema: Mapping[str, object]
    call: Callable[[ScheduleTools, Mapping[str, object]], str]


def add_schedule(context: ScheduleTools, arguments: Mapping[str, object]) -> str:
    """Bind a time to a scheduler skill that exists."""
    target, time, name = (
        _text_argument(arguments, "target"),
        _text_argument(arguments, "time"),
        _text_argument(arguments, "skill_name"),
    )
    folder = _skill_folder(context, name)
    _check_kind(target, time, context)
    request = requests.ScheduleRequest(
        name, folder, time, context.zone, session=context.session, terms=RunTerms(model=context.model)
    )
    schedule = requests.create_schedule(context.place, context.engine, request, context.now())
    if schedule.once:
        return f"task scheduled: {name} fires at {_local_time(schedule, context)}"
    return f"cron scheduled: {schedule.when} for {name}"


def patch_schedule(context: ScheduleTools, arguments: Mapping[str, object]) -> str:
    """Change the time of a skill's schedules."""
    target, time, name = (
        _text_argument(arguments, "target"),
        _text_argument(arguments, "time"),
        _text_argument(arguments, "skill_name"),
    )
    mine = _session_schedules(context, target, name)
    if not mine:
        raise BadRequest(f'no {target} for skill "{name}"', "call list_schedule to see what there is")
    _check_kind(target, time, context)
    changed = [
        store.change_schedule(
            context.engine, requests.retime_schedule(schedule, time, context.zone, context.now()), context.now()
        )
        for schedule in mine
    ]
    new_time = _local_time(changed[0], context) if changed[0].once else changed[0].when
    time_label = "fire time" if target == "task" else "expression"
    return f'patched {len(changed)} {target}(s) for skill "{name}"; new {time_label}: {new_time}'


def remove_schedule(context: ScheduleTools, arguments: Mapping[str, object]) -> str:
    """Take a skill's schedules out; the skill goes to the bin when no schedule uses it any more."""
    target, name = _text_argument(arguments, "target"), _text_argument(arguments, "skill_name")
    mine = _session_schedules(context, target, name)
    if not mine:
        raise BadRequest(f'no {target} for skill "{name}"', "call list_schedule to see what there is")
    for schedule in mine:
        store.remove_schedule(context.engine, schedule.id, context.now())
    message = f'removed {len(mine)} {target}(s) for skill "{name}"'
    folder = scheduled.scheduler_folders(context.place).get(name)
    if folder is None or store.is_used(context.engine, name):
        return message
    pins.trash_skill(context.place, folder)
    return f"{message} and moved skill to .Trash"


def list_schedule(context: ScheduleTools, arguments: Mapping[str, object]) -> str:
    """The schedules of this session, as JSON; `{}` when there are none."""
    target = _text_argument(arguments, "target") if "target" in arguments else "all"
    if target not in ("task", "cron", "all"):
        raise BadRequest(f'target must be task, cron or all (got "{target}")')
    listed: dict[str, list[dict[str, object]]] = {}
    for schedule in store.all_schedules(context.engine):
        kind = "task" if schedule.once else "cron"
        if schedule.session == context.session and target in (kind, "all"):
            time: dict[str, object] = (
                {"at": schedule.when} if schedule.once else {"expression": schedule.when, "zone": schedule.zone}
            )
            state: dict[str, object] = {"paused": schedule.paused} if schedule.paused else {}
            listed.setdefault(f"{kind}s", []).append({"id": schedule.id, "skill": schedule.skill, **time, **state})
    return dumps(listed, ensure_ascii=False)


def _text_argument(arguments: Mapping[str, object], key: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadRequest(f"`{key}` is missing", f"give `{key}` as text")
    return value.strip()


def _skill_folder(context: ScheduleTools, name: str) -> str:
    try:
        return scheduled.find_scheduler_skill(context.place, name)
    except UnknownSkill as error:
        raise Refused(
            f'scheduler skill "{name}" does not exist: a new schedule is made '
            f"with the skill `{scheduled.CREATOR_SKILL}`, "
            "which asks for time and task, creates the skill and binds it; add_schedule only rebinds one that exists",
            error.hint if error.nearest else f"activate `{scheduled.CREATOR_SKILL}`",
        ) from None


def _check_kind(target: str, time: str, context: ScheduleTools) -> None:
    if target not in ("task", "cron"):
        raise BadRequest(f'target must be task or cron (got "{target}")', "task fires once, cron again and again")
    kind: Literal["cron", "task"] = (
        "cron" if isinstance(schedule_time(time, context.now(), context.zone), CronExpression) else "task"
    )
    if kind != target:
        frequency = "again and again" if kind == "cron" else "once"
        raise BadRequest(f'"{time}" fires {frequency}: that is a {kind}, not a {target}', f"call it with target={kind}")


def _session_schedules(context: ScheduleTools, target: str, name: str) -> list[Schedule]:
    if target not in ("task", "cron"):
        raise BadRequest(f'target must be task or cron (got "{target}")', "task fires once, cron again and again")
    schedules = store.schedules_of_skill(context.engine, name)
    return [
        schedule
        for schedule in schedules
        if schedule.once == (target == "task") and schedule.session == context.session
    ]


def _local_time(schedule: Schedule, context: ScheduleTools) -> str:
    return datetime.fromisoformat(schedule.when).astimezone(zone_of(context.zone)).strftime("%Y-%m-%d %H:%M:%S")


_TARGET_SCHEMA = {"type": "string", "enum": ["task", "cron"], "description": "task: once; cron: again and again"}
_TIME_SCHEMA = {
    "type": "string",
    "description": "+5m, 14:30, tomorrow at 9am, 2026-12-31 23:59, RFC 3339, or for cron five fields; never a guess: "
    "ask the user when the hour is missing",
}
_SKILL_SCHEMA = {"type": "string", "description": "the name of an existing scheduler skill, with its hash"}


def _object_schema(*required: str, **properties: object) -> Mapping[str, object]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


SCHEDULE_TOOL_SPECS = (
    ScheduleToolSpec(
        "add_schedule",
        f"Bind a time to an existing scheduler skill. New schedules are made by the skill `{scheduled.CREATOR_SKILL}`.",
        _object_schema(
            "target", "time", "skill_name", target=_TARGET_SCHEMA, time=_TIME_SCHEMA, skill_name=_SKILL_SCHEMA
        ),
        add_schedule,
    ),
    ScheduleToolSpec(
        "patch_schedule",
        "Change the time of a scheduler skill's schedules in this session.",
        _object_schema(
            "target", "time", "skill_name", target=_TARGET_SCHEMA, time=_TIME_SCHEMA, skill_name=_SKILL_SCHEMA
        ),
        patch_schedule,
    ),
    ScheduleToolSpec(
        "remove_schedule",
        "Remove a scheduler skill's schedules in this session; the skill goes to the bin when none is left.",
        _object_schema("target", "skill_name", target=_TARGET_SCHEMA, skill_name=_SKILL_SCHEMA),
        remove_schedule,
    ),
    ScheduleToolSpec(
        "list_schedule",
        "List the schedules of this session as JSON.",
        _object_schema(target={**_TARGET_SCHEMA, "enum": ["task", "cron", "all"]}),
        list_schedule,
    ),
)


def build_tools(open_context: Callable[[str], ScheduleTools]) -> tuple[Tool, ...]:
    """The tools at a desk, which is made for each call of one of them, and left after it."""

    def build_tool(form: ScheduleToolSpec) -> Tool:
        def call(arguments: Mapping[str, object]) -> Answer:
            context = open_context(form.name)
            try:
                with named_errors(context.place):
                    return Answer(form.call(context, arguments))
            finally:
                context.engine.dispose()

        return Tool(form.name, form.description, (), guard_errors(call), form=form.schema)

    return tuple(build_tool(form) for form in SCHEDULE_TOOL_SPECS)

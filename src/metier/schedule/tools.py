"""The tools with which an agent schedules: text in, text out, with Agenvoy's names and answers.

A skill written for Agenvoy reads these answers, so their texts are Agenvoy's: a `task` fires once, a `cron` repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from json import dumps
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, assert_never

from ..library import scheduled
from ..library.skill_tools import guard_errors
from ..types.errors import BadRequest, Refused, UnknownSkill
from ..types.model import Answer, Tool
from ..types.place import Place
from ..types.schedule import CronTrigger, OnceTrigger, RunTerms, Schedule, Trigger
from . import pins, requests, store
from .database import named_errors
from .times import schedule_time, trigger_text, zone_of

if TYPE_CHECKING:
    from .database import Engine


ScheduleKind: TypeAlias = Literal["task", "cron"]


@dataclass(frozen=True)
class ScheduleTools:
    """What the tools work with, made for each call of one."""

    place: Place
    engine: Engine
    zone: str
    now: Callable[[], datetime]
    session: str = ""
    model: str = ""
    """The model for schedules made here."""


class ScheduleToolSpec(NamedTuple):
    """A tool that is not bound to a place yet; `call` takes its arguments as the schema describes them."""

    name: str
    description: str
    schema: Mapping[str, object]
    call: Callable[[ScheduleTools, Mapping[str, object]], str]


def add_schedule(context: ScheduleTools, arguments: Mapping[str, object]) -> str:
    """Schedule an existing scheduler skill."""
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
    fires = _time_label(schedule.trigger, context)
    match schedule.trigger:
        case CronTrigger():
            return f"cron scheduled: {fires} for {name}"
        case OnceTrigger():
            return f"task scheduled: {name} fires at {fires}"
        case _:
            assert_never(schedule.trigger)


def patch_schedule(context: ScheduleTools, arguments: Mapping[str, object]) -> str:
    """Change the time of a skill's schedules."""
    target, time, name = (
        _text_argument(arguments, "target"),
        _text_argument(arguments, "time"),
        _text_argument(arguments, "skill_name"),
    )
    mine = _session_schedules(context, target, name)
    if not mine:
        raise BadRequest(f'no {target} for skill "{name}"', "call list_schedule to list them")
    _check_kind(target, time, context)
    changed = [
        store.change_schedule(
            context.engine, requests.retime_schedule(schedule, time, context.zone, context.now()), context.now()
        )
        for schedule in mine
    ]
    noun = "fire time" if target == "task" else "expression"
    new_time = _time_label(changed[0].trigger, context)
    return f'patched {len(changed)} {target}(s) for skill "{name}"; new {noun}: {new_time}'


def remove_schedule(context: ScheduleTools, arguments: Mapping[str, object]) -> str:
    """Remove a skill's schedules; the skill goes to the trash once no schedule uses it."""
    target, name = _text_argument(arguments, "target"), _text_argument(arguments, "skill_name")
    mine = _session_schedules(context, target, name)
    if not mine:
        raise BadRequest(f'no {target} for skill "{name}"', "call list_schedule to list them")
    for schedule in mine:
        store.remove_schedule(context.engine, schedule.id, context.now())
    message = f'removed {len(mine)} {target}(s) for skill "{name}"'
    folder = scheduled.scheduler_folders(context.place).get(name)
    if folder is None or store.is_used(context.engine, name):
        return message
    pins.trash_skill(context.place, folder)
    return f"{message} and moved skill to .Trash"


def list_schedule(context: ScheduleTools, arguments: Mapping[str, object]) -> str:
    """The schedules of this session as JSON; `{}` if there are none."""
    target = _text_argument(arguments, "target") if "target" in arguments else "all"
    if target not in ("task", "cron", "all"):
        raise BadRequest(f'target must be task, cron or all (got "{target}")')
    listed: dict[str, list[dict[str, str]]] = {}
    for schedule in store.all_schedules(context.engine):
        kind = _kind_of(schedule.trigger)
        if schedule.session == context.session and target in (kind, "all"):
            state = {"paused": schedule.paused} if schedule.paused else {}
            fields = {"id": schedule.id, "skill": schedule.skill, **_time_fields(schedule), **state}
            listed.setdefault(f"{kind}s", []).append(fields)
    return dumps(listed, ensure_ascii=False)


def _kind_of(trigger: Trigger) -> ScheduleKind:
    match trigger:
        case CronTrigger():
            return "cron"
        case OnceTrigger():
            return "task"
        case _:
            assert_never(trigger)


def _time_fields(schedule: Schedule) -> dict[str, str]:
    text = trigger_text(schedule.trigger)
    match schedule.trigger:
        case CronTrigger():
            return {"expression": text, "zone": schedule.zone}
        case OnceTrigger():
            return {"at": text}
        case _:
            assert_never(schedule.trigger)


def _time_label(trigger: Trigger, context: ScheduleTools) -> str:
    """The time of a trigger as an agent reads it: an instant in local time."""
    match trigger:
        case CronTrigger(expression):
            return expression
        case OnceTrigger(at):
            return at.astimezone(zone_of(context.zone)).strftime("%Y-%m-%d %H:%M:%S")
        case _:
            assert_never(trigger)


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
            f'scheduler skill "{name}" does not exist: add_schedule only schedules existing ones; '
            f"the skill `{scheduled.CREATOR_SKILL}` asks for time and task, creates a new one and schedules it",
            error.hint if error.nearest else f"activate `{scheduled.CREATOR_SKILL}`",
        ) from None


def _check_kind(target: str, time: str, context: ScheduleTools) -> None:
    _check_target(target)
    kind = _kind_of(schedule_time(time, context.now(), context.zone))
    if kind != target:
        frequency = "repeatedly" if kind == "cron" else "once"
        raise BadRequest(f'"{time}" fires {frequency}: that is a {kind}, not a {target}', f"call it with target={kind}")


def _check_target(target: str) -> None:
    if target not in ("task", "cron"):
        raise BadRequest(f'target must be task or cron (got "{target}")', "a task fires once, a cron repeatedly")


def _session_schedules(context: ScheduleTools, target: str, name: str) -> list[Schedule]:
    """Only those of this session: a conversation neither sees nor changes the schedules of another."""
    _check_target(target)
    schedules = store.schedules_of_skill(context.engine, name)
    return [
        schedule
        for schedule in schedules
        if _kind_of(schedule.trigger) == target and schedule.session == context.session
    ]


_TARGET_SCHEMA = {"type": "string", "enum": ["task", "cron"], "description": "task: once; cron: repeatedly"}
_TIME_SCHEMA = {
    "type": "string",
    "description": "+5m, 14:30, tomorrow at 9am, 2026-12-31 23:59, RFC 3339, or for cron five fields; never guess: "
    "ask the user if the hour is missing",
}
_SKILL_SCHEMA = {"type": "string", "description": "the name of an existing scheduler skill, including its hash"}


def _object_schema(*required: str, **properties: object) -> Mapping[str, object]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


# The model reads these descriptions: they say where a schedule comes from, or it would invent names of skills.
SCHEDULE_TOOL_SPECS = (
    ScheduleToolSpec(
        "add_schedule",
        f"Schedule an existing scheduler skill. To create a new one, use the skill `{scheduled.CREATOR_SKILL}`.",
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
        "Remove a scheduler skill's schedules in this session; the skill goes to the trash when none is left.",
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
    """The tools, bound to a context that is opened for each call and closed after it."""

    def build_tool(spec: ScheduleToolSpec) -> Tool:
        def call(arguments: Mapping[str, object]) -> Answer:
            context = open_context(spec.name)
            try:
                with named_errors(context.place):
                    return Answer(spec.call(context, arguments))
            finally:
                context.engine.dispose()

        return Tool(spec.name, spec.description, (), guard_errors(call), form=spec.schema)

    return tuple(build_tool(spec) for spec in SCHEDULE_TOOL_SPECS)

"""Skills on a schedule: which folder a name means, what fires it, and the tools by which an agent schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from ..host import facts, fs, paths
from ..host.facts import find_place
from ..library import scheduled
from ..library.open import OpenRequest, open_at
from ..sources.roots import RootOptions, guess_dialect
from ..types.activation import Call, Message
from ..types.agent import AgentFile, TurnBounds, UnattendedRun
from ..types.errors import BadRequest, Refused, UnknownSkill
from ..types.event import Activated, Ended, EventSteps, Heard
from ..types.model import Tool
from ..types.place import Place
from ..types.schedule import FiringContext, RunOutcome, RunTerms, Schedule
from ..types.text import estimate_tokens
from .database import DATABASE_FILE, URL_VARIABLE, open_engine

if TYPE_CHECKING:
    from ..agent.agent import Agent
    from ..agent.session import Session
    from ..library.library import Library
    from ..types.model import Model
    from .tools import ScheduleTools

UNATTENDED_TOOLS = ("write_file", "edit_file", "run_command")
"""What a run that nobody watches may do unasked, beside what is harmless: all of it inside its own folder."""
NETWORK_GRANT = "network"
"""A grant that is no tool: commands may reach the network."""


def resolve_scheduled_folder(place: Place, name: str) -> tuple[str, str, bool]:
    """Name and folder of what is to be scheduled, and whether it is a scheduler skill of the user's own."""
    try:
        folder = scheduled.find_scheduler_skill(place, name)
        return folder.rpartition("/")[2], folder, True
    except UnknownSkill as error:
        near = error.nearest
    library = open_at(place, OpenRequest())
    try:
        verdict = library.find(name)
    except UnknownSkill as error:
        raise UnknownSkill(name, (*near, *error.nearest)[:3]) from None
    if not verdict.usable:
        raise Refused(f"`{name}` may not run here", f"`metier why {name}` says why")
    return verdict.skill.name, verdict.skill.directory, False


def check_terms(place: Place, terms: RunTerms) -> None:
    """Refuse now what would fail at night: a model that is none, and grants that grant nothing."""
    _check_grants(terms.permissions)
    if terms.model:
        from ..agent.models.registry import LOCAL, resolve_address

        if terms.model.partition(":")[0] != LOCAL:
            resolve_address(terms.model, open_at(find_place(place.state), OpenRequest()), keyless=True)


def pinned_model(place: Place, named: str) -> str:
    """The model that a schedule is agreed to with: the one that was named, or the one that would be asked now."""
    from ..agent.models.registry import resolve_model_name

    return named or resolve_model_name("", open_at(find_place(place.state), OpenRequest()))


def _check_grants(grants: tuple[str, ...]) -> None:
    from ..agent.permissions import HARMLESS_TOOLS, TOOL_ALIASES, parse_rule

    grantable = (NETWORK_GRANT, *UNATTENDED_TOOLS, "git_rollback", *HARMLESS_TOOLS, *TOOL_ALIASES)
    for text in grants:
        rule = parse_rule(text)
        if rule is None:
            raise BadRequest(
                f"`{text}` is not a permission", "write a tool's name, or `run_command(git *)`, or `network`"
            )
        tool = text.strip().partition("(")[0]
        if rule.tool not in grantable and "*" not in tool:
            near = get_close_matches(tool, grantable, 1, 0.6)
            hint = (
                f"did you mean `{near[0]}`?"
                if near
                else f"one of: {', '.join((NETWORK_GRANT, *UNATTENDED_TOOLS))}, or another tool"
            )
            raise BadRequest(f"`{text}` grants nothing: there is no tool `{tool}`", hint)


# --- Firing ---


AfterRun: TypeAlias = "Callable[[Library, str], Callable[[str], None]]"
"""Makes what is called with a run's id when it has ended; the improver is such a one."""


def fire_schedule(schedule: Schedule, at: datetime, run: FiringContext, after: AfterRun | None = None) -> RunOutcome:
    """Run a scheduled skill with the agent, as it was agreed to, with nobody to ask."""
    _check_usable(schedule, run)
    return fire_with(schedule.terms.model, schedule, run, after)


def _check_usable(schedule: Schedule, run: FiringContext) -> None:
    """A skill that may not be used here any more, whatever was agreed, pauses its schedule."""
    from .fire import SchedulePaused
    from .worker import home_id

    if schedule.own or schedule.home != home_id(find_place(run.session)) or not paths.exists(schedule.source):
        return
    if not any(_is_usable_from(at, schedule.source) for at in dict.fromkeys((schedule.project, schedule.source))):
        raise SchedulePaused(f"its skill may not run here; `metier why {schedule.skill}` says why")


def _is_usable_from(at: str, folder: str) -> bool:
    """Whether a skill may be used, looked at from a place; from where nobody finds it, it may not."""
    if not at or not paths.exists(at):
        return False
    library = open_at(find_place(at), OpenRequest())
    return any(verdict.usable for verdict in library.verdicts if verdict.skill.directory == folder)


def fire_with(model: Model | str, schedule: Schedule, run: FiringContext, after: AfterRun | None = None) -> RunOutcome:
    """The same, with a model that is at hand."""
    session = scheduled_agent(model, schedule, run, after).start()
    ended = None
    for event in session.within(_begin_scheduled_run(schedule, run, session.agent.hide), ""):
        if run.stopped():
            session.stop()
        ended = event if isinstance(event, Ended) else ended
    if ended is None:
        return RunOutcome(False, "the run ended before it began")
    return RunOutcome(ended.outcome == "finished", ended.text or ended.outcome, session.run)


def _begin_scheduled_run(schedule: Schedule, run: FiringContext, hide: Callable[[str], str]) -> EventSteps[bool]:
    """The run is one of its skill: the model is told the instructions, and the record says whose they are."""
    text, name = hide(_task_text(schedule, run)), schedule.skill
    called = f"/{scheduled.COMMAND_PREFIX if schedule.own else ''}{name} {schedule.arguments}".rstrip()
    yield Heard(called, "schedule", (Message("user", text, skill=name),))
    yield Activated(
        name,
        f"{schedule.source}/SKILL.md",
        "schedule",
        schedule.arguments,
        schedule.digest,
        text,
        estimate_tokens(text),
        directory=run.folder,
    )
    return True


def scheduled_agent(model: Model | str, schedule: Schedule, run: FiringContext, after: AfterRun | None = None) -> Agent:
    """Who runs a scheduled skill.  Each reply and each call of a tool is a step, done once."""
    from ..agent.agent import Agent
    from ..agent.agent_files import configured_permission, parse_rules, resolve_bounds
    from ..agent.permissions import PermissionRule
    from ..agent.policies import durable_step, secret_hider
    from ..agent.session import PLAIN_INSTRUCTIONS

    library = open_at(find_place(run.session), OpenRequest())
    bounds = resolve_bounds(library.settings, TurnBounds())
    if schedule.terms.budget:
        bounds = replace(bounds, cost=schedule.terms.budget)
    grants = schedule.terms.permissions
    usual = configured_permission(library.settings)
    rules = replace(usual, allow=(*usual.allow, *map(PermissionRule, UNATTENDED_TOOLS), *parse_rules(grants)))
    bot_file = f"{run.session}/bot.md"
    bot = paths.read_text_file(bot_file) or ""
    return Agent(
        library,
        model,
        AgentFile("", instructions=f"{PLAIN_INSTRUCTIONS}\n\n{bot.strip()}".strip()),
        rules,
        bounds,
        hidden=(bot_file,),  # what the next run is told, of whichever schedule, is not for this one to write
        after=after(library, model if isinstance(model, str) else "") if after is not None else None,
        step=durable_step(run.step, secret_hider(library)),
        alone=UnattendedRun((run.folder,) if run.folder else (), NETWORK_GRANT in grants, schedule.id),
    )


def _task_text(schedule: Schedule, run: FiringContext) -> str:
    """The instructions, what they are called with, and where the skill's own files are, if it has some."""
    parts = [_plain_text(schedule, run) if schedule.own else _render_scheduled_skill(schedule, run)]
    if run.folder and len(list(paths.tree_of(run.folder))) > 1:
        parts.append(f"The files of this skill are in {run.folder}; relative paths above are meant from there.")
    return "\n\n".join(parts)


def _plain_text(schedule: Schedule, run: FiringContext) -> str:
    """A scheduler skill is told as it stands."""
    return "\n\n".join(filter(None, (run.body, schedule.arguments and f"Arguments: {schedule.arguments}")))


def _render_scheduled_skill(schedule: Schedule, run: FiringContext) -> str:
    """Any other skill as a call of it reads, from the copy that was agreed to; commands in it run once."""
    place = find_place(run.session)
    if not run.folder or not paths.exists(run.folder):
        return _plain_text(schedule, run)
    library = open_at(place, OpenRequest(_dialect_of(schedule, place), root=run.folder, use_index=False))
    skill = next((candidate for candidate in library.skills if candidate.directory == run.folder), None)
    if skill is None:
        return _plain_text(schedule, run)
    desk = replace(library.desk(cwd=run.session, by="schedule", write=(run.session,)), alone=True)
    called = skill._replace(id=schedule.source.rpartition("/")[2])

    def text() -> str:
        activation = desk.render(called, Call(schedule.skill, schedule.arguments, "schedule", run.session))
        used = any(insert.kind in ("argument", "appended") for insert in activation.inserts)
        return (
            activation.text
            if used or not schedule.arguments
            else f"{activation.text}\n\nArguments: {schedule.arguments}"
        )

    return str(run.step("render", text))


def _dialect_of(schedule: Schedule, place: Place) -> str:
    """How the skill is read where it was found, or, on another machine, as its path suggests."""
    library = open_at(find_place(schedule.project if paths.is_folder(schedule.project) else place.cwd), OpenRequest())
    for skill in library.skills:
        if skill.directory == schedule.source:
            return skill.origin.dialect.name
    root_options = RootOptions(library.dialect, library.dialects, library.settings)
    return guess_dialect(schedule.source.rpartition("/")[0], root_options)


# --- Scheduling ---


@contextmanager
def preserve_agreements(place: Place, folder: str) -> Iterator[None]:
    """Schedules that agree to a skill before something that its owner accepted agree to it afterwards too."""
    if not _has_sqlalchemy() or not (place.env.get(URL_VARIABLE) or paths.exists(f"{place.state}/{DATABASE_FILE}")):
        yield
        return
    from .requests import agreed_schedules, repin_schedules

    engine = open_engine(place)
    try:
        before = agreed_schedules(place, engine, folder)
        yield
        repin_schedules(engine, before)
    finally:
        engine.dispose()


@lru_cache(1)
def _has_sqlalchemy() -> bool:
    from importlib.util import find_spec

    return find_spec("sqlalchemy") is not None


def scheduling_tools(session: Session) -> tuple[Tool, ...]:
    """The tools by which an agent schedules; a run by hand of what is scheduled schedules nothing."""
    if not _has_sqlalchemy():
        return ()
    from . import tools
    from .worker import utc_now

    place = session.library.place
    fs.make_folder(f"{place.state}/scheduler")

    def desk(tool: str) -> ScheduleTools:
        if session.by_hand and tool != "list_schedule":
            raise Refused(
                "this is a run by hand of a scheduler skill that exists, and nothing is to be scheduled",
                "do what its instructions say, and answer",
            )
        named = session.agent.model
        model = pinned_model(place, named if isinstance(named, str) else "")
        return tools.ScheduleTools(place, open_engine(place), facts.zone_name(), utc_now, model=model)

    return tools.build_tools(desk)

"""Scheduled skills and the agent: check what may be scheduled, run a firing, and offer the tools to schedule.

A scheduled run has no user, so everything that one would be asked is settled in advance.  What fails at night is
refused when the schedule is made; what is not granted by then is refused during the run.  A run starts in the folder of
its session, and sees the user's configuration but not that of the project it was scheduled from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
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
from ..types.errors import BadRequest, MachineTrouble, Refused, UnknownSkill
from ..types.event import Activated, Ended, EventSteps, Heard
from ..types.model import Tool
from ..types.place import Place
from ..types.schedule import FiringContext, RunOutcome, RunTerms, Schedule
from ..types.settings import Settings
from ..types.text import estimate_tokens
from .database import DATABASE_FILE, URL_VARIABLE, open_engine

if TYPE_CHECKING:
    from ..agent.agent import Agent
    from ..agent.session import Session
    from ..library.library import Library
    from ..types.model import Model
    from .tools import ScheduleTools

UNATTENDED_TOOLS = ("write_file", "edit_file", "run_command")
"""What an unattended run may do without a grant, besides harmless tools; all of it inside its own folder."""
NETWORK_GRANT = "network"
"""A grant that is not a tool: commands may use the network."""


# --- Checks before scheduling ---

# The caller opens the library once and passes it to each of these.


def resolve_scheduled_folder(library: Library, name: str) -> tuple[str, str, bool]:
    """The name and folder of the skill to schedule, and whether it is a scheduler skill of the user."""
    try:
        folder = scheduled.find_scheduler_skill(library.place, name)
        return folder.rpartition("/")[2], folder, True
    except UnknownSkill as error:
        near = error.nearest
    try:
        verdict = library.find(name)
    except UnknownSkill as error:
        raise UnknownSkill(name, (*near, *error.nearest)[:3]) from None
    if not verdict.usable:
        raise Refused(f"`{name}` may not run here", f"run `metier why {name}` for the reason")
    return verdict.skill.name, verdict.skill.directory, False


def check_run_terms(library: Library, terms: RunTerms) -> None:
    """Refuse now what would fail at each firing: an unknown model, and permissions that grant nothing."""
    _check_grants(terms.permissions)
    if terms.model:
        from ..agent.models import LOCAL
        from ..agent.models.registry import resolve_address

        if terms.model.partition(":")[0] != LOCAL:
            resolve_address(terms.model, _without_project(library), keyless=True)


def pinned_model(library: Library, named: str) -> str:
    """The model a schedule is pinned to: the one named, or the one configured now."""
    from ..agent.models import resolve_model_name

    return named or resolve_model_name("", _without_project(library))


def _without_project(library: Library) -> Library:
    """A library with the user's configuration alone, as a run has it: a project must not choose its model."""
    settings = library.settings
    return library.replace(settings=Settings(settings.own_tree)) if settings.project_tree else library


def _check_grants(grants: tuple[str, ...]) -> None:
    from ..agent.permissions import HARMLESS_TOOLS, TOOL_ALIASES, parse_rule

    grantable = (NETWORK_GRANT, *UNATTENDED_TOOLS, "git_rollback", *HARMLESS_TOOLS, *TOOL_ALIASES)
    for text in grants:
        rule = parse_rule(text)
        if rule is None:
            raise BadRequest(
                f"`{text}` is not a permission", "give the name of a tool, `run_command(git *)`, or `network`"
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
"""Makes the function that is called with the id of a run when it has ended; the improver is one."""


def fire_schedule(schedule: Schedule, at: datetime, run: FiringContext, after: AfterRun | None = None) -> RunOutcome:
    """Run a scheduled skill with the agent, as it was pinned, unattended."""
    _check_usable(schedule, run)
    return fire_with(schedule.terms.model, schedule, run, after)


def _check_usable(schedule: Schedule, run: FiringContext) -> None:
    """Pause the schedule of a skill that may not run here any more, although it is pinned: trust was withdrawn."""
    from .fire import SchedulePaused
    from .worker import home_id

    # Workers of another home can't see the folder, so they rely on the pinned copy.
    if schedule.own or schedule.home != home_id(find_place(run.session)) or paths.is_missing(schedule.source):
        return
    if not any(_is_usable_from(at, schedule.source) for at in dict.fromkeys((schedule.project, schedule.source))):
        raise SchedulePaused(f"its skill may not run here; run `metier why {schedule.skill}` for the reason")


def _is_usable_from(at: str, folder: str) -> bool:
    """Whether a skill is found and may run, seen from a folder."""
    if not at or not paths.exists(at):
        return False
    with closing(open_at(find_place(at), OpenRequest())) as library:
        return any(verdict.usable for verdict in library.verdicts if verdict.skill.directory == folder)


def fire_with(model: Model | str, schedule: Schedule, run: FiringContext, after: AfterRun | None = None) -> RunOutcome:
    """Run a scheduled skill with a model that is open already, or the one of a name."""
    ended = None
    # All that a firing opens is closed here and now: a daemon that left it to the collector would run out of files.
    with scheduled_agent(model, schedule, run, after) as agent, closing(agent.library), agent.start() as session:
        for event in session.within(_begin_scheduled_run(schedule, run, agent.hide), ""):
            if run.stopped():
                session.stop()
            ended = event if isinstance(event, Ended) else ended
    if ended is None:
        return RunOutcome(False, "the run ended before it began")
    if ended.reason == MachineTrouble.reason:
        # Raised, so that the worker tries again: it says nothing about the skill.
        raise MachineTrouble(ended.text, ended.hint)
    return RunOutcome(ended.outcome == "finished", ended.text or ended.outcome, session.run)


def _begin_scheduled_run(schedule: Schedule, run: FiringContext, hide: Callable[[str], str]) -> EventSteps[bool]:
    """Begin the run with the instructions, and record which skill they belong to."""
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
    """The agent of a scheduled run.  Each reply and each tool call is a durable step."""
    from ..agent.agent import Agent
    from ..agent.agent_files import configured_permission, parse_rules, resolve_bounds
    from ..agent.permissions import PermissionRule
    from ..agent.policies import durable_step
    from ..agent.session import PLAIN_INSTRUCTIONS

    library = open_at(find_place(run.session), OpenRequest())
    bounds = resolve_bounds(library.settings, TurnBounds())
    if schedule.terms.budget:
        bounds = replace(bounds, cost=schedule.terms.budget)
    grants = schedule.terms.permissions
    usual = configured_permission(library.settings)
    # Added to the user's configuration, whose `deny` still wins over any grant.
    rules = replace(usual, allow=(*usual.allow, *map(PermissionRule, UNATTENDED_TOOLS), *parse_rules(grants)))
    bot_file = f"{run.session}/bot.md"
    bot = paths.read_text_file(bot_file) or ""
    return Agent(
        library,
        model,
        AgentFile("", instructions=f"{PLAIN_INSTRUCTIONS}\n\n{bot.strip()}".strip()),
        rules,
        bounds,
        # It instructs the next run, so a run that was tricked must not be able to write it.
        hidden=(bot_file,),
        after=after(library, model if isinstance(model, str) else "") if after is not None else None,
        step=durable_step(run.step, library.hide),
        alone=UnattendedRun((run.folder,) if run.folder else (), NETWORK_GRANT in grants, schedule.id),
    )


def _task_text(schedule: Schedule, run: FiringContext) -> str:
    """The instructions, their arguments, and the folder of the skill's files if it has any."""
    parts = [_plain_text(schedule, run) if schedule.own else _render_scheduled_skill(schedule, run)]
    if run.folder and len(list(paths.tree_of(run.folder))) > 1:
        parts.append(f"The files of this skill are in {run.folder}; relative paths above start there.")
    return "\n\n".join(parts)


def _plain_text(schedule: Schedule, run: FiringContext) -> str:
    """A scheduler skill is sent as it is: it has no placeholders."""
    return "\n\n".join(filter(None, (run.body, schedule.arguments and f"Arguments: {schedule.arguments}")))


def _render_scheduled_skill(schedule: Schedule, run: FiringContext) -> str:
    """Any other skill is rendered from the pinned copy, as a call of it would be; commands in it run once."""
    place = find_place(run.session)
    if not run.folder or not paths.exists(run.folder):
        return _plain_text(schedule, run)
    library = open_at(place, OpenRequest(_dialect_of(schedule, place), root=run.folder, use_index=False))
    skill = next((candidate for candidate in library.skills if candidate.directory == run.folder), None)
    if skill is None:
        return _plain_text(schedule, run)
    access = replace(library.skill_access(cwd=run.session, by="schedule", write=(run.session,)), unattended=True)
    # The folder of a pinned copy is a digest; placeholders that name the skill need the name it was scheduled from.
    called = skill._replace(id=schedule.source.rpartition("/")[2])

    def text() -> str:
        activation = access.render(called, Call(schedule.skill, schedule.arguments, "schedule", run.session))
        used = any(insert.kind in ("argument", "appended") for insert in activation.inserts)
        if used or not schedule.arguments:
            return activation.text
        return f"{activation.text}\n\nArguments: {schedule.arguments}"

    return str(run.step("render", text))


def _dialect_of(schedule: Schedule, place: Place) -> str:
    """The dialect the skill was found with, or, on another machine, the one its path suggests."""
    at = find_place(schedule.project if paths.is_folder(schedule.project) else place.cwd)
    with closing(open_at(at, OpenRequest())) as library:
        for skill in library.skills:
            if skill.directory == schedule.source:
                return skill.origin.dialect.name
    root_options = RootOptions(library.dialect, library.dialects, library.settings)
    return guess_dialect(schedule.source.rpartition("/")[0], root_options)


# --- Agreements and tools ---


@contextmanager
def preserve_agreements(place: Place, folder: str) -> Iterator[None]:
    """Pin a skill again in the schedules that had its current copy, around a change that its owner accepted."""
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
    """The tools with which an agent schedules.  While a scheduler skill is run by hand they refuse to schedule."""
    if not _has_sqlalchemy():
        return ()
    from . import tools
    from .worker import utc_now

    place = session.library.place
    fs.make_folder(f"{place.state}/scheduler")

    def open_tools(tool: str) -> ScheduleTools:
        if session.by_hand and tool != "list_schedule":
            raise Refused(
                "an existing scheduler skill is being run by hand, so nothing can be scheduled",
                "follow its instructions, and answer",
            )
        named = session.agent.model
        model = pinned_model(session.library, named if isinstance(named, str) else "")
        return tools.ScheduleTools(place, open_engine(place), facts.zone_name(), utc_now, model=model)

    return tools.build_tools(open_tools)

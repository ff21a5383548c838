"""Skills on a schedule: which folder a name means, what fires it, and the tools by which an agent schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING

from ..host import clock, paths, state
from ..host.place import here
from ..schedule import skills
from ..schedule.database import FILE, URL, open_engine
from ..sources.roots import Wanted, guessed
from ..types.activation import Call, Message
from ..types.agent import AgentFile, Alone, Bounds
from ..types.errors import BadRequest, Refused, UnknownSkill
from ..types.event import Activated, Ended, Heard, Steps
from ..types.place import Place
from ..types.schedule import Outcome, Run, Schedule, Terms
from ..types.text import tokens_of
from ..types.tool import Tool
from .opening import Request, open_at

if TYPE_CHECKING:
    from ..schedule.tools import Desk
    from ..types.model import Model
    from .agent import Agent
    from .session import Session

WORKING = ("write_file", "edit_file", "run_command")
"""What a run that nobody watches may do unasked, beside what is harmless: all of it inside its own folder."""
NETWORK = "network"
"""A grant that is no tool: commands may reach the network."""


def folder_of(place: Place, name: str) -> tuple[str, str, bool]:
    """Name and folder of what is to be scheduled, and whether it is a scheduler skill of the user's own."""
    try:
        folder = skills.find(place, name)
        return folder.rpartition("/")[2], folder, True
    except UnknownSkill as error:
        near = error.nearest
    library = open_at(place, Request())
    try:
        verdict = library.find(name)
    except UnknownSkill as error:
        raise UnknownSkill(name, (*near, *error.nearest)[:3]) from None
    if not verdict.usable:
        raise Refused(f"`{name}` may not run here", f"`metier why {name}` says why")
    return verdict.skill.name, verdict.skill.directory, False


def check_terms(place: Place, terms: Terms) -> None:
    """Refuse now what would fail at night: a model that is none, and grants that grant nothing."""
    _check_grants(terms.permissions)
    if terms.model:
        from .models import LOCAL, address_of

        if terms.model.partition(":")[0] != LOCAL:
            address_of(terms.model, open_at(here(place.state), Request()), keyless=True)


def pinned_model(place: Place, named: str) -> str:
    """The model that a schedule is agreed to with: the one that was named, or the one that would be asked now."""
    from .models import model_name

    return named or model_name("", open_at(here(place.state), Request()))


def _check_grants(grants: tuple[str, ...]) -> None:
    from ..act.permission import HARMLESS, rule_of
    from ..act.rules import ALIASES

    known = (NETWORK, *WORKING, "git_rollback", *HARMLESS, *ALIASES)
    for text in grants:
        rule = rule_of(text)
        if rule is None:
            raise BadRequest(
                f"`{text}` is not a permission", "write a tool's name, or `run_command(git *)`, or `network`"
            )
        tool = text.strip().partition("(")[0]
        if rule.tool not in known and "*" not in tool:
            near = get_close_matches(tool, known, 1, 0.6)
            hint = (
                f"did you mean `{near[0]}`?" if near else f"one of: {', '.join((NETWORK, *WORKING))}, or another tool"
            )
            raise BadRequest(f"`{text}` grants nothing: there is no tool `{tool}`", hint)


# --- Firing ---


def fire(schedule: Schedule, at: datetime, run: Run) -> Outcome:
    """Run a scheduled skill with the agent, as it was agreed to, with nobody to ask."""
    _check(schedule, run)
    return fire_with(schedule.terms.model, schedule, run)


def _check(schedule: Schedule, run: Run) -> None:
    """A skill that may not be used here any more, whatever was agreed, pauses its schedule."""
    from ..schedule.fire import Paused
    from ..schedule.worker import home_id

    if schedule.own or schedule.home != home_id(here(run.session)) or not paths.exists(schedule.source):
        return
    if not any(_usable(at, schedule.source) for at in dict.fromkeys((schedule.project, schedule.source))):
        raise Paused(f"its skill may not run here; `metier why {schedule.skill}` says why")


def _usable(at: str, folder: str) -> bool:
    """Whether a skill may be used, looked at from a place; from where nobody finds it, it may not."""
    if not at or not paths.exists(at):
        return False
    library = open_at(here(at), Request())
    return any(one.usable for one in library.verdicts if one.skill.directory == folder)


def fire_with(model: Model | str, schedule: Schedule, run: Run) -> Outcome:
    """The same, with a model that is at hand."""
    session = agent_of(model, schedule, run).start()
    ended = None
    for event in session.within(_begun(schedule, run, session.agent.hide), ""):
        if run.stopped():
            session.stop()
        ended = event if isinstance(event, Ended) else ended
    if ended is None:
        return Outcome(False, "the run ended before it began")
    return Outcome(ended.outcome == "finished", ended.text or ended.outcome, session.run)


def _begun(schedule: Schedule, run: Run, hide: Callable[[str], str]) -> Steps[bool]:
    """The run is one of its skill: the model is told the instructions, and the record says whose they are."""
    text, name = hide(_asked(schedule, run)), schedule.skill
    called = f"/{skills.PREFIX if schedule.own else ''}{name} {schedule.arguments}".rstrip()
    yield Heard(called, "schedule", (Message("user", text, skill=name),))
    yield Activated(
        name, f"{schedule.source}/SKILL.md", "schedule", schedule.arguments, schedule.digest, text, tokens_of(text),
        directory=run.folder,
    )  # fmt: skip
    return True


def agent_of(model: Model | str, schedule: Schedule, run: Run) -> Agent:
    """Who runs a scheduled skill.  Each reply and each call of a tool is a step, done once."""
    from ..act.permission import Rule
    from .afterwards import afterwards
    from .agent import Agent
    from .agents import bounds_of, permission_of, rules_of
    from .durable import durable
    from .offering import PLAIN
    from .secrets import hider

    library = open_at(here(run.session), Request())
    bounds = bounds_of(library.settings, Bounds())
    if schedule.terms.budget:
        bounds = replace(bounds, cost=schedule.terms.budget)
    grants = schedule.terms.permissions
    usual = permission_of(library.settings)
    rules = replace(usual, allow=(*usual.allow, *map(Rule, WORKING), *rules_of(grants)))
    told = f"{run.session}/bot.md"
    bot = paths.read_text_file(told) or ""
    return Agent(
        library,
        model,
        AgentFile("", instructions=f"{PLAIN}\n\n{bot.strip()}".strip()),
        rules,
        bounds,
        hidden=(told,),  # what the next run is told, of whichever schedule, is not for this one to write
        after=afterwards(library, model if isinstance(model, str) else ""),
        step=durable(run.step, hider(library)),
        alone=Alone((run.folder,) if run.folder else (), NETWORK in grants, schedule.id),
    )


def _asked(schedule: Schedule, run: Run) -> str:
    """The instructions, what they are called with, and where the skill's own files are, if it has some."""
    parts = [_written(schedule, run) if schedule.own else _filled_in(schedule, run)]
    if run.folder and len(list(paths.tree_of(run.folder))) > 1:
        parts.append(f"The files of this skill are in {run.folder}; relative paths above are meant from there.")
    return "\n\n".join(parts)


def _written(schedule: Schedule, run: Run) -> str:
    """A scheduler skill is told as it stands."""
    return "\n\n".join(filter(None, (run.body, schedule.arguments and f"Arguments: {schedule.arguments}")))


def _filled_in(schedule: Schedule, run: Run) -> str:
    """Any other skill as a call of it reads, from the copy that was agreed to; commands in it run once."""
    place = here(run.session)
    if not run.folder or not paths.exists(run.folder):
        return _written(schedule, run)
    library = open_at(place, Request(_dialect_of(schedule, place), root=run.folder, index=False))
    skill = next((one for one in library.skills if one.directory == run.folder), None)
    if skill is None:
        return _written(schedule, run)
    desk = replace(library.desk(cwd=run.session, by="schedule", write=(run.session,)), alone=True)
    called = skill._replace(id=schedule.source.rpartition("/")[2])

    def text() -> str:
        made = desk.render(called, Call(schedule.skill, schedule.arguments, "schedule", run.session))
        used = any(one.kind in ("argument", "appended") for one in made.inserts)
        return made.text if used or not schedule.arguments else f"{made.text}\n\nArguments: {schedule.arguments}"

    return str(run.step("render", text))


def _dialect_of(schedule: Schedule, place: Place) -> str:
    """How the skill is read where it was found, or, on another machine, as its path suggests."""
    library = open_at(here(schedule.project if paths.is_folder(schedule.project) else place.cwd), Request())
    for one in library.skills:
        if one.directory == schedule.source:
            return one.origin.dialect.name
    wanted = Wanted(library.dialect, library.dialects, library.settings)
    return guessed(schedule.source.rpartition("/")[0], wanted)


# --- Scheduling ---


@contextmanager
def agreeing(place: Place, folder: str) -> Iterator[None]:
    """Schedules that agree to a skill before something that its owner accepted agree to it afterwards too."""
    if not _installed() or not (place.env.get(URL) or paths.exists(f"{place.state}/{FILE}")):
        yield
        return
    from ..schedule.arrange import agreed_with, pinned_anew

    engine = open_engine(place)
    try:
        before = agreed_with(place, engine, folder)
        yield
        pinned_anew(engine, before)
    finally:
        engine.dispose()


def own_trees(place: Place) -> tuple[str, ...]:
    """The folders of scheduler skills, which an agent may write in once somebody allowed it."""
    return tuple(tree.path for tree in skills.trees(place))


@lru_cache(1)
def _installed() -> bool:
    from importlib.util import find_spec

    return find_spec("sqlalchemy") is not None


def tools_of(session: Session) -> tuple[Tool, ...]:
    """The tools by which an agent schedules; a run by hand of what is scheduled schedules nothing."""
    if not _installed():
        return ()
    from ..schedule import tools
    from ..schedule.worker import utc_now

    place = session.library.place
    state.make_folder(f"{place.state}/scheduler")

    def desk(tool: str) -> Desk:
        if session.by_hand and tool != "list_schedule":
            raise Refused(
                "this is a run by hand of a scheduler skill that exists, and nothing is to be scheduled",
                "do what its instructions say, and answer",
            )
        named = session.agent.model
        model = pinned_model(place, named if isinstance(named, str) else "")
        return tools.Desk(place, open_engine(place), clock.zone_name(), utc_now, model=model)

    return tools.tools(desk)

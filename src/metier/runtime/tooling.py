"""The tools of a session, and the policies around them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from ..act.boxes import Approval, approved, limited, mapped, redacted, stepped, unrepeated
from ..act.compact import cost_of
from ..act.permission import Rule, Spot, path_of, spot_of, subject, takes_path
from ..act.tools import tools_of
from ..act.tools.asking import ask_user
from ..act.tools.change import change_of
from ..act.tools.commands import run_command, search_files
from ..act.tools.history import git_log, git_rollback
from ..act.tools.workspace import Ground, edit_file, find_files, list_files, read_file, write_file
from ..act.toolset import Toolset, toolset
from ..activate import already_there
from ..host import files, paths
from ..host.checkout import repository_of
from ..types.activation import ToolCall
from ..types.errors import MetierError
from ..types.event import Steps
from ..types.running import Box, Permissions, Program, Ran
from ..types.skill import Skill
from ..types.tool import Answer, Tool
from . import approvals, scheduling
from .agents import rules_of
from .granting import closed
from .running import command_need, plain_environment, run_program

if TYPE_CHECKING:
    from .agent import Agent
    from .session import Session

_ACTIVATING = {"skill_use": "skill_name", "run_skill": "skill"}
_LOOKING_BACK = ("git_log", "git_rollback")
_SKILL_TOOLS = ("skill_use", "run_skill", "skill_read_file", "skill_run_script", "skill_search", "read")


@dataclass(frozen=True)
class Kit:
    toolset: Toolset
    skilled: bool
    """Whether skills are among what it reaches."""
    cost: int
    """Tokens that the tools take in every request."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.toolset.tools)

    @property
    def shown(self) -> tuple[Tool, ...]:
        return self.toolset.tools


def kit_for(session: Session) -> Kit:
    """The tools as the conversation will see them to its end, whatever becomes of the skills."""
    whole = not any(one.reason.startswith("limit") for one in session.library.catalog().left_out)
    shown = tuple(one for one in _tools(session) if one.name != "skill_search" or not whole)

    def call(wanted: ToolCall) -> Steps[Answer]:
        _fresh(session, wanted)
        return (yield from _called(session, wanted))

    inner = unrepeated(Toolset(shown, call))
    allowed = approved(redacted(inner, session.agent.hide), _approval(session))
    own = _own_rules(session.agent)
    boxed = mapped(allowed if own is None else limited(allowed, own, partial(_spot, session)))
    return Kit(boxed, bool(session.library.dialect.serving.tools) and _has_skills(session), cost_of(shown))


def _has_skills(session: Session) -> bool:
    return session.library.allowed.names != ()


def _tools(session: Session) -> tuple[Tool, ...]:
    library, agent = session.library, session.agent
    desk = session.desk()
    names = dict.fromkeys((*library.dialect.serving.tools, "skill_search"))
    found: list[Tool] = list(tools_of(desk, tuple(names))) if _has_skills(session) else []
    ground = _ground(session)
    found += [make(ground) for make in (read_file, write_file, edit_file, list_files, find_files)]
    found += [search_files(ground, partial(run_for, session, writing=False))]
    found.append(run_command(partial(_run_allowed, session)))
    if not agent.alone:
        found += [ask_user(session.mailbox.ask), *scheduling.tools_of(session)]
    found += _history(session)
    if session.depth < agent.deepest and agent.others:
        from .delegating import delegate

        found.append(delegate(session))
    found += agent.more_tools()
    own = _own_rules(agent)
    return tuple(found) if own is None else tuple(one for one in found if _names(own, one.name))


def _ground(session: Session) -> Ground:
    agent, place = session.agent, session.library.place
    trees = () if agent.alone else scheduling.own_trees(place)
    hidden = () if paths.is_inside(agent.base, place.state) else (place.state,)
    return Ground(agent.base, agent.cwd, (*hidden, *agent.hidden), trees, agent.private)


def _spot(session: Session, wanted: ToolCall) -> Spot:
    """Where a call leads in this working folder."""
    return _ground(session).spot(path_of(wanted)) if takes_path(wanted) else spot_of(wanted)


def _history(session: Session) -> list[Tool]:
    """The tools that look back at skills, where the dialect has them or the agent's own file names them."""
    wanted = session.agent.file.tools or ()
    offered = session.library.dialect.serving.history or any(one in _LOOKING_BACK for one in wanted)
    if not offered or not _has_skills(session):
        return []
    from . import changing  # few agents look back

    def back(commit: str, name: str) -> tuple[str, ...]:
        return changing.rollback_to(session.library, commit, name)

    return [git_log(lambda limit: changing.log(session.library, limit)), git_rollback(back)]


def _own_rules(agent: Agent) -> tuple[Rule, ...] | None:
    """What an agent's file says of tools; the tools that reach skills are never in question."""
    if agent.file.tools is None:
        return None
    return (*rules_of(agent.file.tools), *map(Rule, _SKILL_TOOLS))


def _names(rules: tuple[Rule, ...], name: str) -> bool:
    return any(fnmatchcase(name, rule.tool) for rule in rules)


def _run_allowed(session: Session, argv: tuple[str, ...], seconds: float) -> Ran:
    from .committing import run_allowed  # most runs run no command

    return run_allowed(session, argv, seconds)


def run_for(session: Session, argv: tuple[str, ...], seconds: float, writing: bool = True) -> Ran:
    """A program in the working folder, inside a boundary of its own."""
    library = session.library
    program = Program(argv, session.agent.cwd, plain_environment(library), seconds, merged=writing)
    return run_program(library, program, boundary(session, writing))


def boundary(session: Session, writing: bool) -> Box:
    """What a command may reach: the working folder, and what else the agent was given."""
    agent, library = session.agent, session.library
    need = command_need(library)
    if agent.alone and need != "off":
        need = "require"
    work = agent.base if agent.private and writing else ""
    read = (agent.base, *(agent.alone.folders if agent.alone else ()))
    write = tuple(dict.fromkeys((agent.base, *agent.writable))) if writing and not work else ()
    elsewhere = filter(None, [repository_of(agent.base)] if not agent.private else [])  # it could have written that
    reach = Permissions(network=agent.network and writing, read=(*read, *elsewhere), write=write)
    return Box(need, work=work, permissions=reach, hidden=(*closed(library.place), *agent.hidden))


def _called(session: Session, wanted: ToolCall) -> Steps[Answer]:
    """A skill that wants a subagent gets one; one whose instructions are in view is not told twice."""
    skill = _named(session, wanted)
    if skill is not None:
        from .entering import forks

        if forks(skill):
            from .delegating import fork_answer

            return (yield from fork_answer(session, skill, wanted))
    tools, step = toolset(_tools(session), session.stopping.is_set), session.agent.step
    if step is not None and wanted.name != "delegate":  # what is delegated has steps of its own
        tools = stepped(tools, step)
    answer = yield from tools.call(wanted)
    if answer.activated is not None and wanted.name in _ACTIVATING:
        note = already_there(answer.activated.skill, answer.activated.text, session.conversation.messages)
        if note:
            return Answer(note, skill=answer.skill)
    return answer


def _named(session: Session, wanted: ToolCall) -> Skill | None:
    name = wanted.arguments.get(_ACTIVATING.get(wanted.name, ""))
    if not isinstance(name, str):
        return None
    try:
        return session.desk().skill(name.strip())
    except MetierError:
        return None


def _fresh(session: Session, wanted: ToolCall) -> None:
    """Look again before a skill is used whose file is not the one that was judged."""
    session.refresh()
    name = wanted.arguments.get("skill_name", wanted.arguments.get("skill"))
    if wanted.name not in _SKILL_TOOLS or not isinstance(name, str):
        return
    for skill in session.library.skills:
        if name.strip() in (skill.name, skill.id):
            if files.stat_key(skill.path) != skill.key and skill.path not in session.library.kept:
                session.library = session.library.reload()
            return


def _approval(session: Session) -> Approval:
    state = session.library.place.state
    return Approval(
        session.agent.permission,
        session.mailbox,
        partial(_granted, session),
        partial(_key, session),
        partial(_spot, session),
        lambda call: session.agent.hide(change_of(_ground(session), call)),
        partial(approvals.remembered, state),
        partial(approvals.remember, state),
    )


def _granted(session: Session) -> list[str]:
    """What active skills may call: as long as the skill is there, may be used, and still asks for it."""
    session.refresh()
    now = {one.skill.path: one.skill.allowed_tools for one in session.library.verdicts if one.usable}
    return [tool for one in session.conversation.active for tool in one.tools if tool in now.get(one.path, ())]


def _key(session: Session, wanted: ToolCall) -> str:
    """What a yes holds for: a skill's program as long as nothing in its folder changes, a command in this project."""
    name = wanted.arguments.get("skill_name")
    if wanted.name == "skill_run_script" and isinstance(name, str):
        for skill in session.library.skills:
            if name.strip() in (skill.name, skill.id):
                from ..sources.bundled import digest

                return f"{wanted.name} {digest(skill.directory)} {wanted.arguments.get('script_name', '')}"
    about = f"{_spot(session, wanted).real[0]} {wanted.arguments.get('glob', '')}".strip()
    about = about if takes_path(wanted) else subject(wanted)
    return f"{wanted.name} {paths.real_path(session.agent.base)} {about}"

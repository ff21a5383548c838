"""The tools of a session, and the policies around each call.

A call passes from the outside in: aliases give a tool its name here, the agent's own rules and then the user's
approval decide whether it may run, secrets are taken out of its answer, and the repeat guard ends a loop.  Only then
the tool itself is looked up, in a toolset built from the library as it is now: the model is shown the tools of the
first request to the end, but what they reach follows the skills.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from ..activate.deliver import already_active_note
from ..host import files, paths
from ..library.grants import skill_roots
from ..library.scheduled import scheduler_roots
from ..library.skill_tools import tools_of
from ..types.activation import ToolCall
from ..types.errors import MetierError
from ..types.event import EventSteps
from ..types.model import Answer, Tool
from ..types.skill import Skill
from . import permissions
from .agent_files import parse_rules
from .conversation import tool_tokens
from .loop import Toolset, build_toolset
from .permissions import PathTarget, PermissionRule, call_subject, path_argument, path_target_of, takes_path
from .policies import (
    ApprovalPolicy,
    with_aliases,
    with_approval,
    with_denied_tools,
    with_durable_steps,
    with_redaction,
    with_repeat_guard,
    with_tool_rules,
)
from .tools.commands import (
    approval_choices,
    grant_lines,
    run_allowed_command,
    run_command,
    run_in_session,
    search_files,
)
from .tools.history import ask_user, git_log, git_rollback
from .tools.workspace import Workspace, edit_file, find_files, list_files, preview_change, read_file, write_file
from .turns import answer_forked_call, delegate_tool, is_forked_skill

if TYPE_CHECKING:
    from .agent import Agent
    from .session import Session

_ACTIVATING_TOOLS = {"skill_use": "skill_name", "run_skill": "skill"}
"""The tools that load a skill, each with the parameter that names it."""
_HISTORY_TOOLS = ("git_log", "git_rollback")
_SKILL_TOOLS = ("skill_use", "run_skill", "skill_read_file", "skill_run_script", "skill_search", "read")


@dataclass(frozen=True)
class SessionTools:
    """The tools that the model is shown, with every policy around them."""

    toolset: Toolset
    skilled: bool
    """Whether the tools reach skills, so that the rules for skills belong in the system prompt."""
    cost: int
    """An estimate of the tokens that the tools take in every request."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.toolset.tools)

    @property
    def shown(self) -> tuple[Tool, ...]:
        return self.toolset.tools


def build_session_tools(session: Session) -> SessionTools:
    """The tools as the conversation sees them to its end, whatever happens to the skills."""
    # With every skill in the catalog, a search tool would only cost tokens.
    all_listed = not any(entry.reason.startswith("limit") for entry in session.catalog().left_out)
    shown = tuple(tool for tool in _available_tools(session) if tool.name != "skill_search" or not all_listed)

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        _refresh_before_call(session, tool_call)
        return (yield from _call_tool(session, tool_call))

    inner = with_repeat_guard(Toolset(shown, call))
    approved = with_approval(with_redaction(inner, session.agent.hide), _approval_policy(session))
    allowed = with_denied_tools(approved, partial(_denied_tools, session), partial(_path_target, session))
    own_rules = _own_rules(session.agent)
    ruled = allowed if own_rules is None else with_tool_rules(allowed, own_rules, partial(_path_target, session))
    return SessionTools(
        with_aliases(ruled), bool(session.library.dialect.serving.tools) and _has_skills(session), tool_tokens(shown)
    )


def _has_skills(session: Session) -> bool:
    return session.library.allowed.names != ()


def _available_tools(session: Session) -> tuple[Tool, ...]:
    """Every tool of this session with nothing around it, built once for each library."""
    if session.built is None or session.built[0] is not session.library:
        session.built = (session.library, _build_tools(session))
    return session.built[1]


def _build_tools(session: Session) -> tuple[Tool, ...]:
    library, agent = session.library, session.agent
    access = session.skill_access()
    names = dict.fromkeys((*library.dialect.serving.tools, "skill_search"))
    tools: list[Tool] = list(tools_of(access, tuple(names))) if _has_skills(session) else []
    workspace = _session_workspace(session)
    tools += [make(workspace) for make in (read_file, write_file, edit_file, list_files, find_files)]
    tools += [search_files(workspace, partial(run_in_session, session, writing=False))]
    tools.append(run_command(partial(run_allowed_command, session)))
    if not agent.alone:
        tools += [ask_user(session.mailbox.ask), *(tool for extend in agent.extensions for tool in extend(session))]
    tools += _history_tools(session)
    if session.depth < agent.deepest and agent.others:
        tools.append(delegate_tool(session))
    tools += agent.more_tools()
    own_rules = _own_rules(agent)
    return tuple(tools) if own_rules is None else tuple(tool for tool in tools if _allows_tool(own_rules, tool.name))


def _session_workspace(session: Session) -> Workspace:
    agent, place = session.agent, session.library.place
    trees = () if agent.alone else scheduler_roots(place)
    hidden = () if paths.is_inside(agent.base, place.state) else (place.state,)
    roots = () if agent.private else skill_roots(session.library)
    return Workspace(agent.base, agent.cwd, (*hidden, *agent.hidden), trees, agent.private, roots)


def _path_target(session: Session, tool_call: ToolCall) -> PathTarget:
    """The path that a call is about, resolved in this session's workspace."""
    return (
        _session_workspace(session).spot(path_argument(tool_call))
        if takes_path(tool_call)
        else path_target_of(tool_call)
    )


def reading_rule(session: Session, path: str) -> str:
    """What the user's rules say about reading a file, for text that no tool reads."""
    tool_call = ToolCall("", "read_file", {"path": path})
    return session.agent.permission.says(tool_call, (), _path_target(session, tool_call))[0]


def _history_tools(session: Session) -> list[Tool]:
    """The tools for the history of skills, where the dialect has them or the agent's own file names them."""
    named = session.agent.file.tools or ()
    offered = session.library.dialect.serving.history or any(tool_name in _HISTORY_TOOLS for tool_name in named)
    if not offered or not _has_skills(session):
        return []
    from ..install import managed  # few agents have these tools

    def rollback(commit: str, name: str) -> tuple[str, ...]:
        return managed.rollback_to(session.library, commit, name)

    return [git_log(lambda limit: managed.log_lines(session.library, limit)), git_rollback(rollback)]


def _own_rules(agent: Agent) -> tuple[PermissionRule, ...] | None:
    """The `tools` of an agent's file as rules; tools that reach skills are always allowed.  None where it has none."""
    if agent.file.tools is None:
        return None
    return (*parse_rules(agent.file.tools), *map(PermissionRule, _SKILL_TOOLS))


def _allows_tool(rules: tuple[PermissionRule, ...], name: str) -> bool:
    return any(fnmatchcase(name, rule.tool) for rule in rules)


# --- Calling a tool ---


def _call_tool(session: Session, tool_call: ToolCall) -> EventSteps[Answer]:
    """Call a tool; a skill with `context: fork` runs in a subagent, and one already in view is not loaded twice."""
    skill = _skill_of_call(session, tool_call)
    if skill is not None and is_forked_skill(skill):
        return (yield from answer_forked_call(session, skill, tool_call))
    tools, step = build_toolset(_available_tools(session), session.stopping.is_set), session.agent.step
    if step is not None and tool_call.name != "delegate":  # a delegated run has steps of its own
        tools = with_durable_steps(tools, step)
    answer = yield from tools.call(tool_call)
    if answer.activated is not None and tool_call.name in _ACTIVATING_TOOLS:
        note = already_active_note(answer.activated.skill, answer.activated.text, session.conversation.messages)
        if note:
            return Answer(note, skill=answer.skill)
    return answer


def _skill_of_call(session: Session, tool_call: ToolCall) -> Skill | None:
    name = tool_call.arguments.get(_ACTIVATING_TOOLS.get(tool_call.name, ""))
    if not isinstance(name, str):
        return None
    try:
        return session.skill_access().skill(name.strip())
    except MetierError:
        return None


def _refresh_before_call(session: Session, tool_call: ToolCall) -> None:
    """Reload before a skill is used whose file changed since the library was read."""
    session.refresh()
    name = tool_call.arguments.get("skill_name", tool_call.arguments.get("skill"))
    if tool_call.name not in _SKILL_TOOLS or not isinstance(name, str):
        return
    for skill in session.library.skills:
        if name.strip() in (skill.name, skill.id):
            if files.stat_key(skill.path) != skill.key and skill.path not in session.library.kept:
                session.library = session.library.reload()
            return


# --- Approval ---


def _approval_policy(session: Session) -> ApprovalPolicy:
    state = session.library.place.state

    def widen(terms: frozenset[str]) -> None:
        session.terms = terms

    return ApprovalPolicy(
        session.agent.permission,
        session.mailbox,
        partial(_granted_tools, session),
        partial(_approval_key, session),
        partial(_path_target, session),
        lambda call: session.agent.hide(preview_change(_session_workspace(session), call)),
        partial(permissions.is_approved, state),
        partial(permissions.save_approval, state),
        partial(approval_choices, session),
        partial(grant_lines, session),
        widen,
    )


def _granted_tools(session: Session) -> list[str]:
    """The tools that active skills are granted, while each skill is there, usable, and still asks for them."""
    session.refresh()
    library, covers = session.library, session.baseline.covers
    named = {active.path for active in session.conversation.active if active.tools}
    # A skill that appeared or changed meanwhile asks for tools like anyone else.
    now = {
        verdict.skill.path: verdict.skill.allowed_tools
        for verdict in library.verdicts
        if verdict.skill.path in named and verdict.usable and covers(library, verdict.skill)
    }
    return [tool for active in session.conversation.active for tool in active.tools if tool in now.get(active.path, ())]


def _denied_tools(session: Session) -> list[str]:
    """The tools that active skills deny themselves."""
    active = {activated.path for activated in session.conversation.active}
    if not active:
        return []
    return [tool for skill in session.library.skills if skill.path in active for tool in skill.disallowed_tools]


def _approval_key(session: Session, tool_call: ToolCall) -> str:
    """What an "always" covers: a skill's script until a file of the skill changes, another call in this project."""
    name = tool_call.arguments.get("skill_name")
    if tool_call.name == "skill_run_script" and isinstance(name, str):
        for skill in session.library.skills:
            if name.strip() in (skill.name, skill.id):
                from ..sources.skill_files import folder_digest

                return f"{tool_call.name} {folder_digest(skill.directory)} {tool_call.arguments.get('script_name', '')}"
    about = f"{_path_target(session, tool_call).real[0]} {tool_call.arguments.get('glob', '')}".strip()
    about = about if takes_path(tool_call) else call_subject(tool_call)
    # With other variables or folders than it was approved with, a command is asked about again.
    about = "\n".join((about, *grant_lines(session, tool_call)))
    return f"{tool_call.name} {paths.real_path(session.agent.base)} {about}"

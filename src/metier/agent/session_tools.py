"""The tools of a session, and the policies around each call.

A call passes from the outside in: aliases give a tool its name here, the agent's own rules and then the user's
approval decide whether it may run, secrets are taken out of its answer, and the repeat guard ends a loop.  Only then
the tool itself is looked up, in a toolset built from the library as it is now: the model is shown the tools of the
first request to the end, but what they reach follows the skills.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from ..activate.deliver import already_active_note
from ..host import files, paths
from ..host.git import (
    git_folders,
    named_by_git,
    path_outside_project,
    read_git_pairs,
    remove_planted_git_files,
    repository_of,
)
from ..library.grants import closed_folders, command_sandbox_need, plain_environment, run_program
from ..library.scheduled import scheduler_roots
from ..library.skill_tools import tools_of
from ..types.activation import ToolCall
from ..types.errors import MetierError
from ..types.event import EventSteps
from ..types.model import Answer, Tool
from ..types.sandbox import ProcessResult, ProgramSpec, SandboxPermissions, SandboxSpec
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
    with_durable_steps,
    with_redaction,
    with_repeat_guard,
    with_tool_rules,
)
from .shell_rules import mentions_git_write, writes_repository
from .tools.commands import run_command, search_files
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
    allowed = with_approval(with_redaction(inner, session.agent.hide), _approval_policy(session))
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
    tools.append(run_command(partial(_run_allowed_command, session)))
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
    return Workspace(agent.base, agent.cwd, (*hidden, *agent.hidden), trees, agent.private)


def _path_target(session: Session, tool_call: ToolCall) -> PathTarget:
    """The path that a call is about, resolved in this session's workspace."""
    return (
        _session_workspace(session).spot(path_argument(tool_call))
        if takes_path(tool_call)
        else path_target_of(tool_call)
    )


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


# --- Running commands ---

_GIT_ONLY_NOTE = "`.git` is writable only for plain git commands: no pipes, substitutions or other programs on the line"


def _run_allowed_command(session: Session, argv: tuple[str, ...], seconds: float) -> ProcessResult:
    """Run a command that the user or a rule allowed.

    The project's `.git` is read-only inside the sandbox: hooks and settings in it run later, outside.  A line of plain
    git commands that write the repository gets it writable, and what was planted there meanwhile is removed again.
    """
    agent, library, command = session.agent, session.library, argv[-1]
    env, box = plain_environment(library), command_sandbox(session, True)
    git_settings = [] if agent.private else read_git_pairs(agent.base, library.place.env)
    box = replace(box, kept=(*box.kept, *named_by_git(agent.base, git_settings, library.place.home)))
    git_config = dict(git_settings)
    own_folders = () if agent.private or agent.alone else git_folders(agent.base)
    if not own_folders or not writes_repository(command):
        result = run_program(library, ProgramSpec(argv, agent.cwd, env, seconds, merged=True), box)
        explain = own_folders and result.status and mentions_git_write(command)
        return replace(result, note="; ".join(filter(None, (result.note, _GIT_ONLY_NOTE)))) if explain else result
    permissions = box.permissions
    box = replace(box, permissions=replace(permissions, write=(*permissions.write, *own_folders)))
    env |= _git_identity(git_config) | {"PATH": path_outside_project(env["PATH"], agent.base)}
    with remove_planted_git_files(own_folders) as removed:
        result = run_program(library, ProgramSpec(argv, agent.cwd, env, seconds, merged=True), box)
    return replace(result, note="; ".join(filter(None, (result.note, *removed))))


def _git_identity(git_config: dict[str, str]) -> dict[str, str]:
    """The author of commits as environment variables: the user's own git settings are not visible in the sandbox."""
    variables: dict[str, str] = {}
    for key in ("name", "email"):
        if value := git_config.get(f"user.{key}"):
            variables |= {f"GIT_{who}_{key.upper()}": value for who in ("AUTHOR", "COMMITTER")}
    return variables


def run_in_session(session: Session, argv: tuple[str, ...], seconds: float, writing: bool = True) -> ProcessResult:
    """Run a program in the working folder, in a sandbox."""
    library = session.library
    program = ProgramSpec(argv, session.agent.cwd, plain_environment(library), seconds, merged=writing)
    return run_program(library, program, command_sandbox(session, writing))


def command_sandbox(session: Session, writing: bool) -> SandboxSpec:
    """The sandbox of a command: the agent's folder, and what else the agent was given."""
    agent, library = session.agent, session.library
    need = command_sandbox_need(library)
    if agent.alone and need != "off":
        need = "require"  # unattended, nobody could notice that it ran without a sandbox
    work = agent.base if agent.private and writing else ""
    read = (agent.base, *(agent.alone.folders if agent.alone else ()))
    write = tuple(dict.fromkeys((agent.base, *agent.writable))) if writing and not work else ()
    elsewhere = filter(None, [repository_of(agent.base)] if not agent.private else [])  # a worktree's repository
    permissions = SandboxPermissions(network=agent.network and writing, read=(*read, *elsewhere), write=write)
    hidden = (*closed_folders(library.place), *agent.hidden)
    # A command was approved, by a person or a rule of theirs, unless nobody is there.
    return SandboxSpec(need, work=work, permissions=permissions, hidden=hidden, strict=bool(agent.alone))


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
    return ApprovalPolicy(
        session.agent.permission,
        session.mailbox,
        partial(_granted_tools, session),
        partial(_approval_key, session),
        partial(_path_target, session),
        lambda call: session.agent.hide(preview_change(_session_workspace(session), call)),
        partial(permissions.is_approved, state),
        partial(permissions.save_approval, state),
    )


def _granted_tools(session: Session) -> list[str]:
    """The tools that active skills are granted, while each skill is there, usable, and still asks for them."""
    session.refresh()
    now = {verdict.skill.path: verdict.skill.allowed_tools for verdict in session.library.verdicts if verdict.usable}
    return [tool for active in session.conversation.active for tool in active.tools if tool in now.get(active.path, ())]


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
    return f"{tool_call.name} {paths.real_path(session.agent.base)} {about}"

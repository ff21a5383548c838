"""The tools that run a program in the working folder: `run_command`, and `search_files` by grep.

A command gets what the active skills are granted: their variables, network and folders, and their own folders to read.
Most skills of some products are "call this program", so without these they could not work.  The approval names all of
it, and an "always" holds only for the same grants.  Nothing else of the caller's environment reaches a command, except
what the user lists in `agent.env`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from stat import S_ISLNK
from typing import TYPE_CHECKING

from ...host import fs, paths
from ...host.git import (
    git_folders,
    named_by_git,
    path_outside_project,
    read_git_pairs,
    remove_planted_git_files,
    repository_of,
)
from ...library.grants import (
    closed_folders,
    command_sandbox_need,
    grants_for_skill,
    plain_environment,
    run_program,
    skill_variables,
)
from ...library.locks import verify_installed
from ...library.skill_tools import ToolArguments, guard_errors, number_argument, script_answer, text_argument
from ...resolve.environment import is_forbidden_name
from ...sandbox.obeyed import PROTECTED
from ...types.activation import ToolCall
from ...types.errors import BadRequest, MetierError, Refused
from ...types.model import Answer, Tool, ToolParameter
from ...types.sandbox import ProcessResult, ProgramSpec, SandboxPermissions, SandboxSpec
from ...types.skill import Skill
from ...types.text import neutralize_frames, visible_text
from ..permissions import PRIVATE_FILES, PRIVATE_FOLDERS, denied_patterns, is_private, path_argument
from ..shell_rules import command_text, mentions_git_write, writes_repository
from .workspace import Workspace

if TYPE_CHECKING:
    from ..agent import Agent
    from ..session import Session

# --- The tools ---

SECONDS = 120
LONGEST_SECONDS = 600
_MOST_LINES = 200

ProgramRunner = Callable[[tuple[str, ...], float], ProcessResult]
"""Runs a program in the working folder, in a sandbox, for at most so many seconds."""


def run_command(run: ProgramRunner) -> Tool:
    def call(arguments: ToolArguments) -> Answer:
        command = command_text(arguments.get("command")) or text_argument(arguments, "command")
        if not command.strip():
            raise BadRequest("command is empty", "pass the command to run")
        seconds = min(number_argument(arguments, "seconds", SECONDS) or SECONDS, LONGEST_SECONDS)
        result = run(("bash", "--noprofile", "--norc", "-c", command), float(seconds))
        if result.timed_out:
            swept = "".join(f"\n[sandbox: {visible_text(line)}]" for line in result.swept)
            text = f"Timed out after {seconds}s.\n{neutralize_frames(visible_text(result.stdout))}{swept}".strip()
            return Answer(text, error=True, note=result.note, reason="timeout", cause="timeout")
        return script_answer("the command", result)

    return Tool(
        "run_command",
        "Run a shell command in the working folder. It is kept apart from the rest of the machine and has no network.",
        (
            ToolParameter("command", "The command, as it is typed in a shell."),
            ToolParameter("seconds", f"How long it may take; {SECONDS} where it is left out.", False, "integer"),
        ),
        guard_errors(call),
    )


def _any_case_pattern(name: str) -> str:
    """A glob that matches a name in any case: `grep --exclude` has no option for that."""
    return "".join(
        f"[{character.lower()}{character.upper()}]" if character.isalpha() else character for character in name
    )


def search_files(agent_workspace: Workspace, run: ProgramRunner) -> Tool:
    """Searches by grep: its time is linear, where Python's `re` could be made to run forever by a pattern."""

    def call(arguments: ToolArguments) -> Answer:
        pattern, (base, path) = text_argument(arguments, "pattern"), agent_workspace.at(arguments, ".")
        only = text_argument(arguments, "glob", "")
        skipped = [f"--exclude-dir={name}" for name in sorted(fs.IGNORED_FOLDERS)]
        tool_call = ToolCall("", "search_files", arguments)
        if not is_private(agent_workspace.spot(path_argument(tool_call)), tool_call):
            skipped += [f"--exclude={_any_case_pattern(name)}" for name in PRIVATE_FILES]
            skipped += [f"--exclude-dir={_any_case_pattern(name)}" for name in PRIVATE_FOLDERS]
        where = base if path == "." else f"{base}/{path}"
        if not paths.is_inside(paths.real_path(where), paths.real_path(base)):
            raise Refused(f"Access denied: '{path}' is a link that leads elsewhere")
        included = [f"--include={only}"] if only else []  # first, as the last match wins: it must not undo an exclusion
        argv = ("grep", "-rnIE", *included, *skipped, "-e", pattern, "--", where)
        result = run(argv, 20.0)
        if result.status == 1:
            return Answer("[nothing]")
        if result.status != 0:
            text = visible_text(result.stderr or result.note or "it took too long").strip()
            return Answer(text, error=True, note=result.note, reason="bad-request" if result.status else "machine")
        lines = visible_text(result.stdout).replace(f"{base}/", "").splitlines()
        remaining = len(lines) - _MOST_LINES
        return Answer(
            "\n".join(line[:500] for line in lines[:_MOST_LINES])
            + (f"\n[and {remaining} more]" if remaining > 0 else "")
        )

    return Tool(
        "search_files",
        "Search the text of files for a regular expression.",
        (
            ToolParameter("pattern", "An extended regular expression."),
            ToolParameter("path", "Where to look; the working folder where it is left out.", required=False),
            ToolParameter("glob", "Only files whose names match, such as *.py.", required=False),
        ),
        guard_errors(call),
    )


# --- What active skills are granted ---


@dataclass(frozen=True)
class CommandGrants:
    """What a command gets from one active skill."""

    skill: Skill
    # Not in repr: it may hold keys.
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    permissions: SandboxPermissions = field(default_factory=SandboxPermissions)

    @property
    def summary(self) -> str:
        """What is granted, for the person who approves; empty for nothing but the skill's own folder."""
        allowed = self.permissions
        parts = list(self.env)
        if allowed.network or allowed.hosts:
            parts.append(f"network ({', '.join(allowed.hosts)})" if allowed.hosts else "network")
        parts += [f"reads {path}" for path in allowed.read]
        parts += [f"writes {path}" for path in allowed.write]
        return ", ".join(parts)


def command_grants(session: Session) -> tuple[CommandGrants, ...]:
    """What each active skill is granted, while it is there, usable and trusted, and as it was approved."""
    active = [activated.path for activated in session.conversation.active]
    now = {verdict.skill.path: verdict.skill for verdict in session.library.verdicts if verdict.usable}
    return tuple(_granted(session, now[path]) for path in active if path in now and _is_sound(session, now[path]))


def _granted(session: Session, skill: Skill) -> CommandGrants:
    permissions = grants_for_skill(session.library, skill).permissions
    return CommandGrants(skill, skill_variables(session.library, skill), permissions)


def _is_sound(session: Session, skill: Skill) -> bool:
    """Whether a skill is what was approved, and was there before the agent began: as for running its scripts."""
    try:
        verify_installed(session.library, skill, running=True)
    except MetierError:
        return False
    return skill.origin.trusted and session.baseline.covers(session.library, skill)


def grant_lines(session: Session, tool_call: ToolCall) -> list[str]:
    """The lines of an approval that say what a command gets besides the plain environment."""
    if tool_call.name != "run_command":
        return []
    lines = [f"  for skill {grants.skill.name}: {grants.summary}" for grants in command_grants(session)]
    passed = _listed_variables(session)
    return [line for line in lines if not line.endswith(": ")] + ([f"  with {', '.join(passed)}"] if passed else [])


def _listed_variables(session: Session) -> dict[str, str]:
    """The caller's variables that the configuration lists for commands; an unattended run gets none."""
    names, outside = session.library.settings.own("agent.env"), session.library.place.env
    if session.agent.alone or not isinstance(names, list):
        return {}
    return {
        name: outside[name]
        for name in names
        if isinstance(name, str) and name in outside and not is_forbidden_name(name)
    }


# --- Choices of an approval ---


def approval_choices(session: Session, tool_call: ToolCall) -> tuple[str, ...]:
    """The answers that an approval offers: for a command also those that open what the sandbox closes."""
    if tool_call.name != "run_command" or session.agent.alone:
        return ("once", "always", "no")
    command = str(tool_call.arguments.get("command", ""))
    network = not session.agent.network
    git = bool(_own_repository(session)) and not writes_repository(command) and not _may_write_git(session)
    more = [name for name, offered in (("network", network), ("git", git), ("network+git", network and git)) if offered]
    return ("once", "always", *more, "no")


def _own_repository(session: Session) -> tuple[str, ...]:
    agent = session.agent
    return () if agent.private or agent.alone else git_folders(agent.base)


def _may_write_git(session: Session) -> bool:
    return session.library.settings.own("agent.git") is True


# --- Running ---


def run_allowed_command(session: Session, argv: tuple[str, ...], seconds: float) -> ProcessResult:
    """Run a command that the user or a rule allowed.

    The project's `.git` is read-only inside the sandbox: hooks and settings in it run later, outside.  A line of plain
    git commands that write the repository gets it writable, and so does what the user allowed to; what was planted
    there meanwhile is removed again.
    """
    agent, library, command = session.agent, session.library, argv[-1]
    grants = command_grants(session)
    env, box = _command_environment(session, grants, command), _command_box(session, grants)
    git_settings = [] if agent.private else read_git_pairs(agent.base, library.place.env)
    box = replace(box, kept=(*box.kept, *named_by_git(agent.base, git_settings, library.place.home)))
    git_config = dict(git_settings)
    own_folders = _own_repository(session)
    widened = "git" in session.terms or _may_write_git(session)
    if not own_folders or not (widened or writes_repository(command)):
        result = run_program(library, ProgramSpec(argv, agent.cwd, env, seconds, merged=True), box)
        return _explain(result, list(_refusals(session, result, box, command)))
    permissions = box.permissions
    box = replace(box, permissions=replace(permissions, write=(*permissions.write, *own_folders)))
    env |= _git_identity(git_config)
    if not widened:
        # Another `git` of the project's would run with the repository writable, where only git itself was meant to.
        env["PATH"] = path_outside_project(env["PATH"], agent.base)
    with remove_planted_git_files(own_folders) as removed:
        result = run_program(library, ProgramSpec(argv, agent.cwd, env, seconds, merged=True), box)
    result = replace(result, note="; ".join(filter(None, (result.note, *removed))))
    return _explain(result, [text for text in _refusals(session, result, box, command) if ".git" not in text])


def _command_environment(session: Session, grants: tuple[CommandGrants, ...], command: str) -> dict[str, str]:
    env = plain_environment(session.library) | _listed_variables(session)
    for granted in grants:
        env |= granted.env
    if grants:
        # The one that the command names, else the last that was activated.
        named = [granted.skill for granted in grants if granted.skill.directory in command]
        folder = (named or [grants[-1].skill])[-1].directory
        env |= {"SKILL_DIR": folder, "CLAUDE_SKILL_DIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        # What was approved is x.py: without this Python would run an x.pyc beside it that nobody looked at.
        env |= {"PYTHONPYCACHEPREFIX": "/nonexistent"}
    return env


def _command_box(session: Session, grants: tuple[CommandGrants, ...]) -> SandboxSpec:
    """The sandbox of a command, with what the active skills are granted and the user allowed this time."""
    box = command_sandbox(session, True)
    tools = f"{session.library.place.state}/tools"  # programs that metier installed for skills
    read, write, hosts = list(box.permissions.read), list(box.permissions.write), list[str]()
    network = box.permissions.network or "network" in session.terms
    for granted in grants:
        allowed = granted.permissions
        read += [granted.skill.directory, *allowed.read, *([tools] if paths.exists(tools) else [])]
        write += [path for path in allowed.write if paths.exists(path)]
        network = network or (allowed.network and not allowed.hosts)
        hosts += allowed.hosts
    permissions = SandboxPermissions(
        network, () if network else tuple(dict.fromkeys(hosts)), tuple(dict.fromkeys(read)), tuple(dict.fromkeys(write))
    )
    return replace(box, permissions=permissions)


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
    unread, unwritten = _denied_files(agent)
    hidden = (*closed_folders(library.place), *agent.hidden, *unread)
    # A command was approved, by a person or a rule of theirs, unless nobody is there.
    return SandboxSpec(
        need, work=work, permissions=permissions, hidden=hidden, kept=unwritten, strict=bool(agent.alone)
    )


_MOST_LOOKED_AT = 300_000
_MOST_CLOSED = 2_000
"""Files that are looked at for the rules, and those that a sandbox closes one by one; each is a mount."""


def _denied_files(agent: Agent) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files that the user's rules deny to file tools, to be read and to be written: `cat` is no way round them."""
    patterns = denied_patterns(agent.permission)
    if not any(patterns):
        return (), ()
    wild = any(set(pattern) & set("*?[") for pattern in (*patterns.read, *patterns.write))
    spelled = list(_spelled_files(agent.base)) if wild else []
    return (
        _closed_paths(agent, patterns.read, spelled),
        _closed_paths(agent, patterns.write, spelled),
    )


def _spelled_files(base: str) -> Iterator[tuple[str, str]]:
    """Every file beneath a folder: its path, also through links to folders beside it, and where that leads."""
    waiting, visited, looked_at = [(base, paths.real_path(base))], {paths.real_path(base)}, 0
    while waiting:
        spelling, real_folder = waiting.pop()
        # Nothing is passed over, not even `.git`: a rule means what it says wherever the file lies.
        for path, status in paths.tree_of(real_folder, _MOST_LOOKED_AT, frozenset()):
            looked_at += 1
            if looked_at >= _MOST_LOOKED_AT:
                raise Refused(
                    f"{base} has too many files to find those that your rules deny",
                    "name the files or folders in the rule without wildcards",
                )
            here = f"{spelling}/{path}"
            if not S_ISLNK(status.st_mode):
                yield here, f"{real_folder}/{path}"
                continue
            real = paths.real_path(f"{real_folder}/{path}")
            yield here, real
            if real not in visited and paths.is_folder(real) and paths.is_inside(real, paths.real_path(base)):
                visited.add(real)
                waiting.append((here, real))


def _closed_paths(agent: Agent, patterns: Sequence[str], spelled: list[tuple[str, str]]) -> tuple[str, ...]:
    """The paths that the patterns name, compared as the rules for file tools are: from the base, the folder, the root.

    A plain path counts also where nothing is there: a rule about a file holds for one that is made.
    """
    closed: dict[str, None] = {}
    folders = dict.fromkeys((agent.base, agent.cwd))
    for pattern in (pattern.removeprefix("./") for pattern in patterns):
        if not set(pattern) & set("*?["):
            plain = [pattern] if pattern.startswith("/") else [f"{folder}/{pattern}" for folder in folders]
            closed |= dict.fromkeys(path.rstrip("/") for path in plain)
            continue
        is_named = re.compile(fnmatch.translate(pattern)).match
        for path, real in spelled:
            spellings = (path, *(path[len(folder) + 1 :] for folder in folders if path.startswith(f"{folder}/")))
            if any(is_named(spelling) for spelling in (*spellings, real)):
                closed |= {path: None, real: None}
    if len(closed) > _MOST_CLOSED:
        raise Refused(
            f"your rules deny {len(closed):,} files, too many to close one by one",
            "name their folder in the rule without wildcards, or deny run_command",
        )
    return tuple(closed)


# --- What was refused, and how to allow it ---

_GIT_NOTE = (
    "`.git` is writable only for plain git commands, and this line has more: run the git commands on a line of their"
    " own, choose `may write .git` when asked, or set `git = true` under [agent]"
)
_NETWORK_NOTE = "this command has no network: choose `with network` when asked, or set `network = true` under [agent]"
_offline = re.compile(
    r"could not resolve host|name or service not known|temporary failure in name resolution|network is unreachable"
    r"|ENOTFOUND|EAI_AGAIN|ENETUNREACH|getaddrinfo|nodename nor servname|dns error|failed to lookup address"
    # Sockets themselves are refused, also to this machine: programs say that they may not, or only that they did not.
    r"|connect EPERM|(?:failed to|could ?n[o']t|could not) connect\b"
    r"|\b(?:socket|connect|urlopen)\b[^\n]*\n?[^\n]*operation not permitted",
    re.IGNORECASE,
).search
# What is closed inside a writable folder can't be removed or replaced either: it is busy.
_read_only = re.compile(r"read-only file system|EROFS|device or resource busy|EBUSY", re.IGNORECASE).search


def _refusals(session: Session, result: ProcessResult, box: SandboxSpec, command: str) -> Iterator[str]:
    """What the sandbox refused, as far as the output tells, and how to allow it."""
    if not result.status or result.tier == "none":
        return
    output = f"{result.stdout}\n{result.stderr}"
    git = bool(_own_repository(session)) and mentions_git_write(command)
    if git and (_read_only(output) or ".git" in output):
        yield _GIT_NOTE
    elif _read_only(output) and (closed := _closed_name(output)):
        yield (
            f"commands may not change `{closed}`: other programs obey what it says; write it with write_file, which"
            " asks, or change it yourself"
        )
    elif _read_only(output):
        yield f"commands may write only in {session.agent.base} and in what skills are granted"
    if not box.permissions.network and _offline(output):
        yield _NETWORK_NOTE


def _closed_name(output: str) -> str:
    """The protected file or folder that an error is about; empty where it is about none."""
    lines = [line for line in output.splitlines() if _read_only(line)]
    named = (
        name for name in PROTECTED if any(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", line) for line in lines)
    )
    return max(named, key=len, default="")


def _explain(result: ProcessResult, refusals: list[str]) -> ProcessResult:
    """The result with what was refused: in the note for the person, and in the output for the model."""
    if not refusals:
        return result
    told = "".join(f"\n[{text}]" for text in refusals)
    return replace(
        result, stdout=result.stdout.rstrip("\n") + told, note="; ".join(filter(None, (result.note, *refusals)))
    )

"""What agent files and the configuration say about agents: which there are, their rules, limits and faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ..host import paths
from ..library.trust import AGENT_FOLDERS
from ..types.agent import AgentFile, TurnBounds
from ..types.errors import BadRequest
from ..types.settings import Settings

if TYPE_CHECKING:
    from ..library.library import Library
    from .permissions import Permission, PermissionRule


def agent_file_faults(library: Library, file: AgentFile) -> tuple[str, ...]:
    """The faults of an agent's file: bad limits, and tools and skills that don't exist here."""
    faults = list(file.faults)
    for rule in parse_rules(file.tools or ()):
        faults += (
            [f"`tools` names `{rule.tool}`: {unknown_tool_message(rule.tool)}"]
            if unknown_tool_message(rule.tool)
            else []
        )
    known_names = {name for skill in library.skills for name in (skill.name, skill.id)}
    for name in library.settings.without_kits(file.skills or ()):
        if name not in known_names:
            near = get_close_matches(name, known_names, 1)
            offer = f"; did you mean `{near[0]}`?" if near else ""
            faults.append(f"`skills` names `{name}`, which does not exist here{offer}")
    return tuple(f"{file.path}: {fault}" for fault in faults)


def unknown_tool_message(name: str, extra_tools: Iterable[str] = ()) -> str:
    """A message for a tool that does not exist; empty where it does, or an MCP server may provide it."""
    from .permissions import KNOWN_TOOLS, TOOL_ALIASES

    known_tools = {*KNOWN_TOOLS, *extra_tools}
    if name in known_tools or "mcp" in name or any(fnmatchcase(tool, name) for tool in known_tools):
        return ""
    near = get_close_matches(name, [*known_tools, *TOOL_ALIASES], 1)
    return f"no such tool; did you mean `{near[0]}`?" if near else "no such tool"


def configured_permission(settings: Settings) -> Permission:
    """The permission rules of the user's configuration."""
    from .permissions import Permission

    def rules(key: str) -> tuple[PermissionRule, ...]:
        value = settings.own(f"agent.{key}")
        return parse_rules(tuple(map(str, value)) if isinstance(value, list) else ())

    return Permission(rules("allow"), rules("ask"), rules("deny"))


def require_known_tools(library: Library, more_tools: Callable[[], Iterable[str]]) -> None:
    """End what is about to act if a configured rule that denies or asks names no tool: it would forbid nothing."""
    permission = configured_permission(library.settings)
    for rule in (*permission.deny, *permission.ask):
        # Servers are asked for their tools only if the name is none of ours.
        if unknown_tool_message(rule.tool) and (reason := unknown_tool_message(rule.tool, more_tools())):
            path = f"{library.place.state}/config.toml"
            raise BadRequest(f"{path}: a rule of [agent] names `{rule.tool}`: {reason}", "correct the rule", path)


def parse_rules(texts: tuple[str, ...]) -> tuple[PermissionRule, ...]:
    # Reading rules needs the shell's grammar, which `doctor` and most runs without an agent file can do without.
    from .permissions import parse_rule

    return tuple(rule for text in texts if (rule := parse_rule(text)) is not None)


def resolve_bounds(settings: Settings, file_bounds: TurnBounds) -> TurnBounds:
    """The limits of a turn: those of the agent's file, else those of the configuration, else the defaults."""

    def number(key: str, own: float | None, default: float | None) -> float | None:
        value = settings.own(f"agent.{key}")
        configured = value if isinstance(value, int | float) and not isinstance(value, bool) else default
        return own if own != default else configured

    usual = TurnBounds()
    turns, tokens = number("turns", file_bounds.turns, usual.turns), number("tokens", file_bounds.tokens, usual.tokens)
    return TurnBounds(
        None if turns is None else int(turns),
        None if tokens is None else int(tokens),
        number("seconds", file_bounds.seconds, usual.seconds),
        number("cost", file_bounds.cost, usual.cost),
    )


_HOME_FOLDERS = (".claude/agents",)
"""Folders for agent files in the home directory, besides metier's own."""


def agent_files(library: Library) -> Mapping[str, AgentFile]:
    """Every agent that has a file, by name; a project's agents only as they were trusted."""
    from ..library.settings import agents_trusted, read_trust_record

    place = library.place
    folders = [f"{place.state}/agents", *(f"{place.home}/{relative}" for relative in _HOME_FOLDERS)]
    if agents_trusted(place, read_trust_record(place)):
        folders = [f"{place.project}/{relative}" for relative in AGENT_FOLDERS] + folders
    agents: dict[str, AgentFile] = {}
    for folder in folders:
        if not paths.is_folder(folder):
            continue
        for name in paths.list_names(folder).files:
            if name.endswith(".md") and name not in ("README.md", "AGENTS.md"):
                from ..parse.agent import parse_agent_file  # a yaml import that most runs don't need

                text = paths.read_text_file(f"{folder}/{name}")
                agent = parse_agent_file(text or "", f"{folder}/{name}")
                if agent is not None:
                    agents.setdefault(agent.name, agent)
    return agents

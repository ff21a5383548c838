"""MCP clients and how their configuration names a server; pure functions from text to text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Literal

from ...parse.jsonc import BadJson, with_member, without_member
from ...types.errors import BadRequest

Scope = Literal["user", "project"]


@dataclass(frozen=True)
class McpClientSpec:
    name: str
    title: str
    user: str
    """The file of a person's own configuration; `~` is the home, `{config}` where programs keep theirs."""
    project: str = ""
    """The file inside a project, where the client has one."""
    keys: tuple[str, ...] = ("mcpServers",)
    kind: Literal["json", "toml"] = "json"
    typed: bool = False
    """Whether an entry says that it is of type stdio."""


CLIENTS = {
    client.name: client
    for client in (
        McpClientSpec("claude-code", "Claude Code", "~/.claude.json", ".mcp.json", typed=True),
        McpClientSpec("claude-desktop", "Claude Desktop", "{config}/Claude/claude_desktop_config.json"),
        McpClientSpec("codex", "Codex", "~/.codex/config.toml", ".codex/config.toml", ("mcp_servers",), "toml"),
        McpClientSpec("cursor", "Cursor", "~/.cursor/mcp.json", ".cursor/mcp.json"),
        McpClientSpec("gemini", "Gemini CLI", "~/.gemini/settings.json", ".gemini/settings.json"),
        McpClientSpec("vscode", "VS Code", "{config}/Code/User/mcp.json", ".vscode/mcp.json", ("servers",), typed=True),
        McpClientSpec("windsurf", "Windsurf", "~/.codeium/windsurf/mcp_config.json"),
        McpClientSpec("zed", "Zed", "~/.config/zed/settings.json", ".zed/settings.json", ("context_servers",)),
    )
}


def config_path_of(client: McpClientSpec, scope: Scope, home: str, project: str, platform: str) -> str:
    """The path of a client's configuration."""
    if scope == "project":
        if not client.project:
            raise BadRequest(f"{client.title} has no project configuration", "omit --scope")
        return f"{project}/{client.project}"
    config = f"{home}/Library/Application Support" if platform == "darwin" else f"{home}/.config"
    return client.user.replace("{config}", config).replace("~", home, 1)


def add_server_entry(client: McpClientSpec, text: str, name: str, command: Sequence[str]) -> str:
    """A client's configuration with a server in it."""
    if client.kind == "toml":
        # JSON strings and lists are valid TOML.
        table = f"[{client.keys[0]}.{name}]\ncommand = {dumps(command[0])}\nargs = {dumps(list(command[1:]))}\n"
        before = remove_server_entry(client, text, name)
        return f"{before.rstrip()}\n\n{table}" if before.strip() else table
    entry: dict[str, object] = {"command": command[0], "args": list(command[1:])}
    if client.typed:
        entry = {"type": "stdio", **entry}
    return _edit_json(lambda: with_member(text, (*client.keys, name), entry))


def remove_server_entry(client: McpClientSpec, text: str, name: str) -> str:
    """The same without the server."""
    if client.kind == "toml":
        # Edited as text: a TOML library would lose the comments and the order of the user's file. Subtables, such as
        # the environment of the server, go with it.
        header = re.escape(f"[{client.keys[0]}.{name}")
        table = re.compile(rf"^{header}(?:\.[^\]\n]*)?\][ \t]*(?:#[^\n]*)?\n(?:(?!\[)[^\n]*\n?)*", re.MULTILINE)
        return re.sub(r"\n{3,}", "\n\n", table.sub("", text)) if table.search(text) else text
    return _edit_json(lambda: without_member(text, (*client.keys, name)))


def _edit_json(change: Callable[[], str]) -> str:
    try:
        return change()
    except BadJson as fault:
        raise BadRequest(f"line {fault.line}: {fault.reason}", "fix the file, or add the entry by hand") from fault

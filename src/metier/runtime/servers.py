"""MCP servers that the user configured, and the tools they bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..act.servers import Server, Where
from ..host.state import make_folder
from ..types.errors import BadRequest
from ..types.tool import Tool
from .configuring import trusted_record
from .running import plain_environment

if TYPE_CHECKING:
    from .agent import Agent
    from .library import Library


def with_servers(agent: Agent, tables: Mapping[str, object]) -> Agent:
    """The same agent with more servers than are configured."""
    if not tables:
        return agent
    return replace(agent, tools_beside=lambda: (*agent.more_tools(), *tools_of_servers(agent.library, tables)))


def server_tools(library: Library) -> tuple[Tool, ...]:
    """The tools of every configured server; nothing is started where none is configured."""
    tables = library.settings.tree.get("mcp")
    return tools_of_servers(library, tables) if isinstance(tables, Mapping) else ()


def tools_of_servers(library: Library, tables: Mapping[str, object]) -> tuple[Tool, ...]:
    return tuple(
        tool
        for name, table in tables.items()
        if isinstance(table, Mapping)
        for tool in Server(where_of(name, table, library)).open()
    )


def where_of(name: str, table: Mapping[str, object], library: Library) -> Where:
    """A server as the configuration describes it."""
    command, url = table.get("command", ""), table.get("url", "")
    if not isinstance(command, str) or not isinstance(url, str) or bool(command) == bool(url):
        raise BadRequest(f"mcp.{name} needs a command or a url", f'say one of them: [mcp.{name}] command = "…"')
    arguments = table.get("args", ())
    given = tuple(map(str, arguments)) if isinstance(arguments, list) else ()
    env, headers = table.get("env"), table.get("headers")
    return Where(
        name,
        command,
        given,
        plain_environment(library) | {"HOME": library.place.home, "PYTHONSAFEPATH": "1"} | _variables(env, library),
        _folder(library),
        url,
        {str(key): _filled(str(value), library) for key, value in headers.items()}
        if isinstance(headers, Mapping)
        else {},
    )


def _folder(library: Library) -> str:
    """Where servers start: in a folder that is not trusted, `python -m` and `npx` would find programs of its own."""
    record = trusted_record(library.place)
    if record is not None and record.whole:
        return library.place.cwd
    make_folder(library.place.state)
    return library.place.state


def _variables(said: object, library: Library) -> dict[str, str]:
    """A table of variables; or a list of names that are taken from the environment."""
    if isinstance(said, Mapping):
        return {str(key): _filled(str(value), library) for key, value in said.items()}
    names = said if isinstance(said, list) else ()
    return {str(name): library.place.env[str(name)] for name in names if str(name) in library.place.env}


def _filled(text: str, library: Library) -> str:
    """`$NAME` stands for a variable."""
    return library.place.env.get(text[1:], "") if text.startswith("$") else text

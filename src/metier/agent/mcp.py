"""MCP servers as tools: each server is connected to when the tools are built, and disconnected at exit.

The client library is asynchronous and wants one task to own a connection, so each connection has a daemon thread with
its own event loop; a call is handed to that loop and waited for with a timeout.
"""

from __future__ import annotations

import asyncio
import atexit
import re
from collections.abc import Mapping
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from ..host.fs import make_folder
from ..host.trees import open_devnull
from ..library.grants import plain_environment
from ..library.settings import read_trust_record
from ..library.skill_tools import ToolArguments
from ..types.errors import BadRequest, HostError, MissingExtra
from ..types.model import Answer, Tool
from ..types.text import clean_line, neutralize_frames, visible_text

if TYPE_CHECKING:
    from ..library.library import Library


_START_TIMEOUT = 30.0
_CALL_TIMEOUT = 300.0
_odd = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that providers refuse in the name of a tool."""
_MOST_CHARACTERS = 60_000
"""Characters of a result that the model sees."""


@dataclass(frozen=True)
class McpServerSpec:
    """A server: a program with its arguments, or a URL."""

    name: str
    command: str = ""
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class McpConnection:
    """A connection to a server, held open by a thread of its own."""

    def __init__(self, spec: McpServerSpec) -> None:
        self.spec = spec
        self.loop: asyncio.AbstractEventLoop | None = None
        self.client: Any = None
        self.listed: list[Any] = []
        self.failed: str = ""
        self.ready = Event()
        self.done: asyncio.Event | None = None

    def open(self) -> tuple[Tool, ...]:
        """Connect, and return the server's tools."""
        try:
            import mcp  # noqa: F401  # here, so that a missing extra is reported in the caller's thread
        except ImportError as error:
            raise MissingExtra("an MCP server", "mcp") from error
        Thread(target=lambda: asyncio.run(self._serve()), name=f"mcp {self.spec.name}", daemon=True).start()
        atexit.register(self.close)
        if not self.ready.wait(_START_TIMEOUT) or self.failed:
            self.close()
            why = self.failed or f"no answer within {_START_TIMEOUT:g} seconds"
            raise HostError(
                f"can't connect to the MCP server {self.spec.name}: {why}",
                f"check [mcp.{self.spec.name}] in the configuration",
            )
        return tuple(self._tool(remote_tool) for remote_tool in self.listed)

    async def _serve(self) -> None:
        from mcp import Client, MCPError

        self.loop = asyncio.get_running_loop()
        self.done = asyncio.Event()
        try:
            async with Client(self._address()) as client:
                self.client = client
                self.listed = list((await client.list_tools()).tools)
                self.ready.set()
                await self.done.wait()
        except (MCPError, OSError, ValueError, RuntimeError) as error:
            self.failed = " ".join(str(error).split()) or type(error).__name__
        except BaseExceptionGroup as error:
            self.failed = "; ".join(str(inner) for inner in error.exceptions)
        finally:
            self.client = None
            self.ready.set()

    def _address(self) -> Any:
        from mcp import StdioServerParameters, stdio_client

        spec = self.spec
        if spec.command:
            started = StdioServerParameters(
                command=spec.command, args=list(spec.arguments), env=dict(spec.env), cwd=spec.cwd or None
            )
            return stdio_client(started, errlog=open_devnull())  # its log would garble the screen
        if not spec.headers:
            return spec.url
        from httpx2 import AsyncClient
        from mcp.client.streamable_http import streamable_http_client

        return streamable_http_client(spec.url, http_client=AsyncClient(headers=dict(spec.headers)))

    def _tool(self, remote_tool: Any) -> Tool:
        name = _odd.sub("_", f"mcp__{self.spec.name}__{remote_tool.name}")[:64]
        return Tool(
            name,
            clean_line(remote_tool.description or remote_tool.title or remote_tool.name)[:1_000],
            (),
            lambda arguments: self._call(remote_tool.name, arguments),
            form=dict(remote_tool.input_schema),
        )

    def _call(self, name: str, arguments: ToolArguments) -> Answer:
        from mcp import MCPError

        if self.client is None or self.loop is None:
            return Answer(f"The server {self.spec.name} has disconnected.", error=True, reason="machine")
        future = asyncio.run_coroutine_threadsafe(self.client.call_tool(name, dict(arguments)), self.loop)
        try:
            result = future.result(_CALL_TIMEOUT)
        except TookTooLong:
            future.cancel()
            text = f"The server {self.spec.name} did not answer within {_CALL_TIMEOUT:g} seconds."
            return Answer(text, error=True, reason="timeout")
        except (MCPError, OSError, ValueError, RuntimeError) as error:
            text = f"The server {self.spec.name} failed: {' '.join(str(error).split())}"
            return Answer(text, error=True, reason="machine")
        return Answer(_result_text(result), error=bool(result.is_error))

    def close(self) -> None:
        """Disconnect."""
        loop, closing = self.loop, self.done
        if loop is not None and closing is not None and not loop.is_closed():
            loop.call_soon_threadsafe(closing.set)


def _result_text(result: Any) -> str:
    parts = []
    for block in result.content:
        text = getattr(block, "text", None)
        left_out = f"[{getattr(block, 'type', 'something')} left out]"
        parts.append(neutralize_frames(visible_text(text)) if isinstance(text, str) else left_out)
    joined = "\n".join(parts) or "[nothing]"
    return (
        joined
        if len(joined) <= _MOST_CHARACTERS
        else f"{joined[:_MOST_CHARACTERS]}\n[{len(joined) - _MOST_CHARACTERS} more characters left out]"
    )


def server_tools(library: Library) -> tuple[Tool, ...]:
    """The tools of every configured server; nothing is started where none is configured."""
    tables = library.settings.tree.get("mcp")
    return tools_of_servers(library, tables) if isinstance(tables, Mapping) else ()


def tools_of_servers(library: Library, tables: Mapping[str, object]) -> tuple[Tool, ...]:
    return tuple(
        tool
        for name, table in tables.items()
        if isinstance(table, Mapping)
        for tool in McpConnection(parse_server(name, table, library)).open()
    )


def parse_server(name: str, table: Mapping[str, object], library: Library) -> McpServerSpec:
    """A server as the configuration describes it."""
    command, url = table.get("command", ""), table.get("url", "")
    if not isinstance(command, str) or not isinstance(url, str) or bool(command) == bool(url):
        raise BadRequest(f"mcp.{name} needs either a command or a url", f'set one of them: [mcp.{name}] command = "…"')
    arguments = table.get("args", ())
    argument_list = tuple(map(str, arguments)) if isinstance(arguments, list) else ()
    env, headers = table.get("env"), table.get("headers")
    return McpServerSpec(
        name,
        command,
        argument_list,
        plain_environment(library)
        | {"HOME": library.place.home, "PYTHONSAFEPATH": "1"}
        | _server_variables(env, library),
        _server_folder(library),
        url,
        {str(key): _expand_variable(str(value), library) for key, value in headers.items()}
        if isinstance(headers, Mapping)
        else {},
    )


def _server_folder(library: Library) -> str:
    """Where servers start: in an untrusted project, `python -m` and `npx` would run the project's own code."""
    record = read_trust_record(library.place)
    if record is not None and record.whole:
        return library.place.cwd
    make_folder(library.place.state)
    return library.place.state


def _server_variables(declared: object, library: Library) -> dict[str, str]:
    """The environment of a server: a table of variables, or a list of names to pass on."""
    if isinstance(declared, Mapping):
        return {str(key): _expand_variable(str(value), library) for key, value in declared.items()}
    names = declared if isinstance(declared, list) else ()
    return {str(name): library.place.env[str(name)] for name in names if str(name) in library.place.env}


def _expand_variable(text: str, library: Library) -> str:
    """The value of a variable for `$NAME`; any other text as it is."""
    return library.place.env.get(text[1:], "") if text.startswith("$") else text

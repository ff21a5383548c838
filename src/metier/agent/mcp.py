"""MCP servers as tools: each server is connected to when the tools are built, and disconnected at exit.

The client library is asynchronous and wants one task to own a connection, so each connection has a daemon thread with
its own event loop; a call is handed to that loop and waited for with a timeout.
"""

from __future__ import annotations

import asyncio
import atexit
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
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
_CLOSE_TIMEOUT = 10.0
"""A server that is told to leave has so long: the client kills its process long before."""
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
        self.thread: Thread | None = None

    def open(self) -> tuple[Tool, ...]:
        """Connect, and return the server's tools."""
        try:
            import mcp  # noqa: F401  # here, so that a missing extra is reported in the caller's thread
        except ImportError as error:
            raise MissingExtra("an MCP server", "mcp") from error
        self.thread = Thread(target=lambda: asyncio.run(self._serve()), name=f"mcp {self.spec.name}", daemon=True)
        self.thread.start()
        # For a program that does not close its agent: the server's process would outlive this one.
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
            async with AsyncExitStack() as owned, Client(await self._address(owned)) as client:
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

    async def _address(self, owned: AsyncExitStack) -> Any:
        """What the client connects to; `owned` closes what was opened for it."""
        from mcp import StdioServerParameters, stdio_client

        spec = self.spec
        if spec.command:
            started = StdioServerParameters(
                command=spec.command, args=list(spec.arguments), env=dict(spec.env), cwd=spec.cwd or None
            )
            return stdio_client(started, errlog=owned.enter_context(open_devnull()))  # its log would garble the screen
        if not spec.headers:
            return spec.url
        from httpx2 import AsyncClient
        from mcp.client.streamable_http import streamable_http_client

        http_client = await owned.enter_async_context(AsyncClient(headers=dict(spec.headers)))
        return streamable_http_client(spec.url, http_client=http_client)

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
        """Disconnect, and wait for the server's process to end."""
        loop, closing = self.loop, self.done
        if loop is not None and closing is not None and not loop.is_closed():
            with suppress(RuntimeError):  # it closed between the two looks
                loop.call_soon_threadsafe(closing.set)
        if self.thread is not None:
            self.thread.join(_CLOSE_TIMEOUT)
        # Registered for good otherwise, and with it all that the connection refers to.
        atexit.unregister(self.close)


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


class ServerTools:
    """The tools of MCP servers, and the connections to them.

    Copies of an agent share one of these, so that an agent that delegates connects to no server twice.
    """

    def __init__(
        self, library: Library, tables: Mapping[str, object] | None = None, before: ServerTools | None = None
    ) -> None:
        """The servers of some tables, by default the configured ones, after those of another."""
        configured = library.settings.tree.get("mcp") if tables is None else tables
        self._library, self._before = library, before
        self._tables = configured if isinstance(configured, Mapping) else {}
        self._connections: list[McpConnection] = []
        self._tools: tuple[Tool, ...] | None = None
        self._lock = Lock()

    def tools(self) -> tuple[Tool, ...]:
        """The tools of every server; connects the first time, and starts nothing where no server is configured."""
        before = self._before.tools() if self._before is not None else ()
        with self._lock:
            if self._tools is None:
                self._tools = tuple(self._connect())
            return (*before, *self._tools)

    def _connect(self) -> Iterator[Tool]:
        for name, table in self._tables.items():
            if isinstance(table, Mapping):
                connection = McpConnection(parse_server(name, table, self._library))
                self._connections.append(connection)
                yield from connection.open()

    def close(self) -> None:
        """Disconnect from every server; the tools connect again when they are next asked for."""
        if self._before is not None:
            self._before.close()
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections, self._tools = [], None


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

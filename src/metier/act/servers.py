"""MCP servers as tools: each is started when an agent is, asked what it can do, and let go of at the end."""

from __future__ import annotations

import asyncio
import atexit
import re
from collections.abc import Mapping
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

from ..host.scratch import nowhere
from ..types.errors import HostError, MissingExtra
from ..types.text import flat, seen
from ..types.tool import Answer, Tool
from .tools.desk import Arguments

_STARTING = 30.0
_ANSWERING = 300.0
_odd = re.compile(r"[^A-Za-z0-9_-]")
_MOST = 60_000


@dataclass(frozen=True)
class Where:
    """A server: a program and its arguments, or an address."""

    name: str
    command: str = ""
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class Server:
    """A connection that is kept open by a thread of its own."""

    def __init__(self, where: Where) -> None:
        self.where = where
        self.loop: asyncio.AbstractEventLoop | None = None
        self.client: Any = None
        self.listed: list[Any] = []
        self.failed: str = ""
        self.ready = Event()
        self.done: asyncio.Event | None = None

    def open(self) -> tuple[Tool, ...]:
        """Connect, and give its tools."""
        try:
            import mcp  # noqa: F401  # says early that it is missing
        except ImportError as error:
            raise MissingExtra("an MCP server", "mcp") from error
        Thread(target=lambda: asyncio.run(self._serve()), name=f"mcp {self.where.name}", daemon=True).start()
        atexit.register(self.close)
        if not self.ready.wait(_STARTING) or self.failed:
            self.close()
            why = self.failed or f"it did not answer within {_STARTING:g} seconds"
            raise HostError(f"the MCP server {self.where.name} can't be used: {why}", f"check [mcp.{self.where.name}]")
        return tuple(self._tool(one) for one in self.listed)

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
            self.failed = "; ".join(str(one) for one in error.exceptions)
        finally:
            self.client = None
            self.ready.set()

    def _address(self) -> Any:
        from mcp import StdioServerParameters, stdio_client

        where = self.where
        if where.command:
            started = StdioServerParameters(
                command=where.command, args=list(where.arguments), env=dict(where.env), cwd=where.cwd or None
            )
            return stdio_client(started, errlog=nowhere())  # what it complains of is not for the screen
        if not where.headers:
            return where.url
        from httpx2 import AsyncClient
        from mcp.client.streamable_http import streamable_http_client

        return streamable_http_client(where.url, http_client=AsyncClient(headers=dict(where.headers)))

    def _tool(self, one: Any) -> Tool:
        name = _odd.sub("_", f"mcp__{self.where.name}__{one.name}")[:64]
        return Tool(
            name,
            flat(one.description or one.title or one.name)[:1_000],
            (),
            lambda arguments: self._call(one.name, arguments),
            form=dict(one.input_schema),
        )

    def _call(self, name: str, arguments: Arguments) -> Answer:
        from mcp import MCPError

        if self.client is None or self.loop is None:
            return Answer(f"The server {self.where.name} is gone.", error=True, reason="machine")
        asked = asyncio.run_coroutine_threadsafe(self.client.call_tool(name, dict(arguments)), self.loop)
        try:
            result = asked.result(_ANSWERING)
        except TookTooLong:
            asked.cancel()
            told = f"The server {self.where.name} did not answer within {_ANSWERING:g} seconds."
            return Answer(told, error=True, reason="timeout")
        except (MCPError, OSError, ValueError, RuntimeError) as error:
            told = f"The server {self.where.name} failed: {' '.join(str(error).split())}"
            return Answer(told, error=True, reason="machine")
        return Answer(_text(result), error=bool(result.is_error))

    def close(self) -> None:
        """Let go of it."""
        loop, done = self.loop, self.done
        if loop is not None and done is not None and not loop.is_closed():
            loop.call_soon_threadsafe(done.set)


def _text(result: Any) -> str:
    parts = []
    for one in result.content:
        text = getattr(one, "text", None)
        parts.append(seen(text) if isinstance(text, str) else f"[{getattr(one, 'type', 'something')} left out]")
    whole = "\n".join(parts) or "[nothing]"
    return whole if len(whole) <= _MOST else f"{whole[:_MOST]}\n[{len(whole) - _MOST} more characters left out]"

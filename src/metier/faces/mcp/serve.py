"""Run the MCP server, and notify its clients when skills change."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio import from_thread
from anyio.to_thread import run_sync

from ...library.library import Library
from ...library.live import LiveLibrary
from .offers import LibrarySurface
from .server import SkillsServer
from .stdio import stdio_streams


def server_for(library: Library, cwd: str = "", write: tuple[str, ...] = ()) -> SkillsServer:
    return SkillsServer(LibrarySurface(LiveLibrary(library, cwd, write)))


def serve_stdio(server: SkillsServer, watch: bool = True) -> None:
    """Serve until the client disconnects."""

    async def serve() -> None:
        async with stdio_streams() as (read, write), watch_changes(server, watch):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(serve)


@asynccontextmanager
async def watch_changes(server: SkillsServer, watch: bool = True) -> AsyncIterator[None]:
    """Watch for changes on a thread of its own while the context is open."""
    if not watch:
        yield
        return
    stop = threading.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(_run_watcher, server, stop)
        try:
            yield
        finally:
            stop.set()
            group.cancel_scope.cancel()


async def _run_watcher(server: SkillsServer, stop: threading.Event) -> None:
    # A thread of its own: the watcher never returns, and must not take one from the calls.
    limiter = anyio.CapacityLimiter(1)
    await run_sync(_announce_changes, server, stop, from_thread.run, abandon_on_cancel=True, limiter=limiter)


def _announce_changes(server: SkillsServer, stop: threading.Event, run_async: Callable[..., object]) -> None:
    surface = server.surface
    before = surface.live.library
    for change in before.watch(stop):
        if stop.is_set():
            return
        after = change.library
        tools = [(tool.description, tool.schema) for tool in surface.tools(before)] != [
            (tool.description, tool.schema) for tool in surface.tools(after)
        ]
        prompts = surface.prompts(before) != surface.prompts(after)
        before = after
        # Always for resources: every file of a skill is one.
        run_async(server.notify, tools, prompts, True)

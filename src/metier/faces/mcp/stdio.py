"""JSON-RPC over standard input and output, for clients that may be hostile.

A line that is too long, not JSON or not a message is answered with the JSON-RPC error and dropped.  A request with the
id of one in flight, or beyond the limit, is refused before it starts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from json import loads

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from anyio.to_thread import run_sync
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from ...host.daemon import StdioTransport, claim_stdio

# Enough for a prompt with a file in it. A line that never ends must not fill the memory.
LONGEST_LINE = 4_194_304
MOST_REQUESTS = 1_000
"""Requests in flight at the same time."""
DRAIN_SECONDS = 5.0
"""How long responses are waited for once the client has closed its end."""


class MessageStream:
    """Reads and writes messages, and tracks the requests in flight."""

    def __init__(self, wire: StdioTransport) -> None:
        self.wire = wire
        self.in_flight: set[str | int] = set()
        self.writing = anyio.Lock()

    async def read(self, out: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        async with out:
            while True:
                try:
                    line = await run_sync(self.wire.line, abandon_on_cancel=True)
                except ValueError:
                    await self._refuse(None, INVALID_REQUEST, f"message too long: at most {LONGEST_LINE:,} bytes")
                    continue
                if line is None:
                    await self._drain()
                    return
                message = await self._message(line) if line.strip() else None
                if message is not None:
                    await out.send(message)

    async def _drain(self) -> None:
        """Wait for responses to earlier requests, for a limited time."""
        with anyio.move_on_after(DRAIN_SECONDS):
            while self.in_flight:
                await anyio.sleep(0.02)

    async def _message(self, line: bytes) -> SessionMessage | None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            await self._refuse_line(line)
            return None
        if isinstance(message, JSONRPCNotification) and b'"id"' in line and "id" in loads(line):
            # The library takes it for a notification, which would never get a response.
            await self._refuse(None, INVALID_REQUEST, "id must be a number or a string")
            return None
        if isinstance(message, JSONRPCRequest):
            if message.id in self.in_flight:
                await self._refuse(message.id, INVALID_REQUEST, "a request with this id is in flight")
                return None
            if len(self.in_flight) >= MOST_REQUESTS:
                await self._refuse(message.id, INTERNAL_ERROR, f"more than {MOST_REQUESTS:,} requests in flight")
                return None
            self.in_flight.add(message.id)
        return SessionMessage(message)

    async def _refuse_line(self, line: bytes) -> None:
        try:
            message = loads(line)
        except (ValueError, RecursionError):
            await self._refuse(None, PARSE_ERROR, "invalid JSON")
            return
        if isinstance(message, list):
            await self._refuse(None, INVALID_REQUEST, "batches are not supported: send one message per line")
            return
        raw_id = message.get("id") if isinstance(message, dict) else None
        # True is an int in Python, but no id in JSON-RPC.
        request_id = raw_id if isinstance(raw_id, str | int) and not isinstance(raw_id, bool) else None
        await self._refuse(request_id, INVALID_REQUEST, "not a JSON-RPC 2.0 message")

    async def _refuse(self, request_id: str | int | None, code: int, message: str) -> None:
        await self._write(JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message)))

    async def write(self, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with messages:
            async for session_message in messages:
                if (
                    isinstance(session_message.message, JSONRPCResponse | JSONRPCError)
                    and session_message.message.id is not None
                ):
                    self.in_flight.discard(session_message.message.id)
                await self._write(session_message.message)

    async def _write(self, message: JSONRPCMessage) -> None:
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        # Responses and refusals come from different tasks: one line at a time.
        async with self.writing:
            await run_sync(self.wire.write, line)


@asynccontextmanager
async def stdio_streams() -> AsyncIterator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
]:
    """The streams that a server reads messages from and writes messages to."""
    wire, restore_stdio = claim_stdio(LONGEST_LINE)
    stream = MessageStream(wire)
    # Without a buffer: a client that sends faster than it is served waits on its pipe.
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_server, to_client = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(stream.read, to_server)
            group.start_soon(stream.write, to_client)
            try:
                yield from_client, from_server
            finally:
                wire.stop()
                group.cancel_scope.cancel()
    finally:
        restore_stdio()

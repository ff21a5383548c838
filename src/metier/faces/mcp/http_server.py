"""The MCP server over HTTP, for clients on this machine.

Any local process and any web page in the user's browser can reach a local port.  So a request must name this host in
`Host` (against DNS rebinding), must not come from another origin (against web pages), and must carry the token.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from typing import NamedTuple

import anyio
import h11
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from .serve import watch_changes
from .server import SkillsServer

PATH = "/mcp"
# A Host header writes an IPv6 address in brackets.
_LOOPBACK = {"127.0.0.1": ("127.0.0.1", "localhost"), "localhost": ("127.0.0.1", "localhost"), "::1": ("[::1]",)}


class ListenAddress(NamedTuple):
    host: str
    port: int
    names: tuple[str, ...] = ()
    """Further accepted values of `Host`, with or without a port."""

    def hosts(self, port: int) -> frozenset[str]:
        """Every accepted value of `Host`."""
        own_names = _LOOPBACK.get(self.host, () if self.host in ("0.0.0.0", "::") else (self.host,))
        return frozenset({f"{name}:{port}" for name in own_names} | set(self.names))


class GuardMiddleware:
    """Checks the host, the origin and the token of every request."""

    def __init__(self, app: ASGIApp, address: ListenAddress, token: str) -> None:
        self.app = app
        self.address = address
        self.token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        # Nothing here uses websockets, and browsers open them across origins without asking.
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif refusal is not None:
            # Do not read the rest of a refused request.
            refusal.headers["Connection"] = "close"
            await refusal(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        port = (scope.get("server") or ("", self.address.port))[1] or self.address.port
        hosts = self.address.hosts(port)
        host = [value.decode("latin-1").lower() for value in headers.get(b"host", [])]
        # Exactly one: of two, this check and the app behind it could read different ones.
        if len(host) != 1 or host[0] not in hosts:
            return PlainTextResponse("the Host header does not name this server\n", 421)
        origins = {f"{scheme}://{name}" for scheme in ("http", "https") for name in hosts}
        if any(value.decode("latin-1").lower() not in origins for value in headers.get(b"origin", [])):
            return PlainTextResponse("requests from other origins are refused\n", 403)
        # Browsers send this header with every request, also where they leave out Origin, as in a plain GET.
        if any(value not in (b"same-origin", b"none") for value in headers.get(b"sec-fetch-site", [])):
            return PlainTextResponse("requests from other sites are refused\n", 403)
        authorization = headers.get(b"authorization", [])
        scheme, _, token = authorization[0].partition(b" ") if len(authorization) == 1 else (b"", b"", b"")
        # Compared in constant time: how long an ordinary comparison takes tells how much of a guess is right.
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self.token):
            return PlainTextResponse("the token is missing or wrong\n", 401, {"WWW-Authenticate": "Bearer"})
        return None


def app_for(server: SkillsServer, address: ListenAddress, token: str) -> GuardMiddleware:
    # The guard has looked at host and origin already, with the port the server really has.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    # An answer as plain JSON: a stream of events for each costs a quarter of a call, and would carry nothing else.
    app = server.streamable_http_app(streamable_http_path=PATH, json_response=True, transport_security=security)
    return GuardMiddleware(app, address, token)


class HeaderTimeoutProtocol(H11Protocol):
    """Drops connections that send no request head in time, the oldest first where there are many of them."""

    # uvicorn waits forever for the head of a first request: silent connections, which cost nothing to open, would use
    # up its limit.
    seconds = 10.0
    max_silent = 128
    """Connections that have not sent the head of a request."""
    deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_deadline()
        silent = [
            connection
            for connection in self.connections
            if isinstance(connection, HeaderTimeoutProtocol) and connection.deadline is not None
        ]
        if len(silent) > self.max_silent:
            longest = min(silent, key=_deadline_of)
            # `connection_lost` comes later: do not count it until then.
            longest._cancel_deadline()
            longest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel_deadline()
        elif self.deadline is None:
            self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def _start_deadline(self) -> None:
        self.deadline = self.loop.call_later(self.seconds, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
        self.deadline = None


def _deadline_of(connection: HeaderTimeoutProtocol) -> float:
    return connection.deadline.when() if connection.deadline is not None else 0.0


class _AnnouncingServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[int], None]) -> None:
        super().__init__(config)
        self.ready = ready

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(None)
        if self.started:
            # With port 0 the system chooses the port, so it is known only now.
            self.ready(self.servers[0].sockets[0].getsockname()[1])


def serve_http(server: SkillsServer, address: ListenAddress, token: str, ready: Callable[[int], None]) -> bool:
    """Serve until interrupted; False where the address is not available.  `ready` is called with the port."""
    config = uvicorn.Config(
        app_for(server, address, token),
        host=address.host,
        port=address.port,
        http=HeaderTimeoutProtocol,
        log_level="critical",
        access_log=False,
        server_header=False,
        # Far more than the clients of one person open; uvicorn answers 503 beyond it.
        limit_concurrency=512,
        timeout_graceful_shutdown=3,
    )
    http_server = _AnnouncingServer(config, ready)

    async def serve() -> bool:
        async with watch_changes(server):
            try:
                await http_server.serve()
            # How uvicorn reports an address that is in use.
            except SystemExit:
                return False
        return True

    return anyio.run(serve)

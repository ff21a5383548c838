"""What the servers for this machine share: which requests are ours, and connections that keep nobody out.

Any local process and any web page in the user's browser can reach a local port.  So a request must name this host in
`Host` (against DNS rebinding) and must not come from another origin (against web pages).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import h11
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

# A Host header writes an IPv6 address in brackets.
_LOOPBACK = {"127.0.0.1": ("127.0.0.1", "localhost"), "localhost": ("127.0.0.1", "localhost"), "::1": ("[::1]",)}


class ListenAddress(NamedTuple):
    host: str
    port: int
    names: tuple[str, ...] = ()
    """Further accepted values of `Host`, with or without a port."""
    own_name: str = ""
    """The only name that it answers to, whatever it listens on; empty for the usual ones."""

    def hosts(self, port: int) -> frozenset[str]:
        """Every accepted value of `Host`."""
        if self.own_name:
            # Browsers leave out the port of the scheme.
            return frozenset({f"{self.own_name}:{port}"} | ({self.own_name} if port == 80 else set()))
        own_names = _LOOPBACK.get(self.host, () if self.host in ("0.0.0.0", "::") else (self.host,))
        return frozenset({f"{name}:{port}" for name in own_names} | set(self.names))


def header_lists(scope: Scope) -> dict[bytes, list[bytes]]:
    """Every value of each header of a request: what is sent twice must not be read as one or the other."""
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name, []).append(value)
    return headers


def refuse_foreign(
    scope: Scope, headers: dict[bytes, list[bytes]], address: ListenAddress, navigates: bool = False
) -> PlainTextResponse | None:
    """The refusal of a request for another host or from another origin; None for one of ours.

    `navigates` is for a page that a link elsewhere may lead to, because it asks for a secret of its own.
    """
    port = (scope.get("server") or ("", address.port))[1] or address.port
    hosts = address.hosts(port)
    host = [value.decode("latin-1").lower() for value in headers.get(b"host", [])]
    # Exactly one: of two, this check and the app behind it could read different ones.
    if len(host) != 1 or host[0] not in hosts:
        return PlainTextResponse("the Host header does not name this server\n", 421)
    origins = {f"{scheme}://{name}" for scheme in ("http", "https") for name in hosts}
    if any(value.decode("latin-1").lower() not in origins for value in headers.get(b"origin", [])):
        return PlainTextResponse("requests from other origins are refused\n", 403)
    # Browsers send this header with every request, also where they leave out Origin, as in a plain GET.
    if navigates and headers.get(b"sec-fetch-mode") == [b"navigate"]:
        return None
    if any(value not in (b"same-origin", b"none") for value in headers.get(b"sec-fetch-site", [])):
        return PlainTextResponse("requests from other sites are refused\n", 403)
    return None


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


class AnnouncingServer(uvicorn.Server):
    """A server that tells the port it listens on."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[int], None]) -> None:
        super().__init__(config)
        self.ready = ready

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(None)
        if self.started:
            # With port 0 the system chooses the port, so it is known only now.
            self.ready(self.servers[0].sockets[0].getsockname()[1])


def local_config(app: ASGIApp, address: ListenAddress) -> uvicorn.Config:
    """How uvicorn serves one person on this machine."""
    return uvicorn.Config(
        app,
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

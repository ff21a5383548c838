"""The MCP server over HTTP, for clients on this machine.

Any local process and any web page in the user's browser can reach a local port.  So a request must name this host in
`Host` (against DNS rebinding), must not come from another origin (against web pages), and must carry the token.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable

import anyio
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ..loopback import AnnouncingServer, ListenAddress, header_lists, local_config, refuse_foreign
from .serve import watch_changes
from .server import SkillsServer

PATH = "/mcp"


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
        headers = header_lists(scope)
        refusal = refuse_foreign(scope, headers, self.address)
        if refusal is not None:
            return refusal
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


def serve_http(server: SkillsServer, address: ListenAddress, token: str, ready: Callable[[int], None]) -> bool:
    """Serve until interrupted; False where the address is not available.  `ready` is called with the port."""
    http_server = AnnouncingServer(local_config(app_for(server, address, token), address), ready)

    async def serve() -> bool:
        async with watch_changes(server):
            try:
                await http_server.serve()
            # How uvicorn reports an address that is in use.
            except SystemExit:
                return False
        return True

    return anyio.run(serve)

"""Stands before every page: host, origin, cookie, form token, sizes and rates, and the headers of every answer."""

from __future__ import annotations

from collections import deque
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...host.facts import monotonic
from ..loopback import ListenAddress, header_lists, refuse_foreign
from .access_keys import AccessKeys

ENTRANCE = "/enter"
"""The only page without a cookie: it exchanges a token for one."""
LARGEST_FORM = 1_048_576
"""Bytes of a form: more than any text of a skill that a person would edit in a page."""
LONGEST_TARGET = 8_192
_MOST_REQUESTS = 300
_WINDOW = 10.0
"""Requests in so many seconds: more than a person can make, fewer than would keep the machine busy."""
_MOST_FIELDS = 200

SAFETY_HEADERS = {
    # Nothing inline and nothing from elsewhere: text of a skill that got into a page as markup could not run.
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: with it browsers send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}

_DOOR = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>metier</title>{refresh}
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/style.css">
<link rel="icon" href="/static/icon.svg" type="image/svg+xml"></head>
<body class="door"><main><h1>{title}</h1><p>{text}</p></main></body></html>"""


class FormData(NamedTuple):
    """What a form says; a field that is missing is empty."""

    fields: dict[str, str]

    def text(self, name: str) -> str:
        return self.fields.get(name, "")


class PageGuard:
    """Lets in only what a person at this machine asks for with a browser that was let in."""

    def __init__(self, app: ASGIApp, address: ListenAddress, keys: AccessKeys, read_only: bool) -> None:
        self.app, self.address, self.keys, self.read_only = app, address, keys, read_only
        self._recent: deque[float] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        # Nothing here uses websockets, and browsers open them across origins without asking.
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                message["headers"] += [
                    (name.lower().encode(), value.encode())
                    for name, value in SAFETY_HEADERS.items()
                    if name.lower().encode() not in names
                ]
            await send(message)

        answer = self._refusal(scope) or await self._read_form(scope, receive)
        if answer is not None:
            if answer.status_code >= 400:
                # Do not read the rest of a refused request.
                answer.headers["Connection"] = "close"
            await answer(scope, receive, send_safely)
            return
        await self.app(scope, receive, send_safely)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that reaches no page; None for one that does."""
        headers = header_lists(scope)
        path = scope["path"]
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_TARGET:
            return PlainTextResponse("the address is too long\n", 414)
        entering = path == ENTRANCE and scope["method"] == "GET"
        foreign = refuse_foreign(scope, headers, self.address, navigates=entering)
        if foreign is not None:
            return foreign
        # Before the limit: whoever has a token gets in, however many others knock.
        if entering:
            return self._enter(scope)
        if self._is_too_often():
            return PlainTextResponse("too many requests; wait a moment\n", 429, {"Retry-After": "10"})
        if path in ("/static/style.css", "/static/icon.svg"):
            return None  # for the pages that say why somebody is not let in
        cookie = _read_cookie(headers, cookie_name(scope))
        if not cookie or not self.keys.knows(cookie):
            return _stale_page(bool(cookie))
        scope["state"] = {**scope.get("state", {}), "cookie": cookie, "form_token": self.keys.form_token(cookie)}
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("only GET and POST are answered\n", 405)
        if scope["method"] == "POST" and self.read_only:
            return PlainTextResponse("this page is read-only: it was started with --read-only\n", 403)
        return None

    def _is_too_often(self) -> bool:
        now = monotonic()
        while self._recent and now - self._recent[0] > _WINDOW:
            self._recent.popleft()
        self._recent.append(now)
        return len(self._recent) > _MOST_REQUESTS

    def _enter(self, scope: Scope) -> Response:
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        cookie = self.keys.redeem(token)
        if cookie is None:
            title, text = "This address was used before, or is too old", "Run <code>metier web</code> for a new one."
            return HTMLResponse(_DOOR.format(refresh="", title=title, text=text), 403)
        # A page, not a redirect: after a redirect the browser would still count the request as another site's, and
        # would not send a strict cookie with it.
        refresh = '<meta http-equiv="refresh" content="0;url=/">'
        page = HTMLResponse(_DOOR.format(refresh=refresh, title="metier", text='<a href="/">Open the page</a>'))
        # Without a domain: a cookie of exactly this host.
        page.set_cookie(cookie_name(scope), cookie, path="/", httponly=True, samesite="strict")
        return page

    async def _read_form(self, scope: Scope, receive: Receive) -> Response | None:
        """Read a form into the request's state, if it is one of ours."""
        if scope["method"] != "POST":
            return None
        headers = header_lists(scope)
        kind = headers.get(b"content-type", [b""])[0].partition(b";")[0].strip().lower()
        if kind != b"application/x-www-form-urlencoded":
            return PlainTextResponse("only forms are accepted\n", 415)
        # A browser sends Origin with every form; a request without one did not come from a page of ours.
        if len(headers.get(b"origin", [])) != 1:
            return PlainTextResponse("a form must say which page it comes from\n", 403)
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return PlainTextResponse("the form was cut off\n", 400)
            body += message.get("body", b"")
            if len(body) > LARGEST_FORM:
                return PlainTextResponse("the form is too large\n", 413)
            if not message.get("more_body"):
                break
        try:
            parsed = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError:
            return PlainTextResponse("the form has too many fields\n", 413)
        form = FormData({name: values[0] for name, values in parsed.items()})
        if not self.keys.is_form_token(scope["state"]["cookie"], form.text("form_token")):
            return PlainTextResponse("the form is not one of this page: reload it and try again\n", 403)
        scope["state"]["form"] = form
        return None


def cookie_name(scope: Scope) -> str:
    """With the port: cookies don't know ports, and two pages on one machine must not end each other."""
    return f"metier-web-{(scope.get('server') or ('', 0))[1]}"


def _read_cookie(headers: dict[bytes, list[bytes]], name: str) -> str:
    try:
        jar = SimpleCookie("; ".join(value.decode("latin-1") for value in headers.get(b"cookie", [])))
    except CookieError:
        return ""
    return jar[name].value if name in jar else ""


def _stale_page(had_cookie: bool) -> Response:
    title = "This page belongs to an earlier metier web" if had_cookie else "This page is for whoever started it"
    text = "Run <code>metier web</code> in a terminal, and open the address that it prints."
    return HTMLResponse(_DOOR.format(refresh="", title=title, text=text), 403)

"""The table of pages and actions, what becomes of an error in one, and the server on the loopback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from traceback import format_exception

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ...host import paths
from ...types.errors import BadRequest, MetierError
from ..loopback import AnnouncingServer, ListenAddress, local_config
from .access_keys import AccessKeys
from .page_guard import PageGuard
from .screens import (
    approval_pages,
    chat_pages,
    figure_pages,
    proposal_pages,
    run_pages,
    schedule_pages,
    skill_pages,
    source_pages,
    today,
)
from .web_site import WebSite

PageFunction = Callable[[WebSite, Request], Response]

PAGES: dict[str, PageFunction] = {
    "/": today.today,
    "/skills": skill_pages.skills,
    "/skill": skill_pages.skill,
    "/skill/version": skill_pages.version,
    "/skill/file": skill_pages.file,
    "/budget": figure_pages.budget,
    "/chat": chat_pages.chat,
    "/runs": run_pages.runs,
    "/run": run_pages.run,
    "/approvals": approval_pages.approvals,
    "/proposals": proposal_pages.proposals,
    "/proposal": proposal_pages.proposal,
    "/schedules": schedule_pages.schedules,
    "/schedule": schedule_pages.schedule,
    "/evals": figure_pages.evals,
    "/get": source_pages.get_skills,
}
"""What only looks."""

ACTIONS: dict[str, PageFunction] = {
    "/trust": approval_pages.trust,
    "/approve": approval_pages.approve,
    "/answer": approval_pages.answer,
    "/proposal/decide": proposal_pages.decide,
    "/proposal/edit": proposal_pages.edit,
    "/schedules/add": schedule_pages.add_schedule,
    "/schedule/change": schedule_pages.change_schedule,
    "/chat/say": chat_pages.say,
    "/run/stop": run_pages.stop_run,
    "/get/inspect": source_pages.inspect_source,
    "/get/add": source_pages.add_skills,
}
"""What changes something, or goes to the network: only with a form of ours."""


def make_app(site: WebSite) -> Starlette:
    """The pages of a site, without the guard that stands before them."""
    pages = [Route(path, _endpoint(site, page), methods=["GET"]) for path, page in PAGES.items()]
    actions = [Route(path, _endpoint(site, action), methods=["POST"]) for path, action in ACTIONS.items()]
    streams = [
        Route("/run/stream", partial(_stream, site, run_pages.watch_run), methods=["GET"]),
        Route("/chat/stream", partial(_stream, site, chat_pages.watch_chat), methods=["GET"]),
    ]
    static = StaticFiles(directory=f"{paths.package_folder()}/faces/web/static")
    routes = [*pages, *actions, *streams, Mount("/static", static)]
    return Starlette(routes=routes, exception_handlers={404: partial(_no_page, site), Exception: _report_defect})


def _no_page(site: WebSite, request: Request, error: Exception) -> Response:
    return site.failure(request, BadRequest("there is no such page", "choose one on the left"))


def _report_defect(request: Request, error: Exception) -> Response:
    """A defect of metier: the terminal gets all of it, the page a line."""
    sys.stderr.write("".join(format_exception(error)))
    return PlainTextResponse(f"metier failed here: {type(error).__name__}; the terminal says more\n", 500)


def _endpoint(site: WebSite, function: PageFunction) -> Callable[[Request], object]:
    async def answer(request: Request) -> Response:
        # On a thread: a page reads files and databases, and must not keep the others waiting.
        return await run_in_threadpool(_answer, site, function, request)

    return answer


def _answer(site: WebSite, function: PageFunction, request: Request) -> Response:
    try:
        return function(site, request)
    except MetierError as error:
        return site.failure(request, error)


async def _stream(site: WebSite, function: Callable[[WebSite, Request], object], request: Request) -> Response:
    try:
        response: Response = await function(site, request)  # type: ignore[misc]
        return response
    except MetierError as error:
        return PlainTextResponse(f"{error.message}\n", 404)


# --- Serving ---


def guarded_app(site: WebSite, keys: AccessKeys, port: int) -> PageGuard:
    """The pages behind their guard, under the name that the cookies are for."""
    address = ListenAddress("127.0.0.1", port, own_name=keys.host_name)
    return PageGuard(make_app(site), address, keys, site.options.read_only)


def serve_page(site: WebSite, keys: AccessKeys, port: int, ready: Callable[[int], None]) -> bool:
    """Serve until interrupted; False where the port is not available.  `ready` is called with the port."""
    # Only ever this machine: the page can approve commands, and has no passwords.
    app = guarded_app(site, keys, port)
    server = AnnouncingServer(local_config(app, app.address), ready)

    async def serve() -> bool:
        try:
            await server.serve()
        # How uvicorn reports an address that is in use.
        except SystemExit:
            return False
        return True

    try:
        return anyio.run(serve)
    except KeyboardInterrupt:
        return True  # Ctrl-C is how it ends
    finally:
        if site.hub is not None:
            site.hub.close()

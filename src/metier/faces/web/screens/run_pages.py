"""Runs: all of them, and one as a timeline, live while it goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from functools import partial
from json import dumps
from typing import Any, NamedTuple

from anyio import sleep
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ....host import paths
from ....record.journal import find_journal, run_ids
from ....record.trace import read_trace
from ....types.errors import BadRequest
from ....types.event import Event, Wrote
from ..skill_usage import run_digest
from ..web_site import WebSite, form_of, go_to, page_number

PAGE = 50
_MOST_LOOKED_AT = 2_000
"""Runs that a filter looks at for one page."""
_LOOK_SECONDS = 1.0
_MOST_STREAMS = 24
"""Live pages at a time: each is a connection that stays open."""


class TimelineEvent(NamedTuple):
    """An event, how deep in delegated runs it happened, and when."""

    kind: str
    event: Any
    depth: int = 0
    at: float = 0.0


def timeline_of(events: Iterable[tuple[float, Event]]) -> list[TimelineEvent]:
    """Events as the templates draw them."""
    shown = []
    for at, event in events:
        inner, depth = event, 0
        while type(inner).__name__ == "Nested":
            inner, depth = inner.event, depth + 1  # type: ignore[union-attr]
        if not isinstance(inner, Wrote):
            shown.append(TimelineEvent(type(inner).__name__, inner, depth, at))
    return shown


def runs(site: WebSite, request: Request) -> Response:
    skill, failed = request.query_params.get("skill", ""), request.query_params.get("failed") == "1"
    page = page_number(request)
    names = list(reversed(run_ids(site.state)))
    if skill or failed:
        digests = (run_digest(site.state, name) for name in names[:_MOST_LOOKED_AT])
        matching = [run for run in digests if (not skill or skill in run.skills) and (not failed or not run.good)]
        total, shown = len(matching), matching[(page - 1) * PAGE : page * PAGE]
    else:
        # Without a filter only the runs of the page are read.
        total = len(names)
        shown = [run_digest(site.state, name) for name in names[(page - 1) * PAGE : page * PAGE]]
    words = ["runs", *(["--skill", skill] if skill else []), *(["--failed"] if failed else [])]
    return site.render(
        request,
        "runs.html",
        current="runs",
        runs=shown,
        total=total,
        page=page,
        pages=max(1, -(-total // PAGE)),
        skill=skill,
        failed=failed,
        line=site.command(*words),
    )


def run(site: WebSite, request: Request) -> Response:
    trace = read_trace(find_journal(site.state, request.query_params.get("id", "")))
    usage = trace.usage
    return site.render(
        request,
        "run.html",
        current="runs",
        trace=trace,
        digest=run_digest(site.state, trace.run),
        usage=usage,
        cached=usage.cached / usage.input if usage.input else 0.0,
        timeline=timeline_of((record.at, record.event) for record in trace.recorded),
        live=trace.ended is None,
        mine=site.hub is not None and site.hub.find(trace.run) is not None,
        line=site.command("runs", "show", trace.run),
        replay_line=site.command("runs", "replay", trace.run),
        resume_line=site.command("chat", "--resume", trace.run),
    )


def stop_run(site: WebSite, request: Request) -> Response:
    """Stop a turn that runs in this process."""
    run_id = form_of(request).text("run")
    live = site.hub.find(run_id) if site.hub is not None else None
    if live is None:
        raise BadRequest("that run goes on in another process", "stop it there, with Ctrl-C or Esc")
    live.stop()
    return go_to("/chat", "stopped", run=run_id)


# --- Streams ---


class StreamLimit:
    """Counts the live pages: each keeps a connection."""

    def __init__(self) -> None:
        self.open = 0


_limit = StreamLimit()


def event_line(kind: str, data: str) -> str:
    """An event of a stream.  JSON, so that no text from elsewhere can begin an event of its own."""
    return f"event: {kind}\ndata: {dumps(data)}\n\n"


def stream_response(lines: AsyncIterator[str]) -> Response:
    """An open stream; refused if too many are open."""
    if _limit.open >= _MOST_STREAMS:
        return Response("too many live pages are open\n", 503, media_type="text/plain")

    async def counted() -> AsyncIterator[str]:
        _limit.open += 1
        try:
            async for line in lines:
                yield line
        finally:
            _limit.open -= 1

    return StreamingResponse(counted(), media_type="text/event-stream")


async def watch_run(site: WebSite, request: Request) -> Response:
    """What is added to a run, as its journal grows; a look at the size of a file, once a second."""
    journal = await run_sync(partial(find_journal, site.state, request.query_params.get("id", "")))
    start = request.query_params.get("from", "0")
    seen = int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 0

    async def lines() -> AsyncIterator[str]:
        nonlocal seen
        size = -1
        while not await request.is_disconnected():
            now = paths.size_of(journal.path)
            if now != size:
                size = now
                trace = await run_sync(partial(read_trace, journal))
                for record in trace.recorded[seen:]:
                    for item in timeline_of([(record.at, record.event)]):
                        yield event_line("item", render_item(site, item))
                seen = len(trace.recorded)
                if trace.ended is not None:
                    yield event_line("end", trace.outcome)
                    return
            await sleep(_LOOK_SECONDS)

    return stream_response(lines())


def render_item(site: WebSite, item: TimelineEvent) -> str:
    """An item of a timeline as HTML."""
    return site.templates.get_template("item.html").render(item=item, site=site)

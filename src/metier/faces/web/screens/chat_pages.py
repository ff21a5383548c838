"""Chat: the same conversations as `metier chat`, with questions answered in the page."""

from __future__ import annotations

from collections.abc import AsyncIterator

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from ....record.journal import find_journal
from ....record.sessions import list_sessions
from ....record.trace import read_trace
from ....types.errors import BadRequest
from ....types.event import APPROVAL_CHOICES, Event, Wrote
from ..conversations import LiveConversation, WaitingQuestion, question_digest
from ..web_site import WebSite, form_of, go_to
from .run_pages import event_line, render_item, stream_response, timeline_of

_LONGEST = 100_000
"""Characters of a request."""


def chat(site: WebSite, request: Request) -> Response:
    run = request.query_params.get("run", "")
    live = site.hub.find(run) if site.hub is not None and run else None
    # How far the turn is, before its journal is read: what ends in between is then still followed, and never lost.
    running = live is not None and live.running
    question = waiting_question(live) if live is not None else None
    events = []
    if run:
        trace = read_trace(find_journal(site.state, run)) if live is None or live.events or live.running else None
        events = timeline_of((record.at, record.event) for record in trace.recorded) if trace is not None else []
    library = site.library()
    return site.render(
        request,
        "chat.html",
        current="chat",
        run=run,
        live=live,
        running=running,
        timeline=events,
        question=question,
        choices=APPROVAL_CHOICES,
        commands=library.commands(),
        text=request.query_params.get("text", "")[:2_000],
        sessions=list(list_sessions(site.state, most=10)),
        line=site.command("chat", "--resume", run) if run else site.command("chat"),
    )


def waiting_question(live: LiveConversation) -> WaitingQuestion | None:
    asked = live.asked
    return WaitingQuestion(live.session.run, asked.id, question_digest(asked), asked) if asked is not None else None


def say(site: WebSite, request: Request) -> Response:
    """Say something in a conversation, or begin one."""
    form = form_of(request)
    text = form.text("text").replace("\r\n", "\n").strip()[:_LONGEST]
    if not text:
        raise BadRequest("nothing was said", "write a request, or /skill with its arguments")
    if site.hub is None:
        raise BadRequest("this page has no agent", "run `metier chat`")
    run = form.text("run")
    live = site.hub.resume(run) if run else site.hub.start()
    live.say(text)
    return go_to("/chat", run=live.session.run)


async def watch_chat(site: WebSite, request: Request) -> Response:
    """The turn that runs: pieces of the reply, each event, and that a question waits."""
    live = site.hub.find(request.query_params.get("run", "")) if site.hub is not None else None
    if live is None:
        return Response("no conversation of that name goes on here\n", 404, media_type="text/plain")

    async def lines() -> AsyncIterator[str]:
        seen, written = 0, 0
        while not await request.is_disconnected():
            events, running, asked = await run_sync(_wait, live, (seen, written))
            for at, event in enumerate(events[seen:], seen):
                if isinstance(event, Wrote):
                    # The last piece may still grow: only what is new of it is sent.
                    if not event.thinking:
                        yield event_line("piece", event.text[written:])
                    written = len(event.text)
                    seen = at if at == len(events) - 1 else at + 1
                    written = written if seen == at else 0
                    continue
                for item in timeline_of([(0.0, event)]):
                    yield event_line("item", render_item(site, item))
                seen, written = at + 1, 0
            if asked:
                yield event_line("question", "")
                return
            if not running:
                yield event_line("end", "")
                return

    return stream_response(lines())


def _wait(live: LiveConversation, seen: tuple[int, int]) -> tuple[list[Event], bool, bool]:
    """The events, whether the turn runs and whether it waits for an answer; returns when there is something new."""

    def has_news() -> bool:
        last = live.events[-1] if live.events else None
        grown = isinstance(last, Wrote) and len(live.events) - 1 == seen[0] and len(last.text) > seen[1]
        more = len(live.events) > seen[0] and not (isinstance(last, Wrote) and len(live.events) - 1 == seen[0])
        return grown or more or not live.running or live.asked is not None

    with live.changed:
        # Not for ever: whether the browser is still there is looked at in between.
        live.changed.wait_for(has_news, timeout=5.0)
        return list(live.events), live.running, live.asked is not None and live.answer is None

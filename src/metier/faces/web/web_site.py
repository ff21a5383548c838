"""What all pages share: the place they are about, how they are rendered, and the command line behind each action."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ... import __version__
from ...host import facts
from ...library.library import Library
from ...library.open import OpenRequest, open_at
from ...types.errors import BadRequest, MetierError
from ...types.place import Place
from ...types.text import escaped_line, shorten_text
from .page_guard import FormData
from .prose import render_prose

if TYPE_CHECKING:
    from ...schedule.database import Engine
    from .conversations import ConversationHub

SCREENS = (
    ("today", "/", "Today", "t"),
    ("skills", "/skills", "Skills", "s"),
    ("budget", "/budget", "Budget", "b"),
    ("chat", "/chat", "Chat", "c"),
    ("runs", "/runs", "Runs", "r"),
    ("approvals", "/approvals", "Approvals", "a"),
    ("proposals", "/proposals", "Proposals", "p"),
    ("schedules", "/schedules", "Schedules", "d"),
    ("evals", "/evals", "Evals", "e"),
    ("get", "/get", "Get", "i"),
)
"""Each screen: its name, its path, its label, and the key after `g`."""


@dataclass(frozen=True)
class SiteOptions:
    """The global options that the page was started with; every command line that it shows has them too."""

    root: str | None = None
    dialect: str | None = None
    agent: str | None = None
    profile: str = ""
    use_index: bool = True
    model: str = ""
    read_only: bool = False


@dataclass
class WebSite:
    """One page for one place.  It keeps no data: every request reads what the command of the same name reads."""

    options: SiteOptions
    place: Place
    templates: Environment = field(default_factory=lambda: make_templates())
    hub: ConversationHub | None = None
    """The conversations that go on in this process."""

    @property
    def state(self) -> str:
        return self.place.state

    def library(self) -> Library:
        """Opened for each page: what changed under it is seen with the next click."""
        chosen = self.options
        return open_at(self.place, OpenRequest(chosen.dialect, chosen.agent, chosen.root, chosen.use_index))

    def plain_library(self) -> Library:
        """Without the options that choose among skills: trust is about a project, whoever looks at it."""
        return open_at(self.place, OpenRequest())

    def command(self, *words: str) -> str:
        """The command line that does the same, with the options that the page was started with."""
        chosen = self.options
        carried = [
            word
            for name, value in (
                ("--root", chosen.root),
                ("--dialect", chosen.dialect),
                ("--agent", chosen.agent),
                ("--profile", chosen.profile),
            )
            if value
            for word in (name, value)
        ]
        return shlex.join(["metier", *carried, *words])

    @contextmanager
    def schedules(self) -> Iterator[Engine]:
        from ...schedule.database import open_engine

        engine = open_engine(self.place)
        try:
            yield engine
        finally:
            engine.dispose()

    def render(self, request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A page; which screen is current follows from the template's name."""
        page = self.templates.get_template(template).render(
            site=self,
            request=request,
            screens=SCREENS,
            form_token=getattr(request.state, "form_token", ""),
            read_only=self.options.read_only,
            done=_DONE.get(request.query_params.get("done", ""), ""),
            version=__version__,
            **values,
        )
        return HTMLResponse(page, status)

    def failure(self, request: Request, error: MetierError) -> HTMLResponse:
        """An error as a page: what, and what next."""
        return self.render(request, "failure.html", self.failure_status(error), error=error, current="")

    @staticmethod
    def failure_status(error: MetierError) -> int:
        return 404 if isinstance(error, BadRequest) or error.exit_code == 2 else 409 if error.exit_code == 4 else 500


_DONE = {
    "trusted": "Trusted. Its skills can be used now, as they were shown.",
    "approved": "Approved, as it was shown.",
    "answered": "Answered.",
    "accepted": "Accepted: the change is written, and its next runs are watched.",
    "rejected": "Rejected. It is not proposed again until the skill changes.",
    "edited": "Changed. Read it once more before you accept it.",
    "scheduled": "Scheduled.",
    "paused": "Paused.",
    "resumed": "Resumed, with the skill as it is now.",
    "queued": "Queued: it starts as soon as a daemon has time.",
    "removed": "Removed.",
    "added": "Installed.",
    "stopped": "Asked to stop.",
    "gone": "That was decided meanwhile.",
    "changed": "It changed since it was shown. Nothing was done: read it again, then decide.",
}
"""What a page says after an action.  Codes, not text: an address must not be able to put words into a page."""


def go_to(path: str, done: str = "", **query: str) -> Response:
    """Go on to a page after a form, so that reloading it does not send the form again."""
    values = {**query, **({"done": done} if done else {})}
    return RedirectResponse(f"{path}?{urlencode(values)}" if values else path, 303)


def form_of(request: Request) -> FormData:
    form: FormData = request.state.form
    return form


def page_number(request: Request) -> int:
    """The page of a long list that was asked for, from 1."""
    text = request.query_params.get("page", "1")
    return min(max(int(text), 1), 100_000) if text.isascii() and text.isdigit() and len(text) < 7 else 1


# --- Templates ---


def make_templates() -> Environment:
    """Everything is escaped, in every template, and what can't be seen is spelled out."""
    templates = Environment(
        loader=PackageLoader("metier.faces.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_spell_out,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        prose=render_prose,
        exact=lambda text: escape(text),
        local_time=_local_time,
        thousands=lambda number: f"{number:,}",
        percent=lambda share: f"{share:.0%}",
        shorten=shorten_text,
        link_to=_link_to,
    )
    templates.tests["shown_whole"] = lambda text: escaped_line(text.replace("\n", "")) == text.replace("\n", "")
    return templates


def _spell_out(value: object) -> object:
    """Hidden characters as their escapes: text from elsewhere must not reorder or hide what stands beside it."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    if value.isascii() and value.replace("\n", "").replace("\t", "").isprintable():
        return value
    return "\n".join("\t".join(map(escaped_line, line.split("\t"))) for line in value.split("\n"))


def _link_to(path: str, /, **query: object) -> str:
    return f"{path}?{urlencode({key: str(value) for key, value in query.items()}, errors='surrogatepass')}"


def _local_time(at: float | datetime | None) -> str:
    if at is None or at == 0:
        return "–"
    return facts.format_local_time(at.timestamp() if isinstance(at, datetime) else at)


def utc_now() -> datetime:
    return datetime.fromtimestamp(facts.now_ns() / 1e9, UTC)


def as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

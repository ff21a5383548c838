"""Approvals: what waits for a yes, exactly as it would run; and every decision that was taken.

A form carries the digest of what it shows.  If that is no longer what it would approve, nothing is approved, and the
page shows it again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ....host import paths
from ....library.library import Library
from ....library.trust import read_trust_book
from ....record.journal import Journal, run_ids, runs_folder
from ....types.errors import BadRequest, Changed, MetierError, Refused
from ....types.event import APPROVAL_CHOICES, Answered, Asked, innermost_event
from ....types.verdict import UNAPPROVED, UNTRUSTED
from ...skill_review import POWER_LABELS, SkillReview, approve_reviewed, review_skill
from ...trust_review import TrustReview, review_trust, trust_reviewed
from ..conversations import WaitingQuestion
from ..web_site import WebSite, form_of, go_to

_RUNS_LOOKED_AT = 200
_MOST_DECISIONS = 50


class PastDecision(NamedTuple):
    """A question that was answered in a run."""

    run: str
    at: float
    question: Asked
    answer: str
    by: str


def approvals(site: WebSite, request: Request) -> Response:
    return _show(site, request, site.library())


def _show(
    site: WebSite, request: Request, library: Library, review: TrustReview | None = None, status: int = 200
) -> Response:
    codes = {finding.code for verdict in library.verdicts for finding in verdict.findings}
    if review is None and not codes.isdisjoint(UNTRUSTED):
        review = review_trust(site.plain_library())
    trusted = read_trust_book(site.state)
    return site.render(
        request,
        "approvals.html",
        status,
        current="approvals",
        questions=site.hub.waiting() if site.hub is not None else [],
        choices=APPROVAL_CHOICES,
        trust=review,
        trust_line=site.command("trust"),
        reviews=_reviews(library),
        labels=POWER_LABELS,
        decisions=_decisions(site.state),
        trusted=sorted(trusted),
        always_file=f"{site.state}/approvals.json" if paths.is_file(f"{site.state}/approvals.json") else "",
    )


def _reviews(library: Library) -> list[SkillReview | tuple[str, MetierError]]:
    """Each skill that waits for approval; or why it can't be approved here."""
    shown: list[SkillReview | tuple[str, MetierError]] = []
    for verdict in library.verdicts:
        if any(finding.code in UNAPPROVED for finding in verdict.findings):
            try:
                shown.append(review_skill(library, verdict.skill.name))
            except MetierError as error:
                shown.append((verdict.skill.name, error))
    return shown


def _decisions(state: str) -> list[PastDecision]:
    """The answers in the newest runs, the newest first."""
    decisions: list[PastDecision] = []
    for name in reversed(run_ids(state)[-_RUNS_LOOKED_AT:]):
        asked: dict[str, Asked] = {}
        answered = []
        for record in Journal(f"{runs_folder(state)}/{name}.jsonl").read():
            event = innermost_event(record.event)
            if isinstance(event, Asked):
                asked[event.id] = event
            elif isinstance(event, Answered) and event.id in asked:
                answered.append(PastDecision(name, record.at, asked[event.id], event.answer or "no answer", event.by))
        decisions += reversed(answered)
        if len(decisions) >= _MOST_DECISIONS:
            break
    return decisions[:_MOST_DECISIONS]


def trust(site: WebSite, request: Request) -> Response:
    """Trust the project as it was shown."""
    form = form_of(request)
    seen = (form.text("digest"), form.text("added"))
    try:
        review = trust_reviewed(site.plain_library(), seen)
    except Changed:
        return go_to("/approvals", "changed")
    if review is not None:
        return _show(site, request, site.library(), review, 409)
    return go_to(form.text("back") if form.text("back") == "/skills" else "/approvals", "trusted")


def approve(site: WebSite, request: Request) -> Response:
    """Approve a skill as it was shown."""
    form, library = form_of(request), site.library()
    review = review_skill(library, form.text("name"))
    # As on the command line: a click is not enough where something serious was found.
    if review.must_type_name and form.text("typed").strip() != review.name:
        raise Refused(
            f"not approved: what was typed is not `{review.name}`", "nothing was changed; go back and type it"
        )
    try:
        approve_reviewed(library, review, form.text("digest"))
    except Changed:
        return go_to("/approvals", "changed")
    return go_to("/approvals", "approved")


def answer(site: WebSite, request: Request) -> Response:
    """Answer a question of a conversation that goes on in this process."""
    form = form_of(request)
    if site.hub is None:
        raise BadRequest("no conversation goes on here", "open it in the chat")
    question = WaitingQuestion(form.text("run"), form.text("id"), form.text("digest"))
    back: dict[str, Any] = {"run": form.text("run")} if form.text("back") == "/chat" else {}
    path = "/chat" if back else "/approvals"
    told = site.hub.answer(question, form.text("answer"))
    return go_to(path, {"told": "answered", "changed": "changed"}.get(told, "gone"), **back)

"""Proposals: what would change in a skill, why, what every gate says, and the decision."""

from __future__ import annotations

from difflib import SequenceMatcher
from hashlib import sha256
from json import dumps
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ....improve import proposal_store
from ....improve.improver import edit_proposal
from ....improve.land import LANDING, decide_proposal, settle_interrupted
from ....types.improvement import Proposal
from ..web_site import WebSite, form_of, go_to

_CONTEXT = 3
"""Unchanged lines that are shown around a change."""


class DiffRow(NamedTuple):
    """A line on both sides; a number of 0 is no line."""

    kind: str
    """`same`, `changed`, `removed`, `added`, or `gap` for lines that are left out."""
    old_number: int = 0
    old: str = ""
    new_number: int = 0
    new: str = ""


def side_by_side(before: str, after: str) -> list[DiffRow]:
    """Two texts beside each other, with a few lines around each change."""
    old, new = before.splitlines(), after.splitlines()
    rows: list[DiffRow] = []
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT):
        if rows:
            rows.append(DiffRow("gap"))
        for kind, first, last, from_new, to_new in group:
            for at in range(max(last - first, to_new - from_new)):
                left, right = first + at, from_new + at
                rows.append(
                    DiffRow(
                        {"equal": "same", "replace": "changed", "delete": "removed", "insert": "added"}[kind],
                        left + 1 if left < last else 0,
                        old[left] if left < last else "",
                        right + 1 if right < to_new else 0,
                        new[right] if right < to_new else "",
                    )
                )
    return rows


def proposal_digest(proposal: Proposal) -> str:
    """Of all that a decision is about."""
    shown = [proposal.id, proposal.base, dict(proposal.before), dict(proposal.after), proposal.gates, proposal.standing]
    return sha256(dumps(shown, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def proposals(site: WebSite, request: Request) -> Response:
    kept = proposal_store.list_proposals(site.state)
    # A landing that was killed is finished or undone first, as on the command line.
    if not site.options.read_only and any(proposal.note == LANDING for proposal in kept):
        settle_interrupted(site.library())
        kept = proposal_store.list_proposals(site.state)
    return site.render(
        request,
        "proposals.html",
        current="proposals",
        waiting=[proposal for proposal in kept if proposal.standing == "waiting"],
        decided=[proposal for proposal in kept if proposal.standing != "waiting"][:100],
        line=site.command("proposals"),
    )


def proposal(site: WebSite, request: Request) -> Response:
    found = proposal_store.find_proposal(site.state, request.query_params.get("id", ""))
    return site.render(
        request,
        "proposal.html",
        current="proposals",
        proposal=found,
        digest=proposal_digest(found),
        files=[(path, side_by_side(found.before.get(path, ""), text), text) for path, text in found.after.items()],
        line=site.command("proposals", "show", found.id),
        accept_line=site.command("proposals", "accept", found.id),
        reject_line=site.command("proposals", "reject", found.id),
        edit_line=site.command("proposals", "edit", found.id),
    )


def decide(site: WebSite, request: Request) -> Response:
    """Accept or reject a proposal as it was shown."""
    form = form_of(request)
    found = proposal_store.find_proposal(site.state, form.text("id"))
    if proposal_digest(found) != form.text("digest"):
        return go_to("/proposal", "changed", id=found.id)
    accepted = form.text("decision") == "accept"
    decided = decide_proposal(site.library(), found, accepted, form.text("why"))
    done = "accepted" if decided.standing == "accepted" else "rejected" if decided.standing == "rejected" else ""
    return go_to("/proposal", done, id=found.id)


def edit(site: WebSite, request: Request) -> Response:
    """Replace the text of one file of a proposal."""
    form = form_of(request)
    found = proposal_store.find_proposal(site.state, form.text("id"))
    if proposal_digest(found) != form.text("digest"):
        return go_to("/proposal", "changed", id=found.id)
    # A browser sends CR LF, whatever the file had.
    text = form.text("text").replace("\r\n", "\n")
    edited = edit_proposal(site.library(), found, {**found.after, form.text("path"): text})
    return go_to("/proposal", "edited", id=edited.id)

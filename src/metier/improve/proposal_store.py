"""The store of proposals: one JSON file each, in metier's own folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from json import dumps, loads
from typing import Any

from ..host import fs, paths, trees
from ..host.facts import utc_timestamp
from ..types.errors import BadRequest, HostError
from ..types.improvement import GateResult, Proposal, SkillFault

_id = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}").fullmatch
_MOST = 200
"""Proposals kept; beyond that the oldest decided ones are deleted."""
_LARGEST = 4_000_000
"""Bytes of a file that is read."""


def proposals_folder(home: str) -> str:
    return f"{home}/proposals"


def write_proposal(home: str, proposal: Proposal) -> Proposal:
    """Store a proposal, stamped with the time when it is new."""
    stamped = proposal if proposal.at else replace(proposal, at=utc_timestamp())
    folder = proposals_folder(home)
    fs.make_folder(folder)
    fs.write_text(
        f"{folder}/{proposal.id}.json", dumps(_proposal_document(stamped), indent=1, ensure_ascii=True) + "\n"
    )
    _prune_decided(home)
    return stamped


def _proposal_document(proposal: Proposal) -> dict[str, Any]:
    return {
        **asdict(proposal),
        "because": [fault._asdict() for fault in proposal.because],
        "gates": [gate._asdict() for gate in proposal.gates],
    }


def list_proposals(home: str) -> tuple[Proposal, ...]:
    """All proposals, oldest first; files that can't be read are skipped."""
    return tuple(_read_proposals(home))


def _read_proposals(home: str) -> Iterator[Proposal]:
    folder = proposals_folder(home)
    if not paths.is_folder(folder):
        return
    for name in paths.list_names(folder).files:
        if name.endswith(".json") and _id(name.removesuffix(".json")):
            try:
                proposal = _parse_proposal(paths.read_text_file(f"{folder}/{name}", _LARGEST) or "")
            except HostError:
                continue
            if proposal is not None:
                yield proposal


def _parse_proposal(text: str) -> Proposal | None:
    try:
        document = loads(text)
        names = {field.name for field in fields(Proposal)}
        values = {key: value for key, value in document.items() if key in names}
        values["because"] = tuple(SkillFault(**fault) for fault in values.get("because", ()))
        values["gates"] = tuple(GateResult(**gate) for gate in values.get("gates", ()))
        values["what"] = tuple(values.get("what", ()))
        watched = values.get("watched")
        values["watched"] = tuple(watched) if watched is not None else None
        return Proposal(**values)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def accepted_changes(home: str, folder: str) -> dict[str, str]:
    """The files of a skill that are as an accepted proposal left them, each with the id of the proposal."""
    changes: dict[str, str] = {}
    for proposal in list_proposals(home):
        if proposal.standing == "accepted" and proposal.folder == folder:
            for path, text in proposal.after.items():
                try:
                    current = paths.read_text_file(f"{folder}/{path}")
                except HostError:
                    continue
                if current == text:
                    changes[path] = proposal.id
    return changes


def waiting_line(home: str) -> str:
    """What waits for a person, in one line; empty if nothing does."""
    skills = [proposal.skill for proposal in list_proposals(home) if proposal.standing == "waiting"]
    if not skills:
        return ""
    names = ", ".join(dict.fromkeys(skills))
    count = "1 proposed change waits" if len(skills) == 1 else f"{len(skills)} proposed changes wait"
    return f"{count} for you ({names}): run `metier proposals`"


def find_proposal(home: str, id: str) -> Proposal:
    """A proposal by its id, a prefix of it, or the name of a skill that has one waiting."""
    every = list_proposals(home)
    matches = [proposal for proposal in every if proposal.id == id] or [
        proposal for proposal in every if id and proposal.id.startswith(id)
    ]
    if not matches:
        matches = [proposal for proposal in every if proposal.skill == id and proposal.standing == "waiting"]
    if len(matches) == 1:
        return matches[0]
    problem = f"no proposal matches `{id}`" if not matches else f"{len(matches)} proposals match `{id}`"
    raise BadRequest(problem, "run `metier proposals` to list them")


def _prune_decided(home: str) -> None:
    every = list_proposals(home)
    # A waiting or watched one is never deleted, however old.
    decided = [proposal for proposal in every if proposal.standing != "waiting" and proposal.watched is None]
    for proposal in decided[: max(0, len(every) - _MOST)]:
        trees.remove_file(f"{proposals_folder(home)}/{proposal.id}.json")

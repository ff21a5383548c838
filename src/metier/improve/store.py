"""Proposals on disk: one file each, in metier's own folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from json import dumps, loads
from typing import Any

from ..host import paths, state
from ..host.clock import today
from ..types.errors import BadRequest, HostError
from ..types.proposal import Fault, Gate, Proposal

_id = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}").fullmatch
_MOST = 200
"""Proposals that are kept; of those that are decided the oldest go."""
_LARGEST = 4_000_000


def folder_of(home: str) -> str:
    return f"{home}/proposals"


def keep(home: str, proposal: Proposal) -> Proposal:
    """Write a proposal down, as it stands."""
    stamped = proposal if proposal.at else replace(proposal, at=today())
    folder = folder_of(home)
    state.make_folder(folder)
    state.write_text(f"{folder}/{proposal.id}.json", dumps(_plain(stamped), indent=1, ensure_ascii=True) + "\n")
    _prune(home)
    return stamped


def _plain(proposal: Proposal) -> dict[str, Any]:
    return {
        **asdict(proposal),
        "because": [fault._asdict() for fault in proposal.because],
        "gates": [gate._asdict() for gate in proposal.gates],
    }


def proposals(home: str) -> tuple[Proposal, ...]:
    """Every proposal, the oldest first; a file that can't be read is passed over."""
    return tuple(_found(home))


def _found(home: str) -> Iterator[Proposal]:
    folder = folder_of(home)
    if not paths.is_folder(folder):
        return
    for name in paths.list_names(folder).files:
        if name.endswith(".json") and _id(name.removesuffix(".json")):
            try:
                made = _read(paths.read_text_file(f"{folder}/{name}", _LARGEST) or "")
            except HostError:
                continue
            if made is not None:
                yield made


def _read(text: str) -> Proposal | None:
    try:
        found = loads(text)
        known = {one.name for one in fields(Proposal)}
        given = {key: value for key, value in found.items() if key in known}
        given["because"] = tuple(Fault(**one) for one in given.get("because", ()))
        given["gates"] = tuple(Gate(**one) for one in given.get("gates", ()))
        given["what"] = tuple(given.get("what", ()))
        watched = given.get("watched")
        given["watched"] = tuple(watched) if watched is not None else None
        return Proposal(**given)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def find(home: str, id: str) -> Proposal:
    """A proposal by its id, the beginning of it, or the name of the skill that it alone waits for."""
    every = proposals(home)
    found = [one for one in every if one.id == id] or [one for one in every if id and one.id.startswith(id)]
    if not found:
        found = [one for one in every if one.skill == id and one.standing == "waiting"]
    if len(found) == 1:
        return found[0]
    what = f"no proposal is called `{id}`" if not found else f"{len(found)} proposals are called `{id}`"
    raise BadRequest(what, "run `metier proposals` to see what there is")


def _prune(home: str) -> None:
    every = proposals(home)
    done = [one for one in every if one.standing != "waiting" and one.watched is None]
    for one in done[: max(0, len(every) - _MOST)]:
        state.remove_file(f"{folder_of(home)}/{one.id}.json")

"""A proposal put in place, taken back, and watched; each is a version in the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..host import paths, state, workspace
from ..improve import accept, store
from ..improve.accept import Ridden
from ..improve.notice import notice
from ..record import Trace, history, runs
from ..types.errors import BadRequest, HostError, MetierError, UnknownSkill
from ..types.proposal import Proposal
from ..types.skill import Skill
from .examining import around, contents, known_of

if TYPE_CHECKING:
    from .library import Library

_BEFORE = 20
"""Runs before a change that it is held against."""
_UNFINISHED = frozenset({"out-of-turns", "repeating"})
"""Ends that a skill may be to blame for; a service that failed, a person's stop and an empty purse are not."""


def land(library: Library, proposal: Proposal) -> Proposal:
    """Put it in place, if the skill is still the one it was made for.  What can't be kept in the history waits."""
    home = library.place.state
    with state.locked(f"{store.folder_of(home)}/.lock"):
        if not paths.is_folder(proposal.folder) or contents(proposal.folder).digest != proposal.base:
            note = "the skill has changed since: propose again"
            return store.keep(home, replace(proposal, standing="stale", note=note))
        try:
            _remember(library, proposal)
            made = _put(library, proposal, proposal.after, "improve", accept.evidence(proposal))
        except HostError as error:
            _write(proposal.folder, proposal.before)
            note = f"it could not be kept in the history: {error.message}"
            return store.keep(home, replace(proposal, standing="waiting", note=note))
        return store.keep(home, replace(proposal, standing="accepted", rev=made, watched=(), note=""))


def _remember(library: Library, proposal: Proposal) -> None:
    """What is there now becomes a version first: nothing is replaced that can't be brought back."""
    repository, name = _kept_at(library, proposal)
    act = "edit" if history.versions(repository, name, 1) else "add"
    history.record(repository, history.Change(act, name, proposal.folder))


def _put(library: Library, proposal: Proposal, texts: Mapping[str, str], act: str, evidence: str) -> str:
    _write(proposal.folder, texts)
    repository, name = _kept_at(library, proposal)
    run = next((fault.run for fault in proposal.because if fault.run), "")
    version = history.record(repository, history.Change(act, name, proposal.folder, evidence, run))
    return version.rev if version else ""


def _kept_at(library: Library, proposal: Proposal) -> tuple[str, str]:
    repository = _repository_of(library.place.state, proposal.root)
    return repository, proposal.folder[len(proposal.root.rstrip("/")) + 1 :] or paths.real_name(proposal.folder)


def _write(folder: str, texts: Mapping[str, str]) -> None:
    """Each file whole and with its own permissions, through no link."""
    for path, text in texts.items():
        workspace.write(folder, path, text)


def take_back(library: Library, proposal: Proposal, why: str) -> Proposal:
    """What it changed, as it was before; text that somebody changed since then stays theirs."""
    home = library.place.state
    with state.locked(f"{store.folder_of(home)}/.lock"):
        now = contents(proposal.folder).texts if paths.is_folder(proposal.folder) else {}
        if any(now.get(path) != text for path, text in proposal.after.items()):
            note = f"{why}; but the skill has changed since, and stays as it is"
            return store.keep(home, replace(proposal, watched=None, note=note))
        _put(library, proposal, proposal.before, "rollback", f"Proposal {proposal.id} is taken back: {why}")
        return store.keep(home, replace(proposal, standing="rolled-back", watched=None, note=why))


def watch(library: Library, trace: Trace) -> tuple[Proposal, ...]:
    """What a run says of the changes that are watched; those that do worse are taken back."""
    found = []
    for proposal in store.proposals(library.place.state):
        if proposal.watched is None or proposal.standing != "accepted" or proposal.skill not in trace.skills:
            continue
        if trace.run in proposal.watched or trace.run in {fault.run for fault in proposal.because}:
            continue
        try:
            skill = library.find(proposal.skill).skill
        except (UnknownSkill, MetierError):
            continue
        if skill.directory == proposal.folder:
            found.append(_judged(library, skill, replace(proposal, watched=(*proposal.watched, trace.run))))
    return tuple(found)


def _judged(library: Library, skill: Skill, proposal: Proposal) -> Proposal:
    since = set(proposal.watched or ())
    every = [trace for trace in runs(library.place.state) if proposal.skill in trace.skills]
    after = [trace for trace in every if trace.run in since]
    first = min((trace.at for trace in after), default=0.0)
    before = [trace for trace in every if trace.run not in since and trace.at < first][:_BEFORE]
    texts = contents(proposal.folder).texts
    old = _ridden(library, skill, before, {**texts, **proposal.before})
    verdict, why = accept.watched(old, _ridden(library, skill, after, texts))
    if verdict == "roll back":
        return take_back(library, proposal, why)
    kept = replace(proposal, watched=None, note=why) if verdict == "keep" else proposal
    return store.keep(library.place.state, kept)


def _ridden(library: Library, skill: Skill, traces: Sequence[Trace], texts: Mapping[str, str]) -> list[Ridden]:
    known, beside = known_of(library, skill, texts), around(library, traces)
    found = []
    for trace in traces:
        faults = [fault for fault in notice(trace, {skill.name: known}, beside) if not fault.bridged]
        bad = bool(faults) or trace.outcome in _UNFINISHED
        found.append(Ridden(trace.run, bad, frozenset(fault.key for fault in faults)))
    return found


def decided(library: Library, proposal: Proposal, accepted: bool, why: str = "") -> Proposal:
    """A person's word on a proposal that waits."""
    if proposal.standing != "waiting":
        raise BadRequest(f"the proposal {proposal.id} is {proposal.standing}: nobody has to decide about it",
                         "`metier proposals` lists those that wait")  # fmt: skip
    if accepted:
        return land(library, proposal)
    note = why or "a person said no"
    return store.keep(library.place.state, replace(proposal, standing="rejected", note=note))


def _repository_of(state: str, root: str) -> str:
    from hashlib import sha256

    known = {f"{state}/skills": "skills", f"{state}/plugins": "plugins", f"{state}/scheduler": "scheduler"}
    name = known.get(root) or f"root-{sha256(root.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
    return f"{state}/history/{name}.git"

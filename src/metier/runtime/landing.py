"""A proposal put in place, taken back, and watched; each is a version in the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..host import paths
from ..improve import accept, store
from ..improve.accept import Ridden
from ..improve.notice import notice
from ..install import place
from ..record import history
from ..record.history import Version
from ..record.trace import Trace, runs
from ..types.errors import BadRequest, MetierError, UnknownSkill
from ..types.proposal import Proposal
from ..types.skill import Skill
from .changing import Edit, managed, put
from .examining import around, contents, known_of
from .scheduling import agreeing

if TYPE_CHECKING:
    from .library import Library

_BEFORE = 20
"""Runs before a change that it is held against."""
_UNFINISHED = frozenset({"out-of-turns", "repeating"})
"""Ends that a skill may be to blame for; a service that failed, a person's stop and an empty purse are not."""


def land(library: Library, proposal: Proposal) -> Proposal:
    """Put it in place, if the skill is still the one it was made for.  What can't be kept in the history waits."""
    home = library.place.state
    if not paths.is_folder(proposal.folder) or contents(proposal.folder).digest != proposal.base:
        note = "the skill has changed since: propose again"
        return store.keep(home, replace(proposal, standing="stale", note=note))
    try:
        version = _put(library, proposal, proposal.after, "improve", accept.evidence(proposal), proposal.base)
    except MetierError as error:
        note = f"it could not be put in place: {error.message}"
        return store.keep(home, replace(proposal, standing="waiting", note=note))
    rev = version.rev if version else ""
    return store.keep(home, replace(proposal, standing="accepted", rev=rev, watched=(), note=""))


def _put(
    library: Library, proposal: Proposal, texts: Mapping[str, str], act: str, evidence: str, base: str
) -> Version | None:
    """The skill with these texts.  What is there now is a version first, and tells every other file and its mode."""
    skill = next((one for one in library.skills if one.directory == proposal.folder), None)
    if skill is None:
        raise UnknownSkill(proposal.skill)
    one = managed(library, skill)
    place.look(one.ground, [one.key])
    [now, *_] = history.versions(one.repository, one.key, 1)
    files = history.files(one.repository, one.key, now.rev)
    changed = {path: (files[path][0], text.encode("utf-8", "surrogatepass")) for path, text in texts.items()}
    run = next((fault.run for fault in proposal.because if fault.run), "")
    with agreeing(library.place, proposal.folder):
        return put(one, Edit({**files, **changed}, act, evidence, run, base))


def take_back(library: Library, proposal: Proposal, why: str) -> Proposal:
    """What it changed, as it was before; text that somebody changed since then stays theirs."""
    home = library.place.state
    there = contents(proposal.folder)
    if any(there.texts.get(path) != text for path, text in proposal.after.items()):
        note = f"{why}; but the skill has changed since, and stays as it is"
        return store.keep(home, replace(proposal, watched=None, note=note))
    told = f"Proposal {proposal.id} is taken back: {why}"
    try:
        _put(library, proposal, proposal.before, "rollback", told, there.digest)
    except MetierError as error:
        return store.keep(home, replace(proposal, note=f"{why}; it can't be taken back yet: {error.message}"))
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

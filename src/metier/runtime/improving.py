"""Improving skills: a run is looked at, what is a skill's fault is put right, and what passes its checks lands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..host import state
from ..host.clock import today
from ..improve import accept, check, fixes, store
from ..improve.check import Draft
from ..improve.notice import IMPROVER, Around, Known, notice
from ..improve.texts import SKILL, proses
from ..record import Trace, runs, trace_of
from ..record.journal import journal_of
from ..types.errors import BadRequest, MetierError, Refused
from ..types.proposal import Fault, Gate, Proposal
from ..types.skill import Skill
from . import improver
from .examining import Contents, around, contents, known_of, look, mode_of, owned, read_again
from .landing import land, watch

if TYPE_CHECKING:
    from ..types.model import Model
    from .library import Library

_RECENT = 100
"""Runs that are looked through for failures of the same kind."""


class Terms(NamedTuple):
    """How it is asked for."""

    model: Model | None = None
    asked: bool = False
    """A person asked for it by the skill's name."""
    dry: bool = False
    """Nothing is written down or put in place."""
    wish: str = ""


class Improved(NamedTuple):
    """What came of it for one skill."""

    skill: str
    proposals: tuple[Proposal, ...] = ()
    words: str = ""
    """Why there is nothing, where there is nothing."""


def after_run(library: Library, run: str, terms: Terms) -> tuple[Improved, ...]:
    """All that a run that ended leads to: changes that are watched are judged, and each skill at fault is improved."""
    with state.locked(f"{store.folder_of(library.place.state)}/.lock"):  # one after the other
        return _after_run(library, run, terms)


def _after_run(library: Library, run: str, terms: Terms) -> tuple[Improved, ...]:
    first = trace_of(journal_of(library.place.state, run))
    traces = [first, *(one for one in islice(runs(library.place.state), _RECENT) if one.started.parent == first.run)]
    if first.started.agent == IMPROVER:
        return ()
    for trace in traces:
        watch(library, trace)
    found = []
    for name in dict.fromkeys(name for trace in traces for name in trace.skills):
        try:
            verdict = library.find(name)
        except MetierError:
            continue
        if verdict.usable:
            found.append(improve_skill(library, verdict.skill, traces, terms))
            library = library.reload() if found[-1].proposals else library
    return tuple(found)


def edited(library: Library, proposal: Proposal, after: Mapping[str, str]) -> Proposal:
    """A proposal that waits, in a person's own words; what may not be is said, and then it stays as it was."""
    if proposal.standing != "waiting":
        raise BadRequest(f"the proposal {proposal.id} is {proposal.standing}", "only one that waits can be edited")
    skill = next((one for one in library.skills if one.directory == proposal.folder), None)
    files = contents(proposal.folder)
    if skill is None or files.digest != proposal.base:
        raise BadRequest(f"`{proposal.skill}` has changed since the proposal was made", "propose again")
    before = files.texts
    draft = Draft(before, {**before, **after}, modelled=False)
    found = look(skill, draft.before, files.marks), look(skill, draft.after, files.marks)
    gates = [gate for gate in check.static(draft, *found, ()) if gate.name != "own words"]
    wrong = [gate for gate in gates if gate.says == "no"]
    if wrong:
        raise BadRequest(f"that may not be: {wrong[0].name}: {wrong[0].words}", "edit it again")
    if not draft.changed:
        raise BadRequest("that changes nothing in the skill", "reject the proposal instead")
    changed = {path: draft.after[path] for path in draft.changed}
    made = replace(
        proposal, before={path: before[path] for path in changed}, after=changed, gates=tuple(gates),
        what=(*proposal.what, "edited by a person"), note="edited: accept it to put it in place",
    )  # fmt: skip
    return store.keep(library.place.state, made)


def improve_named(library: Library, name: str, run: str, terms: Terms) -> Improved:
    """What a person asks for: one skill, from one run, or from all the recent ones that used it."""
    skill = library.find(name).skill
    if run:
        traces = [trace_of(journal_of(library.place.state, run))]
        if traces[0].started.agent == IMPROVER:
            raise Refused(f"the run {traces[0].run} is the improver's own", "name a run of the skill")
        if skill.name not in traces[0].skills:
            raise BadRequest(f"the run {traces[0].run} did not use `{skill.name}`", "`metier runs` says what used what")
    else:
        traces = [one for one in islice(runs(library.place.state), _RECENT) if skill.name in one.skills]
    return improve_skill(library, skill, traces, terms._replace(asked=True))


def improve_skill(library: Library, skill: Skill, traces: Sequence[Trace], terms: Terms) -> Improved:
    """By rule first; then, for what is left, by a model."""
    mode = mode_of(library, skill)
    if mode == "off" and not terms.asked:
        return Improved(skill.name, words="improve.mode is off")
    if skill.id == improver.NAME:
        return Improved(skill.name, words="the improver does not improve itself")
    files = contents(skill.directory)
    faults, beside = _faults(library, skill, files, traces)
    if not terms.asked and (not faults or (mode != "auto" and all(fault.bridged for fault in faults))):
        return Improved(skill.name, words="nothing that failed is the skill's own fault")
    tired = "" if terms.asked else _tired(library, skill, files, faults)
    if tired:
        return Improved(skill.name, words=tired)
    made: list[Proposal] = []
    fixed = fixes.fix(files.texts, known_of(library, skill, files.texts), faults, beside)
    if fixed.what:
        draft = Draft(files.texts, fixed.files, modelled=False)
        made.append(_settled(library, skill, _Work(files, draft, fixed.cured, fixed.what, traces), terms))
        if made[-1].standing != "accepted" or terms.dry:
            return Improved(skill.name, tuple(made))
        library = library.reload()
        skill, files = library.find(skill.name).skill, contents(skill.directory)
    left = tuple(fault for fault in fixed.left if not fault.bridged)
    words = _not_yet(library, skill, left, terms) if not fixed.what or left else ""
    if not words and (left or (terms.asked and not fixed.what)):
        made.append(_by_model(library, skill, left, traces, terms))
    return Improved(skill.name, tuple(made), "" if made else words)


def _tired(library: Library, skill: Skill, files: Contents, faults: Sequence[Fault]) -> str:
    past = store.proposals(library.place.state)
    return accept.worn_out(past, skill.name, files.digest, faults, today()[:10])


def _faults(
    library: Library, skill: Skill, files: Contents, traces: Sequence[Trace]
) -> tuple[tuple[Fault, ...], Around]:
    known, beside = known_of(library, skill, files.texts), around(library, traces)
    every = [fault for trace in traces for fault in notice(trace, {skill.name: known}, beside)]
    found: dict[tuple[str, str, str], Fault] = {}
    for fault in every:
        before = found.get(fault.key)
        found[fault.key] = fault if before is None else before._replace(times=before.times + fault.times)
    return tuple(found.values()), beside


def _not_yet(library: Library, skill: Skill, left: Sequence[Fault], terms: Terms) -> str:
    """Why no model is asked; empty where one is."""
    if terms.model is None:
        return "what is left needs a model, and there is none"
    if terms.asked:
        return ""
    if not left:
        return "nothing is left to put right"
    if mode_of(library, skill) == "auto":
        return ""
    recent = [one for one in islice(runs(library.place.state), _RECENT) if skill.name in one.skills]
    known, beside = known_of(library, skill, contents(skill.directory).texts), around(library, recent)
    every = [fault for trace in recent for fault in notice(trace, {skill.name: known}, beside) if not fault.bridged]
    if accept.clustered(every):
        return ""
    return f"it failed {sum(one.times for one in every)}×: too little to rewrite it for; ask by name to do it anyway"


class _Work(NamedTuple):
    files: Contents
    draft: Draft
    faults: tuple[Fault, ...]
    what: tuple[str, ...]
    traces: Sequence[Trace]
    by: str = ""
    ended: str = ""
    """How the improver ended, where it did not finish."""


def _by_model(
    library: Library, skill: Skill, left: tuple[Fault, ...], traces: Sequence[Trace], terms: Terms
) -> Proposal:
    assert terms.model is not None
    faults = left or (Fault("asked", skill.name, terms.wish or "look it over", ""),)
    made = improver.written(library, terms.model, skill, faults, terms.wish)
    files = contents(skill.directory)
    draft = Draft(made.before.texts, made.after.texts, tuple(_odd(made.before, made.after)))
    words = (made.ended.text.strip() or "the improver said nothing",)
    ended = "" if made.ended.outcome == "finished" else f"{made.ended.outcome}: {made.ended.text}"
    return _settled(library, skill, _Work(files, draft, faults, words, traces, made.run, ended), terms)


def _odd(before: Contents, after: Contents) -> list[str]:
    """What is other than before, beside the text of files that were there."""
    texts = {*before.texts} & {*after.texts}
    found = [f"{path} is gone" for path in before.marks if path not in after.marks]
    for path, mark in after.marks.items():
        was = before.marks.get(path)
        if was is None:
            found.append(f"{path} is new")
        elif was.mode != mark.mode:
            found.append(f"{path} has other permissions")
        elif was.digest != mark.digest and path not in texts:
            found.append(f"{path} is no text, and other than it was")
    return found


def _settled(library: Library, skill: Skill, work: _Work, terms: Terms) -> Proposal:
    """A draft, checked, written down, and put in place if nobody has to decide."""
    changed = work.draft.changed
    by_rule = not work.draft.modelled
    proposal = Proposal(
        store.new_proposal_id(), skill.name, skill.directory, skill.origin.path, work.files.digest,
        {path: work.draft.before[path] for path in changed if path in work.draft.before},
        {path: work.draft.after[path] for path in changed if path in work.draft.before},
        work.faults, "fix" if by_rule else "model", work.what, tuple(_gates(library, skill, work, terms)), by=work.by,
    )  # fmt: skip
    standing, note = accept.standing(proposal, mode_of(library, skill), owned(library, skill))
    checked = replace(proposal, standing=standing, note=note)
    if terms.dry:
        return checked
    if standing == "accepted":
        return land(library, store.keep(library.place.state, replace(checked, standing="waiting")))
    return store.keep(library.place.state, checked)


def _gates(library: Library, skill: Skill, work: _Work, terms: Terms) -> list[Gate]:
    """Every check, those that cost a model's time only where the others let it through."""
    draft = work.draft
    if work.ended:
        return [Gate("improver", "no", work.ended)]
    if not draft.changed and not draft.odd:
        return [Gate("improver", "no", "it changed nothing")]
    marks = work.files.marks
    before, after = look(skill, draft.before, marks), look(skill, draft.after, marks)
    gates = list(check.static(draft, before, after, work.faults))
    if any(gate.says == "no" for gate in gates):
        return gates
    gates.append(_replayed(library, skill, work, terms))
    if check.changed_description(draft):
        gates.append(_triggers(library, skill, draft))
    if draft.modelled and terms.model is not None and not any(gate.says == "no" for gate in gates):
        from .proving import proven

        gates.append(proven(library, skill, draft, terms.model, mode_of(library, skill)))
    return gates


def _replayed(library: Library, skill: Skill, work: _Work, terms: Terms) -> Gate:
    """Without a model where that is enough; otherwise the run is gone through once more."""
    texts = proses(work.draft.after)
    known: Known = known_of(library, skill, work.draft.after)
    beside = around(library, work.traces)
    plain = check.replayed(work.faults, texts, known, beside)
    open_ones = [one for one in work.faults if check.cause_gone(one, texts, known, beside) is None]
    if plain.says == "no" or not open_ones or terms.model is None:
        return plain
    traces = {trace.run: trace for trace in work.traces}
    for run in dict.fromkeys(one.run for one in open_ones if one.run in traces):
        faults = tuple(one for one in open_ones if one.run == run)
        plain = improver.replay(library, terms.model, skill, traces[run], faults, work.draft.after)
        if plain.says == "no":
            return plain
    return plain


def _triggers(library: Library, skill: Skill, draft: Draft) -> Gate:
    """A new description may not be chosen for what its neighbours are for."""
    from .inspecting import thefts

    changed = read_again(library, skill, draft.after[SKILL])
    if changed is None:
        return Gate("triggers", "no", "its description can't be read")
    before = {(one.owner.path, one.prompt) for one in thefts(library, skill)}
    new = [one for one in thefts(library, changed) if (one.owner.path, one.prompt) not in before]
    if new:
        return Gate("triggers", "no", f"it would be chosen for “{new[0].prompt}”, which is for `{new[0].owner.name}`")
    return Gate("triggers", "yes", "its neighbours keep their prompts")

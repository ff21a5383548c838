"""Improving skills: a run is looked at, what is a skill's fault is put right, and what passes its checks lands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..host import state
from ..host.clock import new_name, today
from ..improve import accept, fixes, store
from ..improve.check import Draft
from ..improve.notice import IMPROVER, notice
from ..record.journal import journal_of
from ..record.trace import Trace, runs, trace_of
from ..types.dialect import Improving
from ..types.errors import BadRequest, MetierError, ModelError, Refused
from ..types.proposal import Fault, Proposal
from ..types.skill import Skill
from . import improver
from .examining import Contents, around, contents, known_of, mode_of, owned
from .judging import Terms, Work, gates_of, odd
from .landing import land, watch

if TYPE_CHECKING:
    from .library import Library

_RECENT = 100
"""Runs that are looked through for failures of the same kind."""
_FIRST = "decide about this first, then wish again: a wish is worked on with what is in place"


class Improved(NamedTuple):
    """What came of it for one skill."""

    skill: str
    proposals: tuple[Proposal, ...] = ()
    words: str = ""
    """Why there is nothing, or nothing more."""


def after_run(library: Library, run: str, terms: Terms) -> tuple[Improved, ...]:
    """All that a run that ended leads to: changes that are watched are judged, and each skill at fault is improved."""
    with state.locked(f"{store.folder_of(library.place.state)}/.lock"):  # one after the other
        return _after_run(library, run, terms)


def _after_run(library: Library, run: str, terms: Terms) -> tuple[Improved, ...]:
    first = trace_of(journal_of(library.place.state, run))
    traces = [first, *(one for one in islice(runs(library.place.state), _RECENT) if one.started.parent == first.run)]
    if first.started.agent == IMPROVER:
        return ()
    if any(watch(library, trace) for trace in traces):
        library = library.reload()
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


def improve_named(library: Library, name: str, run: str, terms: Terms) -> Improved:
    """What a person asks for: one skill, from one run, or from all the recent ones that used it."""
    verdict = library.find(name)
    skill = verdict.skill
    if not verdict.usable:
        raise Refused(f"`{name}` may not run here, so it is not improved", f"`metier why {name}` says why", skill.path)
    if run:
        traces = [trace_of(journal_of(library.place.state, run))]
        if traces[0].started.agent == IMPROVER:
            raise Refused(f"the run {traces[0].run} is the improver's own", "name a run of the skill")
        if skill.name not in traces[0].skills:
            raise BadRequest(f"the run {traces[0].run} did not use `{skill.name}`", "`metier runs` says what used what")
    else:
        traces = _since_it_changed(library, skill)
    return improve_skill(library, skill, traces, terms._replace(asked=True))


def _since_it_changed(library: Library, skill: Skill) -> list[Trace]:
    """The recent runs that used a skill as it is now."""
    changed = skill.key[1] / 1e9
    recent = islice(runs(library.place.state), _RECENT)
    return [one for one in recent if skill.name in one.skills and one.at >= changed]


def improve_skill(library: Library, skill: Skill, traces: Sequence[Trace], terms: Terms) -> Improved:
    """By rule first; then, for what is left, by a model."""
    mode = mode_of(library, skill)
    if mode == "off" and not terms.asked:
        return Improved(skill.name, words="improve.mode is off")
    if skill.id == improver.NAME:
        return Improved(skill.name, words="the improver does not improve itself")
    files = contents(skill.directory)
    every = _faults(library, skill, files, traces)
    if not terms.asked and (not every or (mode != "auto" and all(fault.bridged for fault in every))):
        return Improved(skill.name, words="nothing that failed is the skill's own fault")
    if not terms.asked and mode != "auto":  # one run says too little: all that used it as it is now are looked at
        traces = _since_it_changed(library, skill)
        every = _faults(library, skill, files, traces)
    faults = _each_once(every)
    tired = "" if terms.wish else _tired(library, skill, files, faults, terms.asked)
    if tired:
        return Improved(skill.name, words=tired)
    made: list[Proposal] = []
    again: Proposal | None = None
    fixed = fixes.fix(files.texts, known_of(library, skill, files.texts), faults, around(library, traces))
    if fixed.what:
        draft = Draft(files.texts, fixed.files, modelled=False)
        again = accept.same_change(_past(library, skill), files.digest, draft)
        if again is None:
            made.append(_settled(library, skill, Work(files, draft, fixed.cured, fixed.what, traces), terms))
            if made[-1].standing != "accepted" or terms.dry:
                return Improved(skill.name, tuple(made), _FIRST if terms.wish else "")
            library = library.reload()
            skill = library.find(skill.name).skill
        elif again.standing == "waiting" and not terms.wish:
            return Improved(skill.name, words=_told(again))
    left = tuple(fault for fault in fixed.left if not fault.bridged)
    words = "" if fixed.what and not left and not terms.wish else _not_yet(mode, left, every, terms)
    if again is not None and not terms.wish:  # what was refused stays so; what it left open may still be put right
        words = (_tired(library, skill, files, left, terms.asked) if left else _told(again)) or words
    if not words and (left or terms.wish):
        made.append(_by_model(library, skill, left, traces, terms))
    return Improved(skill.name, tuple(made), "" if made else words)


def _past(library: Library, skill: Skill) -> list[Proposal]:
    return [one for one in store.proposals(library.place.state) if one.skill == skill.name]


def _told(again: Proposal) -> str:
    return f"the same was proposed before: {again.id} ({again.standing}); --wish says what should be different"


def _tired(library: Library, skill: Skill, files: Contents, faults: Sequence[Fault], asked: bool) -> str:
    past = _past(library, skill)
    if not asked:
        return accept.worn_out(past, files.digest, faults, today()[:10])
    same = accept.same_before(past, files.digest, faults) if faults else None
    return "" if same is None else _told(same)


def _faults(library: Library, skill: Skill, files: Contents, traces: Sequence[Trace]) -> list[Fault]:
    known, beside = known_of(library, skill, files.texts), around(library, traces)
    return [fault for trace in traces for fault in notice(trace, {skill.name: known}, beside)]


def _each_once(every: Sequence[Fault]) -> tuple[Fault, ...]:
    found: dict[tuple[str, str, str], Fault] = {}
    for fault in every:
        before = found.get(fault.key)
        found[fault.key] = fault if before is None else before._replace(times=before.times + fault.times)
    return tuple(found.values())


def _not_yet(mode: Improving, left: Sequence[Fault], every: Sequence[Fault], terms: Terms) -> str:
    """Why no model is asked; empty where one is."""
    if not left and not terms.wish:
        return "nothing failed that is the skill's own fault; --wish says what else should be better"
    if terms.model is None:
        return f"{'what is left' if left else 'a wish'} needs a model, and there is no model"
    if terms.asked:
        return ""
    failed = [fault for fault in every if not fault.bridged]
    if mode == "auto" or accept.clustered(failed):
        return ""
    return f"it failed {sum(one.times for one in failed)}×: too little to rewrite it for; ask by name to do it anyway"


def _by_model(
    library: Library, skill: Skill, left: tuple[Fault, ...], traces: Sequence[Trace], terms: Terms
) -> Proposal:
    assert terms.model is not None
    faults = left or (Fault("asked", skill.name, terms.wish or "look it over", ""),)
    files = contents(skill.directory)  # as it is before: what somebody edits meanwhile is not replaced
    made = improver.written(library, terms.model, skill, faults, terms)
    if terms.asked and made.ended.outcome == "failed":  # whoever asked is told; there is nothing to read later
        raise ModelError(made.ended.text, made.ended.hint, made.ended.reason)
    draft = Draft(made.before.texts, made.after.texts, tuple(odd(made.before, made.after)))
    words = (made.ended.text.strip() or "the improver said nothing",)
    ended = "" if made.ended.outcome == "finished" else f"{made.ended.outcome}: {made.ended.text}"
    return _settled(library, skill, Work(files, draft, faults, words, traces, made.run, ended), terms)


def _settled(library: Library, skill: Skill, work: Work, terms: Terms) -> Proposal:
    """A draft, checked, written down, and put in place if nobody has to decide."""
    changed = work.draft.changed
    by_rule = not work.draft.modelled
    proposal = Proposal(
        new_name(), skill.name, skill.directory, skill.origin.path, work.files.digest,
        {path: work.draft.before[path] for path in changed if path in work.draft.before},
        {path: work.draft.after[path] for path in changed if path in work.draft.before},
        work.faults, "fix" if by_rule else "model", work.what, tuple(gates_of(library, skill, work, terms)), by=work.by,
    )  # fmt: skip
    standing, note = accept.standing(proposal, mode_of(library, skill), owned(library, skill))
    checked = replace(proposal, standing=standing, note=note)
    if terms.dry:
        return checked
    if standing == "accepted":
        return land(library, store.keep(library.place.state, replace(checked, standing="waiting")))
    return store.keep(library.place.state, checked)

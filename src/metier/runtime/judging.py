"""A draft of a skill, judged: every check, those that cost a model's time only where the others let it through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..improve import check, store
from ..improve.check import Draft
from ..improve.notice import Known
from ..improve.texts import SKILL, proses
from ..record.trace import Trace
from ..types.errors import BadRequest
from ..types.proposal import Fault, Gate, Proposal
from ..types.skill import Skill
from . import improver
from .examining import Contents, around, contents, known_of, look, mode_of, read_again

if TYPE_CHECKING:
    from ..types.model import Model
    from .library import Library


class Terms(NamedTuple):
    """How it is asked for."""

    model: Model | None = None
    asked: bool = False
    """A person asked for it by the skill's name."""
    dry: bool = False
    """Nothing is written down or put in place."""
    wish: str = ""


class Work(NamedTuple):
    files: Contents
    draft: Draft
    faults: tuple[Fault, ...]
    what: tuple[str, ...]
    traces: Sequence[Trace]
    by: str = ""
    ended: str = ""
    """How the improver ended, where it did not finish."""


def gates_of(library: Library, skill: Skill, work: Work, terms: Terms) -> list[Gate]:
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


def _replayed(library: Library, skill: Skill, work: Work, terms: Terms) -> Gate:
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
    from .inspecting import neighbours, thefts

    changed = read_again(library, skill, draft.after[SKILL])
    if changed is None:
        return Gate("triggers", "no", "its description can't be read")
    before = {(one.owner.path, one.prompt) for one in thefts(library, skill, neighbours(library, skill))}
    near = neighbours(library, changed)
    new = [one for one in thefts(library, changed, near) if (one.owner.path, one.prompt) not in before]
    if new:
        return Gate("triggers", "no", f"it would be chosen for “{new[0].prompt}”, which is for `{new[0].owner.name}`")
    return Gate("triggers", "yes", "its neighbours keep their prompts")


def odd(before: Contents, after: Contents) -> list[str]:
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

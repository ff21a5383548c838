"""The improver: after a run, find the skills at fault, propose changes, and put them through the gates.

It runs in a process of its own once the answer has been given, so that no user waits for it and no failure of it
reaches them.  Fixes by rule come first; a model gets what they leave, and only if enough failed or a user asked
(`diagnose/clusters.py`).  One proposal is decided before the next is made, as a fix may change what a model would see.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..diagnose.clusters import counted_faults, is_cluster
from ..diagnose.notice import find_faults
from ..diagnose.steps import is_open
from ..diagnose.texts import SKILL_FILE
from ..host import fs
from ..host.facts import new_name, utc_timestamp
from ..record.journal import Journal, find_journal, runs_folder
from ..record.trace import Trace, TraceFollower, read_trace, read_traces
from ..types.agent import IMPROVER
from ..types.dialect import ImprovementMode
from ..types.errors import BadRequest, MetierError, ModelError, Refused
from ..types.event import Nested, Used
from ..types.improvement import BlamedParty, GateResult, Proposal, SkillFault
from ..types.skill import Skill
from . import fix_rules, gates, land, proposal_store, propose
from .budget import MeteredModel, why_no_requests
from .examine import (
    FolderContents,
    improve_mode,
    inspect_texts,
    is_user_written,
    observe_skill,
    parse_edited_skill,
    read_contents,
    tool_environment,
)
from .gates import SkillDraft
from .land import land_proposal, update_watched

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ..library.library import Library
    from ..types.model import Model


# --- After a run ---


def after_run_hook(library: Library, model: str = "") -> Callable[[str], None]:
    """A function to call with the id of a run when a turn of it ends; it starts a process, and returns at once."""
    followed: dict[str, TraceFollower] = {}

    def ended(run: str) -> None:
        if run not in followed:
            followed[run] = TraceFollower(Journal(f"{runs_folder(library.place.state)}/{run}.jsonl"))
        try:
            needs_review = run_needs_review(library, *followed[run].follow())
        except (MetierError, OSError):
            return  # the run has been answered: no error of what follows may reach the user
        if needs_review:
            from ..host.daemon import start_metier

            place = library.place
            arguments = ["--project", place.cwd, *(("--profile", place.profile) if place.profile else ())]
            arguments += ["--dialect", library.dialect.name, "improve", "--after", run]
            start_metier([*arguments, *(("--model", model) if model else ())], place.cwd, place.env)

    return ended


def run_needs_review(library: Library, new: Trace, trace: Trace) -> bool:
    """Whether the new part of a run has news of its skills: a fault, or a change that is being watched."""
    inner = [event.event for event in new.events if isinstance(event, Nested)]
    delegated = any(isinstance(event, Used) and event.failed for event in inner)
    names = trace.skills
    if not names and not delegated:
        return False
    # Imported late: most runs return above.
    from ..diagnose.notice import find_faults, may_show_fault
    from . import proposal_store
    from .examine import improve_mode, observe_skill, read_contents, tool_environment

    if any(
        proposal.watched is not None and proposal.skill in names
        for proposal in proposal_store.list_proposals(library.place.state)
    ):
        return True
    if not may_show_fault(new):
        return delegated  # before the folders of its skills are read and hashed
    environment = tool_environment(library, (trace,))
    for name in names:
        try:
            skill = library.find(name).skill
        except MetierError:
            continue
        mode = improve_mode(library, skill)
        if mode != "off":
            observed = observe_skill(library, skill, read_contents(skill.directory).texts)
            if any(
                mode == "auto" or not fault.bridged for fault in find_faults(trace, {skill.name: observed}, environment)
            ):
                return True
    return delegated


class ImproveOptions(NamedTuple):
    """How an improvement is requested."""

    model: Model | None = None
    asked: bool = False
    """A user asked for it, by the name of the skill."""
    dry: bool = False
    """Store nothing and change nothing."""
    wish: str = ""


class ImproveAttempt(NamedTuple):
    """A draft, and what it was made from."""

    files: FolderContents
    draft: SkillDraft
    faults: tuple[SkillFault, ...]
    what: tuple[str, ...]
    traces: Sequence[Trace]
    by: str = ""
    ended: str = ""
    """How the improver ended, if it did not finish."""
    calls: Mapping[tuple[str, str, str], str] = {}
    """What a rule made of the calls that failed."""


# --- Gates ---


def judge_attempt(library: Library, skill: Skill, work: ImproveAttempt, terms: ImproveOptions) -> list[GateResult]:
    """Put a draft through the gates; those that need a model only if all others pass."""
    draft = work.draft
    if work.ended:
        return [GateResult("improver", "no", work.ended)]
    if not draft.changed and not draft.odd:
        return [GateResult("improver", "no", "it changed nothing")]
    marks = work.files.marks
    before, after = inspect_texts(skill, draft.before, marks), inspect_texts(skill, draft.after, marks)
    results = list(gates.static_gates(draft, before, after, work.faults))
    if any(gate.says == "no" for gate in results):
        return results
    results.append(_replay_gate(library, skill, work, terms))
    if gates.changes_description(draft):
        results.append(_triggers_gate(library, skill, draft))
    if not any(gate.says == "no" for gate in results):
        from .evaluate import prove_by_evals

        gate = prove_by_evals(library, skill, draft, terms.model, improve_mode(library, skill))
        results += [gate] if gate is not None else []
    return results


def _replay_gate(library: Library, skill: Skill, work: ImproveAttempt, terms: ImproveOptions) -> GateResult:
    """Replay the faults with the old and the new files."""
    from .proofs import ReplayAttempt, prove_by_replay

    draft = work.draft
    attempt = ReplayAttempt(work.files, draft.before, draft.after, work.faults, work.traces, work.calls, draft.modelled)
    return prove_by_replay(library, skill, attempt, terms.model)


_NEIGHBORS = 20
"""The nearest skills that a new description is held against."""


def _triggers_gate(library: Library, skill: Skill, draft: SkillDraft) -> GateResult:
    """A new description must not take prompts away from similar skills: real ones, and those that they are for."""
    from ..library.overlap import find_stolen_prompts, neighbor_skills

    changed = parse_edited_skill(library, skill, draft.after[SKILL_FILE])
    if changed is None:
        return GateResult("triggers", "no", "the changed skill does not load")
    asked = _asked_prompts(library)
    # Nearest to the old text and to the new: a description may move towards skills that it was far from.
    near = {
        owner.path: owner for version in (skill, changed) for owner in neighbor_skills(library, version, _NEIGHBORS)
    }
    prompts = {
        path: (*described_prompts(owner.description), *asked.get(owner.name, ())) for path, owner in near.items()
    }
    lost = [
        {
            (theft.owner.path, theft.prompt): theft
            for theft in find_stolen_prompts(library, version, [*near.values()], prompts)
        }
        for version in (skill, changed)
    ]
    new = [theft for key, theft in lost[1].items() if key not in lost[0]]
    if new:
        return GateResult(
            "triggers", "no", f"it would be chosen for “{new[0].prompt}”, which is for `{new[0].owner.name}`"
        )
    return GateResult("triggers", "yes", f"{len(near)} similar skills keep their prompts")


def _asked_prompts(library: Library) -> dict[str, tuple[str, ...]]:
    """What skills were used for lately, by their names."""
    asked: dict[str, tuple[str, ...]] = {}
    for trace in islice(read_traces(library.place.state), _RECENT_RUNS):
        if trace.task and not trace.task.startswith("/"):
            for name in trace.skills:
                asked[name] = (*asked.get(name, ()), trace.task)
    return asked


def described_prompts(description: str) -> tuple[str, ...]:
    """Requests made from a description: its sentences, which say what the skill is for."""
    return tuple(
        part for sentence in _sentence_end.split(description) if len((part := sentence.strip(" .;")).split()) > 1
    )


_sentence_end = re.compile(r"[.;!?]\s+|\n+| [Uu]se (?:this )?(?:when|for|if|to) ")


def unexpected_changes(before: FolderContents, after: FolderContents) -> list[str]:
    """The differences between two folders, other than in the text of existing files."""
    texts = {*before.texts} & {*after.texts}
    changes = [f"{path} was removed" for path in before.marks if path not in after.marks]
    for path, mark in after.marks.items():
        was = before.marks.get(path)
        if was is None:
            changes.append(f"{path} was added")
        elif was.mode != mark.mode:
            changes.append(f"{path} has another mode")
        elif was.digest != mark.digest and path not in texts:
            changes.append(f"{path} is binary and was changed")
    return changes


# --- Edits by a user ---


def edit_proposal(library: Library, proposal: Proposal, after: Mapping[str, str]) -> Proposal:
    """Replace the text of a waiting proposal with a user's; one that fails a gate is refused."""
    if proposal.standing != "waiting":
        raise BadRequest(f"the proposal {proposal.id} is {proposal.standing}", "only a waiting one can be edited")
    skill = next((candidate for candidate in library.skills if candidate.directory == proposal.folder), None)
    files = read_contents(proposal.folder)
    if skill is None or files.digest != proposal.base:
        raise BadRequest(f"`{proposal.skill}` has changed since the proposal was made", "propose again")
    before = files.texts
    draft = SkillDraft(before, {**before, **after}, modelled=False)
    inspections = inspect_texts(skill, draft.before, files.marks), inspect_texts(skill, draft.after, files.marks)
    # A user may quote a tool's answer: the gate against it is for models.
    results = [gate for gate in gates.static_gates(draft, *inspections, ()) if gate.name != "own words"]
    wrong = [gate for gate in results if gate.says == "no"]
    if wrong:
        raise BadRequest(f"the edit is refused: {wrong[0].name}: {wrong[0].words}", "edit it again")
    if not draft.changed:
        raise BadRequest("the edit changes nothing in the skill", "reject the proposal instead")
    changed = {path: draft.after[path] for path in draft.changed}
    edited_proposal = replace(
        proposal,
        before={path: before[path] for path in changed},
        after=changed,
        gates=tuple(results),
        what=(*proposal.what, "edited by a person"),
        note="edited: accept it to apply it",
    )
    return proposal_store.write_proposal(library.place.state, edited_proposal)


# --- Improving ---

_RECENT_RUNS = 100
"""Runs that are searched for faults of the same kind."""
_DECIDE_FIRST = "decide on this one first, then repeat --wish: it is applied to the skill as it is then"


class ImproveResult(NamedTuple):
    """The result for one skill."""

    skill: str
    proposals: tuple[Proposal, ...] = ()
    words: str = ""
    """Why there is no proposal, or no further one."""


def improve_after_run(library: Library, run: str, terms: ImproveOptions) -> tuple[ImproveResult, ...]:
    """Judge the watched changes after a run, and improve each skill at fault."""
    if terms.model is not None:
        terms = terms._replace(model=MeteredModel(terms.model, library, limited=True))
    with _improvement_lock(library):
        return _improve_after_run(library, run, terms)


def _improvement_lock(library: Library) -> AbstractContextManager[None]:
    """One improvement at a time: two runs that end at once, or a run and a person, must not propose the same."""
    return fs.hold_lock(f"{proposal_store.proposals_folder(library.place.state)}/.lock")


def _improve_after_run(library: Library, run: str, terms: ImproveOptions) -> tuple[ImproveResult, ...]:
    first = read_trace(find_journal(library.place.state, run))
    traces = [
        first,
        *(
            trace
            for trace in islice(read_traces(library.place.state), _RECENT_RUNS)
            if trace.started.parent == first.run
        ),
    ]
    # The improver is not improved by its own runs: that would not end.
    if first.started.agent == IMPROVER:
        return ()
    settled = land.settle_interrupted(library)
    judged = [proposal for trace in traces for proposal in update_watched(library, trace)]
    if settled or judged:
        library = library.reload()
    results = []
    for name in dict.fromkeys(name for trace in traces for name in trace.skills):
        try:
            verdict = library.find(name)
        except MetierError:
            continue
        if verdict.usable:
            results.append(improve_skill(library, verdict.skill, traces, terms))
            library = library.reload() if results[-1].proposals else library
    return tuple(results)


def improve_named(library: Library, name: str, run: str, terms: ImproveOptions) -> ImproveResult:
    """Improve a skill on request, from one run or from all recent ones that used it."""
    if terms.model is not None and not terms.dry:
        terms = terms._replace(model=MeteredModel(terms.model, library, limited=False))
    if terms.dry:
        return _improve_named(library, name, run, terms)
    with _improvement_lock(library):
        # Whoever was waited for may have changed the skill.
        return _improve_named(library.reload(), name, run, terms)


def _improve_named(library: Library, name: str, run: str, terms: ImproveOptions) -> ImproveResult:
    if not terms.dry:
        land.settle_interrupted(library)
    verdict = library.find(name)
    skill = verdict.skill
    if not verdict.usable:
        raise Refused(f"`{name}` may not run here", f"run `metier why {name}` for the reason", skill.path)
    if run:
        traces = [read_trace(find_journal(library.place.state, run))]
        if traces[0].started.agent == IMPROVER:
            raise Refused(f"the run {traces[0].run} is the improver's own", "name a run that used the skill")
        if skill.name not in traces[0].skills:
            raise BadRequest(
                f"the run {traces[0].run} did not use `{skill.name}`", "`metier runs` lists the skills of each run"
            )
    else:
        traces = _runs_since_change(library, skill)
    return improve_skill(library, skill, traces, terms._replace(asked=True))


def _runs_since_change(library: Library, skill: Skill) -> list[Trace]:
    """The recent runs since the skill was last changed."""
    # Runs before the last change say nothing about the text as it is; the key holds its time in nanoseconds.
    changed = skill.key[1] / 1e9
    recent = islice(read_traces(library.place.state), _RECENT_RUNS)
    return [trace for trace in recent if skill.name in trace.skills and trace.at >= changed]


def improve_skill(library: Library, skill: Skill, traces: Sequence[Trace], terms: ImproveOptions) -> ImproveResult:
    """Improve a skill by rule, then by a model for what is left."""
    mode = improve_mode(library, skill)
    if mode == "off" and not terms.asked:
        return ImproveResult(skill.name, words="improve.mode is off")
    # A skill that rewrites the rules for rewriting skills would undo every other limit.
    if skill.id == propose.IMPROVER_SKILL:
        return ImproveResult(skill.name, words="the improver does not improve itself")
    files = read_contents(skill.directory)
    land.note_taken_back(library, skill, files.texts)
    all_faults = _noticed_faults(library, skill, files, traces)
    if not terms.asked:
        traces, all_faults = _count_faults(library, skill, files, (traces, all_faults))
    if not terms.asked and (not all_faults or (mode != "auto" and all(fault.bridged for fault in all_faults))):
        return ImproveResult(skill.name, words="no failure is shown to be the skill's fault")
    faults = _merge_faults(all_faults)
    why_not = "" if terms.wish else _why_not_again(library, skill, files, faults, terms.asked)
    if why_not:
        return ImproveResult(skill.name, words=why_not)
    proposals: list[Proposal] = []
    again: Proposal | None = None
    fixed = fix_rules.apply_fixes(
        files.texts, observe_skill(library, skill, files.texts), faults, tool_environment(library, traces)
    )
    if fixed.what:
        draft = SkillDraft(files.texts, fixed.files, modelled=False)
        again = land.find_same_change(_past_proposals(library, skill), files.digest, draft)
        if again is None:
            proposals.append(
                _settle_proposal(
                    library,
                    skill,
                    ImproveAttempt(files, draft, fixed.cured, fixed.what, traces, calls=fixed.calls),
                    terms,
                )
            )
            if proposals[-1].standing != "accepted" or terms.dry:
                return ImproveResult(skill.name, tuple(proposals), _DECIDE_FIRST if terms.wish else "")
            # The fix is in place: the model gets the fixed text.
            library = library.reload()
            skill = library.find(skill.name).skill
        elif again.standing == "waiting" and not terms.wish:
            return ImproveResult(skill.name, words=_repeat_message(again))
    open_faults = tuple(fault for fault in fixed.left if not fault.bridged)
    reason = (
        "" if fixed.what and not open_faults and not terms.wish else _why_no_model(mode, open_faults, all_faults, terms)
    )
    # The fix was refused before, but what it left may still be fixed.
    if again is not None and not terms.wish:
        reason = (
            _why_not_again(library, skill, files, open_faults, terms.asked) if open_faults else _repeat_message(again)
        ) or reason
    if not reason and (open_faults or terms.wish):
        proposals.append(_propose_by_model(library, skill, open_faults, traces, terms))
    return ImproveResult(skill.name, tuple(proposals), "" if proposals else reason)


def _count_faults(
    library: Library, skill: Skill, files: FolderContents, noticed: tuple[Sequence[Trace], list[SkillFault]]
) -> tuple[Sequence[Trace], list[SkillFault]]:
    """The faults that count without anybody asking, and the runs that show them."""
    traces, faults = noticed
    if not faults:
        return traces, faults
    # One run is too little evidence: add those since its last change.
    names = {trace.run for trace in traces}
    traces = [*traces, *(trace for trace in _runs_since_change(library, skill) if trace.run not in names)]
    every, known = [], dict[tuple[str, str], BlamedParty]()
    for fault in _noticed_faults(library, skill, files, traces):
        # The same call is run once, in however many runs it failed.
        if (fault.call, fault.text) not in known:
            known[fault.call, fault.text] = _reproduced(library, skill, files, fault).party
        every.append(fault._replace(party=known[fault.call, fault.text]) if fault.party == "unknown" else fault)
    return traces, counted_faults(every, traces, skill.directory)


def _reproduced(library: Library, skill: Skill, files: FolderContents, fault: SkillFault) -> SkillFault:
    """A fault of the skill's own script is the skill's if it fails the same without any input of the user's."""
    from .rerun import RerunCall, fails_by_itself, starts_own_script

    # What the text gives as it stands; with something filled in, that may be the reason.
    stated, called = fault.about.split(), fault.call.split()
    filled = any(is_open(word) for word in stated) or not 0 <= len(stated) - len(called) <= 1
    if fault.party != "unknown" or filled or not starts_own_script(fault.call, skill.directory, files.texts):
        return fault
    call = RerunCall(fault.call, fault.tool, "")
    return fault._replace(party="skill") if fails_by_itself(library, skill, files, call, fault.text) else fault


def _past_proposals(library: Library, skill: Skill) -> list[Proposal]:
    return [proposal for proposal in proposal_store.list_proposals(library.place.state) if proposal.skill == skill.name]


def _repeat_message(again: Proposal) -> str:
    return f"the same was proposed before: {again.id} ({again.standing}); say what should be different with --wish"


def _why_not_again(
    library: Library, skill: Skill, files: FolderContents, faults: Sequence[SkillFault], on_request: bool
) -> str:
    past = _past_proposals(library, skill)
    if not on_request:
        return land.reason_to_wait(past, files.digest, faults, utc_timestamp()[:10])
    same = land.find_same_faults(past, files.digest, faults) if faults else None
    return "" if same is None else _repeat_message(same)


def _noticed_faults(library: Library, skill: Skill, files: FolderContents, traces: Sequence[Trace]) -> list[SkillFault]:
    observed, environment = observe_skill(library, skill, files.texts), tool_environment(library, traces)
    return [fault for trace in traces for fault in find_faults(trace, {skill.name: observed}, environment)]


def _merge_faults(all_faults: Sequence[SkillFault]) -> tuple[SkillFault, ...]:
    merged: dict[tuple[str, str, str], SkillFault] = {}
    for fault in all_faults:
        before = merged.get(fault.key)
        merged[fault.key] = fault if before is None else before._replace(times=before.times + fault.times)
    return tuple(merged.values())


def _why_no_model(
    mode: ImprovementMode, open_faults: Sequence[SkillFault], all_faults: Sequence[SkillFault], terms: ImproveOptions
) -> str:
    """Why no model is asked; empty if one is."""
    if not open_faults and not terms.wish:
        return "no failure is the skill's fault; say what else to improve with --wish"
    if terms.model is None:
        return f"{'what is left' if open_faults else '--wish'} needs a model, and none is configured"
    if terms.asked:
        return ""
    failed = [fault for fault in all_faults if not fault.bridged]
    # An unexplained fault counts only as a cluster, so there is one already.
    if mode == "auto" or is_cluster(failed) or any(fault.party == "unknown" for fault in failed):
        return why_no_requests(terms.model)
    count = sum(fault.times for fault in failed)
    return f"{count} failures are too few to rewrite it; `metier improve NAME` does it anyway"


def _propose_by_model(
    library: Library, skill: Skill, open_faults: tuple[SkillFault, ...], traces: Sequence[Trace], terms: ImproveOptions
) -> Proposal:
    assert terms.model is not None
    faults = open_faults or (SkillFault("asked", skill.name, terms.wish or "review it", ""),)
    # Read before the improver runs: an edit made meanwhile must not be replaced.
    files = read_contents(skill.directory)
    result = propose.run_improver(library, terms.model, skill, faults, terms.wish, terms.dry)
    # The user is waiting: report it instead of storing it.
    if terms.asked and result.ended.outcome == "failed":
        raise ModelError(result.ended.text, result.ended.hint, result.ended.reason)
    draft = SkillDraft(result.before.texts, result.after.texts, tuple(unexpected_changes(result.before, result.after)))
    summary = (result.ended.text.strip() or "the improver gave no summary",)
    ended = "" if result.ended.outcome == "finished" else f"{result.ended.outcome}: {result.ended.text}"
    return _settle_proposal(
        library, skill, ImproveAttempt(files, draft, faults, summary, traces, result.run, ended), terms
    )


def _settle_proposal(library: Library, skill: Skill, work: ImproveAttempt, terms: ImproveOptions) -> Proposal:
    """Check and store a draft, and apply it if nobody has to decide."""
    changed = work.draft.changed
    by_rule = not work.draft.modelled
    proposal = Proposal(
        new_name(),
        skill.name,
        skill.directory,
        skill.origin.path,
        work.files.digest,
        {path: work.draft.before[path] for path in changed if path in work.draft.before},
        {path: work.draft.after[path] for path in changed if path in work.draft.before},
        work.faults,
        "fix" if by_rule else "model",
        work.what,
        tuple(judge_attempt(library, skill, work, terms)),
        by=work.by,
    )
    standing, note = land.decide_status(proposal, improve_mode(library, skill), is_user_written(library, skill))
    checked = replace(proposal, standing=standing, note=note)
    if terms.dry:
        return checked
    # Stored as waiting before it is applied: after a crash in between, a person finds it and decides.
    if standing == "accepted":
        return land_proposal(
            library, proposal_store.write_proposal(library.place.state, replace(checked, standing="waiting"))
        )
    return proposal_store.write_proposal(library.place.state, checked)

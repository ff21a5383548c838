"""Accept: who decides about a proposal, how often one is made, and whether an accepted one does better or worse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ..host import paths
from ..install import transaction
from ..install.managed import SkillEdit, apply_edit, managed_skill
from ..record import history
from ..record.history import SkillVersion
from ..record.trace import Trace, read_traces
from ..schedule.runner import preserve_agreements
from ..sources.skill_files import SkillFiles
from ..types.dialect import ImprovementMode
from ..types.errors import BadRequest, MetierError, UnknownSkill
from ..types.improvement import Proposal, ProposalStatus, SkillFault
from ..types.skill import Skill
from . import store
from .examine import observe_skill, read_contents, tool_environment
from .gates import SkillDraft
from .notice import find_faults

if TYPE_CHECKING:
    from ..library.library import Library


WATCHED_RUNS = 10
"""Runs that an accepted change is watched for."""
_ENOUGH_FAILED = 2
"""Failed runs that say something."""
MOST_PER_DAY = 3
"""Proposals for one skill in a day, made without being asked for."""
CLUSTER_FAULTS, CLUSTER_RUNS = 3, 2
"""Outside `auto`, a model is asked only when so many failures came together, in so many runs."""
_NOT_TAKEN = ("waiting", "refused", "rejected", "rolled-back")


def decide_status(proposal: Proposal, mode: ImprovementMode, owned: bool) -> tuple[ProposalStatus, str]:
    """Where a checked proposal goes, and why there."""
    if proposal.failed:
        return "refused", "; ".join(f"{gate.name}: {gate.words}" for gate in proposal.failed)
    asking = [gate for gate in proposal.gates if gate.says == "person"]
    if asking:
        return "waiting", "; ".join(f"{gate.name}: {gate.words}" for gate in asking)
    if mode != "auto":
        return "waiting", "improve.mode is review: a person decides"
    if not owned:
        return "waiting", "others wrote this skill: a person decides"
    return "accepted", ""


def is_cluster(faults: Sequence[SkillFault]) -> bool:
    """Whether enough came together to ask a model: often enough, and in more than one run."""
    return (
        sum(fault.times for fault in faults) >= CLUSTER_FAULTS and len({fault.run for fault in faults}) >= CLUSTER_RUNS
    )


def reason_to_wait(past: Sequence[Proposal], base: str, faults: Sequence[SkillFault], day: str) -> str:
    """Why nothing more is proposed for a skill now, after what was proposed for it; empty where something may be."""
    if sum(proposal.at.startswith(day) for proposal in past) >= MOST_PER_DAY:
        return f"{MOST_PER_DAY} proposals were made for it today"
    same = find_same_faults(past, base, faults)
    return f"the same was proposed before: {same.id} ({same.standing})" if same else ""


def find_same_faults(past: Iterable[Proposal], base: str, faults: Sequence[SkillFault]) -> Proposal | None:
    """What was proposed for the same faults of the same text, and was not taken."""
    keys = {fault.key for fault in faults}
    for proposal in past:
        same = proposal.base == base and keys <= {fault.key for fault in proposal.because}
        if same and proposal.standing in _NOT_TAKEN:
            return proposal
    return None


def find_same_change(past: Iterable[Proposal], base: str, draft: SkillDraft) -> Proposal | None:
    """The same change of the same text, which was proposed before, whatever else failed, and was not taken."""
    after = {path: draft.after[path] for path in draft.changed if path in draft.after}
    for proposal in past:
        if proposal.base == base and dict(proposal.after) == after and proposal.standing in _NOT_TAKEN:
            return proposal
    return None


class WatchedRun(NamedTuple):
    """A run in which a skill was active, as far as a watch goes."""

    run: str
    failed: bool
    """It did not finish, or the skill was at fault in it."""
    faults: frozenset[tuple[str, str, str]] = frozenset()


WatchVerdict: TypeAlias = Literal["watch", "keep", "roll back"]


def judge_watched_runs(before: Sequence[WatchedRun], after: Sequence[WatchedRun]) -> tuple[WatchVerdict, str]:
    """What the runs since a change say of it, held against the runs before it."""
    bad = [run for run in after if run.failed]
    if len(bad) >= _ENOUGH_FAILED:
        known_faults = frozenset().union(*(run.faults for run in before)) if before else frozenset()
        fresh = [run for run in bad if run.faults - known_faults or not run.faults]
        share = sum(run.failed for run in before) / len(before) if before else 0.0
        if len(bad) / len(after) > share or len(fresh) >= _ENOUGH_FAILED:
            return "roll back", f"{len(bad)} of {len(after)} runs since then failed"
    if len(after) >= WATCHED_RUNS:
        return "keep", f"{len(after)} runs since then, {len(bad)} failed"
    return "watch", ""


def commit_evidence(proposal: Proposal) -> str:
    """What a commit says of it."""
    lines = [f"Proposal: {proposal.id} ({'by rule' if proposal.how == 'fix' else 'by a model'})", *proposal.what]
    lines += [f"Because: {fault.kind} `{fault.about}` in run {fault.run}, {fault.times}×" for fault in proposal.because]
    lines += [f"Check: {gate.name}: {gate.says}{f' ({gate.words})' if gate.words else ''}" for gate in proposal.gates]
    return "\n".join(lines)


_RUNS_BEFORE = 20
"""Runs before a change that it is held against."""
_BLAMED_OUTCOMES = frozenset({"out-of-turns", "repeating"})
"""Ends that a skill may be to blame for; a service that failed, a person's stop and an empty purse are not."""


def land_proposal(library: Library, proposal: Proposal) -> Proposal:
    """Put it in place, if the skill is still the one it was made for.  What can't be kept in the history waits."""
    home = library.place.state
    if not paths.is_folder(proposal.folder) or read_contents(proposal.folder).digest != proposal.base:
        note = "the skill has changed since: propose again"
        return store.write_proposal(home, replace(proposal, standing="stale", note=note))
    try:
        version = _put_texts(library, proposal, proposal.after, "improve", commit_evidence(proposal), proposal.base)
    except MetierError as error:
        note = f"it could not be put in place: {error.message}"
        return store.write_proposal(home, replace(proposal, standing="waiting", note=note))
    rev = version.rev if version else ""
    return store.write_proposal(home, replace(proposal, standing="accepted", rev=rev, watched=(), note=""))


def _put_texts(
    library: Library, proposal: Proposal, texts: Mapping[str, str], act: str, evidence: str, base: str
) -> SkillVersion | None:
    """The skill with these texts.  What is there now is a version first, and tells every other file and its mode."""
    skill = next((candidate for candidate in library.skills if candidate.directory == proposal.folder), None)
    if skill is None:
        raise UnknownSkill(proposal.skill)
    target = managed_skill(library, skill)
    transaction.record_edits(target.install_root, [target.key])
    [now, *_] = history.list_versions(target.repository, target.key, 1)
    files = SkillFiles.from_pairs(history.read_files(target.repository, target.key, now.rev))
    changed = {path: files[path]._replace(data=text.encode("utf-8", "surrogatepass")) for path, text in texts.items()}
    run = next((fault.run for fault in proposal.because if fault.run), "")
    with preserve_agreements(library.place, proposal.folder):
        return apply_edit(target, SkillEdit(SkillFiles({**files, **changed}), act, evidence, run, base))


def take_back_proposal(library: Library, proposal: Proposal, why: str) -> Proposal:
    """What it changed, as it was before; text that somebody changed since then stays theirs."""
    home = library.place.state
    current = read_contents(proposal.folder)
    if any(current.texts.get(path) != text for path, text in proposal.after.items()):
        note = f"{why}; but the skill has changed since, and stays as it is"
        return store.write_proposal(home, replace(proposal, watched=None, note=note))
    evidence = f"Proposal {proposal.id} is taken back: {why}"
    try:
        _put_texts(library, proposal, proposal.before, "rollback", evidence, current.digest)
    except MetierError as error:
        return store.write_proposal(home, replace(proposal, note=f"{why}; it can't be taken back yet: {error.message}"))
    return store.write_proposal(home, replace(proposal, standing="rolled-back", watched=None, note=why))


def update_watched(library: Library, trace: Trace) -> tuple[Proposal, ...]:
    """What a run says of the changes that are watched; those that do worse are taken back."""
    judged = []
    for proposal in store.list_proposals(library.place.state):
        if proposal.watched is None or proposal.standing != "accepted" or proposal.skill not in trace.skills:
            continue
        if trace.run in proposal.watched or trace.run in {fault.run for fault in proposal.because}:
            continue
        try:
            skill = library.find(proposal.skill).skill
        except (UnknownSkill, MetierError):
            continue
        if skill.directory == proposal.folder:
            judged.append(_judge_watched(library, skill, replace(proposal, watched=(*proposal.watched, trace.run))))
    return tuple(judged)


def _judge_watched(library: Library, skill: Skill, proposal: Proposal) -> Proposal:
    since = set(proposal.watched or ())
    every = [trace for trace in read_traces(library.place.state) if proposal.skill in trace.skills]
    after = [trace for trace in every if trace.run in since]
    first = min((trace.at for trace in after), default=0.0)
    before = [trace for trace in every if trace.run not in since and trace.at < first][:_RUNS_BEFORE]
    texts = read_contents(proposal.folder).texts
    old = _watched_runs(library, skill, before, {**texts, **proposal.before})
    verdict, why = judge_watched_runs(old, _watched_runs(library, skill, after, texts))
    if verdict == "roll back":
        return take_back_proposal(library, proposal, why)
    updated = replace(proposal, watched=None, note=why) if verdict == "keep" else proposal
    return store.write_proposal(library.place.state, updated)


def _watched_runs(
    library: Library, skill: Skill, traces: Sequence[Trace], texts: Mapping[str, str]
) -> list[WatchedRun]:
    observed, environment = observe_skill(library, skill, texts), tool_environment(library, traces)
    results = []
    for trace in traces:
        faults = [fault for fault in find_faults(trace, {skill.name: observed}, environment) if not fault.bridged]
        bad = bool(faults) or trace.outcome in _BLAMED_OUTCOMES
        results.append(WatchedRun(trace.run, bad, frozenset(fault.key for fault in faults)))
    return results


def decide_proposal(library: Library, proposal: Proposal, accepted: bool, why: str = "") -> Proposal:
    """A person's word on a proposal that waits."""
    if proposal.standing != "waiting":
        raise BadRequest(
            f"the proposal {proposal.id} is {proposal.standing}: nobody has to decide about it",
            "`metier proposals` lists those that wait",
        )
    if accepted:
        return land_proposal(library, proposal)
    note = why or "a person said no"
    return store.write_proposal(library.place.state, replace(proposal, standing="rejected", note=note))

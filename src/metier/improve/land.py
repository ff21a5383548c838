"""Land: decide who accepts a proposal, apply it, watch the runs after it, and take it back if they get worse.

Gates show that a change is harmless, not that it helps; only later runs do.  So an accepted change is watched for
`WATCHED_RUNS`, and compared with the runs before it.  Two failures take it back if they are more frequent than before
or of a new kind, as going back is cheap and recorded in the history; one does not, as any run may fail.  A change is
applied only to the exact text it was made for, and taken back only while that text still stands: what a user edits in
between is never overwritten.
"""

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
from . import proposal_store
from .examine import observe_skill, read_contents, tool_environment
from .gates import SkillDraft
from .notice import find_faults

if TYPE_CHECKING:
    from ..library.library import Library


WATCHED_RUNS = 10
"""How many runs an accepted change is watched for."""
_ENOUGH_FAILED = 2
"""Failed runs that count as evidence; one may be chance."""
MOST_PER_DAY = 3
"""Unrequested proposals for a skill in a day: a fault that no change cures must not cost a model all day."""
CLUSTER_FAULTS, CLUSTER_RUNS = 3, 2
"""Outside `auto`, a model is asked only after so many failures in so many runs."""
# --- Deciding ---

_NOT_TAKEN = ("waiting", "refused", "rejected", "rolled-back")


def decide_status(proposal: Proposal, mode: ImprovementMode, owned: bool) -> tuple[ProposalStatus, str]:
    """The status of a checked proposal, and the reason."""
    if proposal.failed:
        return "refused", "; ".join(f"{gate.name}: {gate.words}" for gate in proposal.failed)
    # In this order: a gate that wants a person is not overruled by `auto`, nor by who wrote the skill.
    asking = [gate for gate in proposal.gates if gate.says == "person"]
    if asking:
        return "waiting", "; ".join(f"{gate.name}: {gate.words}" for gate in asking)
    if mode != "auto":
        return "waiting", "improve.mode is review: a person decides"
    if not owned:
        return "waiting", "others wrote this skill: a person decides"
    return "accepted", ""


def is_cluster(faults: Sequence[SkillFault]) -> bool:
    """Whether enough failed to ask a model, and in more than one run."""
    return (
        sum(fault.times for fault in faults) >= CLUSTER_FAULTS and len({fault.run for fault in faults}) >= CLUSTER_RUNS
    )


def reason_to_wait(past: Sequence[Proposal], base: str, faults: Sequence[SkillFault], day: str) -> str:
    """Why nothing is proposed for a skill now, given its past proposals; empty if something may be."""
    if sum(proposal.at.startswith(day) for proposal in past) >= MOST_PER_DAY:
        return f"{MOST_PER_DAY} proposals were made for it today"
    same = find_same_faults(past, base, faults)
    return f"the same was proposed before: {same.id} ({same.standing})" if same else ""


def find_same_faults(past: Iterable[Proposal], base: str, faults: Sequence[SkillFault]) -> Proposal | None:
    """A proposal for the same faults of the same text that was not accepted."""
    # A subset: a proposal for these faults and others has answered these as well.
    keys = {fault.key for fault in faults}
    for proposal in past:
        same = proposal.base == base and keys <= {fault.key for fault in proposal.because}
        if same and proposal.standing in _NOT_TAKEN:
            return proposal
    return None


def find_same_change(past: Iterable[Proposal], base: str, draft: SkillDraft) -> Proposal | None:
    """A proposal of the same change of the same text that was not accepted, whatever faults it was for."""
    after = {path: draft.after[path] for path in draft.changed if path in draft.after}
    for proposal in past:
        if proposal.base == base and dict(proposal.after) == after and proposal.standing in _NOT_TAKEN:
            return proposal
    return None


# --- Watching ---


class WatchedRun(NamedTuple):
    """A run that used a skill, as far as watching needs it."""

    run: str
    failed: bool
    """It did not finish, or shows a fault of the skill."""
    faults: frozenset[tuple[str, str, str]] = frozenset()


WatchVerdict: TypeAlias = Literal["watch", "keep", "roll back"]


def judge_watched_runs(before: Sequence[WatchedRun], after: Sequence[WatchedRun]) -> tuple[WatchVerdict, str]:
    """Judge a change by the runs since, compared with those before."""
    bad = [run for run in after if run.failed]
    if len(bad) >= _ENOUGH_FAILED:
        known_faults = frozenset().union(*(run.faults for run in before)) if before else frozenset()
        # New kinds of faults count even if failures are no more frequent: the change traded one fault for another.
        fresh = [run for run in bad if run.faults - known_faults or not run.faults]
        share = sum(run.failed for run in before) / len(before) if before else 0.0
        if len(bad) / len(after) > share or len(fresh) >= _ENOUGH_FAILED:
            return "roll back", f"{len(bad)} of {len(after)} runs since then failed"
    if len(after) >= WATCHED_RUNS:
        return "keep", f"{len(after)} runs since then, {len(bad)} failed"
    return "watch", ""


def commit_evidence(proposal: Proposal) -> str:
    """The message for the commit in the history."""
    lines = [f"Proposal: {proposal.id} ({'by rule' if proposal.how == 'fix' else 'by a model'})", *proposal.what]
    lines += [f"Because: {fault.kind} `{fault.about}` in run {fault.run}, {fault.times}×" for fault in proposal.because]
    lines += [f"Check: {gate.name}: {gate.says}{f' ({gate.words})' if gate.words else ''}" for gate in proposal.gates]
    return "\n".join(lines)


# --- Applying ---

_RUNS_BEFORE = 20
"""Runs before a change that it is compared with."""
_BLAMED_OUTCOMES = frozenset({"out-of-turns", "repeating"})
"""Outcomes that a skill may cause; a failed service, a user's stop and a spent budget are not among them."""


def land_proposal(library: Library, proposal: Proposal) -> Proposal:
    """Apply a proposal if the skill is still the text it was made for.  If the history can't record it, it waits."""
    home = library.place.state
    if not paths.is_folder(proposal.folder) or read_contents(proposal.folder).digest != proposal.base:
        note = "the skill has changed since: propose again"
        return proposal_store.write_proposal(home, replace(proposal, standing="stale", note=note))
    try:
        version = _put_texts(library, proposal, proposal.after, "improve", commit_evidence(proposal), proposal.base)
    except MetierError as error:
        note = f"it could not be applied: {error.message}"
        return proposal_store.write_proposal(home, replace(proposal, standing="waiting", note=note))
    rev = version.rev if version else ""
    return proposal_store.write_proposal(home, replace(proposal, standing="accepted", rev=rev, watched=(), note=""))


def _put_texts(
    library: Library, proposal: Proposal, texts: Mapping[str, str], act: str, evidence: str, base: str
) -> SkillVersion | None:
    """Replace these texts of a skill.  Its current state is recorded first, and gives all other files and modes."""
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
    """Undo an accepted proposal, unless its text was edited since."""
    home = library.place.state
    current = read_contents(proposal.folder)
    if any(current.texts.get(path) != text for path, text in proposal.after.items()):
        note = f"{why}; not taken back, as the skill was edited since"
        return proposal_store.write_proposal(home, replace(proposal, watched=None, note=note))
    evidence = f"Proposal {proposal.id} taken back: {why}"
    try:
        _put_texts(library, proposal, proposal.before, "rollback", evidence, current.digest)
    except MetierError as error:
        return proposal_store.write_proposal(
            home, replace(proposal, note=f"{why}; taking it back failed: {error.message}")
        )
    return proposal_store.write_proposal(home, replace(proposal, standing="rolled-back", watched=None, note=why))


def update_watched(library: Library, trace: Trace) -> tuple[Proposal, ...]:
    """Judge the watched changes after a run, and take back those that do worse; the proposals judged."""
    judged = []
    for proposal in proposal_store.list_proposals(library.place.state):
        if proposal.watched is None or proposal.standing != "accepted" or proposal.skill not in trace.skills:
            continue
        # The runs it was made from are evidence for it already, not of its effect.
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
    # Old runs are blamed with the old text: the new one may not even contain what failed then.
    old = _watched_runs(library, skill, before, {**texts, **proposal.before})
    verdict, why = judge_watched_runs(old, _watched_runs(library, skill, after, texts))
    if verdict == "roll back":
        return take_back_proposal(library, proposal, why)
    updated = replace(proposal, watched=None, note=why) if verdict == "keep" else proposal
    return proposal_store.write_proposal(library.place.state, updated)


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
    """Accept or reject a waiting proposal."""
    if proposal.standing != "waiting":
        raise BadRequest(
            f"the proposal {proposal.id} is {proposal.standing}, not waiting",
            "`metier proposals` lists the waiting ones",
        )
    if accepted:
        return land_proposal(library, proposal)
    note = why or "rejected by a person"
    return proposal_store.write_proposal(library.place.state, replace(proposal, standing="rejected", note=note))

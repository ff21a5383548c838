"""Land: decide who accepts a proposal, apply it, watch the runs after it, and take it back if they get worse.

Gates show that a change is harmless, not that it helps; only later runs do.  So an accepted change is watched for
`WATCHED_RUNS`, and compared with the runs before it.  Two failures take it back if they are more frequent than before
or of a new kind, as going back is cheap and recorded in the history; one does not, as any run may fail.  A change is
applied only to the exact text it was made for, and taken back only while that text still stands: what a user edits in
between is never overwritten.  The runs after it are blamed by the same evidence as those before: an
expired login takes nothing back.  What a person takes back by hand is not tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ..diagnose.notice import find_faults
from ..diagnose.texts import compare_texts
from ..host import fs, paths
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

if TYPE_CHECKING:
    from ..library.library import Library


WATCHED_RUNS = 10
"""How many runs an accepted change is watched for."""
_ENOUGH_FAILED = 2
"""Failed runs that count as evidence; one may be chance."""
MOST_PER_DAY = 3
"""Unrequested proposals for a skill in a day: a fault that no change cures must not cost a model all day."""
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


def reason_to_wait(past: Sequence[Proposal], base: str, faults: Sequence[SkillFault], day: str) -> str:
    """Why nothing is proposed for a skill now, given its past proposals; empty if something may be."""
    if sum(proposal.at.startswith(day) for proposal in past) >= MOST_PER_DAY:
        return f"{MOST_PER_DAY} proposals were made for it today"
    same = find_same_faults(past, base, faults)
    return f"the same was proposed before: {same.id} ({same.standing})" if same else ""


def find_same_faults(past: Iterable[Proposal], base: str, faults: Sequence[SkillFault]) -> Proposal | None:
    """A proposal for the same faults of the same text that was not accepted, or was taken back."""
    # A subset: a proposal for these faults and others has answered these as well.
    keys = {fault.key for fault in faults}
    for proposal in past:
        same = proposal.base == base and keys <= {fault.key for fault in proposal.because}
        # An accepted one whose base is the current text was taken back by hand.
        if same and proposal.standing in (*_NOT_TAKEN, "accepted"):
            return proposal
    return None


def find_same_change(past: Iterable[Proposal], base: str, draft: SkillDraft) -> Proposal | None:
    """A proposal of the same change that was not accepted, whatever faults it was for.

    One that a person rejected or took back counts for every later text too: the lines that it changes are the same.
    """
    after = {path: draft.after[path] for path in draft.changed if path in draft.after}
    lines = _changed_lines({path: draft.before.get(path, "") for path in after}, after)
    for proposal in past:
        if proposal.base == base and dict(proposal.after) == after and proposal.standing in (*_NOT_TAKEN, "accepted"):
            return proposal
        decided = proposal.standing in ("rejected", "rolled-back") or was_taken_back(proposal, draft.before)
        if decided and lines and _changed_lines(proposal.before, proposal.after) == lines:
            return proposal
    return None


def was_taken_back(proposal: Proposal, texts: Mapping[str, str]) -> bool:
    """Whether an accepted change is no longer in the skill: a person went back to an older version."""
    if proposal.standing != "accepted":
        return False
    added = [line for path, _, line in _changed_lines(proposal.before, proposal.after) if line]
    current = {line for text in texts.values() for line in text.splitlines()}
    return bool(added) and not any(line in current for line in added)


def _changed_lines(before: Mapping[str, str], after: Mapping[str, str]) -> frozenset[tuple[str, str, str]]:
    """The lines that a change removes and adds, each with its file."""
    removed = {(path, line, "") for path in after for line in compare_texts(after[path], before.get(path, "")).added}
    return frozenset(
        removed
        | {(path, "", line) for path in after for line in compare_texts(before.get(path, ""), after[path]).added}
    )


def note_taken_back(library: Library, skill: Skill, texts: Mapping[str, str]) -> None:
    """Remember the changes of a skill that a person took back."""
    for proposal in proposal_store.list_proposals(library.place.state):
        if proposal.skill == skill.name and proposal.folder == skill.directory and was_taken_back(proposal, texts):
            note = "taken back by a person: it is not tried again unless you ask with --wish"
            taken_back = replace(proposal, standing="rolled-back", watched=None, note=note)
            proposal_store.write_proposal(library.place.state, taken_back)


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


LANDING = "being applied"
"""The note of a proposal while it is applied: one that still has it afterwards was interrupted."""


def land_proposal(library: Library, proposal: Proposal) -> Proposal:
    """Apply a proposal if the skill is still the text it was made for.  If the history can't record it, it waits."""
    # Held while it is applied: whoever finds the note and gets the lock knows that this was interrupted.
    with fs.hold_lock(_landing_lock(library.place.state)):
        return _land(library, proposal)


def _landing_lock(state: str) -> str:
    return f"{proposal_store.proposals_folder(state)}/.landing"


def _land(library: Library, proposal: Proposal) -> Proposal:
    home = library.place.state
    proposal = proposal_store.write_proposal(home, replace(proposal, standing="waiting", note=LANDING))
    if not paths.is_folder(proposal.folder) or read_contents(proposal.folder).digest != proposal.base:
        note = "the skill has changed since: propose again"
        return proposal_store.write_proposal(home, replace(proposal, standing="stale", note=note))
    try:
        version = _put_texts(library, proposal, proposal.after, "improve", commit_evidence(proposal), proposal.base)
    except MetierError as error:
        note = f"it could not be applied: {error.message}"
        return proposal_store.write_proposal(home, replace(proposal, standing="waiting", note=note))
    rev = version.rev if version else ""
    if not version:
        # A landing that was killed had put the files there already.
        rev = _newest_version(library, proposal)
    return proposal_store.write_proposal(home, replace(proposal, standing="accepted", rev=rev, watched=(), note=""))


def _newest_version(library: Library, proposal: Proposal) -> str:
    skill = next((candidate for candidate in library.skills if candidate.directory == proposal.folder), None)
    if skill is None:
        return ""
    target = managed_skill(library, skill)
    return next((version.rev for version in history.list_versions(target.repository, target.key, 1)), "")


def settle_interrupted(library: Library) -> tuple[Proposal, ...]:
    """Finish or undo the landings that were killed on the way, and say so in their notes."""
    state = library.place.state
    interrupted = [one for one in proposal_store.list_proposals(state) if _is_landing(one)]
    lock = fs.try_lock(_landing_lock(state)) if interrupted else None
    if lock is None:
        return ()  # nothing was interrupted, or it is being applied right now
    try:
        return tuple(
            _settle_interrupted(library, one) for one in proposal_store.list_proposals(state) if _is_landing(one)
        )
    finally:
        fs.release_lock(lock)


def _is_landing(proposal: Proposal) -> bool:
    return proposal.standing == "waiting" and proposal.note == LANDING


def _settle_interrupted(library: Library, proposal: Proposal) -> Proposal:
    home, texts = library.place.state, read_contents(proposal.folder).texts
    if all(texts.get(path) == text for path, text in proposal.after.items()):
        # The folder was exchanged already, as a whole: only the proposal was not updated.
        rev = _newest_version(library, proposal)
        note = "applying it was interrupted; it is applied now"
        return proposal_store.write_proposal(
            home, replace(proposal, standing="accepted", rev=rev, watched=(), note=note)
        )
    note = "applying it was interrupted and nothing was changed: accept it again, or reject it"
    return proposal_store.write_proposal(home, replace(proposal, note=note))


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
    changed = _changed_lines(proposal.before, proposal.after)
    removed, added = [line for _, line, _ in changed if line], [line for _, _, line in changed if line]
    old = _watched_runs(library, skill, before, {**texts, **proposal.before}, removed)
    verdict, why = judge_watched_runs(old, _watched_runs(library, skill, after, texts, added))
    if verdict == "roll back":
        return take_back_proposal(library, proposal, why)
    updated = replace(proposal, watched=None, note=why) if verdict == "keep" else proposal
    return proposal_store.write_proposal(library.place.state, updated)


def _watched_runs(
    library: Library, skill: Skill, traces: Sequence[Trace], texts: Mapping[str, str], lines: Sequence[str]
) -> list[WatchedRun]:
    """The runs as they speak for or against a change of these lines."""
    observed, environment = observe_skill(library, skill, texts), tool_environment(library, traces)
    results = []
    for trace in traces:
        # An unexplained failure speaks against a change only in a step that the change has touched.
        faults = [
            fault
            for fault in find_faults(trace, {skill.name: observed}, environment)
            if not fault.bridged
            and (fault.party == "skill" or any(fault.about in " ".join(line.split()) for line in lines))
        ]
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

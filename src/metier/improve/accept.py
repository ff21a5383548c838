"""Accept: who decides about a proposal, how often one is made, and whether an accepted one does better or worse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from ..types.dialect import Improving
from ..types.proposal import Fault, Proposal, Standing
from .check import Draft

WATCHED = 10
"""Runs that an accepted change is watched for."""
_ENOUGH = 2
"""Failed runs that say something."""
A_DAY = 3
"""Proposals for one skill in a day, made without being asked for."""
CLUSTER, SESSIONS = 3, 2
"""Outside `auto`, a model is asked only when so many failures came together, in so many runs."""
_NOT_TAKEN = ("waiting", "refused", "rejected", "rolled-back")


def standing(proposal: Proposal, mode: Improving, owned: bool) -> tuple[Standing, str]:
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


def clustered(faults: Sequence[Fault]) -> bool:
    """Whether enough came together to ask a model: often enough, and in more than one run."""
    return sum(fault.times for fault in faults) >= CLUSTER and len({fault.run for fault in faults}) >= SESSIONS


def worn_out(past: Sequence[Proposal], base: str, faults: Sequence[Fault], day: str) -> str:
    """Why nothing more is proposed for a skill now, after what was proposed for it; empty where something may be."""
    if sum(one.at.startswith(day) for one in past) >= A_DAY:
        return f"{A_DAY} proposals were made for it today"
    same = same_before(past, base, faults)
    return f"the same was proposed before: {same.id} ({same.standing})" if same else ""


def same_before(past: Iterable[Proposal], base: str, faults: Sequence[Fault]) -> Proposal | None:
    """What was proposed for the same faults of the same text, and was not taken."""
    keys = {fault.key for fault in faults}
    for one in past:
        same = one.base == base and keys <= {fault.key for fault in one.because}
        if same and one.standing in _NOT_TAKEN:
            return one
    return None


def same_change(past: Iterable[Proposal], base: str, draft: Draft) -> Proposal | None:
    """The same change of the same text, which was proposed before, whatever else failed, and was not taken."""
    after = {path: draft.after[path] for path in draft.changed if path in draft.after}
    for one in past:
        if one.base == base and dict(one.after) == after and one.standing in _NOT_TAKEN:
            return one
    return None


class Ridden(NamedTuple):
    """A run in which a skill was active, as far as a watch goes."""

    run: str
    failed: bool
    """It did not finish, or the skill was at fault in it."""
    faults: frozenset[tuple[str, str, str]] = frozenset()


Verdict: TypeAlias = Literal["watch", "keep", "roll back"]


def watched(before: Sequence[Ridden], after: Sequence[Ridden]) -> tuple[Verdict, str]:
    """What the runs since a change say of it, held against the runs before it."""
    bad = [one for one in after if one.failed]
    if len(bad) >= _ENOUGH:
        known = frozenset().union(*(one.faults for one in before)) if before else frozenset()
        fresh = [one for one in bad if one.faults - known or not one.faults]
        share = sum(one.failed for one in before) / len(before) if before else 0.0
        if len(bad) / len(after) > share or len(fresh) >= _ENOUGH:
            return "roll back", f"{len(bad)} of {len(after)} runs since then failed"
    if len(after) >= WATCHED:
        return "keep", f"{len(after)} runs since then, {len(bad)} failed"
    return "watch", ""


def evidence(proposal: Proposal) -> str:
    """What a commit says of it."""
    lines = [f"Proposal: {proposal.id} ({'by rule' if proposal.how == 'fix' else 'by a model'})", *proposal.what]
    lines += [f"Because: {fault.kind} `{fault.about}` in run {fault.run}, {fault.times}×" for fault in proposal.because]
    lines += [f"Check: {gate.name}: {gate.says}{f' ({gate.words})' if gate.words else ''}" for gate in proposal.gates]
    return "\n".join(lines)

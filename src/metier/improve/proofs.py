"""Replay as a gate: a change is proven if what failed fails again with the old files and works with the new ones.

If the text alone decides (a name, a path, a placeholder), it is read.  The skill's own scripts run for real.  Whatever
can't be decided, such as a call that was never recorded, makes a replay inconclusive, which is not a pass: a person
decides then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..diagnose.texts import prose_bodies
from ..record.trace import Trace
from ..types.improvement import GateResult, SkillFault
from ..types.model import Model
from ..types.skill import Skill
from . import propose
from .examine import FolderContents, observe_skill, tool_environment
from .gates import is_cause_gone
from .rerun import RerunCall, describe, rerun_call, starts_own_script

if TYPE_CHECKING:
    from ..library.library import Library

_READ_KINDS = frozenset({"tool-name", "missing-script", "missing-file", "placeholder", "asked"})
"""Faults for which the text alone tells whether they are gone."""


class ReplayAttempt(NamedTuple):
    """A change that is to be proven, and what it was made from."""

    contents: FolderContents
    before: Mapping[str, str]
    after: Mapping[str, str]
    faults: tuple[SkillFault, ...]
    traces: Sequence[Trace]
    calls: Mapping[tuple[str, str, str], str]
    """What a rule made of the calls that failed, by the key of the fault."""
    modelled: bool


def prove_by_replay(library: Library, skill: Skill, attempt: ReplayAttempt, model: Model | None) -> GateResult:
    """Replay the faults with the old and the new files."""
    environment = tool_environment(library, attempt.traces)
    old, new = (observe_skill(library, skill, texts) for texts in (attempt.before, attempt.after))
    for fault in attempt.faults:
        if fault.kind == "asked":
            return GateResult("replay", "person", "nothing failed, so a replay proves nothing")
        if is_cause_gone(fault, prose_bodies(attempt.after), new, environment) is False:
            return GateResult("replay", "no", f"it would fail again: {fault.kind} `{fault.about}`")
        if is_cause_gone(fault, prose_bodies(attempt.before), old, environment):
            return _unproven(f"with the old text `{fault.about}` does not fail either")
    notes = []
    for fault in attempt.faults:
        gate = _rerun_fault(library, skill, attempt, fault)
        if gate is not None and gate.says != "yes":
            return gate
        notes += [gate.words] if gate is not None else []
    return _prove_open_faults(library, skill, attempt, model, notes)


def _prove_open_faults(
    library: Library, skill: Skill, attempt: ReplayAttempt, model: Model | None, notes: list[str]
) -> GateResult:
    """Replay with a model what neither the text nor a script decides."""
    unread = [fault for fault in attempt.faults if fault.kind not in _READ_KINDS]
    open_faults = [fault for fault in unread if attempt.modelled or not attempt.calls.get(fault.key)]
    if not open_faults:
        return GateResult("replay", "yes", "; ".join(notes) or "what failed can't fail again")
    if model is None:
        return _unproven("there is no model to follow the new text")
    traces = {trace.run: trace for trace in attempt.traces}
    for run in dict.fromkeys(fault.run for fault in open_faults if fault.run in traces):
        faults = tuple(fault for fault in open_faults if fault.run == run)
        gate = propose.replay_run(library, model, skill, traces[run], faults, (attempt.contents, attempt.after))
        if gate.says != "yes":
            return gate
        notes.append(gate.words)
    return GateResult("replay", "yes", "; ".join(notes))


def _unproven(why: str) -> GateResult:
    return GateResult("replay", "person", f"inconclusive: {why}")


def _rerun_fault(library: Library, skill: Skill, attempt: ReplayAttempt, fault: SkillFault) -> GateResult | None:
    """Run the skill's own script as it failed, and as it is called now; None if the fault is not about one."""
    cwd = next((trace.started.cwd for trace in attempt.traces if trace.run == fault.run), "")
    tool = "skill_run_script" if fault.tool == "skill_run_script" else "run_command"
    if starts_own_script(fault.call, skill.directory, attempt.before):
        failed = rerun_call(library, skill, attempt.contents, attempt.before, RerunCall(fault.call, tool, cwd))
        if failed.status == 0:
            return _unproven(f"`{fault.call}` works with the old files too")
        if not failed.decided:
            return _unproven(f"`{fault.call}` could not be run again: {describe(failed)}")
    # A rule says what it makes of the call; of a model's text only a replay by a model tells.
    call = attempt.calls.get(fault.key, "")
    if not call or not starts_own_script(call, skill.directory, attempt.after):
        return None
    works = rerun_call(library, skill, attempt.contents, attempt.after, RerunCall(call, tool, cwd))
    if works.passed:
        return GateResult("replay", "yes", f"`{call}` was run for real: it failed before and works now")
    if not works.decided:
        return _unproven(f"`{call}` could not be run: {describe(works)}")
    return GateResult("replay", "no", f"`{call}` was run for real and fails too: {describe(works)}")

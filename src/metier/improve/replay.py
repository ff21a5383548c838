"""Replay: run a recorded task again with a changed skill, while the tools answer from the recording.

A model reads the new text and decides what to call; nothing is executed, so a replay has no effects and can't fail for
reasons that are not the text's: no network, no files that have changed since.  Running the task for real was refused:
it may send the same mail twice.

The new text leads to other calls than the old one, so answers can't be played back in order.  A call gets the answer
that the same call had in the recording, and of several the latest whose preconditions hold: those calls that had
succeeded before it then have been made now as well.  A call that was not recorded is answered as done.  The gate passes
if what failed then does not fail now; that the task is solved is not its question, which evals answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps
from typing import NamedTuple

from ..agent.loop import Toolset
from ..agent.permissions import call_subject
from ..agent.policies import with_aliases
from ..record.trace import Trace
from ..types.activation import ToolCall
from ..types.event import EventSteps, Used
from ..types.improvement import GateResult, SkillFault
from ..types.model import Answer, Tool
from .notice import failure_reason

_NOT_RECORDED = "[This is a replay, and this call was not recorded: assume it succeeded, and continue.]"


class ReplayTools(NamedTuple):
    """Tools that answer from a recording, and the calls they received."""

    toolset: Toolset
    called: list[tuple[ToolCall, Answer]]


def replay_tools(trace: Trace, tools: tuple[Tool, ...], files: Mapping[str, str], skill: str) -> ReplayTools:
    """The tools of a run, answering as they did; the skill's own files are the changed ones."""
    recorded = [event for event in trace.events if isinstance(event, Used)]
    called: list[tuple[ToolCall, Answer]] = []
    names = frozenset(tool.name for tool in tools)

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        answer = _fixed_answer(tool_call, names, files, skill) or _recorded_answer(tool_call, recorded, called)
        called.append((tool_call, answer))
        # A generator by its type, without events of its own.
        yield from ()
        return answer

    return ReplayTools(with_aliases(Toolset(tools, call)), called)


def _fixed_answer(tool_call: ToolCall, names: frozenset[str], files: Mapping[str, str], skill: str) -> Answer | None:
    """The answer to a call that does not depend on the recording."""
    if tool_call.name not in names:
        return Answer(f"There is no tool called {tool_call.name}.", error=True, reason="unknown-tool")
    if tool_call.arguments.get("skill_name") != skill:
        return None
    if tool_call.name == "skill_read_file":
        path = str(tool_call.arguments.get("file_path", ""))
        if path in files:
            return Answer(files[path])
        return Answer(f"File not found: '{path}'", error=True, reason="missing-file")
    return None


def _recorded_answer(tool_call: ToolCall, recorded: list[Used], called: list[tuple[ToolCall, Answer]]) -> Answer:
    """The latest recorded answer to the same call whose preconditions hold."""
    done_keys = {_call_key(call) for call, _ in called}
    chosen = None
    before: set[str] = set()
    for used in recorded:
        key = _call_key(used.call)
        if key == _call_key(tool_call):
            # The first answer serves even if its preconditions do not hold: it is the pessimistic one.
            if chosen is None or before <= done_keys:
                chosen = used
        elif not used.failed:
            before.add(key)
    if chosen is None:
        return Answer(_NOT_RECORDED)
    return Answer(chosen.text, chosen.error, status=chosen.status, reason=failure_reason(chosen), skill=chosen.skill)


def _call_key(call: ToolCall) -> str:
    return dumps([call.name, dict(call.arguments)], sort_keys=True, default=str)


def recurrence_gate(faults: tuple[SkillFault, ...], called: list[tuple[ToolCall, Answer]]) -> GateResult:
    """Whether the same failed again.  A single failure must be gone; one that repeated may occur once, for a model
    that tries and corrects itself has followed the text."""
    for fault in faults:
        times = sum(_is_same_fault(fault, call, answer) for call, answer in called)
        if times > (1 if fault.times > 1 else 0):
            return GateResult("replay", "no", f"it happened again: {fault.kind} `{fault.about}`, {times}×")
    return GateResult("replay", "yes", f"replayed with {len(called)} calls, and it did not happen again")


def _is_same_fault(fault: SkillFault, call: ToolCall, answer: Answer) -> bool:
    if not answer.error and answer.status in (None, 0):
        return False
    if fault.kind in ("miscall", "repeated", "tool-name"):
        return call.name == fault.about
    return fault.about in (
        call_subject(call),
        str(call.arguments.get("script_name", "")),
        call.arguments.get("file_path"),
    )

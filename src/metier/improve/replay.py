"""Replay: run a recorded task again with a changed skill, while the tools answer from the recording.

A model reads the new text and decides what to call.  The skill's own scripts run for real, on copies: the recording
only has what the old ones answered (`rerun.py`).  Any other tool answers as it did, so a replay has no effects.
Running the whole task was refused: it may send the same mail twice.

The new text leads to other calls than the old one, so answers can't be played back in order.  A call gets the answer
that the same call had in the recording, and of several the latest whose preconditions hold: those calls that had
succeeded before it then have been made now as well.  A call that was never recorded makes the replay inconclusive.  The
gate passes if what failed then is done now and does not fail, and every step that mattered still happens: a text that
leaves a step out fails at nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from json import dumps
from shlex import join
from typing import NamedTuple, TypeAlias

from ..agent.loop import Toolset
from ..agent.permissions import call_subject
from ..agent.policies import with_aliases
from ..diagnose.notice import failure_reason
from ..diagnose.steps import INTERPRETERS, call_words, inner_path, match_step
from ..diagnose.texts import prose_bodies
from ..diagnose.typos import is_typo
from ..record.trace import Trace
from ..types.activation import ToolCall
from ..types.event import EventSteps, Used
from ..types.improvement import GateResult, SkillFault
from ..types.model import Answer, Tool

_NOT_RECORDED = "[This is a replay, and this call was not recorded: assume it succeeded, and continue.]"
_WRITING_TOOLS = frozenset({"write_file", "edit_file"})
_PROGRAM_TOOLS = frozenset({"run_command", "skill_run_script"})
ScriptRunner: TypeAlias = Callable[[ToolCall], Answer | None]
"""Runs a call of the skill's own script for real; None for any other call."""


class ReplayTools(NamedTuple):
    """Tools that answer from a recording, and the calls they received."""

    toolset: Toolset
    called: list[tuple[ToolCall, Answer]]
    unrecorded: list[ToolCall]
    """Those of them that the recording has no answer to."""


def replay_tools(
    trace: Trace,
    tools: tuple[Tool, ...],
    files: Mapping[str, str],
    skill: str,
    run_own: ScriptRunner = lambda call: None,
) -> ReplayTools:
    """The tools of a run, answering as they did; the skill's own files are the changed ones."""
    recorded = [event for event in trace.events if isinstance(event, Used)]
    called: list[tuple[ToolCall, Answer]] = []
    unrecorded: list[ToolCall] = []
    names = frozenset(tool.name for tool in tools)

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        answer = _fixed_answer(tool_call, names, files, skill) or run_own(tool_call)
        answer = answer or _recorded_answer(tool_call, recorded, called)
        if answer is None:
            unrecorded.append(tool_call)
            answer = Answer(_NOT_RECORDED)
        called.append((tool_call, answer))
        # A generator by its type, without events of its own.
        yield from ()
        return answer

    return ReplayTools(with_aliases(Toolset(tools, call)), called, unrecorded)


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


def _recorded_answer(tool_call: ToolCall, recorded: list[Used], called: list[tuple[ToolCall, Answer]]) -> Answer | None:
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
        return None
    return Answer(chosen.text, chosen.error, status=chosen.status, reason=failure_reason(chosen), skill=chosen.skill)


def _call_key(call: ToolCall) -> str:
    return dumps([call.name, dict(call.arguments)], sort_keys=True, default=str)


def judge_replay(
    faults: tuple[SkillFault, ...], trace: Trace, replayed: ReplayTools, texts: Mapping[str, str], folder: str
) -> GateResult:
    """Whether the steps that mattered were made, and what failed was done without failing again.

    A single failure must be gone; one that repeated may occur once, for a model that tries and corrects itself has
    followed the text.
    """
    for fault in faults:
        times = sum(_is_same_fault(fault, call, answer) for call, answer in replayed.called)
        if times > (1 if fault.times > 1 else 0):
            return GateResult("replay", "no", f"it happened again: {fault.kind} `{fault.about}`, {times}×")
    done = {_step_name(call, folder) for call, answer in replayed.called if _went_well(answer)}
    for used in _steps_that_mattered(trace, texts, folder):
        if _step_name(used.call, folder) not in done:
            return GateResult("replay", "no", f"a step that mattered is not made any more: `{call_subject(used.call)}`")
    if replayed.unrecorded:
        subject = call_subject(replayed.unrecorded[0])
        return _unproven(f"{len(replayed.unrecorded)} of its calls were never recorded: `{subject}`")
    for fault in faults:
        if fault.tool in _PROGRAM_TOOLS and not _is_done(fault, replayed, folder):
            return _unproven(f"nothing was done in place of `{fault.call or fault.about}`")
    return GateResult("replay", "yes", f"replayed with {len(replayed.called)} calls: it failed before and works now")


def _unproven(why: str) -> GateResult:
    return GateResult("replay", "person", f"inconclusive: {why}")


def _went_well(answer: Answer) -> bool:
    return not answer.error and answer.status in (None, 0)


def _steps_that_mattered(trace: Trace, texts: Mapping[str, str], folder: str) -> Iterator[Used]:
    """The calls of a run that succeeded and that the text asked for, or that wrote something."""
    for event in trace.events:
        if not isinstance(event, Used) or event.failed or not event.text:
            continue
        words = call_words(event.call)
        stated = bool(words) and any(match_step(text, words, folder) for text in prose_bodies(texts).values())
        if stated or event.call.name in _WRITING_TOOLS or event.call.name == "skill_run_script":
            yield event


def _step_name(call: ToolCall, folder: str) -> str:
    """What makes two calls the same step, whatever their arguments."""
    words = call_words(call)
    if not words:
        return f"{call.name} {call_subject(call)}" if call.name in _WRITING_TOOLS else call.name
    return _program_name(words, folder)


def _program_name(words: Sequence[str], folder: str) -> str:
    """The program and its subcommand, or the script that an interpreter is given."""
    at = 1 if len(words) > 1 and words[0] in INTERPRETERS else 0
    name = inner_path(words[at], folder)
    follows = words[at + 1] if at == 0 and "/" not in name and len(words) > 1 else ""
    return f"{name} {follows}".strip() if follows.isalpha() else name


def _is_done(fault: SkillFault, replayed: ReplayTools, folder: str) -> bool:
    """Whether the program of the failed call was called and did not fail."""
    words = fault.call.split()
    if not words:
        return False
    wanted = _program_name(words, folder)
    done = [
        _program_name(call_words(call), folder)
        for call, answer in replayed.called
        if call_words(call) and _went_well(answer)
    ]
    # A script that is misspelled in the failed call has its right name now.
    return wanted in done or any(is_typo(wanted.rpartition("/")[2], name.rpartition("/")[2]) for name in done)


def _is_same_fault(fault: SkillFault, call: ToolCall, answer: Answer) -> bool:
    if not answer.error and answer.status in (None, 0):
        return False
    if fault.kind in ("miscall", "repeated", "tool-name"):
        return call.name == fault.about
    return fault.about in (call_subject(call), " ".join(call_words(call))) or (fault.call or fault.about) in (
        call_subject(call),
        join(call_words(call)),
        str(call.arguments.get("script_name", "")),
        call.arguments.get("file_path"),
    )

"""Replay: a recorded run once more with another text of the skill.  Nothing is done: tools answer as they did then."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps
from typing import NamedTuple

from ..act.boxes import mapped
from ..act.permission import subject
from ..act.toolset import Toolset
from ..record.trace import Trace
from ..types.activation import ToolCall
from ..types.event import Steps, Used
from ..types.proposal import Fault, Gate
from ..types.tool import Answer, Tool
from .notice import reason_of

_NOT_DONE = "[This is a replay, and the call was not recorded: take it as done, and go on.]"


class Again(NamedTuple):
    """Tools that answer from a recording, and what was called."""

    toolset: Toolset
    called: list[tuple[ToolCall, Answer]]


def tools_again(trace: Trace, tools: tuple[Tool, ...], files: Mapping[str, str], skill: str) -> Again:
    """The tools of a run, answering as they did; files of the skill are as they are now."""
    recorded = [one for one in trace.events if isinstance(one, Used)]
    called: list[tuple[ToolCall, Answer]] = []
    names = frozenset(tool.name for tool in tools)

    def call(wanted: ToolCall) -> Steps[Answer]:
        answer = _answer(wanted, names, files, skill) or _recorded(wanted, recorded, called)
        called.append((wanted, answer))
        yield from ()  # nothing happens on the way
        return answer

    return Again(mapped(Toolset(tools, call)), called)


def _answer(wanted: ToolCall, names: frozenset[str], files: Mapping[str, str], skill: str) -> Answer | None:
    """What does not depend on what happened then."""
    if wanted.name not in names:
        return Answer(f"There is no tool called {wanted.name}.", error=True, reason="unknown-tool")
    if wanted.arguments.get("skill_name") != skill:
        return None
    if wanted.name == "skill_read_file":
        path = str(wanted.arguments.get("file_path", ""))
        if path in files:
            return Answer(files[path])
        return Answer(f"File not found: '{path}'", error=True, reason="missing-file")
    return None


def _recorded(wanted: ToolCall, recorded: list[Used], called: list[tuple[ToolCall, Answer]]) -> Answer:
    """The answer to the same call, as late in the recording as what was done before it allows."""
    done = {_key(one) for one, _ in called}
    chosen = None
    before: set[str] = set()
    for used in recorded:
        key = _key(used.call)
        if key == _key(wanted):
            if chosen is None or before <= done:
                chosen = used
        elif not used.failed:
            before.add(key)
    if chosen is None:
        return Answer(_NOT_DONE)
    return Answer(chosen.text, chosen.error, status=chosen.status, reason=reason_of(chosen), skill=chosen.skill)


def _key(call: ToolCall) -> str:
    return dumps([call.name, dict(call.arguments)], sort_keys=True, default=str)


def happened_again(faults: tuple[Fault, ...], called: list[tuple[ToolCall, Answer]]) -> Gate:
    """Whether what failed then failed now: a single failure must be gone, one that came often must not come often."""
    for fault in faults:
        times = sum(_same(fault, call, answer) for call, answer in called)
        if times > (1 if fault.times > 1 else 0):
            return Gate("replay", "no", f"it happened again: {fault.kind} `{fault.about}`, {times}×")
    return Gate("replay", "yes", f"replayed with {len(called)} calls, and it did not happen again")


def _same(fault: Fault, call: ToolCall, answer: Answer) -> bool:
    if not answer.error and answer.status in (None, 0):
        return False
    if fault.kind in ("miscall", "repeated", "tool-name"):
        return call.name == fault.about
    return fault.about in (subject(call), str(call.arguments.get("script_name", "")), call.arguments.get("file_path"))

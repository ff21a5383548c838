"""A set of tools, and the one way to call them; policies wrap it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TypeAlias

from ..host.process import stop_programs_when
from ..types.activation import Message, ToolCall
from ..types.errors import MetierError
from ..types.event import (
    EXIT_CODES,
    NOTHING_USED,
    Ended,
    Event,
    EventSteps,
    FailureReason,
    Replied,
    TurnOutcome,
    Usage,
    Used,
)
from ..types.model import Answer, Model, Reply, ReplyRequest, StopFlag, Tool
from .conversation import Conversation, renumber_calls

ToolCaller: TypeAlias = Callable[[ToolCall], EventSteps[Answer]]


class TurnEnding(Exception):
    """Something ends the turn: a budget, a stop, a refusal.  The loop turns it into its last event."""

    def __init__(self, outcome: TurnOutcome, text: str = "", reason: str = "", hint: str = "", code: int = 0) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.text, self.reason, self.hint, self.code = text, reason or outcome, hint, code

    def event(self, usage: Usage, seconds: float, messages: tuple[Message, ...] = ()) -> Ended:
        code = self.code or EXIT_CODES[self.outcome]
        return Ended(self.outcome, self.text, self.reason, self.hint, usage, seconds, code, messages)


def failure_ending(error: MetierError) -> TurnEnding:
    """A failure as the ending that it is for a turn."""
    return TurnEnding("failed", error.message, error.reason, error.hint, error.exit_code)


@dataclass(frozen=True)
class Toolset:
    tools: tuple[Tool, ...]
    """What the model is shown: the same bytes for the whole conversation."""
    call: ToolCaller


def build_toolset(tools: Sequence[Tool], stopped: Callable[[], bool] = lambda: False) -> Toolset:
    """Tools by name, with nothing in between; what they run ends when it is not wanted any more."""
    table = {tool.name: tool for tool in tools}

    def call(tool_call: ToolCall) -> EventSteps[Answer]:
        tool = table.get(tool_call.name)
        if tool is None:
            near = get_close_matches(tool_call.name, table, 1, 0.5)
            offer = f"Did you mean {near[0]}?" if near else "There are: " + ", ".join(table)
            return Answer(f"There is no tool called {tool_call.name}. {offer}", error=True, reason="unknown-tool")
        if tool_call.fault:
            text = f"The arguments of {tool_call.name} can't be read: {tool_call.fault}. Send one JSON object."
            return Answer(text, error=True, reason="bad-arguments")
        if tool.steps is not None:
            return (yield from tool.steps(tool_call))
        with stop_programs_when(stopped):
            return tool.call(tool_call.arguments)

    return Toolset(tuple(tools), call)


@dataclass(frozen=True)
class TurnPorts:
    """All that a turn reaches."""

    model: Model
    toolset: Toolset
    stop: StopFlag
    now: Callable[[], Conversation]
    """The conversation with all that was yielded so far."""
    repairs: Callable[[Conversation], EventSteps[None]]
    """What has to happen before the model is asked."""
    clock: Callable[[], float]


def run_turn(ports: TurnPorts) -> EventSteps[None]:
    """Carry on until the model has nothing more to call, or something ends it.  The last event is `Ended`."""
    began, used = ports.clock(), NOTHING_USED
    try:
        while True:
            yield from ports.repairs(ports.now())
            reply = yield from _ask_model(ports)
            used += reply.usage
            yield Replied(reply.text, reply.calls, reply.usage, reply.messages)
            if not reply.calls:
                _check_reply(reply)
                yield Ended("finished", reply.text, usage=used, seconds=ports.clock() - began)
                return
            yield from _run_calls(ports, reply.calls)
    except (TurnEnding, MetierError) as error:
        ending = error if isinstance(error, TurnEnding) else failure_ending(error)
        yield ending.event(used, ports.clock() - began, tuple(missing_answers(ports.now().messages)))


def _ask_model(ports: TurnPorts) -> EventSteps[Reply]:
    conversation = ports.now()
    request = ReplyRequest(conversation.system, ports.toolset.tools, conversation.messages, conversation.run)
    reply = yield from ports.model.reply(request, ports.stop)
    return replace(reply, messages=renumber_calls(reply.messages, conversation.messages))


def _check_reply(reply: Reply) -> None:
    """A reply that stops short is not an answer."""
    if reply.finish == "length":
        raise TurnEnding("out-of-tokens", reply.text, "reply-cut-off", "ask for less, or allow longer replies")
    if reply.finish == "filter":
        raise TurnEnding("refused", reply.text or "the model would not answer", "content-filter")
    if not reply.text.strip():
        raise TurnEnding("failed", "the model said nothing", "empty-reply", "try again, or another model")


def _run_calls(ports: TurnPorts, calls: Iterable[ToolCall]) -> EventSteps[None]:
    """Do what was called for; what follows an answer comes behind all of them, as every service wants it."""
    following: list[Event] = []
    for call in calls:
        if ports.stop.is_set():
            raise TurnEnding("interrupted")
        began = ports.clock()
        answer = yield from ports.toolset.call(call)
        yield _used_event(call, answer, ports.clock() - began)
        if answer.activated is not None:
            following.append(replace(answer.activated, messages=answer.messages))
        elif answer.messages:
            following.append(Used(call, messages=answer.messages))
    yield from following


def _used_event(call: ToolCall, answer: Answer, seconds: float) -> Used:
    skill = answer.activated.skill if answer.activated and not answer.messages else ""
    message = Message("tool", answer.text, answers=call.id, skill=skill, failed=answer.error)
    return Used(
        call,
        answer.text,
        answer.error,
        answer.status,
        answer.note,
        seconds,
        answer.skill,
        (message,),
        answer_reason(answer),
    )


def answer_reason(answer: Answer) -> FailureReason:
    """Why it went wrong: as the tool says, or just that it did."""
    return answer.reason or ("failed" if answer.error else "")


def missing_answers(messages: tuple[Message, ...]) -> Iterable[Message]:
    """Answers for the calls at the end that have none."""
    answered_ids = {message.answers for message in messages if message.role == "tool"}
    for message in messages:
        if message.call is not None and message.call.id not in answered_ids:
            yield Message("tool", "[not done: the run ended first]", answers=message.call.id, failed=True)

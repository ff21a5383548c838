"""The agent loop: ask the model, run the tools it calls, repeat until a reply has no calls.

`run_turn` is the whole loop.  It knows nothing of skills, permissions or journals: the model and the toolset it is
given are wrapped by the policies (`policies`), and every event it yields is applied to the conversation by its caller
before the next step, so `ports.now()` always includes what was just yielded.  The last event is always `Ended`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TypeAlias

from ..host.failure import is_machine_trouble
from ..host.process import stop_programs_when
from ..types.activation import Message, ToolCall
from ..types.errors import MachineTrouble, MetierError, ModelError
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
from .conversation import Conversation, ConversationLedger, renumber_calls

ToolCaller: TypeAlias = Callable[[ToolCall], EventSteps[Answer]]


class TurnEnding(Exception):
    """Ends the turn from anywhere below the loop: a budget, a stop, a refusal.  The loop yields it as `Ended`."""

    def __init__(self, outcome: TurnOutcome, text: str = "", reason: str = "", hint: str = "", code: int = 0) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.text, self.reason, self.hint, self.code = text, reason or outcome, hint, code

    def event(self, usage: Usage, seconds: float, messages: tuple[Message, ...] = ()) -> Ended:
        code = self.code or EXIT_CODES[self.outcome]
        return Ended(self.outcome, self.text, self.reason, self.hint, usage, seconds, code, messages)


def failure_ending(error: MetierError) -> TurnEnding:
    """An error as the ending of a turn; that the machine is in trouble is told from what is wrong with the request."""
    reason = MachineTrouble.reason if is_machine_trouble(error) else error.reason
    return TurnEnding("failed", error.message, reason, error.hint, error.exit_code)


# --- Tools ---


@dataclass(frozen=True)
class Toolset:
    """The tools that the model is shown, and the function that calls one of them."""

    tools: tuple[Tool, ...]
    """The same bytes for the whole conversation, for the sake of the provider's cache."""
    call: ToolCaller


def build_toolset(tools: Sequence[Tool], stopped: Callable[[], bool] = lambda: False) -> Toolset:
    """A toolset without policies; programs that a tool runs are stopped once `stopped()` is true."""
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


# --- The loop ---


@dataclass(frozen=True)
class TurnPorts:
    """Everything that the loop needs from outside."""

    model: Model
    toolset: Toolset
    stop: StopFlag
    now: Callable[[], Conversation]
    """The conversation, including every event yielded so far."""
    repairs: Callable[[Conversation], EventSteps[None]]
    """Yields what must happen before the model is asked again."""
    clock: Callable[[], float]
    shrink: Callable[[], EventSteps[None]] = lambda: iter(())  # type: ignore[assignment,return-value]  # yields nothing
    """Compacts the conversation after the service found it too long."""
    ledger: ConversationLedger = field(default_factory=ConversationLedger)


def run_turn(ports: TurnPorts) -> EventSteps[None]:
    """Run the loop until a reply has no calls, or something ends the turn.  The last event is `Ended`."""
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
        # Calls without an answer would make the next request invalid for every provider.
        yield ending.event(used, ports.clock() - began, tuple(missing_answers(ports.now().messages)))


def _ask_model(ports: TurnPorts) -> EventSteps[Reply]:
    conversation = ports.now()
    try:
        reply = yield from ports.model.reply(_request_of(conversation, ports), ports.stop)
    except ModelError as error:
        if error.reason != "too-long":
            raise
        yield from ports.shrink()
        shorter = ports.now()
        if shorter.messages == conversation.messages:
            raise  # one message alone is too long: nothing is left to drop
        # Once: a service that refuses the compacted conversation too would refuse it for ever.
        conversation = shorter
        reply = yield from ports.model.reply(_request_of(conversation, ports), ports.stop)
    return replace(reply, messages=renumber_calls(reply.messages, ports.ledger.sync(conversation).call_ids))


def _request_of(conversation: Conversation, ports: TurnPorts) -> ReplyRequest:
    return ReplyRequest(conversation.system, ports.toolset.tools, conversation.messages, conversation.run)


def _check_reply(reply: Reply) -> None:
    """Refuse a final reply that was cut off, filtered or empty: it is not an answer."""
    if reply.finish == "length":
        raise TurnEnding("out-of-tokens", reply.text, "reply-cut-off", "ask for less, or raise the reply limit")
    if reply.finish == "filter":
        raise TurnEnding("refused", reply.text or "the model refused to answer", "content-filter")
    if not reply.text.strip():
        raise TurnEnding("failed", "the model sent an empty reply", "empty-reply", "try again, or use another model")


def _run_calls(ports: TurnPorts, calls: Iterable[ToolCall]) -> EventSteps[None]:
    """Run the calls in order."""
    # Messages that accompany an answer follow all answers: providers want calls and answers adjacent.
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
        answer.cause,
    )


def answer_reason(answer: Answer) -> FailureReason:
    """Why a call failed, as the tool says; empty where it did not."""
    return answer.reason or ("failed" if answer.error else "")


def missing_answers(messages: tuple[Message, ...]) -> Iterable[Message]:
    """Answers for the calls that have none."""
    answered_ids = {message.answers for message in messages if message.role == "tool"}
    for message in messages:
        if message.call is not None and message.call.id not in answered_ids:
            yield Message("tool", "[not done: the run ended first]", answers=message.call.id, failed=True)

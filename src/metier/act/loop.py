"""The loop: ask the model, do what it calls for, ask again.  What may be done is decided by what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ..types.activation import Message, ToolCall
from ..types.errors import MetierError
from ..types.event import Ended, Event, Reason, Replied, Steps, Used
from ..types.model import Model, Reply, Request, Stop
from ..types.tool import Answer
from ..types.usage import NOTHING_USED
from .conversation import Conversation, numbered
from .toolset import Ending, Toolset, failure


@dataclass(frozen=True)
class Ports:
    """All that a turn reaches."""

    model: Model
    toolset: Toolset
    stop: Stop
    now: Callable[[], Conversation]
    """The conversation with all that was yielded so far."""
    repairs: Callable[[Conversation], Steps[None]]
    """What has to happen before the model is asked."""
    clock: Callable[[], float]


def turn(ports: Ports) -> Steps[None]:
    """Carry on until the model has nothing more to call, or something ends it.  The last event is `Ended`."""
    began, used = ports.clock(), NOTHING_USED
    try:
        while True:
            yield from ports.repairs(ports.now())
            reply = yield from _asked(ports)
            used += reply.usage
            yield Replied(reply.text, reply.calls, reply.usage, reply.messages)
            if not reply.calls:
                _whole(reply)
                yield Ended("finished", reply.text, usage=used, seconds=ports.clock() - began)
                return
            yield from _done(ports, reply.calls)
    except (Ending, MetierError) as error:
        ending = error if isinstance(error, Ending) else failure(error)
        yield ending.event(used, ports.clock() - began, tuple(unanswered(ports.now().messages)))


def _asked(ports: Ports) -> Steps[Reply]:
    conversation = ports.now()
    request = Request(conversation.system, ports.toolset.tools, conversation.messages, conversation.run)
    reply = yield from ports.model.reply(request, ports.stop)
    return replace(reply, messages=numbered(reply.messages, conversation.messages))


def _whole(reply: Reply) -> None:
    """A reply that stops short is not an answer."""
    if reply.finish == "length":
        raise Ending("out-of-tokens", reply.text, "reply-cut-off", "ask for less, or allow longer replies")
    if reply.finish == "filter":
        raise Ending("refused", reply.text or "the model would not answer", "content-filter")
    if not reply.text.strip():
        raise Ending("failed", "the model said nothing", "empty-reply", "try again, or another model")


def _done(ports: Ports, calls: Iterable[ToolCall]) -> Steps[None]:
    """Do what was called for; what follows an answer comes behind all of them, as every service wants it."""
    following: list[Event] = []
    for call in calls:
        if ports.stop.is_set():
            raise Ending("interrupted")
        began = ports.clock()
        answer = yield from ports.toolset.call(call)
        yield _used(call, answer, ports.clock() - began)
        if answer.activated is not None:
            following.append(replace(answer.activated, messages=answer.messages))
        elif answer.messages:
            following.append(Used(call, messages=answer.messages))
    yield from following


def _used(call: ToolCall, answer: Answer, seconds: float) -> Used:
    skill = answer.activated.skill if answer.activated and not answer.messages else ""
    told = Message("tool", answer.text, answers=call.id, skill=skill, failed=answer.error)
    return Used(
        call, answer.text, answer.error, answer.status, answer.note, seconds, answer.skill, (told,), reason_of(answer)
    )


def reason_of(answer: Answer) -> Reason:
    """Why it went wrong: as the tool says, or just that it did."""
    return answer.reason or ("failed" if answer.error else "")


def unanswered(messages: tuple[Message, ...]) -> Iterable[Message]:
    """Answers for the calls at the end that have none."""
    given = {message.answers for message in messages if message.role == "tool"}
    for message in messages:
        if message.call is not None and message.call.id not in given:
            yield Message("tool", "[not done: the run ended first]", answers=message.call.id, failed=True)

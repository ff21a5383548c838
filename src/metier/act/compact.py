"""Cutting a conversation short before it outgrows the model: a summary stands for what came before."""

from __future__ import annotations

from collections.abc import Sequence

from ..types.activation import Message
from ..types.errors import ModelError
from ..types.event import Compacted, Retried, Steps
from ..types.model import Model, Request, Stop
from ..types.text import shortened, tokens_of
from ..types.tool import Tool
from .conversation import Conversation, tokens_in
from .restore import Offer, answered, changed, lost, put_back

FULL = 0.8
"""The share of the window that may be full before the conversation is cut."""
_TAIL = 0.2
"""The share that the newest messages may keep."""
_MOST_SUMMARY = 8_000
"""Characters."""
_ASK = (
    "Stop here and write a summary of this conversation for yourself, because all of it but the last few messages will"
    " be gone. Say what the user wants, in their own words where they matter; what was decided; what was done, with the"
    " paths and names that count; what failed; and what is left. Plain text, no tools, at most 400 words."
)
_HEAD = "[The conversation up to here was cut short. This stands for it:]"


def cost_of(tools: Sequence[Tool]) -> int:
    """An estimate of what the tools cost in every request."""
    return sum(tokens_of(tool.name + tool.description + str(tool.schema)) for tool in tools)


def needs_compacting(conversation: Conversation, window: int, tools: int) -> bool:
    """Whether there is too little room left, and something that cutting would free."""
    if conversation.tokens + tools <= window * FULL:
        return False
    tail = _tail(conversation.messages, int(window * _TAIL))
    return any(not one.tag for one in conversation.messages[: len(conversation.messages) - len(tail)])


def compacted(
    conversation: Conversation, offer: Offer, model: Model, tools: tuple[Tool, ...], stop: Stop
) -> Steps[None]:
    """A summary by the model itself, the skills in force, and the newest messages.  Nothing of a skill's runs again."""
    before = conversation.tokens
    whole = answered(conversation.messages)
    tail = _tail(whole, int(model.window * _TAIL))
    if len(tail) >= len(whole):
        return
    summary = Message("user", f"{_HEAD}\n\n{(yield from _summary(conversation, model, tools, stop))}", tag="summary")
    kept = (summary, *tail)
    put = tuple(put_back(lost(conversation.active, kept)))
    shorter = Conversation(conversation.run, conversation.system, conversation.listing, kept)
    change = changed(shorter, offer)
    messages = (summary, *put, *(change.messages if change else ()), *tail)
    yield Compacted(before, tokens_of(conversation.system) + tokens_in(messages), len(whole) - len(tail), messages)


def _summary(conversation: Conversation, model: Model, tools: tuple[Tool, ...], stop: Stop) -> Steps[str]:
    """What the model makes of it; where it can't be asked, the user's own words."""
    asked = (*answered(conversation.messages), Message("user", _ASK))
    try:
        steps = model.reply(Request(conversation.system, tools, asked, conversation.run), stop)
        while True:
            try:
                event = next(steps)
            except StopIteration as done:
                text: str = done.value.text.strip()
                break
            if isinstance(event, Retried):
                yield event
    except ModelError:
        text = ""
    said = [one.text for one in conversation.messages if one.role == "user" and not one.tag and not one.skill]
    return shortened(text, _MOST_SUMMARY) or "The user said, in order:\n" + "\n".join(
        f"- {shortened(one, 500)}" for one in said[-20:]
    )


def _tail(messages: tuple[Message, ...], room: int) -> tuple[Message, ...]:
    """The newest messages that fit, from something the user said on; at least the last thing they said."""
    starts = [at for at, one in enumerate(messages) if one.role == "user" and not one.tag]
    for at in starts:
        if tokens_in(messages[at:]) <= room:
            return messages[at:]
    return messages[starts[-1] :] if starts else ()

"""A conversation: what its events have made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..types.activation import Message
from ..types.event import Activated, Compacted, Event, Nested, Replied, Restored, Started
from ..types.text import tokens_of
from ..types.usage import NOTHING_USED, Usage


@dataclass(frozen=True)
class Conversation:
    """What the model has been told and has said, and the skills it is working under."""

    run: str = ""
    system: str = ""
    """The same bytes from the first request to the last."""
    listing: Mapping[str, str] = field(default_factory=dict)
    """What the system prompt's catalog says of each skill, as a digest."""
    messages: tuple[Message, ...] = ()
    active: tuple[Activated, ...] = ()
    """Skills in force, in the order they came; a later one augments the earlier."""
    usage: Usage = NOTHING_USED

    def after(self, event: Event) -> Conversation:
        """The conversation once this has happened."""
        match event:
            case Nested():
                return self  # what a delegated run does stays in it
            case Started(run=run, system=system, listing=listing):
                return replace(self, run=run, system=system, listing=listing)
            case Compacted(messages=messages) | Restored(messages=messages, whole=True):
                return replace(self, messages=messages)
            case Activated():
                others = tuple(one for one in self.active if one.skill != event.skill)
                return replace(self, active=(*others, event), messages=self.messages + event.messages)
            case Replied():
                return replace(self, usage=self.usage + event.usage, messages=self.messages + event.messages)
        added: tuple[Message, ...] = getattr(event, "messages", ())
        return replace(self, messages=self.messages + added) if added else self

    @property
    def tokens(self) -> int:
        """An estimate of what a request with all of it costs."""
        return tokens_of(self.system) + tokens_in(self.messages)


def conversation_of(events: Iterable[Event]) -> Conversation:
    """What a journal comes to."""
    conversation = Conversation()
    for event in events:
        conversation = conversation.after(event)
    return conversation


def tokens_in(messages: Iterable[Message]) -> int:
    return sum(tokens_of(message.text) + 4 + (32 if message.call else 0) for message in messages)


def numbered(messages: tuple[Message, ...], before: tuple[Message, ...]) -> tuple[Message, ...]:
    """No two calls of a conversation have one id."""
    known = {one.call.id for one in before if one.call}
    pairs: dict[str, str] = {}
    for one in messages:
        if one.call is not None and one.call.id in known:
            number = 2
            while f"{one.call.id}-{number}" in known:
                number += 1
            pairs[one.call.id] = f"{one.call.id}-{number}"
    if not pairs:
        return messages
    return tuple(
        replace(
            one,
            call=one.call and replace(one.call, id=pairs.get(one.call.id, one.call.id)),
            answers=pairs.get(one.answers, one.answers),
            raw="",
        )
        for one in messages
    )

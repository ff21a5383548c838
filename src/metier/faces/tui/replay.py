"""A kept conversation as it was shown: what its journal holds, in the events and lines of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...types.event import Answered, Asked, Ended, Event, Heard, Nested, Replied, Started, innermost_event
from ...types.text import visible_text
from .lines import StyledLine, question_lines

_MOST_TURNS = 50
"""Turns that are shown again; the model still has all of them."""


def history_items(events: Iterable[Event]) -> Iterator[Event | list[StyledLine]]:
    """Events to draw and lines to show, in order."""
    kept = [event for event in events if not isinstance(event, Started)]
    turns = [at for at, event in enumerate(kept) if isinstance(event, Heard)]
    if len(turns) > _MOST_TURNS:
        yield [StyledLine("quiet", f"… {len(turns) - _MOST_TURNS} earlier turns")]
        kept = kept[turns[-_MOST_TURNS] :]
    # A rule or nobody may have answered: only what a person was asked was on the screen.
    answered = {
        inner.id for inner in map(innermost_event, kept) if isinstance(inner, Answered) and inner.by == "person"
    }
    for event in kept:
        match innermost_event(event):
            case Asked(id=id) as asked:
                if id in answered:
                    yield question_lines(asked)
            case Answered(answer=answer, by="person"):
                yield [StyledLine("request", visible_text(answer))]
            case Answered():
                pass
            case Ended(messages=messages) if not isinstance(event, Nested):
                # The half of a reply that a stop had left.
                yield from (Replied(message.text) for message in messages if message.role == "assistant")
                yield event
            case _:
                yield event

"""What a conversation should hold, compared with what it does: whatever is missing is put back, at the end.

Nothing runs here: instructions were rendered once and are kept.  Nothing is written twice: what is still in view stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from ..types.activation import Message
from ..types.event import Activated, Event, Offered, Restored
from ..types.text import flat, tokens_of
from .conversation import Conversation

EACH = 5_000
"""Tokens of one skill's instructions that are put back."""
ALL = 25_000
"""Tokens of all instructions that are put back, the newest first."""
_MOST_CHANGED = 12_000
"""Characters of new and changed lines in a note; the rest is named."""
_NOT_REPEATED = "Its instructions are not repeated here: load it again when you need them."
_NO_ANSWER = "[no answer: this was interrupted before it was done]"


@dataclass(frozen=True)
class Offer:
    """The catalog as it stands now: each skill's own lines, by its name."""

    lines: Mapping[str, str] = field(default_factory=dict)

    @property
    def digests(self) -> dict[str, str]:
        return {name: _digest(line) for name, line in self.lines.items()}


def _digest(line: str) -> str:
    return sha256(line.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def repairs(conversation: Conversation, offer: Offer) -> Iterator[Event]:
    """What has to happen before the model is asked again; nothing where all is as it should be."""
    whole = answered(conversation.messages)
    if whole != conversation.messages:
        yield Restored(messages=whole, whole=True)
    if (change := changed(conversation, offer)) is not None:
        yield change
    missing = lost(conversation.active, whole)
    if missing:
        yield Restored(tuple(one.skill for one in missing), tuple(put_back(missing)))


def answered(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Every call has its answer right behind it, once, and no answer is without its call."""
    found: list[Message] = []
    at = 0
    while at < len(messages):
        end = at
        while end < len(messages) and messages[end].role == "assistant":
            end += 1
        if end == at:
            if messages[at].role != "tool":
                found.append(messages[at])
            at += 1
            continue
        said = _once(messages[at:end], {one.call.id for one in found if one.call})
        found += said
        given: dict[str, Message] = {}
        while end < len(messages) and messages[end].role == "tool":
            given.setdefault(messages[end].answers, messages[end])
            end += 1
        for one in said:
            if one.call is not None:
                found.append(given.get(one.call.id) or Message("tool", _NO_ANSWER, answers=one.call.id, failed=True))
        at = end
    return messages if tuple(found) == messages else tuple(found)


def _once(said: Sequence[Message], known: set[str]) -> list[Message]:
    """A call that was made before is not made again."""
    kept = []
    for message in said:
        if message.call is None or message.call.id not in known:
            kept.append(message)
            known |= {message.call.id} if message.call else set()
    return kept


def changed(conversation: Conversation, offer: Offer) -> Offered | None:
    """The note that says how the skills differ from the system prompt's list; None where the last one still holds."""
    now, then = offer.digests, conversation.listing
    added = tuple(name for name in now if name not in then)
    altered = tuple(name for name in now if name in then and now[name] != then[name])
    removed = tuple(name for name in then if name not in now)
    last = next((one.text for one in reversed(conversation.messages) if one.tag == "change"), "")
    text = _note(added, altered, removed, offer.lines)
    if text == last or (not last and text == _AS_BEFORE):
        return None
    return Offered(added, altered, removed, (Message("user", text, tag="change"),))


_AS_BEFORE = "The list of skills at the beginning holds again, as it stands there; forget the changes to it."


def _note(added: Sequence[str], altered: Sequence[str], removed: Sequence[str], lines: Mapping[str, str]) -> str:
    if not (added or altered or removed):
        return _AS_BEFORE
    parts = ["The skills have changed since the list at the beginning. This note replaces earlier ones of its kind."]
    room = _MOST_CHANGED
    for title, names in (("New", added), ("Changed; load it again before you use it", altered)):
        shown = []
        for name in names:
            room -= len(lines[name])
            if room < 0:
                break
            shown.append(lines[name].rstrip("\n"))
        left = [flat(name) for name in names[len(shown) :]]
        if left:
            shown.append("And: " + ", ".join(left[:50]) + (f" and {len(left) - 50} more" if len(left) > 50 else ""))
        if shown:
            parts.append(f"{title}:\n" + "\n".join(shown))
    if removed:
        parts.append("No longer there: " + ", ".join(map(flat, removed)))
    return "\n\n".join(parts)


def lost(active: Sequence[Activated], messages: Sequence[Message]) -> tuple[Activated, ...]:
    """The skills in force whose instructions, or what was put back of them, are nowhere in the conversation."""
    return tuple(one for one in active if not _in_view(one, messages))


def _in_view(one: Activated, messages: Sequence[Message]) -> bool:
    own = [message for message in messages if message.skill == one.skill]
    if any(one.text in message.text for message in own):
        return True
    back = [message.text for message in own if message.tag == "restored"]
    return any(_NOT_REPEATED in text for text in back) or (bool(back) and any(_cut(one.text, EACH) in t for t in back))


def put_back(missing: Sequence[Activated]) -> Iterator[Message]:
    """Messages for skills that were lost, in their order; room is given to the newest first."""
    room, texts = ALL, {}
    for one in reversed(missing):
        text = _cut(one.text, EACH)
        cost = tokens_of(text)
        if cost <= room:
            room -= cost
            texts[one.skill] = text
    for one in missing:
        yield Message("user", _restored(one, texts.get(one.skill, "")), skill=one.skill, tag="restored")


def _restored(one: Activated, text: str) -> str:
    given = f" It was called with: {one.arguments}" if one.arguments else ""
    head = f"The skill '{flat(one.skill)}' is still active; what it says still holds.{given}"
    if not text:
        return f"[{head} {_NOT_REPEATED}]"
    cut = "\n\n[cut here: load the skill again for the rest]" if len(text) < len(one.text) else ""
    return f"[{head} Do not begin it again; go on where you are.]\n\nSkill directory: {one.directory}\n\n{text}{cut}"


def _cut(text: str, most: int) -> str:
    """The beginning of a text, of at most so many tokens, up to the end of a line where that is near."""
    if tokens_of(text) <= most:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens_of(text[:middle]) <= most else (low, middle - 1)
    at = text.rfind("\n", 0, low)
    return text[: at if at > low * 3 // 4 else low]

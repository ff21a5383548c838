"""A conversation as a fold over events, and what keeps it valid: repairs, notes about changed skills, compaction.

Three things must hold before every request.  Each call has its answer right behind it, or providers reject the
request.  The model knows how today's skills differ from the list in the system prompt, which can't change any more.
And the instructions of each active skill are in view, also after compaction or an interruption removed them.
`repair_events` yields exactly the events that restore this, and none where it already holds.

Rewriting the history in place was refused: it would lose the provider's cached prefix, and the journal would no longer
say what the model was told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256

from ..types.activation import Message
from ..types.errors import ModelError
from ..types.event import (
    NOTHING_USED,
    Activated,
    Compacted,
    Event,
    EventSteps,
    Nested,
    Offered,
    Replied,
    Restored,
    Retried,
    Started,
    Usage,
)
from ..types.model import Model, ReplyRequest, StopFlag, Tool
from ..types.text import bounded_field, clean_line, estimate_tokens, neutralize_tags, shorten_text


@dataclass(frozen=True)
class Conversation:
    """What the model was told and said, and the active skills."""

    run: str = ""
    system: str = ""
    """The same bytes from the first request to the last."""
    listing: Mapping[str, str] = field(default_factory=dict)
    """A digest of each skill's entry in the system prompt's catalog."""
    messages: tuple[Message, ...] = ()
    active: tuple[Activated, ...] = ()
    """Active skills in the order of their activation; a later one wins over an earlier one."""
    usage: Usage = NOTHING_USED
    rewrites: int = 0
    """How often all messages were replaced; in between they only grow."""

    def after(self, event: Event) -> Conversation:
        """The conversation after this event."""
        match event:
            case Nested():
                return self  # a subagent's events stay out of its parent's conversation
            case Started(run=run, system=system, listing=listing):
                return replace(self, run=run, system=system, listing=listing)
            case Compacted(messages=messages, usage=usage):
                return replace(self, messages=messages, usage=self.usage + usage, rewrites=self.rewrites + 1)
            case Restored(messages=messages, whole=True):
                return replace(self, messages=messages, rewrites=self.rewrites + 1)
            case Activated():
                others = tuple(activated for activated in self.active if activated.skill != event.skill)
                return replace(self, active=(*others, event), messages=self.messages + event.messages)
            case Replied():
                return replace(self, usage=self.usage + event.usage, messages=self.messages + event.messages)
        added: tuple[Message, ...] = getattr(event, "messages", ())
        return replace(self, messages=self.messages + added) if added else self

    @property
    def tokens(self) -> int:
        """An estimate of the tokens of the system prompt and all messages."""
        return estimate_tokens(self.system) + tokens_in(self.messages)


def conversation_of(events: Iterable[Event]) -> Conversation:
    """The conversation that a journal's events add up to."""
    conversation = Conversation()
    for event in events:
        conversation = conversation.after(event)
    return conversation


def tokens_in(messages: Iterable[Message]) -> int:
    return sum(map(message_tokens, messages))


# --- Accounts of the messages ---

# Before every request four things are asked of all messages: how many tokens they are, whether each call has its
# answer, which ids calls have, and which skills are in view.  Asked of the messages themselves, each turn would cost
# more than the one before it.  So the answers are kept, and extended with each new message.


def message_tokens(message: Message) -> int:
    """An estimate: a few tokens for the frame of a message, and more for the name and arguments of a call."""
    return estimate_tokens(message.text) + 4 + (32 if message.call else 0)


@dataclass
class ConversationLedger:
    """The accounts of one conversation; `sync` brings them up to date."""

    tokens: int = 0
    call_ids: set[str] = field(default_factory=set)
    by_skill: dict[str, list[Message]] = field(default_factory=dict)
    """The messages with the instructions of each skill."""
    last_change: str = ""
    """The last note about changed skills."""
    _seen: int = 0
    _rewrites: int = -1
    _open_calls: list[str] = field(default_factory=list)
    """Calls whose answers have to come next, in this order."""
    _answering: bool = False
    _broken: bool = False

    def sync(self, conversation: Conversation) -> ConversationLedger:
        """The accounts of this conversation; only what was added since the last time is looked at."""
        if conversation.rewrites != self._rewrites or len(conversation.messages) < self._seen:
            vars(self).update(vars(ConversationLedger(_rewrites=conversation.rewrites)))
        for message in conversation.messages[self._seen :]:
            self._add(message)
        self._seen = len(conversation.messages)
        return self

    @property
    def paired(self) -> bool:
        """Whether each call is followed by exactly one answer, and each answer follows its call."""
        return not self._broken and not self._open_calls

    def _add(self, message: Message) -> None:
        self.tokens += message_tokens(message)
        if message.skill:
            self.by_skill.setdefault(message.skill, []).append(message)
        if message.tag == "change":
            self.last_change = message.text
        if message.role == "assistant":
            self._add_reply(message)
        elif message.role == "tool":
            self._answering = True
            if self._open_calls and self._open_calls[0] == message.answers:
                del self._open_calls[0]
            else:
                self._broken = True
        elif self._open_calls:
            self._broken = True

    def _add_reply(self, message: Message) -> None:
        # Several messages of one reply may hold calls; once answers have begun, all of them must come first.
        if self._answering and self._open_calls:
            self._broken = True
        self._answering = False
        if message.call is not None:
            self._broken = self._broken or message.call.id in self.call_ids
            self.call_ids.add(message.call.id)
            self._open_calls.append(message.call.id)


def group_by_skill(messages: Sequence[Message]) -> Mapping[str, list[Message]]:
    """The messages with the instructions of each skill."""
    groups: dict[str, list[Message]] = {}
    for message in messages:
        if message.skill:
            groups.setdefault(message.skill, []).append(message)
    return groups


def renumber_calls(messages: tuple[Message, ...], taken_ids: Set[str]) -> tuple[Message, ...]:
    """New messages with ids that no earlier call has: some providers number calls from 1 in every reply."""
    pairs: dict[str, str] = {}
    for message in messages:
        if message.call is not None and message.call.id in taken_ids:
            number = 2
            while f"{message.call.id}-{number}" in taken_ids:
                number += 1
            pairs[message.call.id] = f"{message.call.id}-{number}"
    if not pairs:
        return messages
    return tuple(
        replace(
            message,
            call=message.call and replace(message.call, id=pairs.get(message.call.id, message.call.id)),
            answers=pairs.get(message.answers, message.answers),
            raw="",
        )
        for message in messages
    )


# --- Repairs before a request ---

MOST_PER_SKILL = 5_000
"""Tokens of one skill's instructions that are restored."""
MOST_RESTORED = 25_000
"""Tokens of all restored instructions together, the newest first."""
_MOST_CHANGED = 12_000
"""Characters of new and changed entries in a note; further skills are only named."""
_NOT_REPEATED = "Its instructions are not repeated here: load it again when you need them."
_NO_ANSWER = "[no answer: this was interrupted before it was done]"


@dataclass(frozen=True)
class CatalogOffer:
    """The current catalog: the text of each skill's entry, by name."""

    lines: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digests(self) -> dict[str, str]:
        return {name: _line_digest(line) for name, line in self.lines.items()}


def _line_digest(line: str) -> str:
    return sha256(line.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def repair_events(
    conversation: Conversation, offer: CatalogOffer, ledger: ConversationLedger | None = None
) -> Iterator[Event]:
    """The events that make a conversation ready for the next request; none where it is."""
    known = (ledger or ConversationLedger()).sync(conversation)
    # All decided before the first event: applying it changes what is known.
    change = _change_since(conversation, offer, known.last_change)
    messages = conversation.messages if known.paired else pair_answers(conversation.messages)
    missing = _lost_among(conversation.active, known.by_skill if known.paired else group_by_skill(messages))
    if messages is not conversation.messages and messages != conversation.messages:
        yield Restored(messages=messages, whole=True)
    if change is not None:
        yield change
    if missing:
        yield Restored(tuple(activated.skill for activated in missing), tuple(restored_messages(missing)))


def pair_answers(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Messages in which each call is followed by exactly one answer, and each answer follows its call."""
    paired: list[Message] = []
    call_ids: set[str] = set()
    at = 0
    while at < len(messages):
        end = at
        while end < len(messages) and messages[end].role == "assistant":
            end += 1
        if end == at:
            if messages[at].role != "tool":
                paired.append(messages[at])
            at += 1
            continue
        replies = _drop_repeated_calls(messages[at:end], call_ids)
        paired += replies
        answers: dict[str, Message] = {}
        while end < len(messages) and messages[end].role == "tool":
            answers.setdefault(messages[end].answers, messages[end])
            end += 1
        for message in replies:
            if message.call is not None:
                paired.append(
                    answers.get(message.call.id) or Message("tool", _NO_ANSWER, answers=message.call.id, failed=True)
                )
        at = end
    return messages if tuple(paired) == messages else tuple(paired)


def _drop_repeated_calls(messages: Sequence[Message], call_ids: set[str]) -> list[Message]:
    """Messages without calls whose id occurred before; the ids of the others are added."""
    fresh = []
    for message in messages:
        if message.call is None or message.call.id not in call_ids:
            fresh.append(message)
            if message.call is not None:
                call_ids.add(message.call.id)
    return fresh


def catalog_change(conversation: Conversation, offer: CatalogOffer) -> Offered | None:
    """A note on how the skills differ from the system prompt's list; None where the last note still holds."""
    last = next((message.text for message in reversed(conversation.messages) if message.tag == "change"), "")
    return _change_since(conversation, offer, last)


def _change_since(conversation: Conversation, offer: CatalogOffer, last: str) -> Offered | None:
    now, then = offer.digests, conversation.listing
    added = tuple(name for name in now if name not in then)
    altered = tuple(name for name in now if name in then and now[name] != then[name])
    removed = tuple(name for name in then if name not in now)
    text = _change_note(added, altered, removed, offer.lines)
    if text == last or (not last and text == _AS_BEFORE):
        return None
    return Offered(added, altered, removed, (Message("user", text, tag="change"),))


_AS_BEFORE = "The list of skills at the beginning holds again, as it stands there; forget the changes to it."


def _change_note(added: Sequence[str], altered: Sequence[str], removed: Sequence[str], lines: Mapping[str, str]) -> str:
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
        unlisted = [_listed_name(name) for name in names[len(shown) :]]
        if unlisted:
            shown.append(
                "And: " + ", ".join(unlisted[:50]) + (f" and {len(unlisted) - 50} more" if len(unlisted) > 50 else "")
            )
        if shown:
            parts.append(f"{title}:\n" + "\n".join(shown))
    if removed:
        parts.append("No longer there: " + ", ".join(map(_listed_name, removed)))
    return "\n\n".join(parts)


def _listed_name(name: str) -> str:
    return neutralize_tags(bounded_field(name))


def lost_skills(active: Sequence[Activated], messages: Sequence[Message]) -> tuple[Activated, ...]:
    """The active skills whose instructions, whole or restored, are nowhere in the conversation."""
    return _lost_among(active, group_by_skill(messages))


def _lost_among(active: Sequence[Activated], by_skill: Mapping[str, Sequence[Message]]) -> tuple[Activated, ...]:
    return tuple(activated for activated in active if not _is_in_view(activated, by_skill.get(activated.skill, ())))


def _is_in_view(activated: Activated, own_messages: Sequence[Message]) -> bool:
    # The newest first: a skill that is called often has many, and the last one nearly always has the text.
    if any(activated.text in message.text for message in reversed(own_messages)):
        return True
    back = [message.text for message in own_messages if message.tag == "restored"]
    return any(_NOT_REPEATED in text for text in back) or (
        bool(back) and any(_cut_text(activated.text, MOST_PER_SKILL) in t for t in back)
    )


def restored_messages(missing: Sequence[Activated]) -> Iterator[Message]:
    """Messages that restore skills, in order of activation; the newest get their share of the budget first."""
    room, texts = MOST_RESTORED, {}
    for activated in reversed(missing):
        text = _cut_text(activated.text, MOST_PER_SKILL)
        cost = estimate_tokens(text)
        if cost <= room:
            room -= cost
            texts[activated.skill] = text
    for activated in missing:
        yield Message(
            "user", _restored_text(activated, texts.get(activated.skill, "")), skill=activated.skill, tag="restored"
        )


def _restored_text(activated: Activated, text: str) -> str:
    call_note = f" It was called with: {activated.arguments}" if activated.arguments else ""
    head = f"The skill '{clean_line(activated.skill)}' is still active; what it says still holds.{call_note}"
    if not text:
        return f"[{head} {_NOT_REPEATED}]"
    cut = "\n\n[cut here: load the skill again for the rest]" if len(text) < len(activated.text) else ""
    return (
        f"[{head} Do not begin it again; go on where you are.]\n\nSkill directory: {activated.directory}\n\n{text}{cut}"
    )


def _cut_text(text: str, most: int) -> str:
    """The beginning of a text of at most so many tokens, cut at the end of a line where one is near."""
    if estimate_tokens(text) <= most:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate_tokens(text[:middle]) <= most else (low, middle - 1)
    at = text.rfind("\n", 0, low)
    return text[: at if at > low * 3 // 4 else low]


# --- Compaction ---

FULL_SHARE = 0.8
"""The share of the context window above which a conversation is compacted."""
_TAIL_SHARE = 0.2
"""The share of the window that the newest messages keep."""
_MOST_SUMMARY = 8_000
"""Characters of a summary."""
_SUMMARY_PROMPT = (
    "Stop here and write a summary of this conversation for yourself, because all of it but the last few messages will"
    " be gone. Say what the user wants, in their own words where they matter; what was decided; what was done, with the"
    " paths and names that count; what failed; and what is left. Plain text, no tools, at most 400 words."
)
_SUMMARY_HEADING = "[The conversation up to here was cut short. This stands for it:]"


def tool_tokens(tools: Sequence[Tool]) -> int:
    """An estimate of the tokens that the tools take in every request."""
    return sum(estimate_tokens(tool.name + tool.description + str(tool.schema)) for tool in tools)


def needs_compacting(conversation: Conversation, window: int, tools: int, ledger: ConversationLedger) -> bool:
    """Whether the window is nearly full, and compaction would free anything."""
    if estimate_tokens(conversation.system) + ledger.sync(conversation).tokens + tools <= window * FULL_SHARE:
        return False
    tail = _newest_messages(conversation.messages, tail_room(window))
    return any(not message.tag for message in conversation.messages[: len(conversation.messages) - len(tail)])


def tail_room(window: int) -> int:
    """The tokens of newest messages that compaction leaves as they are."""
    return int(window * _TAIL_SHARE)


def compact_conversation(
    conversation: Conversation,
    offer: CatalogOffer,
    model: Model,
    tools: tuple[Tool, ...],
    stop: StopFlag,
    room: int | None = None,
) -> EventSteps[None]:
    """Replace old messages by the model's own summary, the active skills and the newest messages.

    Skills are restored from what was delivered: rendering them again would run the commands in their bodies again.
    `window` is given where the model's is known to be smaller than it says.
    """
    before = conversation.tokens
    history = pair_answers(conversation.messages)
    tail = _newest_messages(history, tail_room(model.window) if room is None else room)
    if len(tail) >= len(history):
        return
    text, usage = yield from _request_summary(conversation, model, tools, stop)
    summary = Message("user", f"{_SUMMARY_HEADING}\n\n{text}", tag="summary")
    remaining = (summary, *tail)
    restored = tuple(restored_messages(lost_skills(conversation.active, remaining)))
    shorter = Conversation(conversation.run, conversation.system, conversation.listing, remaining)
    change = catalog_change(shorter, offer)
    messages = (summary, *restored, *(change.messages if change else ()), *tail)
    after = estimate_tokens(conversation.system) + tokens_in(messages)
    # A short conversation is shorter than its summary with the skills restored: then all stays, but what was paid for.
    if after >= before and room is not None:
        messages, after, dropped = history, before, 0
    else:
        dropped = len(history) - len(tail)
    yield Compacted(before, after, dropped, messages, usage)


def _request_summary(
    conversation: Conversation, model: Model, tools: tuple[Tool, ...], stop: StopFlag
) -> EventSteps[tuple[str, Usage]]:
    """The model's summary and what it cost; where it fails, the user's own messages."""
    messages = (*pair_answers(conversation.messages), Message("user", _SUMMARY_PROMPT))
    usage = NOTHING_USED
    try:
        steps = model.reply(ReplyRequest(conversation.system, tools, messages, conversation.run), stop)
        while True:
            try:
                event = next(steps)
            except StopIteration as done:
                text: str = done.value.text.strip()
                usage = done.value.usage
                break
            if isinstance(event, Retried):
                yield event
    except ModelError:
        text = ""
    user_texts = [
        message.text
        for message in conversation.messages
        if message.role == "user" and not message.tag and not message.skill
    ]
    said = "\n".join(f"- {shorten_text(user_text, 500)}" for user_text in user_texts[-20:])
    return shorten_text(text, _MOST_SUMMARY) or f"The user said, in order:\n{said}", usage


def _newest_messages(messages: tuple[Message, ...], room: int) -> tuple[Message, ...]:
    """The newest messages that fit, beginning with a user's message; at least the last user's message."""
    first: int | None = None
    for at in range(len(messages) - 1, -1, -1):
        room -= message_tokens(messages[at])
        if first is not None and room < 0:
            break
        if messages[at].role == "user" and not messages[at].tag:
            first = at
    return messages[first:] if first is not None else ()

"""Whatever is done to a conversation's history, the next request holds what it must."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from metier.agent.conversation import (
    MOST_PER_SKILL,
    MOST_RESTORED,
    CatalogOffer,
    Conversation,
    catalog_change,
    lost_skills,
    pair_answers,
    repair_events,
)
from metier.types.activation import Message, ToolCall
from metier.types.event import Activated, Offered, Restored
from metier.types.text import estimate_tokens

NAMES = ("alpha", "beta", "gamma", "delta")
names = some.sampled_from(NAMES)
bodies = some.sampled_from(["", "short", "多言語の本文。", "word " * 900, "word\n" * 5_000, "word " * 30_000])
slowly = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Other tests may keep the machine busy."""


@some.composite
def said(draw: some.DrawFn) -> list[Message]:
    """A piece of conversation: something said, a call with its answer, instructions, a note."""
    number = draw(some.integers(0, 30))
    return draw(
        some.sampled_from(
            [
                [Message("user", f"question {number}")],
                [Message("assistant", f"answer {number}")],
                [
                    Message("assistant", call=ToolCall(f"c{number}", "tool")),
                    Message("tool", "done", answers=f"c{number}"),
                ],
                [
                    Message("assistant", "both"),
                    Message("assistant", call=ToolCall(f"a{number}", "tool")),
                    Message("assistant", call=ToolCall(f"b{number}", "tool")),
                    Message("tool", "done", answers=f"a{number}"),
                    Message("tool", "done", answers=f"b{number}"),
                ],
                [Message("user", "The skills have changed since…", tag="change")],
                [Message("user", "[The conversation up to here was cut short.]", tag="summary")],
            ]
        )
    )


@some.composite
def conversations(draw: some.DrawFn) -> tuple[Conversation, CatalogOffer]:
    """A conversation whose history was then rewritten at will: cut, thinned, doubled, shuffled."""
    active = []
    messages: list[Message] = []
    for name in draw(some.lists(names, unique=True)):
        text = f"<{name}> " + draw(bodies)
        active.append(Activated(name, text=text, tokens=estimate_tokens(text)))
        messages.append(Message("user", f"Skill directory: /x\n\n{text}", skill=name))
        messages += [message for piece in draw(some.lists(said(), max_size=4)) for message in piece]
    match draw(some.sampled_from(["nothing", "cut", "thin", "double", "shuffle", "clear"])):
        case "cut":
            messages = messages[draw(some.integers(0, len(messages))) :]
        case "thin":
            messages = [message for message in messages if draw(some.booleans())]
        case "double":
            messages = [message for message in messages for _ in range(draw(some.integers(1, 2)))]
        case "shuffle":
            messages = draw(some.permutations(messages))
        case "clear":
            messages = []
    listing = {name: draw(some.text(max_size=5)) for name in draw(some.lists(names, unique=True))}
    then = CatalogOffer({name: f"- {name}: {told}\n" for name, told in listing.items()})
    now = CatalogOffer(
        {name: f"- {name}: {draw(some.text(max_size=5))}\n" for name in draw(some.lists(names, unique=True))}
    )
    system = "Who you are.\n\n" + "".join(then.lines.values())
    return Conversation("run", system, then.digests, tuple(messages), tuple(active)), now


def repaired(conversation: Conversation, offer: CatalogOffer) -> Conversation:
    for event in repair_events(conversation, offer):
        assert isinstance(event, Restored | Offered)
        conversation = conversation.after(event)
    return conversation


@slowly
@given(conversations())
def test_no_active_skill_is_lost(made):
    whole = repaired(*made)

    for one in whole.active:
        own = [message for message in whole.messages if message.skill == one.skill]
        assert any(one.text in message.text or message.tag == "restored" for message in own)


@slowly
@given(conversations())
def test_what_is_put_back_is_within_its_bounds_and_the_newest_comes_before_the_rest(made):
    conversation, offer = made
    missing = lost_skills(conversation.active, pair_answers(conversation.messages))
    whole = repaired(conversation, offer)
    back = {message.skill: message.text for message in whole.messages if message.tag == "restored"}

    assert sum(estimate_tokens(text) for text in back.values()) <= MOST_RESTORED + 200 * len(back)
    assert all(estimate_tokens(text) <= MOST_PER_SKILL + 200 for text in back.values())
    assert [message.skill for message in whole.messages if message.tag == "restored"] == [one.skill for one in missing]
    if missing:
        assert "Skill directory:" in back[missing[-1].skill]


@slowly
@given(conversations())
def test_the_catalog_is_there_once_and_the_last_note_tells_how_it_is_now(made):
    conversation, offer = made
    whole = repaired(conversation, offer)
    notes = [message.text for message in whole.messages if message.tag == "change"]

    assert whole.system == conversation.system
    assert catalog_change(whole, offer) is None
    if offer.digests != dict(conversation.listing):
        for name in offer.lines.keys() - conversation.listing.keys():
            assert name in notes[-1].partition("No longer there")[0]
        for name in conversation.listing.keys() - offer.lines.keys():
            assert name in notes[-1].rpartition("No longer there")[2]
    elif notes:
        assert notes[-1].startswith("The list of skills at the beginning holds again")


@slowly
@given(conversations())
def test_every_call_has_one_answer_right_behind_it_and_no_answer_stands_alone(made):
    messages = repaired(*made).messages
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if message.role == "tool":
            assert waiting
            assert message.answers == waiting.pop(0)
        else:
            assert message.role == "assistant" or not waiting
        if message.call:
            assert message.call.id not in seen
            seen.add(message.call.id)
            waiting.append(message.call.id)
    assert not waiting


@slowly
@given(conversations())
def test_what_is_whole_is_left_alone(made):
    conversation, offer = made
    once = repaired(conversation, offer)

    assert list(repair_events(once, offer)) == []


@slowly
@given(conversations())
def test_what_was_there_and_right_stays_where_it_was(made):
    conversation, offer = made
    whole = pair_answers(conversation.messages)

    assert repaired(conversation, offer).messages[: len(whole)] == whole

"""A conversation of any length: a turn late in it costs what an early one did, and nothing is kept twice."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.home import write_skill

from metier.agent.agent import Agent
from metier.agent.conversation import Conversation, ConversationLedger, group_by_skill, pair_answers, tokens_in
from metier.improve.improver import after_run_hook
from metier.record.journal import Journal, runs_folder
from metier.record.trace import TraceFollower
from metier.testing import ScriptedModel
from metier.types.activation import Message, ToolCall
from metier.types.event import Activated, Ended, Event, Heard, Replied, Restored, Started, Used
from metier.types.model import MODEL_SERVICES, ModelAddress, ReplyRequest

SOAK = bool(os.environ.get("METIER_SOAK"))
TURNS = 5_000 if SOAK else 400


def test_a_late_turn_costs_what_an_early_one_does(world):
    write_skill(world.state / "skills" / "greet")
    asked = 0

    def answer(request: ReplyRequest) -> str | ToolCall:
        nonlocal asked
        asked += 1
        return "Fine." if asked % 2 else ToolCall(f"c{asked}", "read_file", {"path": f"x{asked}.txt"})

    library = world.open()
    agent = Agent(library, ScriptedModel(answer), after=after_run_hook(library))
    step, costs = TURNS // 8, []
    with agent.start() as session:
        for number in range(8):
            began = time.process_time()
            for turn in range(step):
                *_, ended = session.say("/greet Bob" if turn % 50 == 0 else f"question {number}, {turn}")
                assert isinstance(ended, Ended)
                assert ended.outcome == "finished"
            costs.append((time.process_time() - began) / step)
    # The least of each half: a busy machine makes some turns slower, and none faster.
    assert min(costs[4:]) <= 1.5 * min(costs[1:4]), [f"{1_000 * cost:.2f} ms" for cost in costs]


# --- The accounts of a conversation ---


def _message(kind: str, id: str, skill: str, tag: Literal["", "change"]) -> Message:
    if kind == "call":
        return Message("assistant", "", ToolCall(id, "read_file", {}))
    if kind == "tool":
        return Message("tool", "text", answers=id)
    return Message("assistant" if kind == "assistant" else "user", "words " * len(id), skill=skill, tag=tag)


MESSAGES = st.lists(
    st.builds(
        _message,
        st.sampled_from(["user", "assistant", "call", "call", "tool", "tool"]),
        st.sampled_from(["a", "b", "c", "d"]),
        st.sampled_from(["", "greet"]),
        st.sampled_from(["", "change"]),
    ),
    max_size=12,
)


@given(st.lists(st.one_of(MESSAGES.map(lambda messages: Replied("", messages=tuple(messages))), MESSAGES.map(lambda messages: Restored(messages=tuple(messages), whole=True))), max_size=5))  # fmt: skip
def test_the_accounts_say_what_the_messages_say(events: list[Event]):
    conversation, ledger = Conversation(), ConversationLedger()
    for event in events:
        conversation = conversation.after(event)
        known, messages = ledger.sync(conversation), conversation.messages
        assert known.tokens == tokens_in(messages)
        assert known.paired == (pair_answers(messages) == messages)
        assert known.call_ids == {message.call.id for message in messages if message.call}
        assert known.by_skill == group_by_skill(messages)
        assert known.last_change == next((one.text for one in reversed(messages) if one.tag == "change"), "")


# --- Following a journal ---


def test_after_a_turn_only_what_it_added_is_read(tmp_path: Path):
    journal = Journal(f"{tmp_path}/x.jsonl")
    follower = TraceFollower(journal, most=3)
    events: list[Event] = [Started("x"), Heard("one"), Activated("greet", "/g/SKILL.md", "user"), Ended("finished")]
    for event in events:
        journal.keep(event)
    new, whole = follower.follow()
    assert new.events == whole.events == tuple(events)

    for turn in range(10):
        tools: list[Event] = [Used(ToolCall(f"{turn}-{number}", "read_file", {})) for number in range(2)]
        for event in tools:
            journal.keep(event)
        new, whole = follower.follow()
        assert new.events == tuple(tools)
    assert (whole.started.run, whole.skills) == ("x", ("greet",))
    assert [event.call.id for event in whole.events if isinstance(event, Used)] == ["7-1", "8-0", "8-1", "9-0", "9-1"]

    Path(journal.path).write_text("")  # somebody emptied it
    journal.keep(events[0])
    assert follower.follow()[0].events == (events[0],)


def test_a_turn_without_a_failure_starts_no_review_of_one_before(world, monkeypatch):
    started: list[object] = []
    monkeypatch.setattr("metier.host.daemon.start_metier", lambda *words: started.append(words))
    write_skill(world.state / "skills" / "greet", body="Run `skill_fetch` first.\n")
    library = world.open()
    ended = after_run_hook(library)
    journal = Journal(f"{runs_folder(str(world.state))}/20260101-000000-abcdef.jsonl")
    skill = library.find("greet").skill
    failing = Used(ToolCall("1", "skill_fetch", {}), "There is no tool", True, reason="unknown-tool")
    for event in (Started("x"), Activated("greet", skill.path, "user"), failing, Ended("finished")):
        journal.keep(event)
    ended("20260101-000000-abcdef")
    assert len(started) == 1
    journal.keep(Heard("thanks"))
    journal.keep(Ended("finished"))
    ended("20260101-000000-abcdef")
    assert len(started) == 1


# --- What a service is sent ---


def test_messages_are_sent_as_they_are_and_not_rewritten_one_by_one(monkeypatch):
    openai = pytest.importorskip("openai", reason="the extra `agent` is not installed")
    from metier.agent.models.hosted import ProviderModel

    messages = tuple(Message("user" if at % 2 == 0 else "assistant", f"words {at}") for at in range(1_001))

    def cost() -> tuple[float, str]:
        model = ProviderModel(ModelAddress(MODEL_SERVICES["compatible"], "m", "http://127.0.0.1:1/v1", "k"))
        took = []
        for _ in range(3):
            began = time.process_time()
            text = model.wire(ReplyRequest("system", (), messages, "run"))
            took.append(time.process_time() - began)
        return min(took), text

    plain, sent = cost()
    monkeypatch.setattr("metier.agent.models.hosted.openai_client_class", lambda: openai.AsyncOpenAI)
    rewritten, same = cost()
    assert sent == same
    assert plain < rewritten / 3  # a tenth, where it was measured

"""Real requests over HTTP: both wire formats, every dialect, and what can go wrong on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.talking import spoken
from tests.agent.wire import Fails, Says, Wire, speaking
from tests.home import World, write_skill

from metier.agent.agent import Agent
from metier.agent.models.hosted import ProviderModel
from metier.agent.session import Session
from metier.types.event import Activated, Ended, Event, Retried, Used, Wrote
from metier.types.model import MODEL_SERVICES, ModelAddress

ROOTS = {
    "standard": "home/.metier/skills",
    "claude": "home/.claude/skills",
    "umbra": "home/.umbra/skills",
    "agentmd": "project/workspace/agents/skills",
    "multica": "home/.super-multica/skills",
    "agenvoy": "home/.config/agenvoy/skills",
    "openclaw": "home/.openclaw/skills",
}
WIRES = ("openai", "anthropic")


@contextmanager
def talking(world: World, spoken_as: str, lines: Sequence[Says | Fails], dialect: str = "standard") -> Iterator[Any]:
    with speaking(lines) as wire:
        url = wire.url + ("/v1" if spoken_as == "openai" else "")
        engine = ProviderModel(ModelAddress(MODEL_SERVICES[spoken_as], "a-model", url, "a-secret-key", patience=0.01))
        agent = ["greet"] if dialect == "agentmd" else None
        try:
            yield Agent(world.open(dialect, agent=agent), engine).start(), wire
        finally:
            engine.close()
    assert wire.faults == []


def greeter(world: World, dialect: str) -> str:
    folder = world.home.parent / ROOTS[dialect] / "greet"
    write_skill(folder, "Greets people by name.", "Greet whoever is named, with the script.\n")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "hi.py").write_text("import sys\nprint('hi', *sys.argv[1:])\n")
    if dialect == "agentmd":
        world.trust(dialect)
    return str(folder)


def activating(dialect: str, folder: str) -> tuple[str, dict[str, Any]]:
    if dialect == "agenvoy":
        return "run_skill", {"skill": "greet"}
    if dialect in ("umbra", "openclaw"):
        return "read", {"path": f"{folder}/SKILL.md"}
    return "skill_use", {"skill_name": "greet", "arguments": "Bob"}


def everything(wire: Wire) -> str:
    """All that the model was told in the last request."""
    return json.dumps(wire.requests[-1], ensure_ascii=False)


@pytest.mark.parametrize("spoken_as", WIRES)
@pytest.mark.parametrize("dialect", ROOTS)
def test_a_model_finds_a_skill_activates_it_runs_its_script_and_answers(world, dialect, spoken_as):
    folder = greeter(world, dialect)
    script = ("skill_run_script", {"skill_name": "greet", "script_name": "hi.py", "script_args": "Bob"})
    lines = [Says("Let me see.", [activating(dialect, folder)]), Says(calls=[script]), Says("I said hi to Bob.")]
    with talking(world, spoken_as, lines, dialect) as (talk, wire):
        events = spoken(talk, "Please greet Bob")

    assert "Greets people by name." in json.dumps(wire.requests[0])
    assert [one.skill for one in events if isinstance(one, Activated)] == ["greet"]
    assert "Greet whoever is named" in everything(wire)
    assert [one.text for one in events if isinstance(one, Used)][-1] == "hi Bob"
    assert (events[-1].outcome, events[-1].text) == ("finished", "I said hi to Bob.")


@pytest.mark.parametrize("spoken_as", WIRES)
@pytest.mark.parametrize("dialect", ROOTS)
def test_a_person_calls_a_skill_and_its_instructions_are_delivered_as_the_dialect_does(world, dialect, spoken_as):
    folder = greeter(world, dialect)
    lines = [Says("Hello Bob.")]
    if dialect == "openclaw":
        lines.insert(0, Says(calls=[activating(dialect, folder)]))
    with talking(world, spoken_as, lines, dialect) as (talk, wire):
        events = spoken(talk, "/greet Bob")

    assert events[-1].outcome == "finished"
    assert "Greet whoever is named" in everything(wire)
    assert "Bob" in everything(wire)


@pytest.mark.parametrize("spoken_as", WIRES)
def test_in_agenvoy_the_same_bytes_arrive_whether_a_person_or_the_model_asked(world, spoken_as):
    greeter(world, "agenvoy")
    with talking(world, spoken_as, [Says("Hi.")], "agenvoy") as (talk, wire):
        spoken(talk, "/greet")
        by_person = _exchange(wire)
    with talking(world, spoken_as, [Says(calls=[("run_skill", {"skill": "greet"})]), Says("Hi.")], "agenvoy") as (
        talk,
        wire,
    ):
        spoken(talk, "/greets"[1:])
        by_model = _exchange(wire)

    assert by_person == by_model


def _exchange(wire: Wire) -> list[str]:
    """The call of run_skill and its result as bytes, whatever they are numbered with."""
    found = []
    for message in wire.requests[-1]["messages"]:
        text = json.dumps(message, sort_keys=True)
        if "run_skill" in text or "skill directory:" in text:
            if message["role"] == "system":
                continue
            for id in _ids(message):
                text = text.replace(id, "ID")
            found.append(text)
    return found


def _ids(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("id", "tool_call_id", "tool_use_id"):
                yield item
            else:
                yield from _ids(item)
    elif isinstance(value, list):
        for item in value:
            yield from _ids(item)


@pytest.mark.parametrize("spoken_as", WIRES)
def test_a_bare_command_stays_in_the_users_message_and_arguments_stand_alone(world, spoken_as):
    greeter(world, "agenvoy")
    with talking(world, spoken_as, [Says("Hi."), Says("Hi.")], "agenvoy") as (talk, wire):
        spoken(talk, "/greet")
        bare = _said(wire)
        spoken(talk, "/greet Bob, politely")
        given = _said(wire)

    assert bare == ["/greet"]
    assert given[-1] == "Bob, politely"


def _said(wire: Wire) -> list[str]:
    found = []
    for message in wire.requests[-1]["messages"]:
        if message["role"] == "user":
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            found += [block["text"] for block in blocks if block["type"] == "text"]
    return found


@pytest.mark.parametrize("spoken_as", WIRES)
@pytest.mark.parametrize(
    "fault",
    [
        Fails(status=429, headers={"retry-after": "0"}),
        Fails(status=503),
        Fails("drop"),
        Fails("malformed"),
        Fails("wrong-shape"),
    ],
    ids=["too-often", "down", "dropped", "malformed", "wrong-shape"],
)
def test_a_fault_that_may_pass_is_tried_again_and_seen(world, fault, spoken_as):
    with talking(world, spoken_as, [fault, Says("Here I am.")]) as (talk, wire):
        events = spoken(talk, "hello")

    assert [one for one in events if isinstance(one, Retried)]
    assert events[-1].text == "Here I am."
    assert len(wire.requests) == 2
    assert wire.bodies[0] == wire.bodies[1]


@pytest.mark.parametrize("spoken_as", WIRES)
@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([Fails(status=401)], "bad-key"),
        ([Fails(status=404)], "unknown-model"),
        ([Fails(status=400)], "rejected"),
        ([Fails(status=500)] * 4, "provider-down"),
        ([Fails("drop")] * 4, ("connection", "bad-reply")),
        ([Fails("wrong-shape")] * 4, "bad-reply"),
        ([Says("I was about to", finish="length")], "reply-cut-off"),
        ([Says("")], "empty-reply"),
    ],
    ids=["key", "model", "request", "down", "dropped", "wrong-shape", "cut-off", "empty"],
)
def test_a_fault_that_lasts_ends_the_turn_with_a_reason(world, lines, reason, spoken_as):
    cut_off = {"openai": "length", "anthropic": "max_tokens"}[spoken_as]
    told = [replace(one, finish=cut_off) if isinstance(one, Says) and one.finish else one for one in lines]
    with talking(world, spoken_as, told) as (talk, _):
        ended = spoken(talk, "hello")[-1]

    assert isinstance(ended, Ended)
    assert ended.outcome != "finished"
    assert ended.reason in ((reason,) if isinstance(reason, str) else reason)
    assert ended.code not in (0, None)


@pytest.mark.parametrize("spoken_as", WIRES)
def test_a_stop_is_heard_while_the_service_says_nothing(world, spoken_as):
    with talking(world, spoken_as, [Fails("silence"), Says("Back.")]) as (talk, _):
        events: list[Event] = []
        for event in talk.say("hello"):
            events.append(event)
            if isinstance(event, Wrote):
                talk.stop()
        again = spoken(talk, "still there?")

    assert events[-1].outcome == "interrupted"  # type: ignore[union-attr]
    assert again[-1].text == "Back."


@pytest.mark.parametrize("spoken_as", WIRES)
def test_arguments_that_are_no_object_are_told_to_the_model(world, spoken_as):
    with talking(world, spoken_as, [Says(calls=[("list_files", [1, 2])]), Says("Sorry.")]) as (talk, _wire):  # type: ignore[list-item]
        events = spoken(talk, "look")

    assert events[-1].text == "Sorry."
    assert next(one for one in events if isinstance(one, Used)).error


@pytest.mark.parametrize("spoken_as", WIRES)
def test_several_calls_in_one_reply_are_all_answered_before_anything_follows(world, spoken_as):
    greeter(world, "standard")
    calls = [("skill_use", {"skill_name": "greet"}), ("list_files", {}), ("nonsense", {})]
    with talking(world, spoken_as, [Says("Now.", calls), Says("Done.")]) as (talk, wire):
        events = spoken(talk, "go")

    assert events[-1].outcome == "finished"
    assert "Greet whoever is named" in everything(wire)


def test_the_key_goes_out_and_is_neither_shown_nor_kept(world):
    with talking(world, "openai", [Says("Hi.")]) as (talk, wire):
        shown = talk.model.wire(_request(talk))
        spoken(talk, "hello")

    assert wire.keys == ["Bearer a-secret-key"]
    assert "a-secret-key" not in shown
    assert "a-secret-key" not in repr(talk.model.address)


def _request(talk: Session) -> Any:
    from metier.types.activation import Message
    from metier.types.model import ReplyRequest

    return ReplyRequest("system", talk.tools().shown, (Message("user", "hello"),))


def test_what_a_dry_run_shows_is_what_is_sent(world):
    from metier.agent.agent import preview_request

    greeter(world, "standard")
    with talking(world, "openai", [Says("Hi.")]) as (talk, wire):
        shown = preview_request(talk.agent, "/greet Bob")
        spoken(talk, "/greet Bob")

    assert json.loads(shown) == wire.requests[0]

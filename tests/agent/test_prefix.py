"""The prompt prefix: every request repeats the one before it, byte for byte, and adds at the end."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.talking import spoken
from tests.agent.test_wire import talking
from tests.agent.wire import Says
from tests.home import World, write_skill

from metier.types.event import Compacted

TURNS = 20


def shelf(world: World, *names: str) -> None:
    for name in names:
        write_skill(world.home / ".metier/skills" / name, f"Does {name}.", f"Follow {name}: $ARGUMENTS\n")


def parts(request: dict[str, Any]) -> list[bytes]:
    """A request as the pieces that a service caches: tools, the system prompt, then message by message.

    Marks that say where to cache are no part of what is cached.
    """
    plain = _unmarked(request)
    found = [json.dumps(plain.get("tools", [])).encode(), json.dumps(plain.get("system", "")).encode()]
    for message in plain["messages"]:
        content = message["content"] if isinstance(message.get("content"), list) else [message.get("content")]
        head = json.dumps({key: value for key, value in message.items() if key != "content"}).encode()
        found += [head, *(json.dumps(block).encode() for block in content)]
    return found


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("spoken_as", ["openai", "anthropic"])
@pytest.mark.parametrize("dialect", ["standard", "agenvoy"])
def test_over_twenty_turns_every_request_begins_with_the_whole_of_the_one_before(world, dialect, spoken_as):
    root = ".metier/skills" if dialect == "standard" else ".config/agenvoy/skills"
    for name in ("alpha", "beta", "gamma"):
        write_skill(world.home / root / name, f"Does {name}.", f"Follow {name}. {'Long. ' * 200}\n")
    use = ("skill_use", {"skill_name": "gamma"}) if dialect == "standard" else ("run_skill", {"skill": "gamma"})
    said = {3: "/alpha one", 7: "/beta two", 9: "please use gamma"}
    lines: list[Any] = []
    for number in range(TURNS):
        lines += [Says("I load it.", [use])] if number == 9 else []
        lines += [Says("Summary of it all.")] if number == 15 else []
        lines += [Says(f"Answer {number}.")]
    compacted_at: list[int] = []
    with talking(world, spoken_as, lines, dialect) as (talk, wire):
        for number in range(TURNS):
            if number == 5:
                write_skill(world.home / root / "delta", "Does delta.", "Follow delta.\n")
                talk.update(talk.library.reload())
            if number == 12:
                (world.home / root / "beta" / "SKILL.md").unlink()
                talk.update(talk.library.reload())
            if number == 15:
                talk.agent.model.window = 2_000
                compacted_at.append(len(wire.requests))
            elif number == 16:
                talk.agent.model.window = 200_000
            events = spoken(talk, said.get(number, f"Turn {number}"))
            assert events[-1].outcome == "finished", events[-1]
            assert bool([one for one in events if isinstance(one, Compacted)]) == (number == 15)
        requests = [parts(request) for request in wire.requests]

    assert len(requests) == TURNS + 2
    cut = compacted_at[0] + 1
    for at in range(1, len(requests)):
        before, after = requests[at - 1], requests[at]
        if at == cut:
            assert after[:2] == before[:2]  # tools and system outlive even that
            continue
        assert after[: len(before)] == before, f"request {at} does not begin with request {at - 1}"


def test_the_summary_is_asked_for_at_the_end_of_the_same_prefix(world):
    shelf(world, "alpha")
    lines = [Says("One. " * 400), Says("Two. " * 400), Says("In short."), Says("Three.")]
    with talking(world, "openai", lines) as (talk, wire):
        spoken(talk, "first")
        spoken(talk, "/alpha second")
        talk.agent.model.window = 2_500
        events = spoken(talk, "third")

    assert [type(one).__name__ for one in events].count("Compacted") == 1
    first, summary, short = (parts(request) for request in wire.requests[1:])
    assert summary[: len(first)] == first
    told = json.dumps(wire.requests[-1]["messages"])
    assert "In short." in told
    assert "Follow alpha" in told
    assert "third" in told
    assert len(short) < len(summary)


@pytest.mark.parametrize("spoken_as", ["openai", "anthropic"])
def test_over_fifty_requests_with_different_suggestions_the_prefix_stays_the_same_bytes(world, spoken_as):
    trades = ("weaver", "baker", "sailor", "mason", "tailor", "glazier", "cooper", "farrier", "printer", "gardener")
    for trade in trades:
        for number in range(6):
            write_skill(world.home / f".metier/skills/{trade}-{number}", f"Does work {number} of a {trade}.")
    world.state.mkdir(exist_ok=True)
    (world.state / "config.toml").write_text("[limits]\ncharacters = 2000\n")
    with talking(world, spoken_as, [Says(f"Answer {number}.") for number in range(50)], "standard") as (talk, wire):
        for number in range(50):
            if number % 10 == 5:  # looking again changes nothing
                talk.update(talk.library.reload())
            spoken(talk, f"work {number} for the {trades[number % len(trades)]}, please")
        blocks = {one.text for one in talk.conversation.messages if one.tag == "suggested"}
        requests = [parts(request) for request in wire.requests]

    assert len(requests) == 50
    assert len(blocks) >= len(trades)
    for before, after in pairwise(requests):
        assert after[: len(before)] == before

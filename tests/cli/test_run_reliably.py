"""A run that people can rely on: it does not hang on a silent service, and sends no more than the model takes."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.wire import Fails, Says, speaking
from tests.cli.test_run import last


def configure(desk, url: str, more: str = "") -> None:
    desk.configure(f'model = "mine"\n[models.mine]\nmodel = "a-model"\nurl = "{url}/v1"\n{more}')


def test_a_service_that_stops_in_the_middle_is_given_up_and_the_wait_was_told(desk):
    with speaking([Fails("silence")]) as wire:
        configure(desk, wire.url, "between_seconds = 6\n")
        said = desk.say("run", "--json", "hello")

    assert said.code == 5
    assert last(said)["reason"] == "timed-out"
    waits = [json.loads(line) for line in said.out.splitlines() if '"waited"' in line]
    assert [(wait["limit"], wait["begun"]) for wait in waits] == [(6.0, True)]
    assert len(wire.requests) == 1, "it is not asked again: each time would take as long"


def test_a_service_that_accepts_and_says_nothing_is_given_up(desk):
    import socket

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        configure(desk, f"http://127.0.0.1:{listening.getsockname()[1]}", "first_seconds = 1\n")
        said = desk.say("run", "hello")

    assert said.code == 5
    assert "did not begin to reply for 1 s" in said.err
    assert "raise `first_seconds` under [models.NAME]" in said.err


def test_three_thousand_skills_take_a_share_of_the_window(desk):
    for number in range(400):
        desk.skill(f"skill-{number}", description=f"Does the thing of number {number}. " + "And more of it. " * 15)
    with speaking([Says("Hello.")]) as wire:
        configure(desk, wire.url, "window = 16000\n")
        assert desk.say("run", "hello").code == 0
    assert len(wire.bodies[0]) < 16_000 * 4 * 0.6


def test_a_request_larger_than_the_window_is_never_sent(desk):
    with speaking([Says("Hello.")]) as wire:
        configure(desk, wire.url, "window = 8000\n")
        said = desk.say("run", "word " * 20_000)

    assert (said.code, wire.requests) == (5, [])
    assert "takes 8,000" in said.err
    assert "set `window` under [models.NAME]" in said.err


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "the request exceeds the available context size, try increasing it",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit",
    ],
)
def test_the_words_of_services_for_too_long_are_known(text):
    from metier.agent.models.hosted import _is_overflow

    assert _is_overflow(text)
    assert not _is_overflow("the key `contexts` is not allowed")

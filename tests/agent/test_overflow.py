"""A conversation that the service finds too long is compacted, and sent again once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.agent.talking import call, spoken

from metier.agent.agent import Agent
from metier.testing.models import ScriptedModel
from metier.types.errors import ModelError
from metier.types.event import Compacted, Ended
from metier.types.model import ReplyRequest


class Overflowing(ScriptedModel):
    """A model that takes fewer tokens than it says."""

    def __init__(self, lines: list[Any], takes: Callable[[ReplyRequest], bool]) -> None:
        super().__init__(lines)
        self.takes, self.refused = takes, 0

    def reply(self, request, stop):
        if not self.takes(request):
            self.refused += 1
            raise ModelError("can't take a conversation this long", "start a new one", "too-long")
        return (yield from super().reply(request, stop))


def test_an_overflow_compacts_and_tries_again_once(world):
    (world.project / "a.txt").write_text("long " * 2_000)
    lines = [call("read_file", path="a.txt"), "Read.", "Second."]
    model = Overflowing(lines, lambda request: True)
    talk = Agent(world.open(), model).start()
    spoken(talk, "read it")
    model.takes = lambda request: sum(len(one.text) for one in request.messages) < 4_000
    events = spoken(talk, "and now?")

    assert [event.outcome for event in events if isinstance(event, Ended)] == ["finished"]
    assert len([event for event in events if isinstance(event, Compacted)]) == 1
    assert model.refused == 2, "the request, and the summary that it was too long for"


def test_a_service_that_refuses_the_shorter_one_too_ends_the_turn(world):
    model = Overflowing(["First.", "Never."], lambda request: len(request.messages) < 2)
    talk = Agent(world.open(), model).start()
    spoken(talk, "one")
    events = spoken(talk, "two")

    assert (events[-1].outcome, events[-1].reason) == ("failed", "too-long")
    assert model.refused <= 3

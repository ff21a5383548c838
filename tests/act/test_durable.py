"""A run that is done in steps: after a crash nothing that was done is done again."""

import pickle

import pytest
from tests.act.talking import call, greeter, spoken

from metier.runtime.agent import Agent
from metier.testing import Script
from metier.types.agent import Bounds


class Crash(Exception):
    pass


class Steps:
    """Keeps what each step gave, as bytes, and falls over after so many."""

    def __init__(self, most: int = 99) -> None:
        self.kept: dict[str, bytes] = {}
        self.most, self.done = most, list[str]()

    def __call__(self, name, work):
        if name not in self.kept:
            if len(self.done) >= self.most:
                raise Crash
            self.done.append(name)
            self.kept[name] = pickle.dumps(work())
        return pickle.loads(self.kept[name])


def lines():
    return [
        call("skill_use", id="a", skill_name="greet"),
        call("run_command", id="b", command="echo once >> log.txt"),
        call("read_file", id="c", path="log.txt"),
        "Done.",
    ]


@pytest.mark.parametrize("crash", range(7))
def test_whatever_step_it_falls_over_at_nothing_is_done_twice(world, crash):
    greeter(world)
    library = world.open()
    steps = Steps(crash)
    first = Script(lines())
    with pytest.raises(Crash):
        spoken(Agent(library, first, step=steps).start(), "go", answer="once")
    steps.most = 99
    second = Script(lines()[len(first.requests) :])
    events = spoken(Agent(library, second, step=steps).start(), "go", answer="once")

    assert events[-1].text == "Done."
    assert (world.project / "log.txt").read_text() == "once\n"
    assert len(first.requests) + len(second.requests) == 4


def test_an_ending_is_kept_as_a_result_too(world):
    steps = Steps()
    model = Script([call("list_files")] * 9)
    agent = Agent(world.open(), model, step=steps, limits=Bounds(turns=2))
    first = spoken(agent.start(), "go")
    again = spoken(agent.start(), "go")

    assert first[-1].outcome == again[-1].outcome == "out-of-turns"
    assert len(model.requests) == 2

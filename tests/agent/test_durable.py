"""A run that is done in steps: after a crash nothing that was done is done again."""

import json
from dataclasses import replace

import pytest
from tests.agent.talking import call, greeter, spoken
from tests.home import write_skill

from metier.agent.agent import Agent
from metier.agent.policies import durable_step
from metier.testing.models import ScriptedModel
from metier.types.agent import TurnBounds
from metier.types.errors import ModelError


class Crash(Exception):
    pass


class Steps:
    """Keeps what each step gave, as JSON, and falls over after so many."""

    def __init__(self, most: int = 99) -> None:
        self.kept: dict[str, str] = {}
        self.most, self.done = most, list[str]()

    def __call__(self, name, work):
        if name not in self.kept:
            if len(self.done) >= self.most:
                raise Crash
            self.done.append(name)
            self.kept[name] = json.dumps(work())
        return json.loads(self.kept[name])


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
    first = ScriptedModel(lines())
    with pytest.raises(Crash):
        spoken(Agent(library, first, step=durable_step(steps)).start(), "go", answer="once")
    steps.most = 99
    second = ScriptedModel(lines()[len(first.requests) :])
    events = spoken(Agent(library, second, step=durable_step(steps)).start(), "go", answer="once")

    assert events[-1].text == "Done."
    assert (world.project / "log.txt").read_text() == "once\n"
    assert len(first.requests) + len(second.requests) == 4


def test_an_ending_is_kept_as_a_result_too(world):
    steps = Steps()
    model = ScriptedModel([call("list_files")] * 9)
    agent = Agent(world.open(), model, limits=TurnBounds(turns=2))
    first = spoken(replace(agent, step=durable_step(steps)).start(), "go")
    again = spoken(replace(agent, step=durable_step(steps)).start(), "go")

    assert first[-1].outcome == again[-1].outcome == "out-of-turns"
    assert len(model.requests) == 2


def test_a_service_that_failed_is_kept_as_a_result_too(world):
    steps, model = Steps(), ScriptedModel([ModelError("it is down", "wait", "provider-down")])
    first = spoken(Agent(world.open(), model, step=durable_step(steps)).start(), "go")
    again = spoken(Agent(world.open(), model, step=durable_step(steps)).start(), "go")

    assert (first[-1].reason, first[-1].text) == (again[-1].reason, again[-1].text) == ("provider-down", "it is down")
    assert len(model.requests) == 1


def test_the_steps_of_a_subagent_are_steps_too(world):
    """So a crash inside it repeats nothing that it had done."""
    write_skill(world.home / ".metier/skills/deep", "Goes deep.", "Do it.\n", "context: fork\n")

    def lines():
        return [
            call("skill_use", id="a", skill_name="deep"),
            call("run_command", id="b", command="echo once >> log.txt"),
            "Inner.",
            "Outer.",
        ]

    steps, first = Steps(3), ScriptedModel(lines())
    with pytest.raises(Crash):
        spoken(Agent(world.open(), first, step=durable_step(steps)).start(), "go", answer="once")
    assert steps.done == ["1 ask", "2 ask", "3 call run_command"]
    steps.most = 99
    again = spoken(
        Agent(world.open(), ScriptedModel(lines()[2:]), step=durable_step(steps)).start(), "go", answer="once"
    )

    assert again[-1].text == "Outer."
    assert (world.project / "log.txt").read_text() == "once\n"


def test_no_secret_is_kept_with_a_step(world):
    steps = Steps()
    model = ScriptedModel([call("read_file", path="notes.txt"), "Done."])
    (world.project / "notes.txt").write_text("the word is open-sesame-42")
    step = durable_step(steps, lambda text: text.replace("open-sesame-42", "[hidden]"))
    assert spoken(Agent(world.open(), model, step=step).start(), "go")[-1].text == "Done."

    assert "open-sesame-42" not in "".join(steps.kept.values())

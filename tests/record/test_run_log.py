"""The structured log of a run."""

import json
from pathlib import Path

from tests.agent.talking import call, greeter, spoken
from tests.home import make_world

from metier.agent.agent import Agent
from metier.testing.models import ScriptedModel


def test_a_run_logs_what_happened_and_nothing_that_was_said(tmp_path: Path):
    world, log = make_world(tmp_path), tmp_path / "log.jsonl"
    greeter(world)
    model = ScriptedModel([call("skill_use", skill_name="greet", arguments="Ada"), "Hello Ada."], "openai:gpt-9")
    library = world.open(place=world.place(env={"METIER_LOG": str(log), "PATH": "/usr/bin:/bin"}))
    talk = Agent(library, model).start()
    spoken(talk, "greet Ada please", "once")
    lines = [json.loads(line) for line in log.read_text().splitlines()]

    assert [line["what"] for line in lines] == ["started", "heard", "replied", "used", "activated", "replied", "ended"]
    assert {line["run"] for line in lines} == {talk.run}
    assert lines[0]["model"] == "openai:gpt-9"
    assert lines[2]["calls"] == ["skill_use"]
    assert lines[4]["skill"] == "greet"
    assert lines[-1]["outcome"] == "finished"
    assert "Ada" not in log.read_text()

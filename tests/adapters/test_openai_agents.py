"""Skills in a real agent of the OpenAI Agents SDK, with the SDK's own scripted model."""

import gc
import itertools
import json
from typing import Any

from agents import Agent, RunConfig, Runner, function_tool
from agents.items import ToolCallOutputItem
from agents.testing import ScriptedModel, assistant_message, function_call

from metier.adapters.openai_agents import AgentSkills

NUMBERS = itertools.count(1)


def call(name: str, **arguments: object) -> Any:
    return [function_call(name, json.dumps(arguments), call_id=f"c{next(NUMBERS)}")]


def run(skills: AgentSkills, *steps: Any) -> tuple[ScriptedModel, list[str]]:
    """The model with all it was asked, and what the tools answered."""
    model = ScriptedModel([*steps, [assistant_message("done")]])
    agent = Agent(name="Clerk", instructions=skills.instructions("You are careful."), tools=skills.tools, model=model)
    result = Runner.run_sync(agent, "Go.", run_config=RunConfig(tracing_disabled=True))
    return model, [str(item.output) for item in result.new_items if isinstance(item, ToolCallOutputItem)]


def test_the_model_sees_the_catalog_and_the_tools(shop):
    model, _ = run(AgentSkills(shop.open()))

    prompt = model.calls[0].system_instructions or ""
    assert prompt.startswith("You are careful.\n\n")
    assert "Greets people." in prompt
    assert "Launches." not in prompt
    assert [tool.name for tool in model.calls[0].tools] == ["skill_use", "skill_read_file", "skill_run_script"]


def test_activation_brings_the_instructions(shop):
    _, [answer] = run(AgentSkills(shop.open()), call("skill_use", skill_name="greet", arguments="Ada"))

    assert answer.startswith("Skill 'greet' activated successfully.")
    assert "Say hello to Ada." in answer


def test_a_script_runs(shop):
    asked = call("skill_run_script", skill_name="greet", script_name="hello.sh", script_args="Ada")
    _, [answer] = run(AgentSkills(shop.open()), asked)

    assert answer == "hello Ada"


def test_a_skill_that_is_not_for_the_model_is_refused(shop):
    _, [answer] = run(AgentSkills(shop.open()), call("skill_use", skill_name="launch"))

    assert answer == "Skill 'launch' is not enabled for the model. Available: greet, quiet."


def test_arguments_that_are_no_object_are_answered(shop):
    _, [answer] = run(AgentSkills(shop.open()), [function_call("skill_use", '["greet"]', call_id="c0")])

    assert "must be a JSON object" in answer


def test_what_comes_late_is_said_once_and_the_beginning_stays(shop):
    skills = AgentSkills(shop.open())

    @function_tool
    def write_skill() -> str:
        shop.add("late")
        return "written"

    skills.tools.append(write_skill)
    steps = [call("write_skill"), *(call("skill_use", skill_name=name) for name in ("greet", "late", "greet"))]
    model, [_, first, late, again] = run(skills, *steps)

    assert len({asked.system_instructions for asked in model.calls}) == 1
    assert "<skills-changed>\nNew:\n- late: Comes late.\n</skills-changed>" in first
    assert "Late instructions." in late
    assert "skills-changed" not in late + again
    model, _ = run(skills)
    assert "Comes late." in (model.calls[0].system_instructions or "")


def test_a_run_that_is_over_is_forgotten(shop):
    skills = AgentSkills(shop.open())
    run(skills)
    gc.collect()

    assert skills._announced == {}

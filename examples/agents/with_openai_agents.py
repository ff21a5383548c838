"""Skills in an agent of the OpenAI Agents SDK."""

from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message, function_call

import metier
from metier.adapters.openai_agents import AgentSkills

call = function_call("skill_use", '{"skill_name": "release-notes"}', call_id="1")
model = ScriptedModel([[call], [assistant_message("I have read the instructions.")]])

skills = AgentSkills(metier.open("."))
agent = Agent(
    name="Clerk",
    model=model,  # "gpt-5", say
    instructions=skills.instructions("You are careful."),
    tools=skills.tools,
)

result = Runner.run_sync(agent, "Write the release notes.", run_config=RunConfig(tracing_disabled=True))
print(result.final_output)
assert "search is always fast now." in str(result.to_input_list())

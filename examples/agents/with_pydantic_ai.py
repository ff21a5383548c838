"""Skills in a Pydantic AI agent."""

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import metier
from metier.adapters.pydantic_ai import SkillsToolset


def fake(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that loads a skill first, and then is done."""
    if len(messages) == 1:
        return ModelResponse([ToolCallPart("skill_use", {"skill_name": "release-notes"})])
    return ModelResponse([TextPart("I have read the instructions.")])


agent = Agent(FunctionModel(fake), toolsets=[SkillsToolset(metier.open("."))])  # "anthropic:claude-sonnet-4-5", say

result = agent.run_sync("Write the release notes.")
print(result.output)
assert "search is always fast now." in str(result.all_messages())

"""Skills in a LangChain agent, which is a LangGraph graph."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage

import metier
from metier.adapters.langchain import SkillsMiddleware


class Fake(FakeMessagesListChatModel):
    """A model that says what it is told to, and knows of no tools."""

    def bind_tools(self, tools: Any, **more: Any) -> "Fake":
        return self


call = {"name": "skill_use", "args": {"skill_name": "release-notes"}, "id": "1"}
model = Fake(responses=[AIMessage("", tool_calls=[call]), AIMessage("I have read the instructions.")])

agent = create_agent(model, middleware=[SkillsMiddleware(metier.open("."))])  # "anthropic:claude-sonnet-4-5", say

messages = agent.invoke({"messages": [HumanMessage("Write the release notes.")]})["messages"]
print(messages[-1].content)
assert any("search is always fast now." in str(message.content) for message in messages)

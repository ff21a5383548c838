"""Skills in a real LangChain agent and in a graph, with the framework's own fake model."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode
from pydantic import Field

from metier.adapters.langchain import SkillsMiddleware, skill_tools


class Scripted(FakeMessagesListChatModel):
    """Says one message after another, and keeps what it was asked."""

    asked: list[list[BaseMessage]] = Field(default_factory=list)
    bound: list[str] = Field(default_factory=list)
    between: Callable[[], None] = lambda: None

    def bind_tools(self, tools: Any, **more: Any) -> "Scripted":
        self.bound[:] = [tool.name for tool in tools]
        return self

    def _generate(self, messages: list[BaseMessage], *more: Any, **named: Any) -> Any:
        self.asked.append(messages)
        if len(self.asked) > 1:
            self.between()
        return super()._generate(messages, *more, **named)


def calls(*wanted: tuple[str, dict[str, Any]]) -> AIMessage:
    made = [{"name": name, "args": args, "id": f"c{at}"} for at, (name, args) in enumerate(wanted)]
    return AIMessage("", tool_calls=made)


def model_of(*said: AIMessage, **more: Any) -> Scripted:
    return Scripted(responses=[*said, AIMessage("done")], **more)


def run(model: Scripted, skills: SkillsMiddleware) -> list[AnyMessage]:
    agent = create_agent(model, middleware=[skills], system_prompt="You are careful.")
    messages: list[AnyMessage] = agent.invoke({"messages": [HumanMessage("Go.")]})["messages"]
    return messages


def answers(messages: list[Any]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


def test_the_model_sees_the_catalog_and_the_tools(shop):
    model = model_of()
    run(model, SkillsMiddleware(shop.open()))

    prompt = str(model.asked[0][0].content)
    assert prompt.startswith("You are careful.\n\n")
    assert "Greets people." in prompt
    assert "Launches." not in prompt
    assert model.bound == ["skill_use", "skill_read_file", "skill_run_script"]


def test_the_catalog_is_the_whole_prompt_where_there_is_no_other(shop):
    model = model_of()
    create_agent(model, middleware=[SkillsMiddleware(shop.open())]).invoke({"messages": [HumanMessage("Go.")]})

    assert model.asked[0][0].content == shop.open().catalog().text


def test_activation_is_confirmed_and_the_instructions_follow_behind_all_answers(shop):
    said = calls(
        ("skill_use", {"skill_name": "greet", "arguments": "Ada"}),
        ("skill_read_file", {"skill_name": "greet", "file_path": "reference.md"}),
        ("skill_use", {"skill_name": "quiet"}),
    )
    messages = run(model_of(said), SkillsMiddleware(shop.open()))

    kinds = [message.type for message in messages]
    assert kinds == ["human", "ai", "tool", "tool", "tool", "human", "human", "ai"]
    assert messages[2].content == "Skill 'greet' activated successfully. Instructions will follow."
    assert "Say hello to Ada." in str(messages[5].content)
    assert "Quietly." in str(messages[6].content)


def test_a_script_runs(shop):
    call = ("skill_run_script", {"skill_name": "greet", "script_name": "hello.sh", "script_args": "Ada"})
    [answer] = answers(run(model_of(calls(call)), SkillsMiddleware(shop.open())))

    assert answer.content == "hello Ada"


def test_a_skill_that_is_not_for_the_model_is_refused(shop):
    [answer] = answers(run(model_of(calls(("skill_use", {"skill_name": "launch"}))), SkillsMiddleware(shop.open())))

    assert answer.status == "error"
    assert answer.content == "Skill 'launch' is not enabled for the model. Available: greet, quiet."


def test_what_comes_late_is_said_at_the_end_and_the_beginning_stays(shop):
    steps = [calls(("skill_use", {"skill_name": "greet"})), calls(("skill_use", {"skill_name": "late"}))]
    model = model_of(*steps, between=lambda: shop.add("late"))
    messages = run(model, SkillsMiddleware(shop.open()))

    assert model.asked[0][0].content == model.asked[-1][0].content
    assert "<skills-changed>\nNew:\n- late: Comes late.\n</skills-changed>" in [message.content for message in messages]
    assert any("Late instructions." in str(message.content) for message in messages)


def test_a_conversation_that_goes_on_later_keeps_its_beginning(shop):
    model = model_of(AIMessage("first"))
    agent = create_agent(model, middleware=[SkillsMiddleware(shop.open())], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    agent.invoke({"messages": [HumanMessage("One.")]}, thread)
    shop.remove("quiet")
    messages = agent.invoke({"messages": [HumanMessage("Two.")]}, thread)["messages"]

    assert model.asked[0][0].content == model.asked[1][0].content
    assert "No longer available: quiet" in str(messages[-2].content)


@pytest.mark.parametrize("name", ["greet"])
def test_a_graph_of_ones_own_gets_the_instructions_in_the_answer(shop, name):
    node = ToolNode(skill_tools(shop.open()))
    state = {"messages": [calls(("skill_use", {"skill_name": name, "arguments": "Ada"}))]}
    [answer] = as_graph(node).invoke(state)["messages"][1:]

    assert "Say hello to Ada." in answer.content


def as_graph(node: ToolNode) -> Any:
    from langgraph.graph import START, MessagesState, StateGraph

    return StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()


def test_the_asynchronous_way_is_the_same(shop):
    import asyncio

    model = model_of(calls(("skill_use", {"skill_name": "greet", "arguments": "Ada"})))
    agent = create_agent(model, middleware=[SkillsMiddleware(shop.open())])
    messages = asyncio.run(agent.ainvoke({"messages": [HumanMessage("Go.")]}))["messages"]

    assert any("Say hello to Ada." in str(message.content) for message in messages)
    assert "Greets people." in str(model.asked[0][0].content)

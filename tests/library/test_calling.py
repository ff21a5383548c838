"""Tools and calls in the forms of Anthropic and OpenAI, through their own SDKs with the network replaced by a page."""

import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from anthropic.types import ToolUseBlock
from tests.home import World, write_skill

from metier.library.library import Library
from metier.types.errors import BadRequest


@pytest.fixture
def library(world: World) -> Library:
    skills = world.home / "skills"
    write_skill(skills / "greet", "Greets people.", "Say hello to $0.\n")
    write_skill(skills / "launch", "Launches.", "Launch it.\n", "disable-model-invocation: true\n")
    return world.open(root=skills)


class Page:
    """What answers in place of a provider: it keeps what was asked and says what it was told to."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers = list(answers)
        self.http = httpx2.MockTransport(self.answer)

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(json.loads(request.content))
        return httpx2.Response(200, json=self.answers[len(self.asked) - 1])


def said_by_claude(*content: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": list(content), "usage": usage,
            "stop_reason": "end_turn", "stop_sequence": None}  # fmt: skip


def said_in_chat(message: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": None, **message}}
    return {"id": "c", "object": "chat.completion", "created": 0, "model": "g", "choices": [choice]}


def use(name: str, **arguments: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t1", "name": name, "input": arguments}


def test_a_conversation_with_claude_activates_a_skill(library):
    page = Page(said_by_claude(use("skill_use", skill_name="greet", arguments="Ada")), said_by_claude())
    client = anthropic.Anthropic(api_key="none", http_client=httpx2.Client(transport=page.http))
    messages: list[Any] = [{"role": "user", "content": "Greet Ada."}]
    said = client.messages.create(
        model="c", max_tokens=9, system=library.catalog().text, tools=library.tools_for("anthropic"), messages=messages
    )
    results = [library.handle(block) for block in said.content if block.type == "tool_use"]
    messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": results}]
    client.messages.create(model="c", max_tokens=9, messages=messages)

    assert "Greets people." in page.asked[0]["system"]
    assert [tool["name"] for tool in page.asked[0]["tools"]] == ["skill_use", "skill_read_file", "skill_run_script"]
    assert page.asked[0]["tools"][0]["input_schema"]["required"] == ["skill_name"]
    [result] = page.asked[1]["messages"][-1]["content"]
    assert (result["type"], result["tool_use_id"], result["is_error"]) == ("tool_result", "t1", False)
    assert "Say hello to Ada." in result["content"]


def test_a_chat_with_openai_activates_a_skill(library):
    call = {"name": "skill_use", "arguments": json.dumps({"skill_name": "greet", "arguments": "Ada"})}
    page = Page(said_in_chat({"tool_calls": [{"id": "t1", "type": "function", "function": call}]}), said_in_chat({}))
    client = openai.OpenAI(api_key="none", http_client=httpx2.Client(transport=page.http))
    messages: list[Any] = [{"role": "system", "content": library.catalog().text}]
    tools: Any = library.tools_for("openai")
    said = client.chat.completions.create(model="g", messages=messages, tools=tools).choices[0].message
    messages += [said, *(library.handle(call) for call in said.tool_calls or [])]
    client.chat.completions.create(model="g", messages=messages)

    assert page.asked[0]["tools"][0]["function"]["name"] == "skill_use"
    last = page.asked[1]["messages"][-1]
    assert (last["role"], last["tool_call_id"]) == ("tool", "t1")
    assert "Say hello to Ada." in last["content"]


def test_a_response_of_openai_is_answered_in_its_form(library):
    item = {"type": "function_call", "call_id": "t1", "name": "skill_use", "arguments": '{"skill_name": "greet"}'}
    answer = library.handle(item)

    assert library.tools_for("openai-responses")[0]["name"] == "skill_use"
    assert answer is not None
    assert (answer["type"], answer["call_id"]) == ("function_call_output", "t1")
    assert "Say hello to" in answer["output"]


def test_an_object_of_the_sdk_will_do_and_so_will_a_dictionary(library):
    block = ToolUseBlock(id="t1", type="tool_use", name="skill_use", input={"skill_name": "greet"})
    assert library.handle(block) == library.handle(use("skill_use", skill_name="greet"))


def test_a_skill_that_the_model_may_not_use_is_refused_in_words(library):
    answer = library.handle(use("skill_use", skill_name="launch"))

    assert answer is not None
    assert answer["is_error"]
    assert answer["content"] == "Skill 'launch' is not enabled for the model. Available: greet."


def test_a_tool_of_somebody_else_is_left_to_them(library):
    assert library.handle(use("get_weather", place="Oslo")) is None


@pytest.mark.parametrize("arguments", ["{", "[1]", "3", "[" * 100_000])
def test_arguments_that_are_no_object_are_an_answer_the_model_can_act_on(library, arguments):
    call = {"id": "t1", "type": "function", "function": {"name": "skill_use", "arguments": arguments}}
    assert "must be a JSON object" in library.handle(call)["content"]


def test_what_is_no_call_and_no_provider_is_said(library):
    with pytest.raises(BadRequest, match="is not a tool call"):
        library.handle("skill_use")
    with pytest.raises(BadRequest, match="`claude` is not a provider"):
        library.tools_for("claude")


def test_there_are_no_tools_where_there_is_no_skill(world):
    (world.home / "none").mkdir()
    assert world.open(root=world.home / "none").tools_for("anthropic") == []

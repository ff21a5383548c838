"""Skills in a real Pydantic AI agent, whose model says what it is told."""

from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from metier.adapters.pydantic_ai import SkillsToolset

Said = tuple[str, dict[str, Any]]


class Scripted:
    """A model that makes one call after another and then is done; it keeps what it was asked."""

    def __init__(self, *calls: Said, between: Callable[[], None] = lambda: None) -> None:
        self.calls = list(calls)
        self.between = between
        self.asked: list[list[ModelMessage]] = []
        self.infos: list[AgentInfo] = []

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked.append(list(messages))
        self.infos.append(info)
        if len(self.asked) > 1:
            self.between()
        if len(self.asked) <= len(self.calls):
            name, arguments = self.calls[len(self.asked) - 1]
            return ModelResponse([ToolCallPart(name, arguments)])
        return ModelResponse([TextPart("done")])

    def run(self, skills: SkillsToolset, **more: Any) -> list[ModelMessage]:
        agent: Agent[None, str] = Agent(FunctionModel(self.answer), toolsets=[skills])
        return agent.run_sync("Go.", **more).all_messages()


def parts(messages: list[ModelMessage], kind: type) -> list[Any]:
    return [part for message in messages for part in message.parts if isinstance(part, kind)]


def everything(messages: list[ModelMessage]) -> str:
    return "\n".join(
        str(getattr(part, "content", ""))
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
    )


def test_the_model_sees_the_catalog_and_the_tools(shop):
    model = Scripted()
    model.run(SkillsToolset(shop.open()))

    assert "Greets people." in (model.infos[0].instructions or "")
    assert "Launches." not in (model.infos[0].instructions or "")
    assert [tool.name for tool in model.infos[0].function_tools] == ["skill_use", "skill_read_file", "skill_run_script"]


def test_activation_answers_and_the_instructions_follow_as_a_message(shop):
    messages = Scripted(("skill_use", {"skill_name": "greet", "arguments": "Ada"})).run(SkillsToolset(shop.open()))

    [returned] = parts(messages, ToolReturnPart)
    assert returned.content == "Skill 'greet' activated successfully. Instructions will follow."
    assert "Say hello to Ada." in everything(messages)


def test_a_script_runs(shop):
    call = ("skill_run_script", {"skill_name": "greet", "script_name": "hello.sh", "script_args": "Ada"})
    [returned] = parts(Scripted(call).run(SkillsToolset(shop.open())), ToolReturnPart)

    assert returned.content == "hello Ada"


def test_a_skill_that_is_not_for_the_model_is_refused(shop):
    [returned] = parts(
        Scripted(("skill_use", {"skill_name": "launch"})).run(SkillsToolset(shop.open())), ToolReturnPart
    )

    assert returned.outcome == "failed"
    assert returned.content == "Skill 'launch' is not enabled for the model. Available: greet, quiet."


def test_wrong_arguments_are_answered_in_words(shop):
    [returned] = parts(
        Scripted(("skill_use", {"skill_name": ["greet"]})).run(SkillsToolset(shop.open())), ToolReturnPart
    )

    assert "skill_name must be text" in returned.content


def test_a_skill_that_comes_late_is_appended_and_the_beginning_stays(shop):
    calls = [("skill_use", {"skill_name": "greet"}), ("skill_use", {"skill_name": "late"})]
    model = Scripted(*calls, between=lambda: shop.add("late"))
    messages = model.run(SkillsToolset(shop.open()))

    assert model.infos[0].instructions == model.infos[-1].instructions
    assert "Comes late." not in (model.infos[0].instructions or "")
    assert "Comes late." in everything(model.asked[-1])
    assert "Late instructions." in everything(messages)


def test_a_skill_that_was_edited_is_used_as_it_is_now(shop):
    skills = SkillsToolset(shop.open())
    shop.add("greet", "Greets people.", "Say good evening.\n")

    assert "Say good evening." in everything(Scripted(("skill_use", {"skill_name": "greet"})).run(skills))


def test_a_folder_of_skills_that_goes_away_ends_no_conversation(shop):
    skills = SkillsToolset(shop.open())
    for name in ("greet", "launch", "quiet"):
        shop.remove(name)
    shop.skills.rmdir()
    [returned] = parts(Scripted(("skill_use", {"skill_name": "greet"})).run(skills), ToolReturnPart)

    assert "not enabled" in returned.content

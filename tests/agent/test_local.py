"""The model that runs here: how it is guided, and one real run of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.agent.talking import greeter, spoken

from metier.agent.agent import Agent
from metier.agent.models.local import (
    GuideQuestion,
    GuideView,
    arguments_for,
    call_for,
    chat_messages,
    is_repeating,
    next_question,
    script_output,
)
from metier.agent.models.registry import open_model
from metier.library.skill_tools import guard_errors
from metier.types.activation import Message, ToolCall
from metier.types.event import Activated, Replied, Used
from metier.types.model import Answer, ReplyRequest, Tool

VIEW = GuideView(
    fitting=lambda task: [("report", "Makes reports."), ("greet", "Greets.")] if "report" in task else [],
    scripts=lambda name: ("report.py",) if name == "report" else (),
    location=lambda name: f"/skills/{name}/SKILL.md",
    files=lambda word: f"/data/{word}" if word == "sales.csv" else "",
)


def request(*messages: Message, tools: tuple[str, ...] = ("skill_use", "skill_run_script")) -> ReplyRequest:
    made = tuple(Tool(name, "", (), guard_errors(lambda arguments: Answer(""))) for name in tools)
    return ReplyRequest("a long system prompt", made, messages)


ASKED = Message("user", 'Make a report of sales.csv for "the boss", 3 pages')
LOADED = (
    ASKED,
    Message("assistant", call=ToolCall("1", "skill_use", {"skill_name": "report"})),
    Message("tool", "Skill 'report' activated", answers="1"),
    Message("user", "the instructions", skill="report"),
)
RUN = (
    *LOADED,
    Message("assistant", call=ToolCall("2", "skill_run_script", {"script_name": "report.py"})),
    Message("tool", "42 rows", answers="2"),
)


def test_it_is_asked_for_a_skill_then_for_a_script_then_for_an_answer():
    kinds = [next_question(request(*messages), VIEW).kind for messages in ((ASKED,), LOADED, RUN)]

    assert kinds == ["skill", "script", "answer"]


def test_it_can_only_choose_from_what_there_is():
    skill, script = next_question(request(ASKED), VIEW), next_question(request(*LOADED), VIEW)

    assert skill.choices == {"skill": ("report", "greet", "none")}
    assert script.choices["script"] == ("report.py", "none")
    assert script.choices["arguments"] == ("/data/sales.csv 'the boss' 3", "/data/sales.csv", "'the boss'", "3")
    assert skill.schema is not None
    assert skill.schema["properties"] == {"skill": {"enum": ["report", "greet", "none"]}}


@pytest.mark.parametrize(
    ("tools", "name", "arguments"),
    [
        (("skill_use",), "skill_use", {"skill_name": "report", "arguments": " ".join(ASKED.text.split())}),
        (("run_skill",), "run_skill", {"skill": "report"}),
        (("read",), "read", {"path": "/skills/report/SKILL.md"}),
    ],
)
def test_its_choice_becomes_a_call_of_the_tool_that_the_dialect_has(tools, name, arguments):
    asked = request(ASKED, tools=tools)
    call = call_for(next_question(asked, VIEW), '{"skill": "report"}', asked, VIEW)

    assert call == ToolCall("local-skill", name, arguments)


@pytest.mark.parametrize("answer", ['{"skill": "none"}', '{"skill": "invented"}', "no JSON", "[]", ""])
def test_a_choice_that_is_none_or_makes_no_sense_calls_nothing(answer):
    asked = request(ASKED)

    assert call_for(next_question(asked, VIEW), answer, asked, VIEW) is None
    assert next_question(asked, VIEW, chosen=True).kind == "answer"


def test_a_task_that_no_skill_fits_is_answered_straight_away():
    assert next_question(request(Message("user", "hello")), VIEW).kind == "answer"


def test_what_it_is_told_only_grows_and_leaves_out_what_it_would_imitate():
    first, second = chat_messages(request(*LOADED), VIEW), chat_messages(request(*RUN), VIEW)

    assert second[: len(first)] == first
    assert [one["content"] for one in second[2:]] == ["[The skill report is active.]", "This came out of it:\n42 rows"]


def test_the_words_of_a_script_are_given_exactly():
    assert script_output(request(*RUN)).endswith("What report.py said, word for word:\n\n42 rows")
    assert script_output(request(ASKED)) == ""


@pytest.mark.parametrize(
    ("text", "round"),
    [("so it is. " * 9, True), ("a line\n" * 3, True), ("One. Two. Three.", False), ("", False)],
)
def test_going_round_in_circles_is_noticed(text, round):
    assert is_repeating(text) == round


def test_without_files_or_figures_a_script_may_be_given_nothing():
    assert arguments_for("just do it", VIEW) == ("",)
    assert GuideQuestion("answer", "", {}).schema is None


def real_model() -> Path:
    named = os.environ.get("METIER_TEST_GGUF", "")
    return Path(named) if named else Path(__file__).parents[2] / ".models" / "models" / "smollm2-135m.gguf"


@pytest.fixture
def kept(world):
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed: make try installs it")
    if not real_model().is_file():
        pytest.skip("there is no model to ask: make try gets one")
    folder = world.state / "models"
    folder.mkdir(parents=True)
    os.symlink(real_model(), folder / "smollm2-135m.gguf")
    return world


def test_a_real_model_finds_the_skill_runs_its_script_and_a_command_keeps_its_prefix(kept):
    greeter(kept)
    library = kept.open()
    model = open_model("", library)
    talk = Agent(library, model).start()

    first = spoken(talk, "Greets people: greet Bob with number 7")
    second = spoken(talk, "/greet 'Anna'")
    third = spoken(talk, "/greet 'Carl'")

    assert model.name == "local:smollm2-135m"
    assert first[-1].outcome == second[-1].outcome == third[-1].outcome == "finished"
    assert [one.skill for one in second if isinstance(one, Activated)] == ["greet"]
    assert all(one.text.startswith("hi") for one in third if isinstance(one, Used))
    before = [one.usage for one in second if isinstance(one, Replied)][-1]
    after = next(one.usage for one in third if isinstance(one, Replied))
    asked_last = 40  # tokens of the narrow question at the end of a request, which the next one does not repeat
    assert after.cached >= before.input - asked_last
    assert after.cached > after.input / 2

"""Agents as Markdown, subagents, and what does and does not come back from them."""

from dataclasses import replace

import pytest
from tests.agent.talking import call, greeter, session, spoken
from tests.home import write_skill

from metier.agent.agent import Agent, agent_for
from metier.agent.agent_files import agent_files
from metier.agent.permissions import Permission
from metier.parse.agent import parse_agent_file
from metier.record.trace import read_traces
from metier.testing.models import ScriptedModel
from metier.types.agent import TurnBounds
from metier.types.errors import BadRequest
from metier.types.event import Activated, Ended, Nested, Replied, Used


def agent_file(folder, name: str, more: str = "", body: str = "You are careful.") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(f"---\nname: {name}\ndescription: Does {name}.\n{more}---\n{body}\n")


def test_an_agents_file_says_who_it_is_and_what_it_may_use():
    text = "---\nname: reviewer\ndescription: Reviews.\nskills: review\nmodel: openai:x\ntools: Read, Bash(git:*)\nlimits:\n  turns: 5\n  cost: 0.5\n---\nBe strict.\n"
    found = parse_agent_file(text, "/x/agents/other.md")

    assert found is not None
    assert (found.name, found.skills, found.model, found.tools) == (
        "reviewer",
        ("review",),
        "openai:x",
        ("Read", "Bash(git:*)"),
    )
    assert found.bounds == TurnBounds(turns=5, cost=0.5)
    assert found.instructions == "Be strict."


@pytest.mark.parametrize(
    ("written", "names"),
    [("", None), ("skills: []\n", ()), ("skills: one\n", ("one",)), ("skills: [a, b]\n", ("a", "b"))],
)
def test_the_list_of_skills_is_absent_empty_or_a_list_and_a_lone_text_is_a_list_of_one(written, names):
    found = parse_agent_file(f"---\nname: x\n{written}---\nBody.\n", "/x.md")

    assert found is not None
    assert found.skills == names


@pytest.mark.parametrize("folder", [".metier/agents", ".claude/agents", "workspace/agents"])
def test_a_projects_agents_are_seen_once_it_is_trusted(world, folder):
    agent_file(world.project / folder, "helper")
    before = agent_files(world.open())
    world.trust()

    assert "helper" not in before
    assert "helper" in agent_files(world.open())


@pytest.mark.parametrize("name", ["helper", "another"])
def test_a_projects_agents_are_unseen_once_they_are_not_what_was_trusted(world, name):
    agent_file(world.project / ".claude/agents", "helper", "skills: []\n")
    world.trust()
    agent_file(world.project / ".claude/agents", name, "skills: [everything]\n")
    library = world.open()

    assert agent_files(library) == {}
    assert [one.code for one in library.problems] == ["changed-since-trust"]
    with pytest.raises(BadRequest, match="whose agents changed since"):
        world.open(agent=name)
    world.trust()
    assert name in agent_files(world.open())


def test_an_agent_by_name_has_its_own_words_skills_tools_and_limits(world):
    greeter(world)
    write_skill(world.home / ".metier/skills/other", "Another one.")
    agent_file(
        world.state / "agents", "careful", "skills: greet\ntools: [Read]\nlimits: {turns: 3}\n", "Be careful, agent."
    )
    model = ScriptedModel(["Yes."])
    agent = agent_for(world.open(agent="careful"), model, "careful")  # type: ignore[arg-type]
    spoken(agent.start(), "hello")

    assert model.requests[0].system.startswith("Be careful, agent.")
    assert "Another one." not in model.requests[0].system
    assert [tool.name for tool in model.requests[0].tools] == [
        "skill_use",
        "skill_read_file",
        "skill_run_script",
        "read_file",
    ]
    assert agent.bounds.turns == 3


def test_a_skill_that_forks_runs_in_a_subagent_and_only_its_answer_comes_back(world):
    write_skill(
        world.home / ".metier/skills/research", "Researches.", "Look into $ARGUMENTS deeply.\n", "context: fork\n"
    )
    greeter(world)
    inner = [call("skill_use", skill_name="greet"), call("list_files"), "The child found it."]
    talk, model = session(
        world, [call("skill_use", skill_name="research", arguments="cats"), *inner, "The parent says so."]
    )
    events = spoken(talk, "look into cats for me")
    nested = [one.event for one in events if isinstance(one, Nested)]

    assert [one.skill for one in nested if isinstance(one, Activated)] == ["research", "greet"]
    assert [one for one in events if isinstance(one, Activated)] == []
    assert talk.conversation.active == ()
    assert next(one for one in events if isinstance(one, Used)).text == "The child found it."
    assert "Look into cats deeply." in "".join(message.text for message in model.requests[1].messages)
    assert "for me" not in "".join(message.text for message in model.requests[1].messages)
    assert model.requests[1].system == model.requests[0].system
    assert events[-1].text == "The parent says so."


def test_a_fork_called_by_a_person_answers_them_itself_and_is_a_run_of_its_own(world):
    write_skill(world.home / ".metier/skills/research", "Researches.", "Look into $ARGUMENTS.\n", "context: fork\n")
    talk, _ = session(world, ["The child found it.", "And then?"])
    events = spoken(talk, "/research dogs")
    kept = {trace.run: trace for trace in read_traces(str(world.state))}

    assert events[-1].text == "The child found it."
    assert [one.text for one in events if isinstance(one, Replied)] == ["The child found it."]
    assert [one.text for one in talk.conversation.messages if one.role == "assistant"] == ["The child found it."]
    assert kept[talk.run].usage == events[-1].usage
    assert [trace.started.parent for trace in kept.values() if trace.run != talk.run] == [talk.run]
    assert spoken(talk, "and then?")[-1].outcome == "finished"


def test_a_fork_cannot_call_itself_without_end(world):
    write_skill(world.home / ".metier/skills/loop", "Loops.", "Again.\n", "context: fork\n")
    again = call("skill_use", skill_name="loop")
    talk, _ = session(world, [again, again, "inner", "outer"])
    events = spoken(talk, "loop")
    refused = [one.event for one in events if isinstance(one, Nested) and isinstance(one.event, Used)]

    assert "can't call itself" in refused[0].text
    assert events[-1].text == "outer"


def test_a_task_is_handed_to_another_agent_which_sees_nothing_of_the_conversation(world):
    greeter(world)
    agent_file(world.state / "agents", "scout", "skills: []\n", "You scout.")
    talk, model = session(world, [call("Task", subagent_type="scout", prompt="Look around."), "All quiet.", "Good."])
    events = spoken(talk, "my secret plan")
    child = model.requests[1]

    assert child.system.startswith("You scout.")
    assert "my secret plan" not in "".join(message.text for message in child.messages)
    assert "greet" not in child.system
    assert "skill_use" not in [tool.name for tool in child.tools]
    assert next(one for one in events if isinstance(one, Used)).text == "All quiet."


@pytest.mark.parametrize("listed", ["skills: [greet, other]\n", ""])
def test_handing_on_a_task_does_not_reach_skills_that_the_caller_may_not_use(world, listed):
    greeter(world)
    write_skill(world.home / ".metier/skills/other", "Another one.")
    agent_file(world.state / "agents", "narrow", "skills: greet\n")
    agent_file(world.state / "agents", "wide", listed)
    use = call("skill_use", skill_name="other")
    model = ScriptedModel([call("delegate", agent="wide", task="Use it."), use, "inner", "outer"])
    agent = agent_for(world.open(agent="narrow"), model, "narrow")  # type: ignore[arg-type]
    events = spoken(replace(agent, after=None).start(), "go")
    [refused] = [one.event for one in events if isinstance(one, Nested) and isinstance(one.event, Used)]

    assert "'other' is not enabled for this agent" in refused.text
    assert "Another one." not in model.requests[1].system


def test_an_agent_that_is_not_there_is_named_and_none_can_delegate_to_itself(world):
    agent_file(world.state / "agents", "scout")
    agent_file(world.state / "agents", "other")
    delegate = call("delegate", agent="scout", task="You do it.")
    talk, _ = session(world, [call("delegate", agent="nobody", task="x"), delegate, delegate, "inner", "outer"])
    events = spoken(talk, "go")
    texts = [one.text for one in events if isinstance(one, Used)]
    inner = [one.event.text for one in events if isinstance(one, Nested) and isinstance(one.event, Used)]

    assert "There are: other, scout" in texts[0]
    assert "There are: other" in inner[0]
    assert texts[-1] == "inner"


def test_a_question_inside_a_subagent_reaches_the_person(world):
    write_skill(world.home / ".metier/skills/make", "Makes.", "Make it.\n", "context: fork\n")
    talk, _ = session(world, [call("write_file", path="made.txt", content="x"), "Made."])
    events = spoken(talk, "/make", answer="once")

    assert (world.project / "made.txt").exists()
    assert events[-1].outcome == "finished"


def test_an_agents_list_of_skills_holds_after_the_disk_was_looked_at_again(world):
    greeter(world)
    write_skill(world.home / ".metier/skills/other", "Another one.")
    agent_file(world.home / ".metier/agents", "scout", "skills: [greet]\n")
    talk, _model = session(
        world,
        [
            call("delegate", agent="scout", task="Look."),
            call("write_file", path="a.txt", content="a"),
            call("skill_use", skill_name="other"),
            "inner",
            "outer",
        ],
    )
    events = spoken(talk, "go", answer="once")

    used = [one.event for one in events if isinstance(one, Nested) and isinstance(one.event, Used)]
    assert [(one.call.name, one.error) for one in used] == [("write_file", False), ("skill_use", True)]


def test_what_is_delegated_is_paid_for_by_whoever_delegated_it(world):
    write_skill(world.home / ".metier/skills/make", "Makes.", "Make it.\n", "context: fork\n")
    use = call("skill_use", skill_name="make")
    talk, _ = session(world, [use, "x " * 4_000, "never asked"], limits=TurnBounds(tokens=3_000))
    events = spoken(talk, "go")

    assert events[-1].outcome == "out-of-tokens"


@pytest.mark.parametrize("kind", ["agent", "fork"])
def test_what_is_delegated_stays_within_the_limits_of_whoever_delegated_it(world, kind):
    agent_file(world.home / ".metier/agents", "reader")
    write_skill(world.home / ".metier/skills/make", "Makes.", "Make it.\n", "context: fork\n")
    hands_on = call("delegate", agent="reader", task="go") if kind == "agent" else call("skill_use", skill_name="make")
    looks = [call("list_files", path=".", id=str(number)) for number in range(20)]
    talk, model = session(world, [hands_on, *looks], limits=TurnBounds(turns=4))
    events = spoken(talk, "go")

    assert [one.event.outcome for one in events if isinstance(one, Nested) and isinstance(one.event, Ended)] == [
        "out-of-turns"
    ]
    assert events[-1].outcome == "out-of-turns"
    assert len(model.requests) == 4


@pytest.mark.parametrize(
    ("command", "done"),
    [("git --version", True), ("git", True), ("ls", False), ("git --version; touch made", False)],
)
def test_a_list_of_tools_limits_calls_by_their_pattern_whatever_is_allowed(world, command, done):
    agent_file(world.state / "agents", "narrow", "tools: Read, Bash(git *)\n", "x")
    model = ScriptedModel([call("Bash", command=command), "Done."])
    agent = agent_for(world.open(), model, "narrow")  # type: ignore[arg-type]
    spoken(replace(agent, rules=Permission(otherwise="allow")).start(), "go")

    assert [one.name for one in model.requests[0].tools if "skill" not in one.name] == ["read_file", "run_command"]
    refused = "this agent may call run_command(git *) and nothing else" in model.requests[1].messages[-1].text
    assert refused is not done
    assert not (world.project / "made").exists()


@pytest.mark.parametrize("key", ["deny", "ask"])
def test_no_session_begins_under_a_rule_that_forbids_nothing(world, key):
    (world.home / ".metier").mkdir(exist_ok=True)
    (world.home / ".metier/config.toml").write_text(f'[agent]\n{key} = ["run_comand(rm)"]\n')
    agent = Agent(world.open(), ScriptedModel(["Done."]))

    with pytest.raises(BadRequest, match=r"names `run_comand`.*did you mean `run_command`") as caught:
        agent.start()

    assert "config.toml" in str(caught.value)

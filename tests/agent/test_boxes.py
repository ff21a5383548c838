"""Approval, tool names, budgets, redaction, repetition: each a wrapper."""

import pytest
from tests.agent.talking import call, greeter, session, spoken
from tests.home import write_skill

from metier.agent.agent import Agent
from metier.agent.permissions import Permission, PermissionRule
from metier.testing.models import ScriptedModel
from metier.types.agent import TurnBounds
from metier.types.event import Answered, Asked, Used

_OFF = "allowed-tools: Bash(echo:*)\ndisable-model-invocation: true\nuser-invocable: false\n"


def used(events):
    return [one for one in events if isinstance(one, Used)]


def test_a_call_that_needs_a_yes_is_asked_for_and_made(world):
    talk, _ = session(world, [call("write_file", path="a.txt", content="hi"), "Done."])
    events = spoken(talk, "write", answer="once")

    assert [one.text for one in events if isinstance(one, Asked)] == ["write_file: a.txt"]
    assert (world.project / "a.txt").read_text() == "hi"


def test_a_no_is_told_to_the_model_which_goes_on(world):
    talk, _ = session(world, [call("write_file", path="a.txt", content="hi"), "Then not."])
    events = spoken(talk, "write", answer="no")

    assert used(events)[0].error
    assert "did not allow" in used(events)[0].text
    assert events[-1].outcome == "finished"
    assert not (world.project / "a.txt").exists()


def test_with_nobody_to_ask_the_turn_ends_refused_and_nothing_is_done(world):
    talk, _ = session(world, [call("write_file", path="a.txt", content="hi"), "never said"])
    events = spoken(talk, "write")

    assert (events[-1].outcome, events[-1].reason, events[-1].code) == ("refused", "refused-approval", 4)
    assert [one.by for one in events if isinstance(one, Answered)] == ["nobody"]
    assert not (world.project / "a.txt").exists()


def test_always_is_remembered_for_the_same_call_and_no_other(world):
    write = call("write_file", path="a.txt", content="1")
    spoken(session(world, [write, "Done."])[0], "write", answer="always")
    again = spoken(session(world, [write, "Done."])[0], "write")
    other = spoken(session(world, [call("write_file", path="b.txt", content="1"), "x"])[0], "write")

    assert again[-1].outcome == "finished"
    assert other[-1].outcome == "refused"


def test_a_yes_for_a_skills_program_is_forgotten_when_anything_in_the_skill_changes(world):
    file = greeter(world)
    run = call("skill_run_script", skill_name="greet", script_name="hi.py")
    asks = Permission(ask=(PermissionRule("skill_run_script"),))
    spoken(session(world, [run, "Done."], rules=asks)[0], "run", answer="always")
    same = spoken(session(world, [run, "Done."], rules=asks)[0], "run")
    (file.parent / "scripts" / "hi.py").write_text("print('something else')\n")
    changed = spoken(session(world, [run, "x"], rules=asks)[0], "run")

    assert same[-1].outcome == "finished"
    assert changed[-1].outcome == "refused"


def test_allowed_tools_of_an_active_skill_are_granted_for_the_run(world):
    write_skill(world.home / ".metier/skills/writer", "Writes.", "Write it.\n", "allowed-tools: Write Bash(echo:*)\n")
    lines = [call("write_file", path="a.txt", content="x"), call("run_command", command="echo hi"), "Done."]
    with_it = spoken(session(world, list(lines))[0], "/writer")
    without = spoken(session(world, list(lines))[0], "please write")

    assert with_it[-1].outcome == "finished"
    assert used(with_it)[1].text == "hi"
    assert without[-1].outcome == "refused"


@pytest.mark.parametrize("becomes", ["gone", "off", "less", "as it was"])
def test_a_grant_ends_with_the_skill_that_asked_for_it(world, becomes):
    folder = world.home / ".metier/skills/writer"
    file = write_skill(folder, "Writes.", "Write it.\n", "allowed-tools: Bash(echo:*)\n")
    talk, _ = session(world, ["Hello."])
    spoken(talk, "/writer")
    if becomes == "gone":
        file.unlink()
    elif becomes != "as it was":
        now = "allowed-tools: Read\n" if becomes == "less" else _OFF
        write_skill(folder, "Writes.", "Write it.\n", now)
    again = Agent(world.open(), ScriptedModel([call("run_command", command="echo hi"), "Done."])).resume(talk.run)

    assert spoken(again, "go on")[-1].outcome == ("finished" if becomes == "as it was" else "refused")


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("Bash", {"command": "echo hi"}, "hi"),
        ("run_shell_command", {"cmd": "echo hi"}, "hi"),
        ("exec", {"argv": ["echo", "a b"]}, "a b"),
        ("Read", {"file_path": "note.txt"}, "one\ntwo\n"),
        ("Edit", {"file_path": "note.txt", "old_string": "one", "new_string": "1"}, "Edited note.txt: 1 place."),
        ("LS", {}, ".git/\nnote.txt"),
        ("Glob", {"pattern": "*.txt"}, "note.txt"),
        ("Grep", {"pattern": "^two"}, "note.txt:2:two"),
        ("AskUserQuestion", {"questions": [{"question": "Which?"}]}, "once"),
        ("Skill", {"skill": "greet"}, "Skill 'greet' activated successfully. Instructions will follow."),
    ],
)
def test_a_tool_is_reached_by_the_name_that_other_agents_have_for_it(world, name, arguments, text):
    greeter(world)
    (world.project / "note.txt").write_text("one\ntwo\n")
    events = spoken(session(world, [call(name, **arguments), "Done."])[0], "go", answer="once")

    assert used(events)[0].text == text


@pytest.mark.parametrize(
    ("bounds", "outcome"),
    [
        (TurnBounds(turns=2), "out-of-turns"),
        (TurnBounds(tokens=10), "out-of-tokens"),
        (TurnBounds(seconds=0.0), "out-of-time"),
        (TurnBounds(cost=0.0), "over-cost"),
    ],
)
def test_a_turn_ends_when_its_budget_is_spent(world, bounds, outcome):
    lines = [call("list_files", path=f"{number}") for number in range(9)]
    events = spoken(session(world, lines, limits=bounds)[0], "go on for ever")

    assert (events[-1].outcome, events[-1].code) == (outcome, 6)


def test_a_budget_is_for_a_turn_and_the_next_one_has_its_own(world):
    talk, _ = session(world, [call("list_files"), "x", "Done."], limits=TurnBounds(turns=1))

    assert spoken(talk, "one")[-1].outcome == "out-of-turns"
    assert spoken(talk, "two")[-1].outcome == "finished"


def test_the_same_call_with_the_same_answer_is_warned_of_and_then_ends_the_turn(world):
    talk, _ = session(world, [call("list_files")] * 9)
    events = spoken(talk, "look")

    assert "Do something else" in used(events)[2].text
    assert events[-1].outcome == "repeating"


def test_a_secret_of_the_environment_reaches_neither_the_model_nor_the_journal(world):
    (world.project / "config.txt").write_text("key = tell-nobody-123\n")
    place = world.place(env={"SERVICE_API_KEY": "tell-nobody-123", "PATH": "/usr/bin:/bin"})
    model = ScriptedModel([call("read_file", path="config.txt"), "I saw it."])
    talk = Agent(world.open(place=place), model).start()
    events = spoken(talk, "what is tell-nobody-123?")
    assert talk.journal is not None
    journal = (world.state / "runs" / f"{talk.run}.jsonl").read_text()

    assert used(events)[0].text == "key = [hidden]\n"
    assert "tell-nobody-123" not in journal
    assert "[hidden]" in journal
    assert (world.state / "runs" / f"{talk.run}.jsonl").stat().st_mode & 0o777 == 0o600

"""What a line of input sets going, and how skills are stacked, changed and put back."""

import pytest
from tests.agent.talking import call, greeter, session, spoken
from tests.home import write_skill

from metier.agent.agent import Agent
from metier.testing.models import ScriptedModel
from metier.types.event import Activated, Compacted, Offered, Restored, Used


def told(model) -> str:
    return "\n".join(message.text for message in model.requests[-1].messages)


@pytest.mark.parametrize(
    ("line", "reason"),
    [("/nope", "unknown-skill"), ("/gret Bob", "unknown-skill"), ("/hidden", "refused"), ("/broken", "bad-skill")],
)
def test_a_command_that_is_none_is_named_with_a_reason(world, line, reason):
    greeter(world)
    write_skill(world.home / ".metier/skills/hidden", "Hidden.", more="user-invocable: false\n")
    broken = world.home / ".metier/skills/broken"
    broken.mkdir()
    (broken / "SKILL.md").write_text("no frontmatter at all")
    events = spoken(session(world, ["never"])[0], line)

    assert (events[-1].outcome, events[-1].reason) == ("failed", reason)
    assert events[-1].code in (2, 3, 4)


@pytest.mark.parametrize("line", ["/etc/hosts is odd", "what is /tmp?", "/ nothing", "a /greet in the middle"])
def test_a_line_that_only_looks_like_a_command_is_said(world, line):
    greeter(world)
    talk, model = session(world, ["Yes."])

    assert spoken(talk, line)[-1].outcome == "finished"
    assert model.requests[0].messages[0].text == line


@pytest.mark.parametrize(("dialect", "stacked"), [("standard", ["greet", "other"]), ("umbra", ["greet"])])
def test_two_commands_in_a_row_stack_where_the_dialect_has_that(world, dialect, stacked):
    root = ".metier/skills" if dialect == "standard" else ".umbra/skills"
    greeter(world, root)
    write_skill(world.home / root / "other", "Other.", "Do the other for $ARGUMENTS.\n")
    talk, _model = session(world, ["Done."], dialect)
    events = spoken(talk, "/greet /other Bob")

    assert [one.skill for one in events if isinstance(one, Activated)] == stacked


def test_later_skills_come_after_earlier_ones_and_all_stay(world):
    for name in ("one", "two", "three"):
        write_skill(world.home / ".metier/skills" / name, f"Does {name}.", f"The rules of {name}.\n")
    talk, model = session(world, ["a", "b", call("skill_use", skill_name="three"), "c"])
    for line in ("/one", "/two", "and three"):
        spoken(talk, line)
    text = told(model)

    assert [one.skill for one in talk.conversation.active] == ["one", "two", "three"]
    assert text.index("The rules of one") < text.index("The rules of two") < text.index("The rules of three")


def test_a_command_that_goes_straight_to_a_tool_asks_no_model(world):
    more = "command-dispatch: tool\ncommand-tool: run_command\n"
    write_skill(world.home / ".openclaw/skills/shell", "Runs a command.", "x\n", more)
    talk, model = session(world, ["Then what?"], "openclaw")
    events = spoken(talk, "/shell echo straight", answer="once")

    assert next(one for one in events if isinstance(one, Used)).text == "straight"
    assert model.requests == []
    assert events[-1].outcome == "finished"
    assert spoken(talk, "and now?")[-1].outcome == "finished"


def test_a_scheduled_skill_runs_by_hand_with_words_that_keep_it_from_scheduling(world):
    folder = world.home / ".config/agenvoy/skills/scheduler/morning-1a2b3c4d"
    write_skill(folder, "Morning news.", "Read the news aloud.\n")
    talk, model = session(world, ["Good morning."], "agenvoy")
    spoken(talk, "/sched-morning-1a2b3c4d in French")

    assert "Read the news aloud." in told(model)
    assert "**禁止** add_schedule" in told(model)  # the page's own words
    assert "in French" in told(model)


def test_instructions_that_are_in_view_are_not_told_twice(world):
    greeter(world)
    use = call("skill_use", skill_name="greet", arguments="Bob")
    talk, model = session(world, [use, call("skill_use", id="again", skill_name="greet", arguments="Bob"), "Done."])
    spoken(talk, "go")

    assert told(model).count("Greet them: Bob") == 1
    assert "already active" in told(model)


def test_a_change_on_disk_arrives_as_a_note_at_the_end_and_only_once(world):
    greeter(world)
    talk, model = session(world, ["a", "b", "c", "d"])
    spoken(talk, "one")
    write_skill(world.home / ".metier/skills/fresh", "A fresh one.")
    talk.update(talk.library.reload())
    second = spoken(talk, "two")
    third = spoken(talk, "three")
    (world.home / ".metier/skills/fresh/SKILL.md").unlink()
    talk.update(talk.library.reload())
    fourth = spoken(talk, "four")

    assert [one.added for one in second if isinstance(one, Offered)] == [("fresh",)]
    assert [one for one in third if isinstance(one, Offered)] == []
    assert "holds again" in next(one for one in fourth if isinstance(one, Offered)).messages[0].text
    assert len({request.system for request in model.requests}) == 1


def test_a_skill_that_the_agent_itself_writes_can_be_used_in_the_same_turn(world):
    write_skill(world.project / "skills/old", "There before.")
    text = "---\nname: made\ndescription: Just made.\n---\nFollow the new one.\n"
    write = call("write_file", path="skills/made/SKILL.md", content=text)
    model = ScriptedModel([write, call("skill_use", skill_name="made"), "Done."])
    talk = Agent(world.open(root=world.project / "skills"), model).start()
    events = spoken(talk, "make a skill", answer="once")

    assert [one.added for one in events if isinstance(one, Offered)] == [("made",)]
    assert "Follow the new one." in told(model)


def test_nothing_of_a_skill_runs_again_when_its_instructions_are_put_back(world):
    write_skill(world.home / ".metier/skills/count", "Counts.", "Now: !`date +%s%N`\n" + "Long. " * 300)
    talk, model = session(world, ["a " * 500, "b " * 500, "Summary.", "c"])
    spoken(talk, "/count")
    first = talk.conversation.active[0].text
    spoken(talk, "go on")
    model.window = 1_600
    events = spoken(talk, "and on")

    assert [one for one in events if isinstance(one, Compacted)]
    assert first in told(model)
    assert told(model).count("Now: ") == 1


def test_after_a_retraction_the_skill_that_came_with_it_is_put_back(world):
    greeter(world)
    talk, model = session(world, ["a", "b"])
    spoken(talk, "/greet Bob")
    assert talk.retract()
    events = spoken(talk, "hello")

    assert [one.skills for one in events if isinstance(one, Restored) and one.skills] == [("greet",)]
    assert "Greet them: Bob" in told(model)


def test_the_same_skill_twice_by_hand_has_two_calls_with_two_ids(world):
    greeter(world, ".config/agenvoy/skills")
    talk, model = session(world, ["a", "b"], "agenvoy")
    spoken(talk, "/greet")
    spoken(talk, "/greet")
    ids = [message.call.id for message in model.requests[-1].messages if message.call]

    assert len(ids) == len(set(ids)) == 2

"""A conversation, turn by turn, with a model that follows a script."""

import threading

import pytest
from tests.agent.talking import call, greeter, kinds, session, spoken
from tests.home import write_skill
from tests.host.boxes import alive, soon

from metier.agent.agent import Agent
from metier.record.journal import find_journal
from metier.record.stats import build_funnel, read_turns
from metier.record.trace import read_trace
from metier.testing.models import ScriptedModel
from metier.types.errors import BadRequest, ModelError
from metier.types.event import Activated, Ended, Used


def test_a_skill_is_activated_its_script_is_run_and_the_model_answers(world):
    greeter(world)
    talk, model = session(
        world,
        [
            call("skill_use", skill_name="greet", arguments="Bob"),
            call("skill_run_script", skill_name="greet", script_name="hi.py", script_args="Bob"),
            "Done.",
        ],
    )

    events = spoken(talk, "greet Bob")

    assert [one.text for one in events if isinstance(one, Used)][-1] == "hi Bob"
    assert [one.skill for one in events if isinstance(one, Activated)] == ["greet"]
    assert "Greet them: Bob" in model.requests[1].messages[-1].text
    assert events[-1] == Ended("finished", "Done.", usage=events[-1].usage, seconds=events[-1].seconds)


def test_a_skill_that_was_not_granted_is_refused_and_the_journal_says_so(world):
    greeter(world)
    write_skill(world.home / ".metier" / "skills" / "secret", body="Secret text.\n")
    model = ScriptedModel([call("skill_use", skill_name="secret"), "Then not."])
    talk = Agent(world.open(agent=["greet"]), model).start()
    spoken(talk, "use secret")

    kept = [one for one in read_trace(find_journal(str(world.state), "last")).events if isinstance(one, Used)]
    assert [(one.call.name, one.error) for one in kept] == [("skill_use", True)]
    assert kept[0].text.startswith("Skill 'secret' is not enabled for this agent")
    assert "Secret text." not in str(model.requests)


def test_a_run_is_its_events_and_can_be_gone_on_with(world):
    greeter(world)
    talk, model = session(world, ["Hello.", "And again."])
    spoken(talk, "/greet Bob")

    journal = find_journal(str(world.state), "last")
    again = Agent(world.open(), model).resume("last")
    assert again.conversation == talk.conversation
    spoken(again, "once more")

    assert kinds(read_trace(journal).events) == [
        "Started", "Heard", "Activated", "Replied", "Ended", "Resumed", "Heard", "Replied", "Ended",
    ]  # fmt: skip
    first, second = model.requests
    assert second.system == first.system
    assert second.messages[: len(first.messages)] == first.messages


def test_a_service_that_fails_ends_the_turn_and_not_the_session(world):
    talk, _ = session(world, [ModelError("it is down", "try again later"), "Here."])

    assert spoken(talk, "hello")[-1].reason == "provider-down"
    assert spoken(talk, "hello?")[-1].outcome == "finished"


def test_whoever_stops_reading_stops_the_turn(world):
    talk, _model = session(world, ["One\ntwo\nthree.", "Go on."])
    for event in talk.say("count"):
        if type(event).__name__ == "Wrote":
            break
    ended = read_trace(find_journal(str(world.state), "last")).ended

    assert ended is not None
    assert ended.outcome == "interrupted"
    assert spoken(talk, "go on")[-1].outcome == "finished"


def test_a_stop_from_elsewhere_ends_the_turn_and_leaves_no_call_without_answer(world):
    talk, _model = session(world, [[call("list_files"), call("list_files", path="src")], "Yes."])
    for event in talk.say("look"):
        if isinstance(event, Used):
            talk.stop()
    asked = [message.call.id for message in talk.conversation.messages if message.call]
    given = [message.answers for message in talk.conversation.messages if message.role == "tool"]

    assert asked == given
    assert spoken(talk, "and?")[-1].outcome == "finished"


def test_a_stop_from_elsewhere_ends_a_program_that_runs(world):
    file = greeter(world)
    (file.parent / "scripts" / "wait.sh").write_text("sleep 86398\n")
    talk, _model = session(world, [call("skill_run_script", skill_name="greet", script_name="wait.sh"), "Yes."])

    def stop() -> None:
        assert soon(lambda: alive("86398"), 60)
        talk.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    events = spoken(talk, "wait")
    stopping.join()

    assert events[-1].outcome == "interrupted"
    assert not alive("86398")


def test_two_cannot_go_on_with_one_run_at_the_same_time(world):
    talk, _ = session(world, ["One\ntwo."])
    turn = talk.say("count")
    next(turn)
    other = Agent(world.open(), ScriptedModel(["no"])).resume("last")

    with pytest.raises(BadRequest, match="active in another process"):
        next(other.say("me too"))
    turn.close()


def test_where_the_catalog_could_not_list_all_the_best_for_a_request_stand_at_the_end(world):
    for number in range(40):
        write_skill(world.home / f".metier/skills/filler-{number}", f"Does filler number {number}.")
    write_skill(world.home / ".metier/skills/weaver", "Weaves carpets out of wool and silk.")
    world.state.mkdir(exist_ok=True)
    (world.state / "config.toml").write_text("[limits]\ncharacters = 2000\n")
    talk, model = session(world, ["Yes.", "Yes."])
    spoken(talk, "please weave a carpet")
    spoken(talk, "and another carpet of silk")

    assert "weaver" in model.requests[0].messages[-1].text
    assert model.requests[0].messages[-1].tag == "suggested"
    assert "skill_search" in [tool.name for tool in model.requests[0].tools]
    assert model.requests[1].system == model.requests[0].system
    assert model.requests[1].messages[:2] == model.requests[0].messages


def test_what_is_used_most_is_listed_where_not_all_can_be_and_stays_listed(world):
    for number in range(40):
        write_skill(world.home / f".metier/skills/filler-{number:02}", f"Does filler number {number}.")
    world.state.mkdir(exist_ok=True)
    (world.state / "config.toml").write_text("[limits]\ncharacters = 2000\n")
    first, _ = session(world, ["Yes.", "And again."])
    spoken(first, "/filler-39")
    second, model = session(world, ["Yes.", "And again."])
    spoken(second, "hello")
    spoken(Agent(world.open(), model).resume(second.run), "more")

    assert "filler-39" not in first.conversation.system
    assert "filler-39" in second.conversation.system
    assert [type(event).__name__ for event in read_trace(find_journal(str(world.state), second.run)).events].count(
        "Offered"
    ) == 0


def test_the_journal_says_what_was_shown_and_chosen_at_which_rank(world):
    for number in range(40):
        write_skill(world.home / f".metier/skills/filler-{number}", f"Does filler number {number}.")
    weaver = write_skill(world.home / ".metier/skills/weaver", "Weaves carpets out of wool and silk.")
    world.state.mkdir(exist_ok=True)
    (world.state / "config.toml").write_text("[limits]\ncharacters = 2000\n")
    talk, _ = session(world, [call("skill_use", skill_name="weaver"), "Woven.", "Yes."])
    spoken(talk, "please weave a carpet")
    spoken(talk, "/filler-1")
    first, second = read_turns(read_trace(find_journal(str(world.state), "last")).events)

    assert first.shown[str(weaver)] == 1
    assert {engine: found[0] for engine, found in first.would.items()} == {
        "lexical": str(weaver),
        "plain": str(weaver),
    }
    assert (first.activated, first.by, first.used, first.outcome) == (str(weaver), "model", True, "finished")
    assert (second.by, second.shown.get(second.activated)) == ("user", 0)
    assert build_funnel([first, second]).recall["lexical"][1] == 1.0


def test_what_fills_the_window_is_told_by_part_and_by_skill(world):
    greeter(world)
    talk, _ = session(world, ["Hello."])
    spoken(talk, "/greet Bob")
    parts = dict(talk.context())

    assert {"tools", "catalog", "messages", "system prompt", "skill greet"} <= set(parts)
    assert all(size >= 0 for size in parts.values())


def test_a_conversation_that_can_not_be_made_shorter_is_not_cut_again_and_again(world):
    talk, model = session(world, ["a " * 400, "Summary.", call("list_files"), call("list_files", path="."), "Done."])
    spoken(talk, "first")
    model.window = 700
    events = spoken(talk, "second")

    assert kinds(events).count("Compacted") == 1
    assert events[-1].outcome == "finished"

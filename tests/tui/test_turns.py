"""The terminal app while a turn runs, is stopped, asks, or is left for another conversation."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Event as Flag

import pytest
from tests.home import World

pytest.importorskip("textual", reason="needs the extra `chat`")

from tests.tui.test_chat import drive, entered, idle, offered, pressed, shown, skill, type_, until, world
from textual.pilot import Pilot

from metier.faces.tui.app import ChatApp
from metier.types.activation import ToolCall
from metier.types.model import ReplyRequest

__all__ = ["world"]

# Which second is seen is the machine's affair: a busy one skips some.
COUNTED = re.compile(r"working · [1-9]\d* s · Esc stops")
TOUCH = [ToolCall("1", "run_command", {"command": "touch made"})]


def held(answer: object) -> tuple[Flag, Callable[[ReplyRequest], object]]:
    """A model that answers only once it is let go."""
    free = Flag()

    def slow(request: ReplyRequest) -> object:
        free.wait(30)
        return answer

    return free, slow


def sign(app: ChatApp) -> str:
    return str(app.indicator.content) if app.indicator.display else ""


def test_while_a_turn_runs_a_sign_counts_and_says_what_stops_it(world: World):
    free, slow = held("There.")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        assert sign(app) == ""
        await entered(app, pilot, "think")
        await until(pilot, lambda: COUNTED.search(sign(app)) is not None, "the seconds are counted")
        free.set()
        await idle(app, pilot)
        assert sign(app) == ""

    drive(world, act, [slow])


def test_what_is_entered_while_a_turn_runs_is_said_after_it(world: World):
    free, slow = held("First.")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "one")
        await until(pilot, lambda: app.busy, "it runs")
        await entered(app, pilot, "two")
        await until(pilot, lambda: "1 queued" in sign(app), "it waits")
        free.set()
        await until(pilot, lambda: "Second." in shown(app), "both are answered")
        assert shown(app).index("First.") < shown(app).index("two")

    drive(world, act, [slow, "Second."])


def test_a_turn_that_ends_while_the_screen_is_taken_down_ends_quietly(world: World):
    free, slow = held("Done.")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "one")
        await until(pilot, lambda: app.busy, "it runs")
        await app.indicator.remove()
        free.set()
        await until(pilot, lambda: not app.busy, "it is over")
        await pilot.pause()

    drive(world, act, [slow])


def test_esc_gives_back_what_was_to_be_said_next(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "one")
        await until(pilot, lambda: app.pending is not None, "it asks")
        app.queued.append("two")
        await pilot.press("escape")
        await idle(app, pilot)
        assert app.prompt.line.value == "two"

    drive(world, act, [TOUCH])


def test_one_key_answers_an_approval(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "make it")
        await until(pilot, lambda: app.pending is not None, "it asks")
        assert "press y" in shown(app)
        await pressed(app, pilot, "y")
        await idle(app, pilot)
        assert (world.project / "made").exists()

    drive(world, act, [TOUCH, "Made."])


def test_a_key_of_somebody_who_was_typing_answers_nothing_and_the_draft_comes_back(world: World):
    free, slow = held(TOUCH)

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "make it")
        app.prompt.fill("s")
        app.prompt.line.grace = 60.0
        free.set()
        await until(pilot, lambda: app.pending is not None, "it asks")
        await type_(pilot, "ay")
        assert app.pending is not None
        assert app.prompt.line.value == "ay"
        app.prompt.fill("n")
        await pilot.press("enter")
        await idle(app, pilot)
        assert app.prompt.line.value == "s"
        assert not (world.project / "made").exists()

    drive(world, act, [slow, "Not made."])


def test_a_name_that_no_conversation_has_leaves_this_one_as_it_is(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "remember me")
        await idle(app, pilot)
        before = app.session
        await entered(app, pilot, "/resume typo")
        assert app.session is before
        assert "I will." in shown(app)
        assert "no run named `typo`" in shown(app)
        assert "run `/resume` to list them" in shown(app)

    drive(world, act, ["I will."])


def test_a_switch_ends_with_its_conversation_and_why_names_it(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        for standing in ("off", "user-only"):
            await entered(app, pilot, f"/skills deploy {standing}")
            await entered(app, pilot, "/why deploy")
            assert f"set to {standing} in this conversation" in shown(app)
            assert "to undo, type /skills deploy on" in shown(app)
            assert "frontmatter" not in shown(app)
        await entered(app, pilot, "/clear")
        await entered(app, pilot, "/why deploy")
        assert "usable and listed" in shown(app)
        assert app.session is not None
        assert "deploy" in [entry.name for entry in app.session.library.catalog().entries]

    drive(world, act)


def test_a_skill_that_breaks_is_named_with_the_reason_and_offered_once(world: World):
    pytest.importorskip("watchfiles")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await pilot.pause(0.5)
        (world.state / "skills/deploy/SKILL.md").write_text("---\nname: deploy\n---\n\nx\n")
        await until(pilot, lambda: "deploy is broken: " in shown(app), "the fault is shown")
        assert "`description` is missing" in shown(app)
        assert "still using the last good version" in shown(app)
        assert "2 broken" in str(app.query_one("#top").content)  # type: ignore[attr-defined]
        await type_(pilot, "/deploy")
        assert offered(app) == ["deploy"]
        assert "broken, last good version in use" in app.prompt.offered[0].description

    drive(world, act, watch=True)


def test_notes_to_the_model_are_not_shown_as_if_a_person_had_said_them(world: World):
    async def first(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "remember me")
        await idle(app, pilot)
        skill(world.state, "fresh", "A new one")
        app.use_library(world.open())
        await entered(app, pilot, "go on")
        await idle(app, pilot)
        assert app.session is not None
        assert "change" in [one.tag for one in app.session.conversation.messages]

    async def second(app: ChatApp, pilot: Pilot[int]) -> None:
        assert "go on" in shown(app)
        assert "skills have changed" not in shown(app)

    drive(world, first, ["I will.", "I do."])
    drive(world, second, [], resume="last")


def test_ctrl_c_stops_a_turn_first_and_then_leaves_and_the_half_answer_is_kept(world: World):
    said = "Half of it.\n"

    def slow(request: ReplyRequest) -> str:
        return said + "Never.\n" * 100_000

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "talk")
        await until(pilot, lambda: "Half of it." in shown(app), "it talks")
        await pilot.press("ctrl+c")
        await idle(app, pilot)
        assert app.is_running
        assert "interrupted" in shown(app)
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running, "it leaves")

    async def again(app: ChatApp, pilot: Pilot[int]) -> None:
        assert "Half of it." in shown(app)

    drive(world, act, [slow])
    drive(world, again, [], resume="last")


def more(app: ChatApp) -> str:
    return str(app.prompt.more.content) if app.prompt.more.display else ""


def test_the_picker_says_what_it_has_no_room_for_and_when_there_is_nothing(world: World):
    for number in range(20):
        skill(world.state, f"filler-{number}", "Fills")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "/filler")
        assert more(app).startswith("10 more")
        await type_(pilot, "-19")
        assert more(app) == ""
        await type_(pilot, "x")
        assert more(app) == "no match"
        await pilot.resize_terminal(40, 12)
        app.prompt.fill("/")
        await pilot.pause()
        assert app.prompt.line.region.bottom == 12
        assert app.prompt.picker.region.height == 6

    drive(world, act)


def test_conversations_are_offered_with_when_and_how_they_ended_the_newest_first(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        for line in ("the first", "/clear", "the second"):
            await entered(app, pilot, line)
            await idle(app, pilot)
        await entered(app, pilot, "/clear")
        await entered(app, pilot, "/resume")
        told = "\n".join(choice.description for choice in app.prompt.offered)
        assert told.index("the second") < told.index("the first")
        assert told.count("finished, 1 turn") == 2

    drive(world, act, ["One.", "Two."])


def test_a_line_that_calls_nothing_is_shown_with_what_is_wrong_with_it(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "/nosuchthing at all")
        await idle(app, pilot)
        assert "/nosuchthing at all" in shown(app)
        await entered(app, pilot, "/model nobody")
        assert "/model nobody" in shown(app)

    drive(world, act)

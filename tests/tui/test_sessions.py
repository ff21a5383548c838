"""Conversations that are left, listed, continued and measured, and the app's own commands about them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.home import World

pytest.importorskip("textual", reason="needs the extra `chat`")

from tests.tui.test_chat import drive, entered, idle, offered, shown, skill, type_, until, world
from textual.content import Content
from textual.pilot import Pilot

from metier.agent.agent import Agent
from metier.faces.cli.options import PICK_SESSION
from metier.faces.tui.app import ChatApp
from metier.faces.tui.command import say_farewell
from metier.improve.proposal_store import write_proposal
from metier.record.sessions import last_session, list_sessions
from metier.testing.models import ScriptedModel
from metier.types.activation import ToolCall
from metier.types.errors import BadRequest
from metier.types.improvement import Proposal

__all__ = ["world"]


def talk(world: World, text: str, folder: Path | None = None, resume: str = "") -> str:
    """One turn without a screen; the id of its run."""
    agent = Agent(world.open(place=world.place(folder)), ScriptedModel([f"Answer to {text}."]))
    session = agent.resume(resume) if resume else agent.start()
    list(session.say(text))
    time.sleep(0.02)  # the order of use is that of the files' times
    return session.run


def test_the_last_conversation_is_the_one_used_last_in_this_folder(world: World):
    first, second = talk(world, "the first"), talk(world, "the second")
    assert last_session(str(world.state), str(world.project)) == second
    talk(world, "again", resume=first)
    assert last_session(str(world.state), str(world.project)) == first
    assert Agent(world.open(), ScriptedModel([])).resume("last").run == first


def test_the_conversations_of_another_folder_are_not_the_last_here(world: World, tmp_path: Path):
    here = talk(world, "here")
    elsewhere = tmp_path / "home/elsewhere"
    elsewhere.mkdir()
    with pytest.raises(BadRequest, match="no conversation in this folder yet"):
        last_session(str(world.state), str(elsewhere))
    there = talk(world, "there", elsewhere)
    assert last_session(str(world.state), str(elsewhere)) == there
    assert last_session(str(world.state), str(world.project)) == here
    assert [one.task for one in list_sessions(str(world.state), str(world.project))] == ["here"]


def test_conversations_are_picked_by_what_was_asked(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        assert app.prompt.line.value == "/resume "
        assert offered(app) == [talked["paint the door"], talked["mow the lawn"]]
        await type_(pilot, "lawn")
        assert offered(app) == [talked["mow the lawn"]]
        await pilot.press("enter")
        await until(pilot, lambda: "Answer to mow the lawn." in shown(app), "it is continued")
        assert app.session is not None
        assert app.session.run == talked["mow the lawn"]

    talked = {text: talk(world, text) for text in ("mow the lawn", "paint the door")}
    drive(world, act, [], resume=PICK_SESSION)


def test_a_continued_conversation_looks_as_it_did(world: World):
    called = [ToolCall("1", "run_command", {"command": "echo out; touch made"})]

    async def first(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "make it")
        await until(pilot, lambda: app.pending is not None, "it asks")
        await pilot.pause(app.prompt.line.grace + 0.1)
        await pilot.press("y")
        await idle(app, pilot)
        before.append([row.content for row in app.log_.rows])

    async def second(app: ChatApp, pilot: Pilot[int]) -> None:
        after = [row.content for row in app.log_.rows]
        # The line about the model stands for the beginning, the one about resuming for the return.
        assert [one.plain for one in after[1:]] == [one.plain for one in before[0][1:]]
        assert any(span.style == "bold" for one in after for span in one.spans)

    before: list[list[Content]] = []
    drive(world, first, [called, "It is **made**."])
    drive(world, second, [], resume="last")


def test_what_is_left_in_the_terminal_is_the_answer_and_the_way_back(world: World, capsys: pytest.CaptureFixture[str]):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "say it")
        await idle(app, pilot)

    async def nothing(app: ChatApp, pilot: Pilot[int]) -> None:
        pass

    app = drive(world, act, ["It is **so**.\n\n- one\n- two"])
    say_farewell(app)
    assert app.session is not None
    told = capsys.readouterr().out
    assert told.startswith("It is so.\n\n• one\n• two\n")
    assert f"metier chat --resume {app.session.run}" in told
    say_farewell(drive(world, nothing))
    assert capsys.readouterr().out == ""


def test_a_conversation_is_compacted_and_measured(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "/cost")
        assert "Nothing was sent yet." in shown(app)
        await entered(app, pilot, "/compact")
        await idle(app, pilot)
        assert "nothing to compact" in shown(app)
        for text in ("one " * 3_000, "two", "three " * 2_000):
            app.say(text)
            await idle(app, pilot)
        await entered(app, pilot, "/compact")
        await idle(app, pilot)
        assert "↻ compacted" in shown(app)
        await entered(app, pilot, "/cost")
        assert "requests" in shown(app)

    drive(world, act, ["One.", "Two.", "Three.", "A summary."])


def test_compacting_what_is_short_says_that_nothing_was_gained(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        for text in ("one", "two"):
            app.say(text)
            await idle(app, pilot)
        assert app.session is not None
        before = app.session.conversation
        await entered(app, pilot, "/compact")
        await idle(app, pilot)
        assert "not compacted" in shown(app)
        assert app.session.conversation.messages == before.messages
        assert app.session.conversation.usage.requests == before.usage.requests + 1  # it was paid for all the same

    drive(world, act, ["One.", "Two.", "A summary that is a good deal longer than the few words it stands for. " * 9])


def test_the_window_is_measured_before_anything_was_sent(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "/context")
        figures = {
            line.partition(" about ")[0].strip(): int(line.partition(" about ")[2].split()[0].replace(",", ""))
            for line in shown(app).splitlines()
            if " about " in line
        }
        assert figures["system prompt"] >= figures["including the catalog"] > 0
        assert figures["total"] == figures["system prompt"] + figures["tools"]

    drive(world, act)


def test_tools_and_skills_are_listed(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "/tools")
        assert "run_command" in shown(app)
        assert "asks first" in shown(app)
        await entered(app, pilot, "/help")
        assert "/deploy <environment>  Deploys the project" in shown(app)

    drive(world, act)


def test_a_theme_is_chosen_and_kept(world: World):
    async def first(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "/theme nonsense")
        await pilot.press("escape")
        await entered(app, pilot, "/theme light")
        assert app.theme == "textual-light"

    async def second(app: ChatApp, pilot: Pilot[int]) -> None:
        assert app.theme == "textual-light"

    drive(world, first)
    drive(world, second)


def test_a_new_skill_that_is_not_trusted_comes_with_the_way_to_trust_it(world: World):
    pytest.importorskip("watchfiles")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await pilot.pause(0.5)
        skill(world.project / ".metier", "fresh", "A new one")
        await until(pilot, lambda: "+fresh" in shown(app), "the change is shown")
        assert "not trusted yet: fresh" in shown(app)
        assert "/trust" in shown(app)

    drive(world, act, watch=True)


def test_a_proposal_that_waits_and_one_that_changed_a_skill_are_said(world: World):
    def proposal(name: str, standing: str) -> None:
        made = Proposal(name, "deploy", "", "", "", {}, {}, (), "fix", standing=standing)  # type: ignore[arg-type]
        write_proposal(str(world.state), made)

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "1 proposal waits for you: deploy" in shown(app), "what waits is said")
        await pilot.pause(0.1)
        proposal("20260101-000000-000002", "accepted")
        app.look_for_proposals()
        await until(pilot, lambda: "the skill deploy was changed" in shown(app), "the change is said")
        assert shown(app).count("waits for you") == 1

    proposal("20260101-000000-000001", "waiting")
    drive(world, act)

"""What is typed, pasted, completed and brought back in the prompt."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.home import World

pytest.importorskip("textual", reason="needs the extra `chat`")

from tests.tui.test_chat import drive, entered, idle, offered, shown, skill, type_, until, world
from tests.tui.test_turns import TOUCH, held, sign
from textual import events
from textual.pilot import Pilot

from metier.agent.agent import Agent
from metier.faces.tui.app import ChatApp
from metier.faces.tui.history import append_history, read_history
from metier.faces.tui.lines import answer_choices
from metier.host.editor import edit_text, editor_command
from metier.testing.models import ScriptedModel
from metier.types.event import Asked
from metier.types.model import ReplyRequest

__all__ = ["world"]


class Listener:
    """A model that remembers what it was told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, request: ReplyRequest) -> str:
        self.texts.append(request.messages[-1].text)
        return "Yes."


async def paste(app: ChatApp, pilot: Pilot[int], text: str) -> None:
    app.prompt.line.post_message(events.Paste(text))
    await pilot.pause()


def test_a_paste_of_many_lines_is_shown_folded_and_sent_whole(world: World):
    listener, text = Listener(), "\n".join(f"line {number}" for number in range(201))

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "see ")
        await paste(app, pilot, text)
        assert app.prompt.line.value == "see [pasted 201 lines]"
        await pilot.press("enter")
        await idle(app, pilot)
        assert listener.texts == [f"see {text}"]
        assert "… 193 more lines" in shown(app)

    drive(world, act, [listener])


def test_two_pastes_of_one_size_stay_two_and_one_key_removes_one(world: World):
    listener = Listener()
    first, second = ("\n".join(f"{name} {number}" for number in range(20)) for name in "ab")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await paste(app, pilot, first)
        await paste(app, pilot, second)
        assert app.prompt.line.value == "[pasted 20 lines][pasted 20 lines, 2]"
        await pilot.press("backspace")
        assert app.prompt.line.value == "[pasted 20 lines]"
        await pilot.press("enter")
        await idle(app, pilot)
        assert listener.texts == [first]

    drive(world, act, [listener])


def test_a_short_paste_is_text_and_carries_no_orders_to_the_terminal(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await paste(app, pilot, "one\r\ntwo\x1b[2J")
        assert app.prompt.line.value == "one\ntwo"

    drive(world, act)


@pytest.mark.parametrize("key", ["shift+enter", "alt+enter", "ctrl+j"])
def test_a_line_is_broken_without_being_sent(world: World, key: str):
    listener = Listener()

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "one")
        await pilot.press(key)
        await type_(pilot, "two")
        assert app.prompt.line.region.height == 3  # the rule and two lines
        await pilot.press("enter")
        await idle(app, pilot)
        assert listener.texts == ["one\ntwo"]

    drive(world, act, [listener])


def test_a_backslash_breaks_the_line_where_the_terminal_knows_no_other_enter(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "one")
        await pilot.press("backslash", "enter")
        await type_(pilot, "two")
        assert app.prompt.line.value == "one\ntwo"

    drive(world, act)


def test_what_was_typed_comes_back_in_a_later_conversation_and_the_draft_after_it(world: World):
    async def first(app: ChatApp, pilot: Pilot[int]) -> None:
        for line in ("the first", "the second\nof two lines"):
            await entered(app, pilot, line)
            await idle(app, pilot)

    async def second(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "begun")
        await pilot.press("up")
        assert app.prompt.line.value == "the second\nof two lines"
        await pilot.press("up", "up")
        assert app.prompt.line.value == "the first"
        await pilot.press("down", "down", "down")
        assert app.prompt.line.value == "begun"

    drive(world, first, ["One.", "Two."])
    drive(world, second)


def test_the_history_is_private_bounded_and_never_in_the_way(tmp_path: Path):
    state = tmp_path / "state"
    for number in range(2_050):
        append_history(str(state), f"entry {number}")
    append_history(str(state), "x" * 100_000)
    file = state / "chat-history.jsonl"
    assert file.stat().st_mode & 0o077 == 0
    with file.open("a") as open_file:
        open_file.write("not json\n")
    kept = read_history(str(state))
    assert (len(kept), kept[-1]) == (1_000, "entry 2049")
    assert len(file.read_text().splitlines()) == 1_000
    file.unlink()
    file.mkdir()
    assert read_history(str(state)) == []
    append_history(str(state), "lost")


def test_an_at_sign_completes_the_name_of_a_file(world: World):
    (world.project / "src").mkdir()
    for name in ("src/pages.py", "src/other.py", "notes.md"):
        (world.project / name).write_text("x")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        app.prompt.fill("look at @pag")
        await until(pilot, lambda: offered(app) == ["src/pages.py"], "the file is offered")
        await pilot.press("tab")
        assert app.prompt.line.value == "look at @src/pages.py "
        app.prompt.fill("mail me@pag")
        await pilot.pause()
        assert offered(app) == []

    drive(world, act)


def test_the_text_is_written_in_the_editor_of_the_user(tmp_path: Path):
    editor = tmp_path / "my editor"
    editor.write_text('#!/bin/sh\nprintf " and more\\nlines\\n" >> "$1"\n')
    editor.chmod(0o755)
    env = {"EDITOR": f"'{editor}'", "PATH": "/usr/bin:/bin"}
    assert edit_text("begun", env) == "begun and more\nlines"
    editor.write_text("#!/bin/sh\nexit 1\n")
    assert edit_text("begun", env) is None
    assert editor_command({"VISUAL": "code --wait", "EDITOR": "vi"}) == ["code", "--wait"]
    assert editor_command({"PATH": str(tmp_path)}) == ["vi"]


def test_esc_gives_queued_requests_back_one_by_one(world: World):
    free, slow = held("First.")
    listener = Listener()

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "one")
        await until(pilot, lambda: app.busy, "it runs")
        await entered(app, pilot, "two")
        await entered(app, pilot, "three")
        await until(pilot, lambda: "2 queued" in sign(app), "they wait")
        await pilot.press("escape")
        free.set()
        await idle(app, pilot)
        assert app.prompt.line.value == "two"
        await pilot.press("enter")
        await idle(app, pilot)
        assert app.prompt.line.value == "three"
        await pilot.press("enter")
        await idle(app, pilot)
        assert listener.texts == ["two", "three"]

    drive(world, act, [slow, listener, listener])


def test_an_approval_is_given_by_moving_to_a_choice_and_never_by_enter_alone(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "make it")
        await until(pilot, lambda: app.pending is not None, "it asks")
        await pilot.press("enter")
        assert app.pending is not None
        await pilot.press("down", "enter")
        await idle(app, pilot)
        assert (world.project / "made").exists()

    drive(world, act, [TOUCH, "Made."])


def test_whatever_an_approval_offers_gets_a_key_of_its_own():
    asked = Asked("1", "approval", "run_command", "x", choices=("once", "always", "network", "no", "network-always"))
    keys = {choice.answer: choice.key for choice in answer_choices(asked)}
    assert (keys["once"], keys["always"], keys["no"]) == ("y", "a", "n")
    assert len(set(keys.values())) == 5


def test_three_thousand_choices_cost_no_more_rows_than_can_be_seen(world: World):
    for number in range(400):
        skill(world.state, f"filler-{number}", "Fills")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "/filler")
        assert app.prompt.picker.option_count == 200
        assert str(app.prompt.more.content).startswith("390 more")

    drive(world, act)


def test_the_kept_history_holds_no_secrets(world: World):
    library = world.open(place=world.place(env={"MY_API_KEY": "sk-abcdefghijklmnop"}))

    async def go() -> None:
        app = ChatApp(Agent(library, ScriptedModel(["Yes."])), watch=False)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            await entered(app, pilot, "use sk-abcdefghijklmnop for it")
            await idle(app, pilot)

    asyncio.run(go())
    kept = json.loads((world.state / "chat-history.jsonl").read_text())
    assert kept.startswith("use ")
    assert "sk-abcdefghijklmnop" not in kept

"""The terminal app, driven as a person drives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.home import World

pytest.importorskip("textual", reason="needs the extra `chat`")

from textual import events
from textual.pilot import Pilot

from metier.agent.agent import Agent
from metier.faces.tui.app import ChatApp
from metier.faces.tui.editor import PromptInput
from metier.testing.models import ScriptedModel
from metier.types.activation import ToolCall
from metier.types.event import Activated, Replied, Retried, Wrote

Act = Callable[[ChatApp, Pilot[int]], Awaitable[None]]
SKILLS = {
    "deploy": ("Deploys the project", "<environment>"),
    "code-review": ("Reviews a change", ""),
    "summarise": ("Sums up a text", ""),
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    home = tmp_path / "home"
    state = home / ".metier"
    project = home / "project"
    project.mkdir(parents=True)
    for name, (description, hint) in SKILLS.items():
        skill(state, name, description, hint)
    (state / "skills/lame").mkdir()
    (state / "skills/lame/SKILL.md").write_text("---\nname: lame\n---\n\nx\n")
    return World(home, project, state)


def skill(state: Path, name: str, description: str, hint: str = "") -> None:
    folder = state / "skills" / name
    folder.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: {description}\nargument-hint: {hint!r}\n---\n\nDo $ARGUMENTS.\n"
    (folder / "SKILL.md").write_text(text)


def drive(world: World, act: Act, lines: list[object] = [], resume: str = "", watch: bool = False) -> ChatApp:  # noqa: B006
    """Run the app in a terminal of 80 by 24, and do something in it."""

    async def go() -> ChatApp:
        app = ChatApp(Agent(world.open(), ScriptedModel(lines)), resume, watch=watch)  # type: ignore[arg-type]
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            await act(app, pilot)
        return app

    return asyncio.run(go())


async def until(pilot: Pilot[int], holds: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if holds():
            return
        await pilot.pause(0.05)
    raise AssertionError(f"never: {what}")


async def idle(app: ChatApp, pilot: Pilot[int]) -> None:
    await until(pilot, lambda: not app.busy, "the turn ended")
    await pilot.pause()


def shown(app: ChatApp) -> str:
    """All that the log says."""
    return app.log_.text


def offered(app: ChatApp) -> list[str]:
    return [choice.name for choice in app.prompt.offered]


async def type_(pilot: Pilot[int], text: str) -> None:
    await pilot.press(*("space" if one == " " else "slash" if one == "/" else one for one in text))
    await pilot.pause()


async def pressed(app: ChatApp, pilot: Pilot[int], key: str) -> None:
    """One key, once a question has stood there long enough to have been read."""
    await pilot.pause(app.prompt.line.grace + 0.1)
    await pilot.press(key)
    await pilot.pause()


async def entered(app: ChatApp, pilot: Pilot[int], line: str) -> None:
    app.prompt.fill(line)
    await pilot.press("enter")
    await pilot.pause()


def test_a_slash_opens_the_picker_with_skills_by_name_first(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "/")
        assert app.prompt.picker.display
        assert offered(app)[:3] == ["code-review", "deploy", "summarise"]
        assert offered(app)[-1] == "lame"

    drive(world, act)


def test_typing_narrows_the_picker_by_letters_in_order(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "/rev")
        assert offered(app)[0] == "code-review"
        assert "deploy" not in offered(app)

    drive(world, act)


def test_what_was_used_more_comes_first_among_equals(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        for name in ("test-b", "test-a"):
            skill(world.state, name, "x")
        app.use_library(world.open())
        app.prompt.uses["test-b"] = 3
        await type_(pilot, "/test")
        assert offered(app) == ["test-b", "test-a"]

    drive(world, act)


def test_tab_completes_and_the_hint_stands_behind_the_command(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "/dep")
        await pilot.press("tab")
        await until(pilot, lambda: bool(app.prompt.line.suggestion), "the hint is shown")
        assert app.prompt.line.value == "/deploy "
        assert app.prompt.line.suggestion == "<environment>"
        await pilot.press("right")
        assert app.prompt.line.value == "/deploy "

    drive(world, act)


@pytest.mark.parametrize("key", ["tab", "enter"])
def test_a_key_that_comes_before_the_picker_has_moved_completes_what_is_typed(world: World, key: str):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "/")
        assert offered(app)[0] != "deploy"
        app.prompt.fill("/depl")  # and no word of it has come yet
        if key == "tab":
            app.prompt.on_key(events.Key("tab", None))
        else:
            app.prompt.entered(PromptInput.Submitted("/depl"))
        assert app.prompt.line.value == "/deploy "

    drive(world, act)


def test_enter_after_esc_sends_the_line_as_it_is(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "/depl")
        await pilot.press("escape")
        await pilot.press("enter")
        await until(pilot, lambda: "/depl" in shown(app), "it was said")
        assert app.prompt.line.value == ""

    drive(world, act, ["No such skill."])


def test_a_broken_skill_is_listed_with_its_fix_and_can_not_be_picked(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "/lame")
        [choice] = app.prompt.offered
        assert choice.kind == "broken"
        assert "`description` is missing" in choice.description
        assert "→" in choice.description
        await pilot.press("tab")
        assert app.prompt.line.value == "/lame"

    drive(world, act)


def test_a_skill_is_called_and_the_reply_is_drawn(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "/deploy staging")
        await pilot.press("enter")
        await idle(app, pilot)
        assert "◆ deploy · you" in shown(app)
        assert "All **done**." in shown(app)

    drive(world, act, ["All **done**."])


def test_an_approval_is_asked_in_the_line_and_a_no_reaches_the_model(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "list it")
        await pilot.press("enter")
        await until(pilot, lambda: app.pending is not None, "it asks")
        assert "? run_command: touch made" in shown(app)
        before = shown(app)
        await type_(pilot, "what")
        await pilot.press("enter")
        await pilot.pause()
        assert app.pending is not None
        assert (shown(app), app.prompt.line.value) == (before, "")
        assert "y, a, w or n" in str(app.prompt.line.placeholder)
        await pressed(app, pilot, "n")
        await idle(app, pilot)
        assert not (world.project / "made").exists()

    drive(world, act, [[ToolCall("1", "run_command", {"command": "touch made"})], "Then not."])


def test_esc_ends_the_turn_and_the_conversation_goes_on(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "one")
        await pilot.press("enter")
        await until(pilot, lambda: app.pending is not None, "it asks")
        await pilot.press("escape")
        await idle(app, pilot)
        assert "interrupted" in shown(app)
        await type_(pilot, "two")
        await pilot.press("enter")
        await idle(app, pilot)
        assert "Here I am." in shown(app)

    drive(world, act, [[ToolCall("1", "run_command", {"command": "ls"})], "Here I am."])


def test_a_conversation_is_resumed(world: World):
    async def first(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "remember me")
        await pilot.press("enter")
        await idle(app, pilot)

    async def second(app: ChatApp, pilot: Pilot[int]) -> None:
        assert "remember me" in shown(app)
        await type_(pilot, "/resume ")
        await pilot.pause()
        assert offered(app) == []  # it is open already

    drive(world, first, ["I will."])
    drive(world, second, [], resume="last")


def test_nothing_that_is_said_reaches_the_terminal_as_an_order(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        skill(world.state, "loud", '"red \\e[31m [bold]text[/]"')
        app.use_library(world.open())
        await type_(pilot, "/loud")
        await pilot.press("escape")
        app.prompt.fill("hello")
        await pilot.press("enter")
        await idle(app, pilot)
        assert "\x1b" not in shown(app)
        assert "[bold]" in "".join(choice.description for choice in app.prompt.choices)
        assert "\x1b" not in "".join(choice.description for choice in app.prompt.choices)

    drive(world, act, ["see \x1b]0;title\x07this\x1b[2J"])


def test_a_change_of_the_skills_is_shown_as_it_happens(world: World):
    pytest.importorskip("watchfiles")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await pilot.pause(0.5)
        skill(world.state, "fresh", "A new one")
        await until(pilot, lambda: "+fresh" in shown(app), "the change is shown")
        await type_(pilot, "/fre")
        assert offered(app)[0] == "fresh"

    drive(world, act, watch=True)


def test_skills_can_be_kept_from_the_model_in_a_conversation(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        app.prompt.fill("/skills deploy user-only")
        await pilot.press("enter")
        await pilot.pause()
        assert app.session is not None
        assert "deploy" not in [entry.name for entry in app.session.library.catalog().entries]
        assert "deploy" in [command.name for command in app.session.library.commands()]
        app.prompt.fill("/skills deploy off")
        await pilot.press("enter")
        await pilot.pause()
        assert "deploy" not in [command.name for command in app.session.library.commands()]
        app.prompt.fill("/skills deploy on")
        await pilot.press("enter")
        await pilot.pause()
        assert "deploy" in [entry.name for entry in app.session.library.catalog().entries]

    drive(world, act)


def test_its_own_commands_answer(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        for line, said in (
            ("/help", "Esc stops"),
            ("/why lame", "`description` is missing"),
            ("/context", "system prompt"),
            ("/agents", "No agents"),
            ("/model", "script"),
            ("/skills", "code-review"),
        ):
            app.prompt.fill(line)
            await pilot.press("enter")
            await pilot.pause()
            assert said in shown(app), line

    drive(world, act)


@pytest.mark.parametrize("model", ["nobody", ""])
def test_without_a_model_it_opens_and_says_how_to_get_one(world: World, model: str):
    async def go() -> str:
        app = ChatApp(Agent(world.open(), model), watch=False)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            await type_(pilot, "/")
            assert offered(app)[0] == "code-review"
            return shown(app)

    told = asyncio.run(go())
    assert "metier models get" in told if not model else "nobody" in told


def test_what_was_activated_is_an_event_and_counts_as_use(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        app.prompt.fill("/summarise it")
        await pilot.press("enter")
        await idle(app, pilot)
        assert app.session is not None
        assert isinstance(app.session.conversation.active[0], Activated)

    drive(world, act, ["Done."])
    from metier.faces.tui.commands import recent_uses

    assert list(recent_uses(str(world.state))) == ["summarise"]


def test_it_says_that_a_project_is_not_trusted_yet(world: World):
    skill(world.project / ".metier", "theirs", "From the project")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        assert "1 skill of this project is not trusted yet" in shown(app)
        assert "type /trust" in shown(app)

    drive(world, act)


def test_a_question_of_a_subagent_is_answered_in_the_line_too(world: World):
    skill(world.state, "deep", "Goes deep", "")
    file = world.state / "skills/deep/SKILL.md"
    file.write_text(file.read_text().replace("---\n\nDo", "context: fork\n---\n\nDo"))

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "/deep")
        await pilot.press("enter")
        await until(pilot, lambda: app.pending is not None, "the subagent asks")
        await pressed(app, pilot, "y")
        await idle(app, pilot)
        assert (world.project / "made").exists()

    drive(world, act, [[ToolCall("1", "run_command", {"command": "touch made"})], "Inner."])


def test_what_was_written_before_a_retry_goes(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        for event in (Wrote("Half a wo"), Retried("connection", 1.0), Wrote("The whole."), Replied("The whole.")):
            app.log_.draw(event)
        await pilot.pause()
        assert "Half a wo" not in shown(app)
        assert "retrying in 1 s" in shown(app)
        assert shown(app).count("The whole.") == 1

    drive(world, act)


def test_a_scheduler_skill_is_at_the_end_of_the_picker_and_runs_by_hand(world: World):
    name = "tidy-0a1b2c3d"
    folder = world.state / "scheduler" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Tidies.\n---\nTidy up.\n")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await type_(pilot, "/")
        assert (offered(app)[-1], app.prompt.offered[-1].kind) == (f"sched-{name}", "scheduled")
        await pilot.press("escape")
        app.prompt.fill(f"/sched-{name} twice")
        await pilot.press("enter")
        await idle(app, pilot)
        assert app.session is not None
        begun = app.session.conversation.messages[0].text
        assert begun.startswith(f"[Running the existing scheduler skill: {name}")
        assert "Tidied." in shown(app)
        await entered(app, pilot, "/sched-tidy again")
        await idle(app, pilot)
        assert f"did you mean `sched-{name}`" in shown(app)

    drive(world, act, ["Tidied."])


def test_what_fills_the_window_tells_the_ranked_part_and_what_is_not_listed(world: World):
    for number in range(40):
        skill(world.state, f"filler-{number}", f"Does filler number {number}")
    skill(world.state, "weaver", "Weaves carpets out of wool and silk")
    (world.state / "config.toml").write_text("[limits]\ncharacters = 2000\n")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        app.prompt.fill("please weave a carpet")
        await pilot.press("enter")
        await idle(app, pilot)
        app.prompt.fill("/context")
        await pilot.press("enter")
        await pilot.pause()
        told = shown(app)
        assert "suggested skills" in told
        assert "not listed, no room: " in told
        assert "suggested with each request" in told

    drive(world, act, ["Woven."])


def test_a_small_model_is_named_for_what_it_is_with_the_way_to_a_better_one(world: World):
    async def go() -> str:
        app = ChatApp(Agent(world.open(), ScriptedModel(["Hm."], name="local:tiny")), watch=False)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            await type_(pilot, "hello")
            await pilot.press("enter")
            await idle(app, pilot)
            return shown(app)

    told = asyncio.run(go())
    assert "local:tiny" in told
    assert "a small local model" in told
    assert "/model anthropic:" in told

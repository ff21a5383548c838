"""The log: scrolling, copying, searching, folding, and answers drawn as they are written."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from tests.home import World

pytest.importorskip("textual", reason="needs the extra `chat`")

from tests.tui.test_chat import drive, entered, idle, shown, until, world
from tests.tui.test_turns import held
from textual.pilot import Pilot

from metier.faces.tui.app import ChatApp
from metier.faces.tui.growing import GrowingReply
from metier.faces.tui.lines import LineStyle, StyledLine, fold_lines
from metier.faces.tui.markdown import render_markdown
from metier.types.activation import ToolCall
from metier.types.event import Replied, Used, Wrote
from metier.types.model import ReplyRequest

__all__ = ["world"]

LONG = "\n\n".join(f"paragraph {number} of the answer" for number in range(100))
MIXED = """\
# Title

Some *prose* with **bold**, `code` and [a link](https://example.org) that is long enough to be wrapped somewhere.

```python
def f(x):
    '''A text
    over lines'''
    return x
```

| a | b |
|---|--:|
| one | 1 |
| a longer one | 22 |

- item
- another
  - inside
    more of it

1. first
2. second

> quoted
> more

tail
"""


def texts(rows: list[object]) -> list[str]:
    return [row.content.plain.rstrip() for row in rows]  # type: ignore[attr-defined]


def view(app: ChatApp) -> str:
    """What is on the screen of the log."""
    return "\n".join("".join(segment.text for segment in app.log_.render_line(y)) for y in range(app.log_.size.height))


def test_markdown_becomes_rows(world: World):
    rows = texts(list(render_markdown(MIXED, 60)))
    assert rows[0] == "Title"
    assert " def f(x):" in rows
    assert "a            │  b" in rows
    assert "a longer one │ 22" in rows
    assert "  • inside more of it" in rows
    assert "2. second" in rows
    assert "▌ quoted more" in rows
    assert "(https://example.org)" in " ".join(rows)


@pytest.mark.parametrize("seed", range(5))
def test_an_answer_looks_the_same_streamed_or_at_once(seed: int):
    code = "```python\n" + "x = 'a'\ny = 1\n" * 60 + "```\n\n"
    table = "| a | b |\n|---|---|\n" + "".join(f"| {n} | {'x' * (n % 30)} |\n" for n in range(80)) + "\n"
    items = "".join(f"{n}. item *{n}*\n" for n in range(1, 90)) + "\n" + "- one\n" * 60 + "\n"
    text = MIXED + "\n" + code + table + items + "Words. " * 400 + "\n" + "line\n" * 100 + MIXED
    random.seed(seed)
    reply, at = GrowingReply(), 0
    while at < len(text):
        size = random.randint(1, 300)
        reply.write(text[at : at + size])
        reply.tail(60)
        at += size
    assert texts(list(reply.finish(60))) == texts(list(render_markdown(text, 60)))
    assert texts(list(reply.finish(60))) == texts(list(render_markdown(text, 60)))  # and when it is laid out again
    assert texts(list(reply.finish(40))) == texts(list(render_markdown(text, 40)))


def test_a_streamed_answer_is_drawn_some_times_a_second_and_in_linear_time(world: World):
    text = MIXED * 80  # some 2,300 lines

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        began = time.process_time()
        app.log_.draw(Replied(text))
        await pilot.pause()
        once = time.process_time() - began
        app.log_.begin_turn()
        began, end = time.process_time(), time.monotonic() + 3
        pieces = [text[at : at + 8] for at in range(0, len(text), 8)]

        def write() -> None:
            for number, piece in enumerate(pieces):
                app.log_.write(piece)
                time.sleep(max(0.0, (end - time.monotonic()) / (len(pieces) - number)))

        await asyncio.to_thread(write)
        app.log_.draw(Replied(text))
        app.log_.end_turn()
        await pilot.pause()
        spent = time.process_time() - began
        assert spent < 2.0 + 4 * once, f"{spent:.1f} s, {once:.1f} s at once"
        at_once, streamed = (texts(list(entry.rows)) for entry in app.log_.entries)
        assert streamed == at_once

    drive(world, act)


def test_esc_is_answered_while_an_endless_answer_comes(world: World):
    def endless(request: ReplyRequest) -> str:
        return MIXED * 3_000

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "talk")
        await until(pilot, lambda: "Title" in shown(app), "it talks")
        began = time.monotonic()
        await pilot.press("escape")
        assert "stopping" in str(app.indicator.content)
        assert time.monotonic() - began < 2.0  # 0.2 s on a machine that does nothing else
        await idle(app, pilot)
        assert "interrupted" in shown(app)

    drive(world, act, [endless])


def test_the_keyboard_scrolls_and_what_comes_does_not_move_the_text_away(world: World):
    free, slow = held("More.")

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "talk")
        await idle(app, pilot)
        assert "paragraph 99" in view(app)
        await pilot.press("pageup")
        assert "paragraph 99" not in view(app)
        before = view(app)
        app.log_.note("something else")
        await pilot.pause()
        assert view(app) == before
        await pilot.press("ctrl+home")
        assert "paragraph 0" in view(app)
        await pilot.press("pagedown")
        assert "paragraph 0 " not in view(app)
        await pilot.press("ctrl+end")
        assert "something else" in view(app)
        await pilot.press("ctrl+up")
        assert not app.log_.following
        # Whoever sends something wants to see what comes of it.
        free.set()
        await entered(app, pilot, "again")
        await idle(app, pilot)
        assert "More." in view(app)

    drive(world, act, [LONG, slow])


def test_after_a_change_of_size_the_view_is_still_at_the_end(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "talk")
        await idle(app, pilot)
        for size in ((40, 24), (100, 12), (80, 40)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert "the end of it" in view(app), size

    drive(world, act, [LONG + "\n\n" + "words " * 60 + "the end of it"])


def test_wide_code_and_tables_move_sideways_and_prose_stays(world: World):
    text = (
        f"Prose here.\n\n```\nstart {'x' * 100} finish\n```\n\n| {'a' * 60} | {'b' * 60} |\n|---|---|\n| 1 | last |\n"
    )

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "talk")
        await idle(app, pilot)
        assert "start" in view(app)
        assert "›" in view(app)
        assert "finish" not in view(app)
        for _ in range(12):
            await pilot.press("alt+right")
        assert "finish" in view(app)
        assert "last" in view(app)
        assert "Prose here." in view(app)
        assert "›" not in view(app)
        for _ in range(12):
            await pilot.press("alt+left")
        assert "start" in view(app)

    drive(world, act, [text])


def test_what_is_selected_is_copied_by_ctrl_c_and_the_app_stays(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "talk")
        await idle(app, pilot)
        row = next(at for at, row in enumerate(app.log_.rows) if "wrapped" in row.content.plain)
        await pilot.hover("#log", offset=(2, row))
        await pilot.mouse_down("#log", offset=(1, row))
        await pilot.hover("#log", offset=(30, row + 1))
        await pilot.mouse_up("#log", offset=(30, row + 1))
        await pilot.press("ctrl+c")
        assert app.is_running
        assert app.clipboard.startswith("A wrapped line words words")
        assert "\n" not in app.clipboard  # it is one line, however it was wrapped
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running, "it leaves")

    drive(world, act, ["A wrapped line " + "words " * 30])


def test_the_last_answer_is_copied_as_it_was_written(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "/copy")
        assert "no answer yet" in shown(app)
        await entered(app, pilot, "talk")
        await idle(app, pilot)
        await entered(app, pilot, "/copy")
        assert app.clipboard == "It is **so**."

    drive(world, act, ["It is **so**."])


def test_the_conversation_is_searched_from_its_end(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "talk")
        await idle(app, pilot)
        await pilot.press("ctrl+f")
        await pilot.press(*"PARAGRAPH", "space", "1")
        await pilot.pause()
        assert str(app.query_one("#hits").content) == "11 of 11"  # type: ignore[attr-defined]
        assert "paragraph 19" in view(app)
        await pilot.press("enter")
        assert str(app.query_one("#hits").content) == "10 of 11"  # type: ignore[attr-defined]
        await pilot.press("down", "down")
        assert str(app.query_one("#hits").content) == "1 of 11"  # type: ignore[attr-defined]
        await pilot.press("x")
        await pilot.pause()
        assert str(app.query_one("#hits").content) == "no match"  # type: ignore[attr-defined]
        await pilot.press("escape")
        assert app.prompt.line.has_focus
        assert app.is_running

    drive(world, act, [LONG])


def test_long_output_is_folded_and_opens_by_key_and_by_click(world: World):
    output = "\n".join(f"out {number}" for number in range(30))

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        app.log_.draw(Used(ToolCall("1", "run_command", {"command": "seq"}), output))
        await pilot.pause()
        rows = [row.content.plain for row in app.log_.rows]
        assert "  out 7" in rows
        assert "  out 8" not in rows
        await pilot.click("#log", offset=(4, next(at for at, row in enumerate(rows) if "more lines" in row)))
        assert "  out 29" in [row.content.plain for row in app.log_.rows]
        await pilot.press("ctrl+o")
        assert "  out 29" not in [row.content.plain for row in app.log_.rows]

    drive(world, act)


def test_one_line_is_not_hidden_behind_a_sign():
    assert fold_lines("quiet", ["x"] * 9) == [StyledLine("quiet", "x")] * 9
    assert len(fold_lines("quiet", ["x"] * 10)) == 9


def test_a_running_command_shows_what_it_prints(world: World):
    command = "for n in 1 2 3; do echo tick-$n; sleep 0.2; done; touch seen; while [ -e seen ]; do sleep 0.05; done"

    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        await entered(app, pilot, "run it")
        await until(pilot, lambda: app.pending is not None, "it asks")
        await pilot.pause(app.prompt.line.grace + 0.1)
        await pilot.press("y")
        await until(pilot, lambda: "│ tick-3" in view(app), "its output is shown while it runs")
        assert app.busy
        await until(pilot, (world.project / "seen").exists, "it waits")
        (world.project / "seen").unlink()
        await idle(app, pilot)
        assert "│ tick-3" not in view(app)
        assert "  tick-3" in shown(app)

    drive(world, act, [[ToolCall("1", "run_command", {"command": command})], "Ran."])


def luminance(colour: tuple[int, int, int]) -> float:
    parts = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "nord"])
def test_every_text_can_be_told_from_its_ground(world: World, theme: str):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        app.theme = theme
        styles: list[LineStyle] = ["request", "skill", "tool", "failed", "quiet", "warning"]
        app.log_.show(*(StyledLine(style, style) for style in styles))
        app.log_.draw(Replied(MIXED))
        await pilot.resize_terminal(80, 60)
        await pilot.pause()
        segments = [segment for y in range(50) for segment in app.log_.render_line(y) if segment.text.strip()]
        for segment in segments:
            assert segment.style is not None
            assert segment.style.color is not None
            assert segment.style.bgcolor is not None
            both = [luminance(c.get_truecolor()) for c in (segment.style.color, segment.style.bgcolor)]
            rule = not any(map(str.isalnum, segment.text))
            assert (max(both) + 0.05) / (min(both) + 0.05) > (1.3 if rule else 2.5), (segment.text, segment.style)
        assert len({segment.style for segment in segments}) > 8

    drive(world, act)


def test_a_piece_that_only_thinks_is_not_drawn(world: World):
    async def act(app: ChatApp, pilot: Pilot[int]) -> None:
        app.log_.draw(Wrote("hm", thinking=True))
        app.log_.draw(Replied("Said."))
        assert shown(app) == "Said."

    drive(world, act)

"""S: a long answer is drawn in the chat as it is written, against the same text drawn at once."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from report import Row

if TYPE_CHECKING:
    from parts import Plan

LINES = 2_000
SECONDS = 60.0
"""How long the answer takes to be written: some 230 tokens a second."""
LIMIT_MS = 2_000.0
ESC_LIMIT_MS = 200.0
_PIECE = 12
_SIZE = (120, 40)


def streaming(plan: Plan) -> list[Row]:
    """Processor time of the whole app, the painting of the terminal's cells included."""
    try:
        import textual  # noqa: F401
    except ImportError:
        return [Row(what="S a streamed answer", target="<= 2000 ms", note="needs the extra `chat`")]
    text = answer_of(LINES)
    seconds = SECONDS / 10 if plan.quick else SECONDS
    once, _ = asyncio.run(_draw(text, 0.0))
    streamed, esc = asyncio.run(_draw(text, seconds))
    what = f"S {LINES:,} lines of answer in {seconds:g} s"
    return [
        Row(
            what=what, metier=streamed, floor=once, ratio=streamed / once, target="<= 2000 ms", met=streamed <= LIMIT_MS
        ),
        Row(what="S Esc while it is written", metier=esc, target="<= 200 ms", met=esc <= ESC_LIMIT_MS),
    ]


def answer_of(lines: int) -> str:
    """An answer as models write them: prose, code, tables and lists."""
    parts: list[str] = []
    while sum(part.count("\n") + 1 for part in parts) < lines:
        at = len(parts) // 5 + 1
        parts += [
            f"## Part {at}\n\nSome *prose* with **weight**, `code` and [a link](https://example.org/{at}). "
            + "Word " * 60,
            "```python\n"
            + "".join(f"def f{n}(x):  # why\n    return x + {n} if x else 'none'\n" for n in range(30))
            + "```",
            "| name | size | code |\n|---|--:|---|\n"
            + "".join(f"| row {n} | {n * 37} | `x{n}` |\n" for n in range(25)),
            "".join(f"- item {n} with *some* text\n" for n in range(25)),
            "".join(f"{n}. step {n}\n   and what it means\n" for n in range(1, 11)),
        ]
    return "\n\n".join(parts)


async def _draw(text: str, seconds: float) -> tuple[float, float]:
    """Milliseconds of processor time to draw it, and of the clock until Esc is answered."""
    from metier.agent.agent import Agent
    from metier.faces.tui.app import ChatApp
    from metier.library.open import open as open_library
    from metier.testing.models import ScriptedModel
    from metier.types.event import Replied

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "project").mkdir()
        app = ChatApp(Agent(open_library(f"{folder}/project"), ScriptedModel([]), keep=False), watch=False)
        async with app.run_test(size=_SIZE) as pilot:
            await pilot.pause()
            esc = 0.0
            began = time.process_time()
            if seconds:
                app.log_.begin_turn()
                writer = threading.Thread(target=_write, args=(app.log_.write, text, seconds))
                writer.start()
                while writer.is_alive():
                    await asyncio.sleep(seconds / 20)
                    pressed = time.monotonic()
                    await pilot.press("escape")
                    esc = max(esc, time.monotonic() - pressed)
            app.log_.draw(Replied(text))
            app.log_.end_turn()
            await asyncio.sleep(0.2)
            return 1000 * (time.process_time() - began), 1000 * esc


def _write(write: object, text: str, seconds: float) -> None:
    assert callable(write)
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    end = time.monotonic() + seconds
    for number, piece in enumerate(pieces):
        write(piece)
        # By the clock, not by a fixed pause: a busy machine must not make the answer slower and the drawing easier.
        left = end - time.monotonic()
        if left > 0:
            time.sleep(left / (len(pieces) - number))

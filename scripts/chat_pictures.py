"""Takes the pictures of `metier chat`: drives the app with a model that says what it is told, and keeps its screen.

.venv/bin/python scripts/chat_pictures.py
"""

import asyncio
import os
import tempfile
from pathlib import Path

from metier.agent.agent import Agent
from metier.faces.tui.app import ChatApp
from metier.library.open import open as open_library
from metier.testing.models import ScriptedModel
from metier.types.activation import ToolCall
from metier.types.event import Activated, Heard, Replied, Used

IMAGES = Path(__file__).parent.parent / "docs" / "images"
SKILLS = {
    "code-review": "description: Reviews a change, file by file\n",
    "deploy": "description: Deploys the project\nargument-hint: <environment>\n",
    "release": "",
    "summarise": "description: Sums up a text\n",
    "write-readme": "description: Writes the first page of a project\nargument-hint: <folder>\n",
}
SCHEDULED = "weekly-report-1a2b3c4d"


def furnish(home: Path) -> None:
    for name, more in SKILLS.items():
        folder = home / ".metier/skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\n{more}---\n\nDo $ARGUMENTS.\n")
    folder = home / ".metier/scheduler" / SCHEDULED
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {SCHEDULED}\ndescription: Sums up the week\n---\nSum up.\n")


ANSWER = """\
The tests fail since **Tuesday**: `parse_date` drops the zone.

```python
def parse_date(text: str) -> datetime:
    # The zone was cut off here: "2031-05-04T09:00+02:00" became a time without one, and reports moved by hours
    return datetime.fromisoformat(text)
```

| file | tests | failed | since |
|---|--:|--:|---|
| `dates.py` | 41 | 3 | `4f2a91c` |
| `report.py` | 18 | 1 | `4f2a91c` |

1. Keep the zone in `parse_date`
2. Run the tests again
"""


async def take_answer(name: str, theme: str) -> None:
    """A turn that has ended: what was asked, a skill, a command with its output folded, and the answer."""
    agent = Agent(open_library("."), ScriptedModel([], "anthropic:a-model"), keep=False)
    app = ChatApp(agent, watch=False)
    async with app.run_test(size=(80, 34)) as pilot:
        await pilot.pause()
        app.theme = theme
        output = "\n".join(f"tests/test_{name}.py ....F..." for name in ("dates", "report", "mail", "zones") * 6)
        call = ToolCall("1", "run_command", {"command": "pytest -q"})
        for event in (
            Heard("/code-review why do the tests fail?"),
            Activated("code-review", tokens=412),
            Used(call, output, status=1),
            Replied(ANSWER),
        ):
            app.log_.draw(event)
        await pilot.pause(0.3)
        (IMAGES / name).write_text(app.export_screenshot(title="metier chat"), encoding="utf-8")


async def take(name: str, typed: str, lines: list[object], enter: bool) -> None:
    agent = Agent(open_library("."), ScriptedModel(lines, "anthropic:a-model"), keep=False)  # type: ignore[arg-type]
    app = ChatApp(agent, watch=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.prompt.fill(typed)
        await pilot.pause(0.3)
        if enter:
            await pilot.press("enter")
            while app.pending is None:
                await pilot.pause(0.05)
        await pilot.pause(0.3)
        (IMAGES / name).write_text(app.export_screenshot(title="metier chat"), encoding="utf-8")
        if enter:
            await pilot.press("escape")


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        furnish(home)
        (home / "project/.git").mkdir(parents=True)
        os.environ.update(HOME=made, METIER_HOME=f"{made}/.metier")
        os.chdir(home / "project")
        asyncio.run(take("picker.svg", "/re", [], enter=False))
        called = ["I will look.", ToolCall("1", "run_command", {"command": "git log --oneline -5"})]
        asyncio.run(take_answer("answer.svg", "textual-light"))
        asyncio.run(take("chat.svg", "/deploy staging", [called], enter=True))


if __name__ == "__main__":
    main()

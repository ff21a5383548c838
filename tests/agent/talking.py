"""An agent whose model follows a script, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.home import World, write_skill

from metier.agent.agent import Agent
from metier.agent.session import Session
from metier.schedule.runner import scheduling_tools
from metier.testing.models import ScriptedModel
from metier.types.activation import ToolCall
from metier.types.event import Asked, Event, Nested


def call(name: str, id: str = "", **arguments: Any) -> ToolCall:
    return ToolCall(id or f"call-{name}-{abs(hash(str(arguments))) % 10_000}", name, arguments)


def session(
    world: World, lines: Iterable[Any], dialect: str | None = None, **more: Any
) -> tuple[Session, ScriptedModel]:
    model = ScriptedModel(lines)
    return Agent(world.open(dialect), model, extensions=(scheduling_tools,), **more).start(), model


def spoken(session: Session, text: str, answer: str | None = None) -> list[Any]:
    """Everything that happens in a turn; every question gets the same answer, or none."""
    events = []
    for event in session.say(text):
        inner = event.event if isinstance(event, Nested) else event
        if isinstance(inner, Asked) and answer is not None:
            session.answer(inner.id, answer)
        events.append(event)
    return events


def kinds(events: Iterable[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def greeter(world: World, root: str = ".metier/skills", more: str = "") -> Path:
    """A skill with a script, in the home."""
    file = write_skill(world.home / root / "greet", "Greets people.", "Greet them: $ARGUMENTS\n", more)
    (file.parent / "scripts").mkdir(exist_ok=True)
    (file.parent / "scripts" / "hi.py").write_text("import sys\nprint('hi', *sys.argv[1:])\n")
    return file

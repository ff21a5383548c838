"""Skills with evals, and a model that does as its instructions say, so that a skill makes a difference or does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.home import World, write_skill

from metier.improve.eval_runner import EvalPlan
from metier.improve.evaluate import run_evals, skill_to_try
from metier.improve.report import Benchmark
from metier.improve.score import ArmComparison
from metier.improve.trials import ThreadQueue
from metier.testing.models import ScriptedModel
from metier.types.event import EventSteps
from metier.types.model import Reply, ReplyRequest, StopFlag

SECRET = "QUINCE"


class Actor:
    """A model that decides by what it is shown; many may ask it at once."""

    name, window = "actor", 200_000

    def __init__(self, play: Callable[[ReplyRequest], Any]) -> None:
        self.play = play
        self.requests: list[ReplyRequest] = []

    def reply(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        self.requests.append(request)
        return (yield from ScriptedModel([self.play]).reply(request, stop))

    def wire(self, request: ReplyRequest) -> str:
        return ""


def shown(request: ReplyRequest) -> str:
    """All that a model is shown, as one text."""
    tools = " ".join(f"{tool.name} {tool.description}" for tool in request.tools)
    return "\n".join([tools, request.system, *(message.text for message in request.messages)])


def obedient(request: ReplyRequest) -> str:
    """Says the word that it is told to say; the plain word where nobody tells it anything."""
    seen = shown(request)
    return next((word for word in (SECRET, "WRONG") if f"Say {word}." in seen), "PLAIN")


def skill(world: World, body: str, checks: list[Any], cases: int = 6, name: str = "fruit", **more: Any) -> Path:
    """A skill of the user's with so many cases, all with the same checks."""
    folder = world.home / ".metier" / "skills" / name
    write_skill(folder, "Knows fruit and their names.", body)
    rows = [
        {"id": number, "prompt": f"Which fruit is number {number}?", "checks": checks, **more}
        for number in range(cases)
    ]
    (folder / "evals").mkdir(exist_ok=True)
    (folder / "evals" / "evals.json").write_text(json.dumps({"skill_name": name, "evals": rows}))
    return folder


def trial(world: World, model: Any, plan: EvalPlan | None = None, name: str = "fruit", **more: Any) -> Benchmark:
    queue = more.pop("queue", None) or ThreadQueue(2)
    library = world.open(place=world.place(env={"PATH": "/usr/bin:/bin"}))
    found = plan or EvalPlan(**{"model": model, "runs": 1, "grader": None, **more})
    return run_evals(library, skill_to_try(library, name), found, queue, lambda what, done, total: None)


def compared(found: Benchmark) -> ArmComparison:
    assert found.comparison is not None
    return found.comparison

"""Skills that fail, runs of them that were recorded, and what improving makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.agent.talking import call, spoken
from tests.home import World, write_skill

from metier.agent.agent import Agent
from metier.agent.permissions import Permission
from metier.improve.improver import ImproveOptions, ImproveResult, improve_after_run
from metier.testing.models import ScriptedModel
from metier.types.event import Ended
from metier.types.improvement import Proposal

AUTO = ".config/agenvoy/skills"
"""A root in which skills are improved without anybody's help."""
REVIEW = ".metier/skills"
ALLOWED = Permission(otherwise="allow")
__all__ = ["ALLOWED", "AUTO", "REVIEW", "call", "gate", "improved", "ran", "skill"]


def skill(world: World, body: str, name: str = "report", root: str = AUTO, more: str = "") -> Path:
    """A skill in the home, with a script, and frontmatter that has a comment."""
    file = write_skill(world.home / root / name, "Reports numbers.", body, f"# kept by hand\n{more}")
    (file.parent / "scripts").mkdir(exist_ok=True)
    (file.parent / "scripts" / "total.py").write_text("print(42)\n")
    return file


def ran(world: World, *lines: Any, task: str = "/report", dialect: str = "agenvoy") -> str:
    """A run, kept in its journal: the name of it."""
    model = ScriptedModel([*lines, "Done."])
    session = Agent(world.open(dialect), model, rules=ALLOWED).start()
    [ended] = [one for one in spoken(session, task) if isinstance(one, Ended)]
    assert ended.outcome == "finished", ended
    return session.run


def improved(
    world: World, run: str, lines: Iterable[Any] = (), dialect: str = "agenvoy"
) -> tuple[ImproveResult, ScriptedModel]:
    """What the end of that run leads to, with a model that says these lines."""
    model = ScriptedModel(lines)
    found = improve_after_run(world.open(dialect), run, ImproveOptions(model))
    assert len(found) == 1, found
    return found[0], model


def gate(proposal: Proposal, name: str) -> str:
    """What one of its checks says, and why."""
    found = next(one for one in proposal.gates if one.name == name)
    return f"{found.says}: {found.words}"

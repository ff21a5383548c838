"""Skills that fail, runs of them that were recorded, and what improving makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.act.talking import call, spoken
from tests.world import World, write_skill

from metier.act.permission import Permission
from metier.runtime.agent import Agent
from metier.runtime.improving import Improved, after_run
from metier.runtime.judging import Terms
from metier.testing import Script
from metier.types.event import Ended
from metier.types.proposal import Proposal

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
    model = Script([*lines, "Done."])
    session = Agent(world.open(dialect), model, rules=ALLOWED).start()
    [ended] = [one for one in spoken(session, task) if isinstance(one, Ended)]
    assert ended.outcome == "finished", ended
    return session.run


def improved(world: World, run: str, lines: Iterable[Any] = (), dialect: str = "agenvoy") -> tuple[Improved, Script]:
    """What the end of that run leads to, with a model that says these lines."""
    model = Script(lines)
    found = after_run(world.open(dialect), run, Terms(model))
    assert len(found) == 1, found
    return found[0], model


def gate(proposal: Proposal, name: str) -> str:
    """What one of its checks says, and why."""
    found = next(one for one in proposal.gates if one.name == name)
    return f"{found.says}: {found.words}"

"""Skills that fail, runs of them that were recorded, and what improving makes of them."""

from __future__ import annotations

import json
import os
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
"""A root of skills that are improved without anybody's help: the user has said so once, in the configuration."""
REVIEW = ".metier/skills"
TOTAL = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--everything", action="store_true")
parser.parse_args()
print(42)
"""
"""A script that knows one option."""
FAILS = call("skill_run_script", skill_name="report", script_name="total.py", script_args="--all-of-it")
"""A call with an option that the script does not have, and that could be any other."""
WELL = call("skill_run_script", skill_name="report", script_name="total.py", script_args="--everything")
ALLOWED = Permission(otherwise="allow")
__all__ = ["ALLOWED", "AUTO", "FAILS", "REVIEW", "WELL", "call", "earlier", "gate", "improved", "ran", "skill"]


def skill(world: World, body: str, name: str = "report", root: str = AUTO, more: str = "") -> Path:
    """A skill in the home, with a script, and frontmatter that has a comment."""
    if root == AUTO and not (world.state / "config.toml").exists():
        world.state.mkdir(exist_ok=True)
        (world.state / "config.toml").write_text('[improve]\nmode = "auto"\n')
    file = write_skill(world.home / root / name, "Reports numbers.", body, f"# kept by hand\n{more}")
    (file.parent / "scripts").mkdir(exist_ok=True)
    (file.parent / "scripts" / "total.py").write_text(TOTAL)
    return file


def ran(world: World, *lines: Any, task: str = "/report", dialect: str = "agenvoy") -> str:
    """A run, kept in its journal: the name of it."""
    model = ScriptedModel([*lines, "Done."])
    session = Agent(world.open(dialect), model, rules=ALLOWED).start()
    [ended] = [one for one in spoken(session, task) if isinstance(one, Ended)]
    assert ended.outcome == "finished", ended
    return session.run


def earlier(world: World, run: str, days: int = 1, task: str = "/report of another day") -> str:
    """The same run once more, as it would have been recorded so many days ago, for another request."""
    for file in world.home.rglob("SKILL.md"):
        os.utime(file, (1_500_000_000, 1_500_000_000))  # the skill is older than both
    journal = world.state / "runs" / f"{run}.jsonl"
    name = f"2020010{days}-000000-abcdef"
    lines = []
    for line in journal.read_text().splitlines():
        event = json.loads(line)
        event["at"] -= days * 86_400
        if event["event"] == "heard":
            event["text"] = task
        lines.append(json.dumps(event))
    (journal.parent / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return name


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

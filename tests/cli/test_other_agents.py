"""Which other agents are here, and which skills each of them would see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.console import Desk

from metier.dialects.coding_agents import CODING_AGENTS, user_roots

TEN = ["claude", "codex", "cursor", "copilot", "gemini", "opencode", "goose", "hermes", "openclaw", "windsurf"]
OWN = {
    "opencode": ".config/opencode",
    "goose": ".config/goose",
    "windsurf": ".codeium/windsurf",
}


@pytest.fixture
def ten(desk: Desk) -> Desk:
    """A home with the folders of ten agents."""
    for name in TEN:
        (desk.home / OWN.get(name, f".{name}")).mkdir(parents=True)
    return desk


def _views(desk: Desk, *words: str) -> dict[str, dict[str, Any]]:
    return {view["name"]: view for view in json.loads(desk.say("agents", "--json", *words).out)}


def _seen(view: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(skill["name"], skill["shadowed_by"]) for skill in view["skills"]]


def test_the_table_has_the_roots_of_many_agents() -> None:
    assert len(CODING_AGENTS) >= 25
    for agent in CODING_AGENTS.values():
        for path in (*agent.project, *user_roots(agent, "/home/x", {})):
            assert "{" not in path, agent
            assert "~" not in path, agent
            assert path.endswith("/skills") or path == "skills", agent
        assert all(path.startswith("/home/x/") for path in user_roots(agent, "/home/x", {})), agent


def test_the_agents_of_this_machine_are_listed(ten: Desk) -> None:
    assert set(_views(ten)) == set(TEN)
    assert set(_views(ten, "--all")) == set(CODING_AGENTS)
    said = ten.say("agents").out
    assert "Claude Code" in said
    assert "0 skills" in said


def test_one_folder_is_seen_by_those_who_look_there(ten: Desk) -> None:
    ten.skill("shared", under=ten.project / ".agents/skills")
    ten.skill("own", under=ten.home / ".claude/skills")
    views = _views(ten)
    shared = {name for name, view in views.items() if ("shared", None) in _seen(view)}
    assert shared == {"codex", "cursor", "copilot", "gemini", "opencode", "openclaw"}
    assert {name for name, view in views.items() if ("own", None) in _seen(view)} == {"claude", "copilot"}


def test_what_shadows_what_differs_from_agent_to_agent(ten: Desk) -> None:
    for root in (ten.project, ten.home):
        ten.skill("lint", under=root / ".claude/skills")
        ten.skill("lint", under=root / ".agents/skills")
    views = _views(ten)
    # The user's own wins in Claude Code, the project's in the others.
    assert _seen(views["claude"]) == [("lint", None), ("lint", str(ten.home / ".claude/skills"))]
    assert _seen(views["gemini"]) == [("lint", None), ("lint", str(ten.project / ".agents/skills"))]
    said = ten.say("agents", "gemini").out
    assert "shadowed by the one in" in said
    assert "1 skill, 1 shadowed" in ten.say("agents").out


def test_a_skill_that_is_linked_into_another_root_shadows_nothing(ten: Desk) -> None:
    real = ten.skill("lint", under=ten.home / ".agents/skills").parent
    linked = ten.home / ".copilot/skills"
    linked.mkdir(parents=True)
    (linked / "lint").symlink_to(real)
    assert _seen(_views(ten)["copilot"]) == [("lint", None), ("lint", None)]


def test_a_variable_moves_an_agents_own_folder(desk: Desk, tmp_path: Path) -> None:
    desk.skill("lint", under=tmp_path / "elsewhere/skills")
    desk.env["CODEX_HOME"] = str(tmp_path / "elsewhere")
    assert _seen(_views(desk)["codex"]) == [("lint", None)]
    config = tmp_path / "config"
    desk.skill("lint", under=config / "goose/skills")
    desk.env["XDG_CONFIG_HOME"] = str(config)
    assert _seen(_views(desk)["goose"]) == [("lint", None)]


def test_an_unknown_agent_is_an_error_with_a_hint(desk: Desk) -> None:
    said = desk.say("agents", "claud")
    assert said.code != 0
    assert "did you mean `claude`" in said.err
    assert "No other agents here." in desk.say("agents").out


def test_a_name_can_not_write_to_the_terminal(ten: Desk) -> None:
    ten.skill("a\x1b[31mb", "---\nname: x\n---\n", under=ten.home / ".claude/skills")
    assert "\x1b[31m" not in ten.say("agents", "claude").out

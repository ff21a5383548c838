"""Skills that are switched off, and kits of skills."""

from __future__ import annotations

import json

import pytest
from tests.cli.console import Desk

KITS = '[kits.review]\nskills = ["lint", "kit:words"]\n\n[kits.words]\nskills = ["style"]\n'


@pytest.fixture
def three(desk: Desk) -> Desk:
    for name in ("lint", "style", "deploy"):
        desk.skill(name)
    return desk


def _listed(desk: Desk, *words: str) -> set[str]:
    out = desk.say(*words, "catalog").out
    return {name for name in ("lint", "style", "deploy") if f"<name>{name}</name>" in out}


def test_a_skill_is_off_until_it_is_on_again(three: Desk) -> None:
    assert three.say("off", "lint").out == "lint is off\n"
    assert _listed(three) == {"style", "deploy"}
    assert "/lint" not in three.say("commands").out
    assert "metier on lint" in three.say("why", "lint").out
    assert three.say("off", "lint").out == "lint was off already\n"
    assert three.say("on", "lint").out == "lint is on\n"
    assert _listed(three) == {"lint", "style", "deploy"}
    assert three.say("on", "lint").out == "lint was on already\n"


def test_a_skill_may_be_off_in_one_project(three: Desk) -> None:
    assert three.say("off", "--project", "lint", "style").code == 0
    assert _listed(three) == {"deploy"}
    elsewhere = three.home / "elsewhere"
    elsewhere.mkdir()
    assert "lint" in three.say("catalog", cwd=elsewhere).out
    three.say("off", "lint")
    said = three.say("on", "--project", "lint")
    assert said.code != 0
    assert "without --project" in said.err
    three.say("on", "lint", "style")
    assert _listed(three) == {"lint", "style", "deploy"}


def test_a_project_can_not_switch_on_what_the_user_switched_off(three: Desk) -> None:
    three.skill("theirs", under=three.project / ".metier/skills")
    (three.project / ".metier/config.toml").write_text("[skills.entries.lint]\nenabled = true\n")
    three.say("trust", "--yes")
    three.say("off", "lint", "theirs")
    assert _listed(three) == {"style", "deploy"}
    assert "theirs" not in three.say("catalog").out


def test_an_unknown_name_changes_nothing(three: Desk) -> None:
    said = three.say("off", "style", "lnit")
    assert said.code != 0
    assert "lint" in said.err
    assert _listed(three) == {"lint", "style", "deploy"}


def test_what_a_configuration_switched_off_is_switched_on_there(three: Desk) -> None:
    three.configure("[skills.entries.lint]\nenabled = false\n")
    said = three.say("on", "lint")
    assert said.code != 0
    assert "a configuration says so" in said.err


def test_switches_answer_as_json(three: Desk) -> None:
    assert json.loads(three.say("off", "--json", "lint").out) == {"off": ["lint"], "project": None}
    assert json.loads(three.say("on", "--json", "lint").out) == {"on": ["lint"], "off": {}}


def test_a_damaged_list_stops_what_acts_and_not_what_looks(three: Desk) -> None:
    (three.state / "switches.json").write_text("{")
    assert "damaged" in three.say("list").out
    said = three.say("run", "--dry-run", "--model", "anthropic:x", "hello")
    assert said.code != 0
    assert "switches.json" in said.err


# --- Kits ---


def test_a_kit_leaves_only_its_skills(three: Desk) -> None:
    three.configure(KITS)
    assert _listed(three, "--kit", "review") == {"lint", "style"}
    assert _listed(three, "--kit=words") == {"style"}
    assert "not in this agent's list" in three.say("--kit", "words", "why", "lint").out


def test_an_agent_may_name_a_kit(three: Desk) -> None:
    three.configure(KITS + '\n[agents.reviewer]\nskills = ["kit:review"]\n')
    assert _listed(three, "--agent", "reviewer") == {"lint", "style"}
    assert _listed(three, "--agent", "reviewer", "--kit", "words") == {"style"}
    file = three.state / "agents/helper.md"
    file.parent.mkdir()
    file.write_text("---\nname: helper\ndescription: Helps.\nskills: [kit:words]\n---\nHelp.\n")
    assert _listed(three, "--agent", "helper") == {"style"}


def test_an_unknown_kit_is_an_error_and_an_agent_gets_nothing_for_one(three: Desk) -> None:
    three.configure(KITS + '\n[agents.reviewer]\nskills = ["kit:nope"]\n')
    said = three.say("--kit", "reviw", "list")
    assert said.code != 0
    assert "did you mean `review`" in said.err
    assert _listed(three, "--agent", "reviewer") == set()


def test_the_users_kit_wins_over_the_projects(three: Desk) -> None:
    three.configure(KITS)
    (three.project / ".metier").mkdir()
    (three.project / ".metier/config.toml").write_text(
        '[kits.words]\nskills = ["deploy"]\n[kits.ours]\nskills = ["deploy"]\n'
    )
    three.say("trust", "--yes")
    assert _listed(three, "--kit", "words") == {"style"}
    assert _listed(three, "--kit", "ours") == {"deploy"}


def test_a_kit_that_is_written_wrongly_allows_nothing(three: Desk) -> None:
    three.configure('[kits.words]\nskils = ["style"]\n')
    assert _listed(three, "--kit", "words") == set()

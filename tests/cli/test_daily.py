"""What people meet every day at the command line."""

from __future__ import annotations

import json

import pytest
from tests.cli.console import Desk


def test_help_is_a_command_too(desk: Desk) -> None:
    assert desk.say("help").out == desk.say("--help").out
    assert desk.say("help", "run").out == desk.say("run", "--help").out
    assert desk.say("help", "schedule", "add").out == desk.say("schedule", "add", "--help").out
    assert desk.say("help", "nope").code == 2


def test_one_long_name_takes_no_description_but_its_own(desk: Desk) -> None:
    desk.skill("short", description="Says something short.")
    desk.skill("a-very-long-name-that-nobody-would-type-by-hand-every-day-again", description="Is long.")
    for columns in (60, 80):
        said = desk.at_terminal("list", columns=columns)
        assert "Says something" in said.out, columns
        assert "a-very-long-name-that-nobody-would-type-by-hand-every-day-again" in said.out.replace("\n", "")
    assert "Says something short." in desk.say("list").out


def test_a_broken_skill_is_described_with_its_details(desk: Desk) -> None:
    (desk.skills / "bad").mkdir(parents=True)
    (desk.skills / "bad/SKILL.md").write_bytes(b"---\nname: bad\ndescription: caf\xe9\n---\n")
    out = desk.say("list").out
    assert "first at byte" in out
    assert "byte it" not in out
    assert "{0}" not in out


def test_a_new_skill_says_what_it_shadows(desk: Desk) -> None:
    old = desk.skill("release-notes")
    said = desk.say("new", "release-notes", "Writes release notes.")
    assert said.code == 0
    assert f"it shadows {old}" in said.err


@pytest.mark.parametrize("dialect", ["standard", "agentmd", "umbra"])
def test_words_of_the_command_line_are_joined_with_blanks(desk: Desk, dialect: str) -> None:
    roots = {"standard": ".metier/skills", "agentmd": ".metier/skills", "umbra": ".umbra/skills"}
    text = "---\nname: one\ndescription: Does it.\n---\n[$ARGUMENTS]\n"
    if dialect == "agentmd":
        desk.skill("one", text, desk.project / "workspace/agents/skills")
        desk.say("trust")
    else:
        desk.skill("one", text, desk.home / roots[dialect])
    said = desk.say("--dialect", dialect, "render", "one", "--delivery", "body", "--", "a", "b")
    assert "[a b]" in said.out


def test_doctor_covers_extras_and_models(desk: Desk) -> None:
    checks = {check["what"]: check for check in json.loads(desk.say("doctor", "--json").out)}
    assert "agent" in checks["extras"]["note"]
    assert "none is chosen" in checks["models"]["note"]
    desk.configure('model = "mine"\n[models.mine]\nprovider = "nope"\n')
    checks = {check["what"]: check for check in json.loads(desk.say("doctor", "--json").out)}
    assert not checks["models"]["ok"]
    assert "models.mine.provider is `nope`" in checks["models"]["note"]


def test_quick_actions_offer_the_installation(desk: Desk) -> None:
    more = (
        "metadata:\n  requires:\n    bins: [frobnicate]\n"
        "install:\n  - kind: npm\n    id: npm-1\n    package: frobnicate\n"
    )
    desk.skill("frob", more, desk.home / ".super-multica/skills")
    desk.program("npm")
    said = desk.say("--dialect", "multica", "status", "frob")
    assert "run `metier install frob npm-1`" in said.out


def test_a_program_of_the_machine_needs_no_folder_of_its_own_in_the_sandbox() -> None:
    from metier.install.rules import readable_prefix

    assert readable_prefix("/usr/bin/npm", "/home/a/.metier/tools") == ""
    assert readable_prefix("/bin/go", "/home/a/.metier/tools") == ""
    assert readable_prefix("/home/a/.local/bin/uv", "/home/a/.metier/tools") in ("/home/a/.local", "/home/a/.local/bin")


def test_a_skill_that_agentmd_hides_is_listed_as_hidden(desk: Desk) -> None:
    desk.skill("secret", "user-invocable: false\n", desk.project / "workspace/agents/skills")
    desk.say("trust")
    said = desk.say("--dialect", "agentmd", "list")
    assert "hidden" in said.out
    assert "model only" not in said.out


def test_umbra_runs_a_block_on_one_line_and_nothing_that_only_shows_one(desk: Desk) -> None:
    body = "```!echo ran```\nAs in ```!echo no``` here.\n- ```!echo no```\n"
    desk.skill("one", f"---\nname: one\ndescription: Does it.\n---\n{body}", desk.home / ".umbra/skills")
    out = desk.say("--dialect", "umbra", "render", "one").out
    assert "\nran\n" in out
    assert out.count("echo no") == 2

"""A root that a person named is used as it is, but what was installed there waits for its approval like anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.console import Desk

SCRIPT = "#!/bin/sh\necho it-ran\n"


def evil(desk: Desk) -> Path:
    file = desk.skill("evil", under=desk.project / "src")
    file.write_text(file.read_text() + "\nSays !`echo it-ran`\n")
    (file.parent / "scripts").mkdir()
    (file.parent / "scripts/go.sh").write_text(SCRIPT)
    return file.parent


def named(desk: Desk, how: str, root: Path) -> list[str]:
    """The words before a command that name the root, however it is named."""
    if how == "configured":
        desk.configure(f'roots = ["{root}"]\n')
        return []
    if how == "path":
        desk.env["METIER_PATH"] = str(root)
        return []
    return ["--root", "library"]


@pytest.mark.parametrize("how", ["named", "configured", "path"])
def test_approval_holds_for_a_named_root_inside_the_project(desk: Desk, how: str):
    evil(desk)
    assert desk.say("--root", "library", "add", "--unapproved", "./src/evil").code == 0
    words = named(desk, how, desk.project / "library")

    assert "unapproved" in desk.say(*words, "list").out
    assert "it-ran" not in desk.say(*words, "render", "evil").out
    assert desk.say("--root", "library", "approve", "evil", "--yes").code == 0
    assert "it-ran" in desk.say(*words, "render", "evil").out
    (desk.project / "library/evil/scripts/go.sh").write_text("echo other\n")
    assert "go.sh was changed" in desk.say(*words, "why", "evil").out
    assert "it-ran" not in desk.say(*words, "render", "evil").out


def test_approval_holds_in_a_home_that_is_a_repository(desk: Desk):
    (desk.home / ".git").mkdir()
    source = evil(desk)
    assert desk.say("--dialect", "claude", "add", "--unapproved", str(source), cwd=desk.home).code == 0
    words = ["--dialect", "claude"]

    assert "unapproved" in desk.say(*words, "list", cwd=desk.home).out
    assert "it-ran" not in desk.say(*words, "render", "evil", cwd=desk.home).out


def test_freezing_is_no_approval(desk: Desk):
    source = evil(desk)
    assert desk.say("add", "--unapproved", str(source)).code == 0
    desk.say("freeze", "evil")

    assert "unapproved" in desk.say("list").out
    assert desk.say("approve", "evil", "--yes").code == 0
    assert "unapproved" not in desk.say("list").out


def test_a_skill_of_ones_own_is_approved_by_its_name(desk: Desk):
    asks = "metadata:\n  metier:\n    permissions: {env: [MY_KEY]}\n"
    file = desk.skill("mine", asks)
    (file.parent / "scripts").mkdir()
    (file.parent / "scripts/go.sh").write_text("echo key=$MY_KEY\n")
    file.write_text(file.read_text() + "\nKey: !`echo key=$MY_KEY`\n")

    assert "key=sk" not in desk.say("render", "mine", MY_KEY="sk").out
    refused = desk.say("approve", "mine")
    assert (refused.code, "is given MY_KEY" in refused.out) == (4, True)
    assert desk.say("approve", "mine", "--yes").out.splitlines()[-1] == "Approved: mine"
    assert "key=sk" in desk.say("render", "mine", MY_KEY="sk").out

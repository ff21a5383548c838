"""A lock that is gone, or lacks an entry, approves nothing: metier knows by itself what it installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.console import Desk


@pytest.fixture
def evil(desk: Desk) -> Path:
    file = desk.skill("evil", under=desk.project / "src")
    file.write_text(file.read_text() + "\nSays !`echo it-ran`\n")
    return file.parent


def lose(lock: Path, how: str) -> None:
    if how == "deleted":
        lock.unlink()
    elif how == "emptied":
        lock.write_text('{"lockVersion": 1, "skills": {}, "folders": {}}\n')
    else:
        tree = json.loads(lock.read_text())
        tree["skills"] = {"other": tree["skills"].pop("evil")}
        lock.write_text(json.dumps(tree))


@pytest.mark.parametrize("how", ["deleted", "emptied", "renamed"])
@pytest.mark.parametrize("words", [[], ["--root", "library"], ["--dialect", "claude"]])
def test_losing_the_lock_makes_no_skill_live(desk: Desk, evil: Path, how: str, words: list[str]):
    desk.skill("mine", under=desk.skills)
    assert desk.say(*words, "add", "--unapproved", str(evil)).code == 0
    [lock] = desk.project.parent.rglob("*-lock.json")
    lose(lock, how)

    assert "was installed, and" in desk.say(*words, "why", "evil").out
    assert "it-ran" not in desk.say(*words, "render", "evil").out
    if not words:
        assert "mine" in desk.say("catalog").out  # the user's own is as usable as before
        assert "evil" not in desk.say("catalog").out


def test_a_person_may_approve_it_without_the_lock_and_it_stays_somebody_elses(desk: Desk, evil: Path):
    assert desk.say("add", "--unapproved", str(evil)).code == 0
    (desk.state / "skills-lock.json").unlink()
    assert desk.say("approve", "evil", "--yes").code == 0

    assert "it-ran" in desk.say("render", "evil").out
    (desk.skills / "evil/more.sh").write_text("echo more\n")
    assert "it-ran" not in desk.say("render", "evil").out


def test_what_was_removed_may_be_written_anew(desk: Desk, evil: Path):
    assert desk.say("add", "--yes", str(evil)).code == 0
    assert desk.say("remove", "evil").code == 0
    desk.skill("evil", under=desk.skills)

    assert "was installed" not in desk.say("why", "evil").out
    assert json.loads((desk.state / "installed.json").read_text()) == {}


def test_a_check_of_all_locks_misses_the_one_that_is_gone(desk: Desk, evil: Path):
    assert desk.say("add", "--yes", str(evil)).code == 0
    assert desk.say("verify").code == 0
    (desk.state / "skills-lock.json").unlink()

    assert desk.say("verify").code == 1

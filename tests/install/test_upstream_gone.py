"""A source that is gone, moved on or frozen out: what is here stays, and no check passes that could not look."""

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.console import Desk
from tests.install.servers import Repo, git, skill_text


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """Two skills in a folder of the team's."""
    for name in ("greet", "wave"):
        folder = tmp_path / "team" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(skill_text(name))
    return tmp_path / "team"


def held(desk: Desk) -> dict[str, bytes]:
    return {
        str(file.relative_to(desk.state)): file.read_bytes()
        for file in (*desk.skills.glob("*/**/*"), desk.state / "skills-lock.json")
        if file.is_file()
    }


def gone(source: Path) -> str:
    shutil.rmtree(source)
    return "does not exist"


def a_file(source: Path) -> str:
    shutil.rmtree(source)
    source.write_text("no folder any more")
    return "is not a folder"


def without_skill(source: Path) -> str:
    (source / "SKILL.md").rename(source / "README.md")
    return "no longer has a SKILL.md"


@pytest.mark.parametrize("loss", [gone, a_file, without_skill])
def test_an_update_from_a_source_without_the_skill_changes_nothing_and_fails(desk: Desk, team: Path, loss):
    assert desk.say("add", str(team / "greet"), "--yes").code == 0
    before = held(desk)
    words = loss(team / "greet")
    for _ in range(2):
        said = desk.say("update", "--yes")
        assert said.code != 0
        assert words in said.err
        assert held(desk) == before


def test_a_repository_that_lost_the_skill_leaves_it_here(desk: Desk, repo: Repo):
    assert desk.say("add", str(repo.path), "--skill", "pdf", "--yes").code == 0
    before = held(desk)
    git("mv", "skills/pdf/SKILL.md", "skills/pdf/OLD.md", cwd=repo.path)
    repo.commit()
    said = desk.say("update", "--yes")
    assert (said.code, held(desk)) == (4, before)
    assert "nothing was changed" in said.err


def test_one_skill_chosen_from_a_folder_is_updated_alone(desk: Desk, team: Path):
    assert desk.say("add", str(team), "--skill", "greet", "--yes").code == 0
    assert desk.say("update", "--yes").out == "greet is up to date\n"
    (team / "greet/SKILL.md").write_text(skill_text("greet", body="Bow.\n"))
    assert desk.say("update", "--yes").code == 0
    assert "Bow." in (desk.skills / "greet/SKILL.md").read_text()
    assert not (desk.skills / "greet/wave").exists()
    shutil.rmtree(team / "greet")
    said = desk.say("update", "--yes")
    assert said.code == 2
    assert "no longer has `greet`" in said.err
    assert (desk.skills / "greet/SKILL.md").exists()


def test_an_empty_folder_is_not_in_the_way_of_restoring(desk: Desk, team: Path):
    assert desk.say("add", str(team / "greet"), "--yes").code == 0
    assert desk.say("remove", "greet").code == 0
    (desk.skills / "greet").mkdir()
    assert desk.say("restore", "greet").code == 0
    assert (desk.skills / "greet/SKILL.md").exists()
    assert desk.say("verify").code == 0


def test_outdated_compares_folders_and_fails_when_it_could_not_look(desk: Desk, team: Path, repo: Repo):
    assert desk.say("add", str(team / "greet"), "--yes").code == 0
    assert desk.say("outdated").code == 0
    (team / "greet/SKILL.md").write_text(skill_text("greet", body="Bow.\n"))
    said = desk.say("outdated")
    assert said.code == 1
    assert "1 of 1 folder outdated\n" in said.out
    assert str(team / "greet") in said.out  # whole, however long: a program reads it
    shutil.rmtree(team / "greet")
    said = desk.say("outdated")
    assert said.code == 5
    assert "0 of 1 folder outdated; 1 could not be checked" in said.out
    assert "does not exist" in said.err


def test_outdated_fails_when_the_repository_is_gone(desk: Desk, repo: Repo):
    assert desk.say("add", str(repo.path), "--yes").code == 0
    shutil.rmtree(repo.path)
    said = desk.say("outdated")
    assert said.code == 5
    assert "1 could not be checked" in said.out
    (found,) = json.loads(desk.say("outdated", "--json").out)
    assert found["fault"]
    assert not found["outdated"]


def test_a_frozen_skill_is_not_updated_before_it_thaws(desk: Desk, team: Path):
    for name in ("greet", "wave"):
        assert desk.say("add", str(team / name), "--yes").code == 0
        (team / name / "SKILL.md").write_text(skill_text(name, body="Bow.\n"))
    assert desk.say("freeze", "greet").code == 0
    said = desk.say("update", "greet", "--yes", "--force")
    assert said.code == 4
    assert "`metier freeze --off greet`" in said.err
    said = desk.say("update", "--yes")
    assert said.code == 0
    assert "greet is frozen; skipped" in said.out
    assert "Bow." not in (desk.skills / "greet/SKILL.md").read_text()
    assert "Bow." in (desk.skills / "wave/SKILL.md").read_text()
    assert desk.say("freeze", "--off", "greet").code == 0
    assert desk.say("update", "greet", "--yes").code == 0
    assert "Bow." in (desk.skills / "greet/SKILL.md").read_text()


@pytest.mark.parametrize("command", ["update", "outdated"])
def test_a_misspelt_name_is_answered_with_the_right_one(desk: Desk, team: Path, command: str):
    assert desk.say("add", str(team / "greet"), "--yes").code == 0
    said = desk.say(command, "gret")
    assert said.code == 2
    assert "did you mean `greet`?" in said.err

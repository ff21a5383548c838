"""Small things that somebody who is new to add, update, outdated, history and install would trip over."""

import json
from pathlib import Path

import pytest
from tests.cli.console import Desk
from tests.install.servers import Repo, skill_text


def test_what_changed_elsewhere_in_a_repository_makes_a_skill_not_outdated(desk: Desk, repo: Repo):
    assert desk.say("add", str(repo.path), "--skill", "pdf", "--yes").code == 0
    repo.write("elsewhere.md", "Not of that skill.\n")
    repo.commit()
    said = desk.say("outdated")
    assert (said.code, said.err) == (0, "")
    assert "current" in said.out
    repo.skill("skills/pdf", body="Newer.\n")
    repo.commit()
    assert desk.say("outdated").code == 1
    assert desk.say("update", "pdf", "--yes").code == 0
    assert desk.say("outdated").code == 0


def test_an_archive_that_is_not_there_is_said_not_to_be_there(desk: Desk):
    said = desk.say("add", "nofile.zip", "--yes")
    assert said.code == 2
    assert "nofile.zip does not exist" in said.err


def test_a_broken_archive_is_named(desk: Desk):
    (desk.project / "broken.zip").write_bytes(b"PK\x03\x04 and then nothing")
    said = desk.say("add", "broken.zip", "--yes")
    assert said.code == 4
    assert "broken.zip: it is a broken zip: its end is missing" in said.err


def test_a_source_that_was_added_as_insecure_says_so_when_it_is_looked_up(desk: Desk, repo: Repo):
    assert desk.say("add", repo.path.as_uri(), "--skill", "pdf", "--allow-insecure", "--yes").code == 0
    for command in ("outdated", "update"):
        said = desk.say(command)
        assert said.code != 0
        assert "--allow-insecure" in said.err
        assert "transport" not in said.err
    assert desk.say("outdated", "--allow-insecure").code == 0


def test_skills_of_a_repository_that_have_the_name_of_others_are_said(desk: Desk, repo: Repo):
    assert desk.say("add", str(repo.path), "--skill", "pdf", "--yes").code == 0
    said = desk.say("add", str(repo.path), "--name", "again", "--yes")
    assert said.code == 0
    assert "other skills are also named `pdf`" in said.err


def test_a_dry_run_of_an_install_ends_alike_for_people_and_programs(desk: Desk):
    desk.skill(
        "needy",
        'metadata: {openclaw: {install: [{kind: download, id: it, url: "http://x.example/a", bins: [nothing-here]}]}}\n',
    )
    plain, document = desk.say("install", "needy", "--dry-run"), desk.say("install", "needy", "--dry-run", "--json")
    assert (plain.code, document.code) == (0, 0)
    refusal = json.loads(document.out)["options"][0]["refusal"]
    assert refusal
    assert refusal in plain.out


def test_what_metier_itself_wrote_is_in_the_history_before_it_is_edited(desk: Desk):
    assert desk.say("init").code == 0
    assert desk.say("new", "fresh", "Does something new.", "--user").code == 0
    for name in ("code-review", "fresh"):
        file = desk.skills / name / "SKILL.md"
        before = file.read_text()
        file.write_text(before + "Mine.\n")
        acts = [one["act"] for one in json.loads(desk.say("history", name, "--json").out)]
        assert acts == ["edit", "add"]
        assert desk.say("rollback", name, "HEAD~1").code == 0
        assert file.read_text() == before


def test_a_rollback_is_told_with_a_short_version(desk: Desk, tmp_path: Path):
    folder = tmp_path / "greet"
    folder.mkdir()
    (folder / "SKILL.md").write_text(skill_text("greet"))
    assert desk.say("add", str(folder), "--yes").code == 0
    (desk.skills / "greet/SKILL.md").write_text(skill_text("greet", body="Mine.\n"))
    assert desk.say("history", "greet").code == 0
    assert desk.say("rollback", "greet", "HEAD~1").code == 0
    said = json.loads(desk.say("history", "greet", "--json").out)[0]["evidence"]
    assert said.startswith("to ")
    assert len(said.split()[1]) == 12


@pytest.mark.parametrize("command", ["approve", "freeze", "remove", "update", "verify"])
def test_a_skill_that_is_listed_but_not_installed_is_not_called_unknown(desk: Desk, command: str):
    desk.skill("deploy", under=desk.project / ".claude/skills")
    assert "deploy" in desk.say("list").out
    said = desk.say(command, "deploy")
    assert said.code == 2
    assert said.err.splitlines() == [
        "error: `deploy` is not an installed skill",
        "hint: run `metier remove` to list the installed skills",
    ]


def test_a_skill_of_ones_own_needs_no_approval(desk: Desk):
    desk.skill("mine")
    said = desk.say("approve", "mine")
    assert (said.code, "`mine` needs no approval" in said.err) == (2, True)


def test_what_was_created_in_a_project_is_removed_and_restored_without_saying_where(desk: Desk):
    assert desk.say("new", "tidy", "Tidies. Use when it is untidy.").code == 0
    assert "tidy" in desk.say("remove").out
    assert desk.say("remove", "tidy").code == 0
    assert not (desk.project / ".metier/skills/tidy").exists()
    assert desk.say("restore", "tidy").code == 0
    assert (desk.project / ".metier/skills/tidy/SKILL.md").exists()

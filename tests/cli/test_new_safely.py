"""`metier new` writes where it says, through nobody's links, and vouches for nothing it did not write."""

import json
from pathlib import Path

import pytest


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("link", [".metier", ".metier/skills", ".metier/skills/mine"])
@pytest.mark.parametrize("told", [(), ("--dir", ".metier/skills")])
def test_a_link_in_the_project_leads_nothing_out_of_it(desk, tmp_path, link, told):
    outside = tmp_path / "outside"
    (outside / "skills").mkdir(parents=True)
    at = desk.project / link
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(outside)
    before = everything(outside)
    said = desk.say("new", "mine", "Does it.", *told)
    assert said.code == 2
    assert str(at) in said.err
    assert everything(outside) == before
    assert not (desk.state / "trusted.json").exists()


def test_a_link_that_leads_nowhere_is_not_made_into_a_folder(desk, tmp_path):
    (desk.project / ".metier").symlink_to(tmp_path / "nowhere")
    assert desk.say("new", "mine", "Does it.").code == 2
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("planted", ["scripts/run.sh", ""])
def test_a_folder_that_was_there_before_is_not_adopted(desk, planted):
    folder = desk.project / ".metier/skills/mine"
    folder.mkdir(parents=True)
    if planted:
        (folder / planted).parent.mkdir()
        (folder / planted).write_text("#!/bin/sh\n")
    said = desk.say("new", "mine", "Does it.")
    assert said.code == 2
    assert "already exists" in said.err
    assert not (folder / "SKILL.md").exists()
    assert "mine" not in desk.say("list").out


def test_the_users_own_links_are_followed(desk, tmp_path):
    (tmp_path / "dotfiles").mkdir()
    desk.state.symlink_to(tmp_path / "dotfiles")
    assert desk.say("new", "mine", "Does it.", "--user").code == 0
    assert (tmp_path / "dotfiles/skills/mine/SKILL.md").is_file()


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_nobody_else_may_write_where_skills_are_read(desk, tmp_path, umask):
    home = tmp_path / "far/away/state"
    for env in ({}, {"METIER_HOME": str(home)}):
        assert desk.shell(f"umask {umask}; metier new --user foo D", **env).code == 0
    assert desk.shell(f"umask {umask}; metier new bar D; metier new --dir '{tmp_path}/other/skills' baz D").code == 0
    for folder in (desk.state, desk.skills, home, home.parent, home.parent.parent, home / "skills"):
        assert folder.stat().st_mode & 0o777 == 0o700, folder
    for top in (desk.state, desk.project / ".metier", tmp_path / "far", tmp_path / "other"):
        for path in (top, *top.rglob("*")):
            assert not path.stat().st_mode & 0o022, path


def test_a_new_skill_makes_nothing_else_of_the_project_trusted(desk):
    desk.skill("theirs", under=desk.project / ".claude/skills")
    (desk.project / ".claude/agents").mkdir(parents=True)
    (desk.project / ".claude/agents/rev.md").write_text("---\nname: rev\nskills: [theirs]\n---\n")
    assert desk.say("new", "mine", "Does it. Use when asked.").code == 0
    listed = desk.say("list").out
    assert "1 ready, 1 untrusted" in listed
    rows = {row["label"]: (row["withheld"], row["trusted"]) for row in json.loads(desk.say("roots", "--json").out)}
    assert (rows["project"], rows["project-claude"]) == ((0, True), (1, False))
    assert "1 skill, untrusted" in desk.say("roots").out
    desk.skill("fetched", under=desk.project / ".metier/skills")
    assert "2 skills, 1 untrusted" in desk.say("roots").out
    assert desk.say("--agent", "rev", "list").code == 2


def test_the_next_steps_that_are_shown_work_for_a_folder_that_is_no_root(desk):
    said = desk.say("new", "tidy", "Tidies. Use when it is untidy.", "--dir", "elsewhere")
    assert "`metier lint elsewhere/tidy`" in said.out
    assert "`metier --root elsewhere why tidy`" in said.out
    assert desk.say("lint", "elsewhere/tidy").out.endswith("\n1 checked, 1 clean\n")
    assert desk.say("--root", "elsewhere", "why", "tidy").code == 0

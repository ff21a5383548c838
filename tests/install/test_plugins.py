"""Plugins are installed like skills, and listed."""

import json

from tests.cli.console import Desk
from tests.install.servers import Repo


def test_a_plugin_is_installed_listed_verified_and_removed(desk: Desk, tmp_path):
    repo = Repo(tmp_path / "served/tools")
    repo.write(".claude-plugin/plugin.json", '{"name": "tools"}')
    repo.skill("skills/lint")
    repo.commit()
    assert desk.say("plugins").out == "No plugins.\n"
    assert desk.say("plugins", "install", str(repo.path)).code == 4
    said = desk.say("plugins", "install", str(repo.path), "--yes")
    assert said.code == 0, said.err
    assert [one["name"] for one in json.loads(desk.say("plugins", "--json").out)["plugins"]] == ["tools"]
    assert "lint" in desk.say("list").out
    assert (desk.state / "plugins-lock.json").exists()
    assert desk.say("verify").code == 0
    (desk.state / "plugins/tools/skills/lint/run.sh").write_text("x")
    assert "unapproved" in desk.say("list").out
    assert desk.say("verify").code == 1


def test_what_has_no_manifest_is_no_plugin(desk: Desk, repo: Repo):
    said = desk.say("plugins", "install", str(repo.path), "--yes")
    assert said.code == 2
    assert "metier add" in said.err
    assert not (desk.state / "plugins/skills").exists()
    assert desk.say("plugins", "install").code == 2

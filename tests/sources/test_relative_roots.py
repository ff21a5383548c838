"""A path in the user's configuration means one folder, wherever one stands."""

from __future__ import annotations

import json

from tests.home import World, usable, write_skill


def test_a_relative_root_is_no_folder_of_the_repository_one_stands_in(world: World):
    write_skill(world.project / "team/evil")
    write_skill(world.state / "team/mine")
    (world.state / "config.toml").write_text('roots = ["team"]\n')

    assert usable(world.open()) == ["mine"]
    assert usable(world.open(place=world.place(world.home))) == ["mine"]


def test_neither_is_a_relative_plugin(world: World):
    for folder, skill in ((world.project, "evil"), (world.state, "mine")):
        write_skill(folder / f"brought/skills/{skill}")
        (folder / "brought/.claude-plugin").mkdir()
        (folder / "brought/.claude-plugin/plugin.json").write_text(json.dumps({"name": "brought"}))
    (world.state / "config.toml").write_text('plugins = ["brought"]\n')

    assert usable(world.open("claude")) == ["mine"]


def test_a_relative_root_for_one_call_starts_at_the_working_folder(world: World):
    write_skill(world.project / "team/ours")

    assert usable(world.open(place=world.place(env={"METIER_PATH": "team"}))) == ["ours"]

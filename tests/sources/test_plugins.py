"""Skills that plugins bring: found by manifest, read as their kind of plugin says, and nothing of theirs runs."""

import json
from pathlib import Path

import pytest
from tests.home import World, codes, ids, python, write_skill

SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"


@pytest.fixture
def plugin(world: World) -> Path:
    """A plugin of the user's with one skill and no manifest yet."""
    folder = world.state / "plugins/tools"
    write_skill(folder / "skills/wrench")
    return folder


def write(file: Path, content: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def test_an_agent_plugin_brings_the_direct_children_of_its_skills_folder(world: World, plugin: Path):
    write(plugin / "plugin.json", {"$schema": SCHEMA, "name": "tools", "version": "1.0.0"})
    write_skill(plugin / "skills/group/too-deep")
    library = world.open()
    [skill] = library.skills
    assert (skill.id, skill.origin.source, skill.origin.dialect.name) == ("wrench", "plugin", "standard")
    assert (skill.identity, skill.qualified) == ("wrench", "wrench@tools")
    assert codes(library) == ["limit-depth"]


def test_a_claude_plugin_puts_its_name_before_its_skills(world: World, plugin: Path):
    write(plugin / ".claude-plugin/plugin.json", {"name": "tools"})
    write_skill(world.home / ".claude/skills/wrench")
    library = world.open()
    assert [skill.identity for skill in library.skills] == ["wrench", "tools:wrench"]
    assert all(verdict.usable for verdict in library.verdicts)
    assert library.find("tools:wrench").skill.origin.dialect.name == "claude"
    assert [command.name for command in library.commands()] == ["wrench", "tools:wrench"]


def test_an_openclaw_plugin_names_its_skill_folders(world: World, plugin: Path):
    write(plugin / "openclaw.plugin.json", {"id": "tools", "skills": ["./more", "./other/"]})
    write_skill(plugin / "more/hammer")
    write_skill(plugin / "other/saw")
    library = world.open("openclaw")
    assert ids(library) == ["hammer", "saw"]
    assert {skill.origin.tier for skill in library.skills} == {"extra"}


def test_a_claude_plugin_may_name_more_folders(world: World, plugin: Path):
    write(plugin / ".claude-plugin/plugin.json", {"name": "tools", "skills": "./more"})
    write_skill(plugin / "more/hammer")
    assert ids(world.open()) == ["wrench", "hammer"]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '"x"', "{}", '{"name": ""}', '{"name": 3}', '{"name": "Big"}', '{"name": "a--b"}',
     '{"name": "../x"}', '{"name": "' + "a" * 65 + '"}', "[" * 100_000],
)  # fmt: skip
@pytest.mark.parametrize("file", [".claude-plugin/plugin.json", "openclaw.plugin.json"])
def test_a_bad_manifest_is_a_problem_and_brings_nothing(world: World, plugin: Path, file: str, content: str):
    write(plugin / file, content)
    write_skill(world.home / ".agents/skills/good")
    library = world.open()
    assert ids(library) == ["good"]
    assert codes(library) == ["plugin-invalid"]
    assert library.problems[0].path == str(plugin / file)


def test_a_manifest_that_is_not_text_or_no_file_is_a_problem(world: World, plugin: Path):
    (plugin / "plugin.json").write_bytes(b"\xff\xfe{}")
    other = world.state / "plugins/other"
    (other / "plugin.json").mkdir(parents=True)
    library = world.open()
    assert (ids(library), codes(library)) == ([], ["plugin-invalid", "plugin-invalid"])


def test_an_ordinary_plugin_json_of_something_else_is_left_alone(world: World):
    write(world.project / "plugin.json", {"name": "Some Thing", "main": "x.js"})
    write_skill(world.project / "skills/x")
    assert codes(world.open()) == []


def test_an_unknown_key_of_an_agent_plugin_is_said_and_the_plugin_loads(world: World, plugin: Path):
    write(plugin / "plugin.json", {"$schema": SCHEMA, "name": "tools", "hoks": {}})
    library = world.open()
    assert (ids(library), codes(library)) == (["wrench"], ["plugin-invalid"])
    assert "hoks" in library.problems[0].message


@pytest.mark.parametrize("path", ["../outside", "link", "../../../../../../etc", "skills/../../outside"])
def test_a_plugin_reaches_nothing_outside_its_folder(world: World, plugin: Path, path: str):
    write_skill(world.state / "plugins/outside/evil")
    (plugin / "link").symlink_to(world.state / "plugins/outside")
    write(plugin / "openclaw.plugin.json", {"id": "tools", "skills": [path]})
    library = world.open()
    assert (ids(library), codes(library)) == ([], ["link-outside"])


def test_a_skill_folder_of_a_plugin_that_is_not_there_is_said(world: World, plugin: Path):
    write(plugin / "openclaw.plugin.json", {"id": "tools", "skills": ["missing", 3, None]})
    library = world.open()
    assert (ids(library), sorted(codes(library))) == ([], ["not-found", "plugin-invalid"])


def test_a_linked_skill_in_a_plugin_is_contained(world: World, plugin: Path):
    write(plugin / "plugin.json", {"$schema": SCHEMA, "name": "tools"})
    write_skill(world.home / "outside")
    (plugin / "skills/evil").symlink_to(world.home / "outside")
    library = world.open()
    assert (ids(library), codes(library)) == (["wrench"], ["link-outside"])


def test_plugins_of_a_project_are_untrusted_like_its_skills(world: World):
    inside = world.project / ".metier/plugins/theirs"
    write_skill(inside / "skills/theirs")
    write(inside / ".claude-plugin/plugin.json", {"name": "theirs"})
    write_skill(world.project / "skills/direct")
    write(world.project / ".claude-plugin/plugin.json", {"name": "whole"})
    library = world.open("claude")
    assert {skill.origin.source for skill in library.skills} == {"project"}
    assert [skill.identity for skill in library.skills] == ["whole:direct", "theirs:theirs"]
    assert library.commands() == ()


def test_a_plugin_of_a_project_that_is_a_link_out_of_it_is_not_entered(world: World, tmp_path: Path):
    write_skill(tmp_path / "outside/skills/evil")
    write(tmp_path / "outside/.claude-plugin/plugin.json", {"name": "evil"})
    (world.project / ".metier/plugins").mkdir(parents=True)
    (world.project / ".metier/plugins/evil").symlink_to(tmp_path / "outside")
    library = world.open()
    assert (ids(library), codes(library)) == ([], ["link-outside"])


def test_two_plugins_of_one_name_have_two_labels(world: World):
    for folder in ("a", "b"):
        write_skill(world.state / f"plugins/{folder}/skills/same", body=folder)
        write(world.state / f"plugins/{folder}/plugin.json", {"$schema": SCHEMA, "name": "tools"})
    library = world.open()
    assert [skill.qualified for skill in library.skills] == ["same@tools", "same@tools-2"]
    assert library.find("same@tools-2").skill.path.endswith("/b/skills/same/SKILL.md")


def test_a_configured_plugin_without_a_manifest_is_a_problem(world: World, plugin: Path):
    (world.state / "config.toml").write_text(f'plugins = ["{plugin}", "~/gone"]\n')
    assert codes(world.open()) == ["plugin-invalid", "plugin-invalid"]


SITE = """
import sys
sys.path.append(sys.argv[1])
import metier
library = metier.open(index=False)
print([(s.id, s.origin.source, s.origin.root) for s in library.skills], [p.code for p in library.problems])
print([name for name in sys.modules if name.startswith("trap")])
"""


def test_entry_points_of_installed_packages_are_found_and_never_imported(world: World):
    site = world.home / "venv/site-packages"
    write(site / "trap_one-1.0.dist-info/entry_points.txt", "[console_scripts]\nx = y:z\n\n[metier.skills]\n# c = d\none = trap_one.skills\n\n[other]\ntwo = trap_two\n")  # fmt: skip
    write(site / "trap_gone-1.0.dist-info/entry_points.txt", "[metier.skills]\ngone = trap_gone.skills:all\n")
    write(site / "trap_bad-1.0.dist-info/entry_points.txt", "[metier.skills]\nbad = ..\\nnonsense\n")
    (site / "trap_odd-1.0.dist-info").mkdir()
    (site / "trap_odd-1.0.dist-info/entry_points.txt").write_bytes(b"\xff[metier.skills]")
    write(site / "trap_one/__init__.py", "raise SystemExit('imported')")
    write_skill(site / "trap_one/skills/packed")
    done = python(SITE, str(site), env=world.variables, cwd=world.project)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[('packed', 'plugin', 'one')] ['plugin-invalid', 'plugin-invalid']", "[]"]

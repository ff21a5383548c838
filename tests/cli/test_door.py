"""The front door gives the same bytes as the whole command line, imports next to nothing, and is never out of date."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.console import FULL, METIER, Desk

from metier.faces.cli import fastlist
from metier.sources import index


def imported(desk: Desk, *words: str, **env: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *METIER[1:], *words],
        cwd=desk.project, env=desk.env | env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def is_remembered(desk: Desk, *words: str) -> bool:
    """Whether the door answers by itself: the whole command line would import click."""
    return "click" not in imported(desk, *words)


def warm(desk: Desk, *words: str) -> str:
    """Say it until the door knows it; what it says then is what everybody says."""
    desk.settle()
    whole = desk.say(*words, program=FULL)
    door_said = desk.say(*words)
    assert door_said == whole
    return whole.out


def test_the_door_knows_the_version_of_the_index():
    assert fastlist.INDEX_VERSION == index.READER_VERSION


def test_the_door_imports_next_to_nothing(desk):
    desk.skill("one", "metadata:\n  openclaw:\n    requires: {bins: [sh], env: [HOME]}\n")
    warm(desk, "list")
    bare = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import __future__, runpy, sqlite3"],
        env=desk.env,
        capture_output=True,
        text=True,
    )
    usual = {line.rpartition("|")[2].strip() for line in bare.stderr.splitlines()}
    ours = imported(desk, "list") - usual
    assert ours <= {"metier", "metier.faces", "metier.faces.cli", "metier.host", "metier.host.facts"}
    heavy = {"click", "yaml", "json", "ctypes", "asyncio", "dataclasses", "typing", "inspect", "difflib", "subprocess"}
    assert not heavy & (imported(desk, "list") - usual)
    assert "metier.types" not in imported(desk, "list")


def trees(seed: int, desk: Desk) -> None:
    """A desk with skills of many kinds in many places, one for each seed."""
    chance = random.Random(seed)
    roots = [
        desk.skills, desk.home / ".agents/skills", desk.home / ".claude/skills", desk.project / ".metier/skills",
        desk.project / ".agents/skills", desk.project / "skills", desk.home / ".umbra/skills",
    ]  # fmt: skip
    fronts = ["", "user-invocable: false\n", "disable-model-invocation: true\n", "metadata: {openclaw: {requires: {env: [NOPE_X]}}}\n",
              "metadata: {openclaw: {requires: {bins: [nope-x]}}}\n", "config: {enabled: false}\n"]  # fmt: skip
    for number in range(chance.randrange(1, 12)):
        name = chance.choice(["a", "b", "c", "long-name-of-a-skill", "日本", f"n{number}"])
        under = chance.choice(roots) / chance.choice(["", "", "group", "deep/er"])
        desk.skill(name, chance.choice(fronts), under, description=chance.choice(["d", "é" * 90, "x " * 200]))
    if chance.random() < 0.3:
        desk.skill("broken", "---\nname: broken\n---\n", chance.choice(roots))
    if chance.random() < 0.3:
        desk.configure("[unknown]\n[skills.a]\nenabled = false\n")
    if chance.random() < 0.5:
        desk.say("trust")


@pytest.mark.parametrize("seed", range(8))
def test_door_and_command_line_give_the_same_bytes_for_any_tree(desk, seed):
    trees(seed, desk)
    warm(desk, "list")
    assert is_remembered(desk, "list")
    root = str(desk.skills)
    desk.skills.mkdir(parents=True, exist_ok=True)
    warm(desk, "--root", root, "list")
    assert is_remembered(desk, "--root", root, "list")


def at_terminal(desk: Desk, **more) -> tuple[str, str]:
    return (
        desk.at_terminal("list", **more).out,
        desk.at_terminal("list", program=FULL, **more).out,
    )


def test_a_terminal_its_width_and_its_colours_are_each_an_answer_of_their_own(desk):
    desk.skill("one", description="x " * 100)
    (desk.state / "bundled.json").write_text('{"skills": {}}')
    warm(desk, "list")
    for more in ({"columns": 60}, {"columns": 120}, {"NO_COLOR": "1"}, {"TERM": "dumb"}, {"columns": 60}):
        desk.settle()
        for _ in range(2):
            by_door, whole = at_terminal(desk, **more)
            assert by_door == whole
    assert desk.say("list") == desk.say("list", program=FULL)


# Each of these changes something that the answer depends on.
def add_a_skill(desk):
    desk.skill("added")


def edit_a_skill(desk):
    desk.skill("one", description="Quite another thing.")


def edit_a_skill_to_the_same_length(desk):
    desk.skill("one", description="Dose a thing.")


def rename_a_skill(desk):
    (desk.skills / "one").rename(desk.skills / "renamed")


def delete_a_skill(desk):
    shutil.rmtree(desk.skills / "one")


def delete_a_file(desk):
    (desk.skills / "one/SKILL.md").unlink()


def add_in_a_nested_folder(desk):
    desk.skill("inner", under=desk.skills / "group")


def make_another_root(desk):
    desk.skill("other", under=desk.home / ".umbra/skills")


def write_a_configuration(desk):
    desk.configure("[skills.one]\nenabled = false\n")


def trust_the_project(desk):
    desk.say("trust")


def trust_somebody_else(desk):
    (desk.state / "trust.json").write_text("{}")


def program_appears(desk):
    desk.program("wanted")


def program_disappears(desk):
    (desk.bin / "there").unlink()


def program_may_not_run(desk):
    (desk.bin / "there").chmod(0o644)


def plugin_is_added(desk):
    plugin(desk, desk.state / "plugins/new")


def manifest_is_added(desk):
    (desk.state / "plugins/bare/openclaw.plugin.json").write_text('{"id": "bare"}')


def manifest_is_edited(desk):
    (desk.state / "plugins/made/.claude-plugin/plugin.json").write_text('{"name": "renamed"}')


def skills_folder_of_a_plugin_is_made(desk):
    desk.skill("late", under=desk.state / "plugins/hollow/skills")


def link_is_retargeted(desk):
    (desk.skills / "linked").unlink()
    (desk.skills / "linked").symlink_to(desk.home / "elsewhere/two")


def skill_behind_a_link_is_edited(desk):
    desk.skill("first", description="Edited behind the link.", under=desk.home / "elsewhere")


def broken_link_is_mended(desk):
    desk.skill("missing", under=desk.home / "elsewhere")


def git_init_above(desk):
    (desk.project.parent / ".git").mkdir()


def git_is_removed(desk):
    shutil.rmtree(desk.project / ".git")


def script_in_an_empty_folder(desk):
    (desk.project / ".agents/skills/theirs/scripts/run.sh").write_text("#!/bin/sh\n")


def broken_skill_is_mended(desk):
    desk.skill("broken")


def file_in_other_letters_is_renamed(desk):
    (desk.skills / "lower/skill.md").rename(desk.skills / "lower/SKILL.md")


def plugin(desk: Desk, folder: Path) -> None:
    (folder / ".claude-plugin").mkdir(parents=True)
    (folder / ".claude-plugin/plugin.json").write_text(json.dumps({"name": folder.name}))
    desk.skill("brought", under=folder / "skills")


CHANGES = [
    add_a_skill, edit_a_skill, edit_a_skill_to_the_same_length, rename_a_skill, delete_a_skill, delete_a_file,
    add_in_a_nested_folder, make_another_root, write_a_configuration, trust_the_project, trust_somebody_else,
    program_appears, program_disappears, program_may_not_run, plugin_is_added, manifest_is_added, manifest_is_edited,
    skills_folder_of_a_plugin_is_made, link_is_retargeted, skill_behind_a_link_is_edited, broken_link_is_mended,
    git_init_above, git_is_removed, script_in_an_empty_folder, broken_skill_is_mended, file_in_other_letters_is_renamed,
]  # fmt: skip


QUIET = [rename_a_skill, git_init_above, git_is_removed, trust_somebody_else, file_in_other_letters_is_renamed]
"""Changes that may leave the list as it is."""


def furnish(desk: Desk) -> None:
    desk.skill("one")
    desk.skill("grouped", under=desk.skills / "group")
    (desk.skills / "lower").mkdir()
    (desk.skills / "lower/skill.md").write_text("---\nname: lower\ndescription: d\n---\n")
    desk.skill("broken", "---\nname: broken\n---\n")
    desk.skill("needs", "metadata: {openclaw: {requires: {bins: [wanted], env: [WANTED]}}}\n")
    desk.skill("has", "metadata: {openclaw: {requires: {bins: [there]}}}\n")
    desk.program("there")
    desk.skill("first", under=desk.home / "elsewhere")
    desk.skill("two", under=desk.home / "elsewhere")
    (desk.skills / "linked").symlink_to(desk.home / "elsewhere/first")
    (desk.skills / "dangling").symlink_to(desk.home / "elsewhere/missing")
    desk.skill("theirs", under=desk.project / ".agents/skills")
    (desk.project / ".agents/skills/theirs/scripts").mkdir()
    plugin(desk, desk.state / "plugins/made")
    (desk.state / "plugins/bare/skills/x").mkdir(parents=True)
    desk.skill("bare-skill", under=desk.state / "plugins/bare/skills")
    (desk.state / "plugins/hollow/.claude-plugin").mkdir(parents=True)
    (desk.state / "plugins/hollow/.claude-plugin/plugin.json").write_text('{"name": "hollow"}')


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_door_is_never_out_of_date(desk, change):
    furnish(desk)
    if change is script_in_an_empty_folder:
        desk.say("trust")
    before = warm(desk, "list")
    assert is_remembered(desk, "list")
    change(desk)
    by_door, whole = desk.say("list"), desk.say("list", program=FULL)
    assert by_door == whole
    assert whole.out != before or change in QUIET, "the change was meant to be seen"
    warm(desk, "list")


@pytest.mark.parametrize(
    "env",
    [
        {"WANTED": "1"},
        {"WANTED": ""},
        {"METIER_PATH": "extra"},
        {"PATH": "/usr/bin:/bin"},
        {"HOME": "/nowhere"},
        {"METIER_HOME": "state"},
    ],
    ids=str,
)
def test_a_variable_that_matters_is_noticed(desk, env):
    furnish(desk)
    desk.skill("more", under=desk.project / "extra")
    warm(desk, "list")
    assert desk.say("list", **env) == desk.say("list", program=FULL, **env)


def test_the_folder_one_stands_in_is_noticed(desk):
    furnish(desk)
    inner = desk.project / "inner"
    desk.skill("nested", under=inner / ".agents/skills")
    warm(desk, "list")
    assert desk.say("list", cwd=inner) == desk.say("list", cwd=inner, program=FULL)
    assert "nested" in desk.say("list", cwd=inner).out


def test_an_empty_root_is_refused_and_remembered_by_nobody(desk):
    desk.skill("one")
    desk.skill("here", under=desk.project)
    before = warm(desk, "list")
    said = desk.say("--root", "", "list")
    assert said.code == 2
    assert "`--root` is empty" in said.err
    assert desk.say("list").out == before


def test_that_the_index_was_damaged_is_said_once(desk):
    desk.skill("one")
    warm(desk, "list")
    for file in desk.state.glob("index.db*"):
        file.write_bytes(b"no database " * 1000)
    desk.settle()
    first, second, third = (desk.say("list") for _ in range(3))
    assert first.code == second.code == 0
    assert "index-damaged" in first.out
    assert second.out == third.out
    assert "index-damaged" not in second.out


def test_what_has_just_changed_is_not_remembered_yet(desk):
    desk.skill("one")
    desk.say("list")
    desk.skill("one", description="Changed at once.")
    assert "Changed at once." in desk.say("list").out


def test_a_variable_that_is_not_utf8_does_no_harm(desk):
    desk.skill("one")
    whole = desk.say("list").out.encode()
    env = {os.fsencode(name): os.fsencode(value) for name, value in desk.env.items()}
    env[b"PATH"] += b":/caf\xe9"
    for _ in range(2):
        desk.settle()
        done = subprocess.run([*METIER, "list"], cwd=desk.project, env=env, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, whole, b"")

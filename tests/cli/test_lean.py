"""Read-only commands start without click, say what click's parsing makes them say, and are never out of date."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.cli.console import FULL, METIER, Desk

from metier.faces.cli.commands import COMMANDS, READ_ONLY, ReadOnlyCommand, load_command, parse_options, parse_words
from metier.faces.cli.group import cli, to_click
from metier.faces.cli.options import GLOBAL_OPTIONS, make_context

USES = {
    "list": ("list",),
    "status": ("status",),
    "show": ("show", "one"),
    "search": ("search", "thing"),
    "catalog": ("catalog",),
    "commands": ("commands",),
    "why": ("why", "one"),
    "roots": ("roots",),
}
"""Each read-only command, as it is commonly used."""


def imported(desk: Desk, *words: str, **env: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *METIER[1:], *words],
        cwd=desk.project, env=desk.env | env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def warm(desk: Desk, *words: str) -> str:
    """Say it until the index knows every file; what is said then is what click and a look without the index say."""
    desk.settle()
    whole = desk.say(*words, program=FULL)
    desk.settle()
    lean = desk.say(*words)
    assert lean == whole
    assert lean == desk.say("--no-index", *words)
    return whole.out


def test_every_command_that_is_called_read_only_is_declared_so():
    assert set(USES) == READ_ONLY
    for name in COMMANDS:
        if not COMMANDS[name][0].startswith("."):
            assert isinstance(load_command(name), ReadOnlyCommand) == (name in READ_ONLY), name


@pytest.mark.parametrize("words", USES.values(), ids=USES)
def test_a_read_only_command_imports_only_what_it_needs(desk, words):
    desk.skill("one", "metadata:\n  openclaw:\n    requires: {bins: [sh], env: [HOME]}\n")
    warm(desk, *words)
    modules = imported(desk, *words)

    heavy = {
        "click", "yaml", "asyncio", "dataclasses", "inspect", "difflib", "subprocess", "ctypes", "hashlib", "tempfile",
        "typing", "sqlite3", "importlib.metadata",
        "metier.install", "metier.record", "metier.agent", "metier.schedule", "metier.improve",
    }  # fmt: skip
    # Bodies are read by these two: `show` takes the digest, and yaml reads the inline map above.
    allowed = {"show": {"hashlib", "yaml", "ctypes", "typing"}, "search": {"hashlib"}}.get(words[0], set())
    assert heavy & modules <= allowed
    if words[0] not in ("show", "search"):
        assert "metier.parse" not in modules, "the index knows the skill: there is nothing to parse"


@pytest.mark.parametrize("name", ["list", "status", "catalog", "roots"])
def test_plain_skills_are_listed_without_regular_expressions(desk, name):
    desk.skill("one", "")
    warm(desk, name)
    assert not {"re", "enum", "json"} & imported(desk, name)


LINES = [
    "list", "list -v", "list --verbose --json", "--root . list", "--root=. --no-index list", "-C . list", "--project . list",
    "--dialect claude --agent x --profile p status a", "status a -v", "status -v a --json", "show a", "show a --json",
    "search a b c", "search --limit 3 a --explain", "search --limit=3 a", "catalog --format xml --max-chars 0",
    "catalog --max-skills 7 --policy prefix --for x", "catalog --dialect umbra --json", "commands", "commands a", "why a",
    "roots --all",
]  # fmt: skip
LEFT_TO_CLICK = [
    "", "--help", "list -h", "list --verb", "list x", "list -vv", "status a b", "show", "show -- -a", "search", "search --limit 0 a",
    "search --limit x a", "catalog --format nope", "--root", "--root -x list", "-C. list", "--nope list", "lsit", "list --json=1",
    "--root= list", "why --json", "catalog --for -x",
]  # fmt: skip


def parsed_by_click(words: list[str]) -> tuple[object, dict[str, object]]:
    """The global options and the command's own, as click reads them."""
    with cli.make_context("metier", list(words)) as context:
        name, *rest = [*context._protected_args, *context.args]
        command = load_command(name)
        assert isinstance(command, ReadOnlyCommand)
        with to_click(command).make_context(name, rest, parent=context) as inner:
            return make_context(context.params), inner.params


def parsed_leanly(words: list[str]) -> tuple[object, dict[str, object]] | None:
    parsed = parse_options(GLOBAL_OPTIONS, words, interspersed=False)
    if parsed is None or not parsed[1] or parsed[1][0] not in READ_ONLY:
        return None
    command = load_command(parsed[1][0])
    assert isinstance(command, ReadOnlyCommand)
    values = parse_words(command.parameters, parsed[1][1:])
    return None if values is None else (make_context(parsed[0]), values)


@pytest.mark.parametrize("line", LINES)
def test_both_parsers_read_a_line_alike(line):
    assert parsed_leanly(line.split()) == parsed_by_click(line.split())


@pytest.mark.parametrize("line", LEFT_TO_CLICK)
def test_what_the_lean_parser_does_not_know_exactly_it_leaves_to_click(line):
    assert parsed_leanly(line.split()) is None


def test_any_line_that_the_lean_parser_takes_click_reads_alike():
    words = ["list", "status", "search", "catalog", "a", "", "-v", "--json", "--limit", "3", "--limit=2", "--for", "-", "--", "-C",
             "--root", ".", "--no-index", "--format", "xml", "--format=plain", "--all", "-x", "--policy", "ranked"]  # fmt: skip
    chance = random.Random(1)
    taken = 0
    for _ in range(3_000):
        line = chance.choices(words, k=chance.randrange(1, 6))
        lean = parsed_leanly(line)
        if lean is not None:
            taken += 1
            try:
                assert lean == parsed_by_click(line), line
            except click.ClickException as error:
                raise AssertionError(line) from error
    assert taken > 50


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
def test_lean_and_by_click_a_list_has_the_same_bytes_for_any_tree(desk, seed):
    trees(seed, desk)
    warm(desk, "list")
    root = str(desk.skills)
    desk.skills.mkdir(parents=True, exist_ok=True)
    warm(desk, "--root", root, "list")


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
            lean, whole = at_terminal(desk, **more)
            assert lean == whole
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
def test_a_list_from_the_index_is_never_out_of_date(desk, change):
    furnish(desk)
    if change is script_in_an_empty_folder:
        desk.say("trust")
    before = warm(desk, "list")
    change(desk)
    lean, whole = desk.say("list"), desk.say("--no-index", "list")
    assert lean == whole
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
    assert "--root must not be empty" in said.err
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


def test_a_name_is_completed_without_click(desk):
    desk.skill("alpha")
    warm(desk, "list")
    asked = {"_METIER_COMPLETE": "bash_complete", "COMP_WORDS": "metier show al", "COMP_CWORD": "2"}
    assert "click" not in imported(desk, **asked)
    done = subprocess.run(METIER, cwd=desk.project, env=desk.env | asked, capture_output=True, text=True, timeout=60)
    assert done.stdout == "plain,alpha\n"

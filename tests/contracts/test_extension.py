"""Another product is one new file: it is found, served, protected and named in help with nothing else edited."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.home import SOURCE, World, make_world, write_skill

EIGHTH = '''
"""Eighth: a product that nobody has heard of."""

from __future__ import annotations

from ...types.dialect import AuthoringRules, Dialect, ListingRules, PluginManifest, RootSpec, ServingRules
from ..common import COMMON_FIELDS

DIALECT = Dialect(
    name="eighth",
    title="Eighth",
    authoring=AuthoringRules(fields=COMMON_FIELDS, description="optional", requires_at=("eighth",)),
    serving=ServingRules(
        roots=(
            RootSpec("project-eighth", "{ancestor}/.eighth/skills", "project", "eighth"),
            RootSpec("user-eighth", "~/.config/eighth/skills", "user", "eighth"),
            RootSpec("shipped-eighth", "$EIGHTH_SKILLS/inner", "bundled", "eighth"),
        ),
        listing=ListingRules("plain"),
        delivery="user-message",
    ),
    manifest=PluginManifest("eighth.json"),
)
'''

RUN_IN_PROJECT = """
import sys
from metier.library.grants import plain_environment, run_program
from metier.library.open import open
from metier.types.sandbox import ProgramSpec, SandboxPermissions, SandboxSpec

library, project = open("."), sys.argv[1]
program = ProgramSpec(("sh", "-c", sys.argv[2]), project, plain_environment(library))
result = run_program(library, program, SandboxSpec("prefer", permissions=SandboxPermissions(write=(project,))))
print(result.tier)
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one more file."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(SOURCE / "metier", folder / "metier", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "metier/dialects/products/eighth.py").write_text(EIGHTH.lstrip())
    return folder


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def run(extended: Path, world: World, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    variables = {
        **world.variables,
        "PYTHONPATH": str(extended),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "200",
        **env,
    }
    return subprocess.run(
        [sys.executable, *argv],
        cwd=world.project,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def metier(extended: Path, world: World, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    code = "import metier, sys; assert metier.__file__.startswith(sys.argv.pop(1)); "
    code += "from metier.faces.cli.app import run; sys.exit(run(sys.argv[1:]))"
    return run(extended, world, "-c", code, str(extended), *words, **env)


def listed(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return {skill["name"]: skill["dialect"] for skill in json.loads(done.stdout)["skills"]}


@pytest.mark.parametrize("options", [[], ["--dialect", "eighth"]])
def test_the_skills_of_its_roots_are_found_by_the_standard_and_by_itself(
    extended: Path, world: World, tmp_path: Path, options: list[str]
):
    write_skill(world.project / ".eighth/skills/near")
    write_skill(world.home / ".config/eighth/skills/own")
    write_skill(tmp_path / "shipped/inner/shipped")
    (world.state / "plugins/p").mkdir(parents=True)
    (world.state / "plugins/p/eighth.json").write_text('{"name": "p"}')
    write_skill(world.state / "plugins/p/skills/plugged")

    done = metier(extended, world, *options, "list", "--json", EIGHTH_SKILLS=str(tmp_path / "shipped"))

    names = ("near", "own", "shipped", "plugged")
    assert {name: dialect for name, dialect in listed(done).items() if name in names} == dict.fromkeys(names, "eighth")


def test_its_folders_are_protected_in_the_sandbox(extended: Path, world: World):
    (world.project / ".config").mkdir()
    script = "mkdir -p .eighth/skills/evil .config/eighth/skills/evil; touch fine .config/fine"

    done = run(extended, world, "-c", RUN_IN_PROJECT, str(world.project), script)

    assert done.returncode == 0, done.stderr
    if done.stdout.strip() != "bubblewrap":
        pytest.skip("only bubblewrap protects names in a writable folder")
    assert sorted(os.listdir(world.project)) == [".config", ".git", "fine"]
    assert os.listdir(world.project / ".config") == ["fine"]


def test_its_folders_are_asked_about_before_an_agent_writes_them(extended: Path, world: World):
    code = """
import sys
from metier.agent.tools.workspace import Workspace
print(Workspace(sys.argv[1], sys.argv[1]).spot(".eighth/skills/x/SKILL.md"))
print(Workspace(sys.argv[1], sys.argv[1]).spot("src/code.py"))
"""
    done = run(extended, world, "-c", code, str(world.project))
    asked, free = done.stdout.splitlines()
    assert "'.eighth'" in asked
    assert "'.eighth'" not in free


def test_help_and_errors_name_it(extended: Path, world: World):
    assert "eighth" in metier(extended, world, "--help").stdout
    done = metier(extended, world, "--dialect", "zzz", "list")
    assert done.returncode == 2
    assert "eighth" in done.stderr


def test_what_it_requires_is_read_where_it_says(extended: Path, world: World):
    more = "metadata:\n  eighth:\n    requires:\n      bins: [no-such-program]\n"
    write_skill(world.home / ".config/eighth/skills/own", more=more)

    done = metier(extended, world, "why", "own")

    assert "no-such-program" in done.stdout

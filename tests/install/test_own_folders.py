"""metier's own folders: private whatever the umask, not made for nothing, and nobody's to replace or to hide behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.console import Desk

from metier.install.recipes import InstallEnvironment, list_options
from metier.types.skill import parse_recipes
from metier.types.tree import TextTree


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def source(desk: Desk, name: str = "deploy") -> Path:
    return desk.skill(name, under=desk.project / "src").parent


def loose(folder: Path) -> list[str]:
    """What others may write to."""
    found = [folder, *folder.rglob("*")]
    return [str(path) for path in found if not path.is_symlink() and path.stat().st_mode & 0o022]


@pytest.mark.parametrize("words", [[], ["--project"], ["--dialect", "claude"]])
def test_whatever_the_umask_nobody_else_writes_to_what_metier_makes(desk: Desk, open_umask: None, words: list[str]):
    folder = source(desk)
    before = words[:2] if "--dialect" in words else []
    said = desk.say(*before, "add", "--yes", str(folder), *(words if not before else []), program=[*_fresh()])
    assert said.code == 0, said.err

    assert desk.state.stat().st_mode & 0o777 == 0o700
    for root in (desk.state, desk.home / ".claude", desk.project / ".metier"):
        assert not root.exists() or loose(root) == []


def _fresh() -> list[str]:
    """A process of its own: the one that tests fork from was started with another umask."""
    import sys

    return [sys.executable, "-B", "-m", "metier"]


def test_a_folder_of_metiers_that_others_may_write_to_is_closed(desk: Desk):
    desk.state.mkdir()
    desk.state.chmod(0o777)
    assert desk.say("add", "--yes", str(source(desk))).code == 0

    assert desk.state.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("words", [["--project"], ["--project", "--dry-run"]])
def test_what_is_refused_leaves_no_folder_behind(desk: Desk, words: list[str]):
    missing = desk.project / "src/nothing"
    missing.mkdir(parents=True)
    said = desk.say("add", "--yes", str(missing if "--dry-run" not in words else source(desk)), *words)

    assert (said.code == 0) == ("--dry-run" in words)
    assert not (desk.project / ".metier").exists()


def test_a_token_that_others_can_read_is_refused(desk: Desk):
    token = desk.home / "token"
    token.write_text("a" * 32 + "\n")
    token.chmod(0o644)
    said = desk.say("mcp", "--http", "--token-file", str(token))

    assert (said.code, "others can read" in said.err) == (4, True)


def test_a_folder_called_skills_hides_no_other_skill_from_openclaw(desk: Desk):
    theirs = desk.skill("evil", under=desk.project / "src/skills").parent.parent
    assert desk.say("--dialect", "openclaw", "add", "--yes", str(theirs)).code == 0
    [placed] = [path for path in desk.home.rglob("skills/skills") if path.is_dir()]
    desk.skill("mine", under=placed.parent)

    listed = desk.say("--dialect", "openclaw", "list").out
    assert "mine" in listed
    assert "evil" in listed


@pytest.mark.parametrize("name", ["bin", "Bin", "uv", "node_modules"])
def test_a_skill_called_like_a_folder_of_tools_gets_one_of_its_own(tmp_path: Path, name: str):
    recipe = {"kind": "download", "url": "https://example.com/x.tar.gz", "sha256": "0" * 64}
    recipes = parse_recipes((TextTree(recipe),))
    [option] = list_options(recipes, InstallEnvironment("linux", frozenset(), str(tmp_path)), name)

    assert option.plan is not None, option.refusal
    assert option.plan.target.startswith(f"{tmp_path}/{name}-")

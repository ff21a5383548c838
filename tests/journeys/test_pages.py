"""The examples of the products' own pages, unmodified, in every boundary that this machine gives."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.home import World

from metier import sandbox
from metier.library.library import Library
from metier.parse.lint import lint
from metier.types.model import Answer

GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": os.environ.get("PATH", "")}


def tiers() -> list[str]:
    """What this machine gives; where there is no boundary at all, a program of one's own still runs."""
    given = [
        name
        for name in ("bubblewrap", "landlock")
        if sandbox.sandbox_tier(sandbox.read_machine_options({"METIER_SANDBOX": name})) == name
    ]
    return [*given, "none"]


TIERS = tiers()


def opened(world: World, dialect: str, root: Path, tier: str, agent: list[str] | None = None) -> Library:
    """Skills that the user named, so that they run in any tier."""
    place = world.place(env={"PATH": os.environ.get("PATH", ""), "METIER_SANDBOX": tier})
    return world.open(dialect, root=root, agent=agent, place=place)


def call(library: Library, tool: str, **arguments: object) -> Answer:
    return {one.name: one for one in library.tools()}[tool].call(arguments)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def repository(world: World) -> Path:
    (world.project / ".git").rmdir()
    for command in (["init", "-q"], ["config", "user.email", "a@example.com"], ["config", "user.name", "A"]):
        subprocess.run(["git", *command], cwd=world.project, env=GIT, check=True)
    (world.project / "new file.txt").write_text("x")
    return world.project


@pytest.mark.parametrize("tier", TIERS)
def test_git_status_speaks_of_the_project(world: World, repository: Path, tier: str):
    write(world.home / "skills" / "commit", {"SKILL.md": "---\nname: commit\n---\nChanges:\n!`git status --short`\n"})
    library = opened(world, "umbra", world.home / "skills", tier)

    text = library.activate("commit").text
    assert text == 'Changes:\n?? "new file.txt"'


COMMIT = ["-c", "user.email=a@example.com", "-c", "user.name=A", "commit", "-q", "--allow-empty", "-m", "x"]


def git(*words: str, cwd: Path) -> None:
    subprocess.run(["git", *words], cwd=cwd, env=GIT, check=True, capture_output=True)


def worktree(base: Path, project: Path) -> None:
    """The project is a worktree of a repository elsewhere."""
    git("init", "-q", str(base / "main"), cwd=base)
    git(*COMMIT, cwd=base / "main")
    git("worktree", "add", "-q", str(project), cwd=base / "main")


def submodule(base: Path, project: Path) -> None:
    """The project is a submodule of a repository around it."""
    worktree(base, base / "spare")
    git("init", "-q", str(project.parent), cwd=base)
    allowed = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(base / "main"), project.name)
    git(*allowed, cwd=project.parent)


@pytest.mark.parametrize("kind", [worktree, submodule], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("tier", TIERS)
def test_git_status_speaks_of_a_project_whose_repository_is_elsewhere(tmp_path: Path, tier: str, kind: Callable):
    (tmp_path / "other" / "around").mkdir(parents=True)
    world = World(tmp_path / "home", tmp_path / "other" / "around" / "project", tmp_path / "home" / ".metier")
    world.home.mkdir()
    kind(tmp_path / "other", world.project)
    (world.project / "new file.txt").write_text("x")
    assert (world.project / ".git").is_file()
    write(world.home / "skills" / "commit", {"SKILL.md": "---\nname: commit\n---\n!`git status --short`\n"})

    assert opened(world, "umbra", world.home / "skills", tier).activate("commit").text == '?? "new file.txt"'


REVIEW = """---
name: review-code
description: Review code for quality, style, and potential issues. Use when asked to review code or PRs.
argument-hint: "[file-or-pr]"
---

# Code Review

Review $ARGUMENTS for code quality.

## Steps

1. Read the style guide: `skill_read_file("review-code", "references/style-guide.md")`
2. Run the linter: `skill_run_script("review-code", "lint.sh", "$ARGUMENTS")`
"""


@pytest.mark.parametrize("tier", TIERS)
def test_a_linter_of_agent_md_reads_a_file_of_the_project(world: World, tier: str):
    skills = world.home / "skills"
    write(
        skills / "review-code",
        {
            "SKILL.md": REVIEW,
            "scripts/lint.sh": '#!/bin/bash\ngrep -n "TODO" "$1" && exit 1\nexit 0\n',
            "references/style-guide.md": "Four spaces.\n",
        },
    )
    write(world.project, {"src/app.py": "x = 1\n# TODO: more\n"})
    library = opened(world, "agentmd", skills, tier, agent=["review-code"])
    file = f"{world.project}/src/app.py"

    used = call(library, "skill_use", skill_name="review-code", arguments=file)
    assert f"Review {file} for code quality." in used.messages[0].text
    assert call(library, "skill_read_file", skill_name="review-code", file_path="references/style-guide.md").text
    ran = call(library, "skill_run_script", skill_name="review-code", script_name="lint.sh", script_args=[file])
    assert ran.text == "2:# TODO: more\n[exit code: 1]"


CLAUDE = """---
name: report
description: Reports.
arguments: topic depth
---
Look at ${CLAUDE_SKILL_DIR}/references/notes.md. Topic: $topic.
!`bash ${CLAUDE_SKILL_DIR}/scripts/hello.sh $0`

```!
echo never here
```
"""


@pytest.mark.parametrize("tier", TIERS)
def test_a_skill_of_claude_code_works_in_a_root_of_agent_md_and_what_that_lacks_is_named(world: World, tier: str):
    skills = world.home / "my skills"
    write(skills / "report", {"SKILL.md": CLAUDE, "scripts/hello.sh": 'echo "hello $1 from $PWD"\n'})
    library = opened(world, "agentmd", skills, tier, agent=["report"])

    text = library.activate("report", "world").text
    folder = skills / "report"
    assert f"Look at {folder}/references/notes.md. Topic: $topic." in text
    assert f"hello world from {folder}" in text
    assert "```!\necho never here\n```" in text
    named = [(mark.line, mark.details[0]) for mark in lint(CLAUDE, library.dialect) if mark.code == "foreign-construct"]
    assert sorted(named) == [(6, "$topic"), (9, "```!")]


def test_a_project_skill_is_run_inside_a_boundary_or_not_at_all(world: World):
    root = world.project / "workspace" / "agents" / "skills"
    write(root / "hello", {"SKILL.md": "---\nname: hello\n---\nHello.\n", "scripts/hello.sh": "echo hello\n"})
    world.trust("agentmd")
    place = world.place(env={"PATH": os.environ.get("PATH", ""), "METIER_SANDBOX": "none"})
    library = world.open("agentmd", agent=["hello"], place=place)

    ran = call(library, "skill_run_script", skill_name="hello", script_name="hello.sh")
    assert ran.error
    assert ran.text.startswith("Cannot execute 'hello.sh': there is no sandbox here: METIER_SANDBOX is none")

"""An agent commits where that was allowed, and nothing that git takes orders from can be written on the way."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.agent.talking import call, session, spoken
from tests.home import World

from metier import sandbox
from metier.agent.agent import Agent
from metier.agent.permissions import Permission, PermissionRule
from metier.agent.shell_rules import writes_repository
from metier.testing.models import ScriptedModel
from metier.types.agent import UnattendedRun
from metier.types.event import Used

GIT = Permission(allow=(PermissionRule("run_command", "git *"), PermissionRule("run_command", "cd *")))
ALL = Permission(otherwise="allow")


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(world):
    """A project under git, and a name to commit by in the settings of the home alone."""
    if not sandbox.probe_sandbox().protects:
        pytest.skip("no tier here keeps things inside a folder that may be written")
    git(world.project, "init", "-q", "-b", "main")
    (world.home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    (world.project / "a.txt").write_text("a")
    return world.project


def used(
    world: World, command: str, rules: Permission = GIT, path: str = "", alone: UnattendedRun | None = None
) -> Used:
    env = {"HOME": str(world.home), "PATH": f"{path}/usr/bin:/bin"}
    library = world.open(place=world.place(env=env))
    talk = Agent(
        library, ScriptedModel([call("run_command", command=command), "Done."]), rules=rules, alone=alone
    ).start()
    return next(one for one in spoken(talk, "go") if isinstance(one, Used))


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m x",
        "git add -A && git commit -m 'it costs $5' 2>&1",
        "cd sub && git --no-pager -C . commit --allow-empty -m x; git status",
        "git add *.py",
        "git checkout -b other",
    ],
)
def test_a_line_of_plain_git_may_write_the_repository(command):
    assert writes_repository(command)


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git push",
        "make && git commit -m x",
        "git commit -m x | cat",
        "git commit -m $(cat message)",
        "git commit -m x > .git/commondir",
        "git -c core.hooksPath=hooks commit -m x",
        "git --exec-path=. commit -m x",
        "./git commit -m x",
        "PATH=. git commit -m x",
        "git log --output=x && git commit -m x",
        "git log * && git commit -m x",
        "git add x && git mv x .git/commondir",
        "cd .git && git commit -m x",
        "git $X commit -m x",
        "git rebase --exec evil && git commit -m x",
        "env git commit -m x",
        "git",
        "",
    ],
)
def test_a_line_with_anything_else_in_it_may_not(command):
    assert not writes_repository(command)


def test_a_rule_that_covers_git_lets_the_agent_commit_by_the_users_own_name(world, repository):
    ran = used(world, "git add -A && git commit -q -m 'Add a'")

    assert (ran.error, ran.status, ran.note) == (False, 0, "")
    assert git(repository, "log", "--format=%an %ae %s") == "Ada ada@example.org Add a"
    assert git(repository, "status", "--porcelain") == ""
    assert sorted(one.name for one in repository.iterdir()) == [".git", "a.txt"]


def test_a_yes_does_the_same(world, repository):
    talk, _ = session(world, [call("run_command", command="git add -A"), "Done."])
    spoken(talk, "go", answer="once")

    assert git(repository, "diff", "--cached", "--name-only") == "a.txt"


def test_a_worktree_commits_too(world, repository):
    git(repository, "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "--allow-empty", "-m", "first")
    git(repository, "worktree", "add", "-q", str(world.home / "tree"), "-b", "other")
    (world.home / "tree/b.txt").write_text("b")
    ran = used(replace(world, project=world.home / "tree"), "git add -A && git commit -q -m second")

    assert (ran.status, ran.note) == (0, "")
    assert git(repository, "log", "-1", "--format=%s", "other") == "second"


def test_a_line_that_is_not_git_alone_is_told_why_it_can_not_commit(world, repository):
    ran = used(world, "true && git commit --allow-empty -m x", ALL)

    assert ran.status != 0
    assert "only for plain git commands" in ran.note


def test_nobody_there_commits_nothing(world, repository):
    assert used(world, "git add -A", alone=UnattendedRun()).status != 0
    assert git(repository, "diff", "--cached", "--name-only") == ""


EVIL = """#!/bin/sh
for path in hooks/post-commit config info/attributes config.worktree modules/x worktrees/x remotes/origin branches/x; do
  mkdir -p .git/$(dirname $path); echo evil >> .git/$path
done
rm -rf .git/hooks; mv .git/hooks .git/gone; mv .git gone; mv .git/config .git/old
mkdir .git/rebase-merge; echo 'exec evil' > .git/rebase-merge/git-rebase-todo; echo evil > .git/commondir
echo ran > ran; exit 0
"""


def test_what_a_hook_runs_writes_neither_hooks_nor_settings_nor_what_git_would_run_later(world, repository):
    hook = repository / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(EVIL)
    hook.chmod(0o755)
    before = {path: path.read_bytes() for path in (repository / ".git").rglob("*") if path.is_file()}
    ran = used(world, "git commit -q --allow-empty -m x")

    assert (repository / "ran").exists()  # it is the user's own, and runs
    assert "commondir was removed" in ran.note
    after = {path: path.read_bytes() for path in (repository / ".git").rglob("*") if path.is_file()}
    assert {path: text for path, text in after.items() if path in before} == before
    made = {str(path.relative_to(repository / ".git")).split("/")[0] for path in after.keys() - before.keys()}
    assert made <= {"objects", "refs", "logs", "COMMIT_EDITMSG", "index"}


def test_hooks_that_the_settings_put_into_the_project_stay_as_they_are(world, repository):
    (repository / "githooks").mkdir()
    (repository / "githooks/pre-commit").write_text("mine")
    git(repository, "config", "core.hooksPath", "githooks")
    script = (
        "echo evil > githooks/pre-commit; echo evil > githooks/post-commit; rm -rf githooks; mv githooks gone; true"
    )
    used(world, f"({script}) 2>&1", ALL)

    assert {one.name: one.read_text() for one in (repository / "githooks").iterdir()} == {"pre-commit": "mine"}


def test_a_git_that_lies_in_the_project_is_not_the_one_that_writes(world, repository):
    (repository / "bin").mkdir()
    (repository / "bin/git").write_text("#!/bin/sh\necho evil > .git/evil\n")
    (repository / "bin/git").chmod(0o755)
    ran = used(world, "git add -A", path=f"{repository}/bin:")

    assert ran.status == 0
    assert not (repository / ".git/evil").exists()

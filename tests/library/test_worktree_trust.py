"""A worktree of a trusted repository is trusted with the same content, and nothing can pretend to be one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.home import World, write_skill

from metier.host.worktrees import other_checkouts
from metier.library.trust import (
    make_trust_record,
    project_record,
    read_trust_book,
    revoke_trust,
    trust_skills,
)


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(world: World) -> World:
    (world.project / ".git").rmdir()
    write_skill(world.project / ".metier/skills/one", "It.", "Do it.\n\n!`echo one`\n")
    (world.project / ".metier/config.toml").write_text("[limits]\nlisted = 5\n")
    git(world.project, "init", "-q")
    git(world.project, "add", "-A")
    git(world.project, "commit", "-qm", "one")
    world.trust()
    return world


def worktree(world: World, name: str = "tree") -> World:
    git(world.project, "worktree", "add", "-q", "-b", name, f"../{name}")
    return replace(world, project=world.project.parent / name)


def usable(world: World) -> dict[str, list[str]]:
    return {verdict.skill.name: [mark.code for mark in verdict.findings] for verdict in world.open().verdicts}


def test_a_worktree_with_the_same_content_is_trusted(repository: World) -> None:
    tree = worktree(repository)
    library = tree.open()
    assert [verdict.usable for verdict in library.verdicts] == [True]
    assert not library.problems
    assert library.limits.listed == 5  # its configuration counts too


def test_prose_may_differ_and_what_runs_may_not(repository: World) -> None:
    tree = worktree(repository)
    skill = tree.project / ".metier/skills/one"
    write_skill(skill, "It.", "Do it well.\n\n!`echo one`\n")
    assert usable(tree) == {"one": []}
    write_skill(skill, "It.", "Do it.\n\n!`echo two`\n")
    assert usable(tree) == {"one": ["changed-since-trust"]}
    write_skill(tree.project / ".metier/skills/new", "New.", "New.\n")
    assert usable(tree)["new"] == ["untrusted"]
    (tree.project / ".metier/config.toml").write_text("[limits]\nlisted = 7\n")
    library = tree.open()
    assert library.limits.listed is None
    assert "changed-since-trust" in [problem.code for problem in library.problems]


def test_what_is_trusted_in_a_worktree_is_its_own(repository: World) -> None:
    tree = worktree(repository)
    write_skill(tree.project / ".metier/skills/one", "It.", "Do it.\n\n!`echo two`\n")
    tree.trust()
    assert usable(tree) == {"one": []}
    assert usable(repository) == {"one": []}
    write_skill(repository.project / ".metier/skills/one", "It.", "Do it.\n\n!`echo two`\n")
    assert usable(repository) == {"one": ["changed-since-trust"]}


def test_a_skill_that_is_added_to_a_worktree_leaves_the_others_trusted(repository: World) -> None:
    tree = worktree(repository)
    write_skill(tree.project / ".metier/skills/mine", "Mine.", "Mine.\n")
    mine = [skill for skill in tree.open().skills if skill.name == "mine"]
    trust_skills(str(tree.state), str(tree.project), make_trust_record(str(tree.project), mine, 256_000))
    assert usable(tree) == {"mine": [], "one": []}


def test_a_worktree_may_be_taken_out_of_the_trust(repository: World) -> None:
    tree = worktree(repository)
    revoke_trust(str(tree.state), str(tree.project))
    assert usable(tree) == {"one": ["untrusted"]}
    assert usable(repository) == {"one": []}
    revoke_trust(str(repository.state), str(repository.project))
    assert not read_trust_book(str(repository.state)).get(str(repository.project))


def test_worktrees_of_a_bare_repository_share_their_trust(world: World, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    write_skill(source / ".metier/skills/one", "It.", "Do it.\n\n!`echo one`\n")
    git(source, "init", "-q")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "one")
    git(tmp_path, "clone", "-q", "--bare", "source", "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", "-b", "a", "../a")
    git(tmp_path / "bare.git", "worktree", "add", "-q", "-b", "b", "../b")
    first, second = replace(world, project=tmp_path / "a"), replace(world, project=tmp_path / "b")
    first.trust()
    assert usable(second) == {"one": []}


# --- Pretenders ---


def stranger(world: World) -> World:
    """A folder with the very skills of the trusted repository."""
    folder = world.project.parent / "stranger"
    write_skill(folder / ".metier/skills/one", "It.", "Do it.\n\n!`echo one`\n")
    (folder / ".metier/config.toml").write_text("[limits]\nlisted = 5\n")
    return replace(world, project=folder)


def test_a_copy_is_no_worktree(repository: World) -> None:
    other = stranger(repository)
    (other.project / ".git").mkdir()
    assert usable(other) == {"one": ["untrusted"]}


@pytest.mark.parametrize("pointer", ["/.git", "/.git/worktrees/tree", "/.git/worktrees/none", ""])
def test_a_pointer_that_the_repository_does_not_answer_is_worth_nothing(repository: World, pointer: str) -> None:
    worktree(repository)
    other = stranger(repository)
    (other.project / ".git").write_text(f"gitdir: {repository.project}{pointer}\n")
    assert other_checkouts(str(other.project)) == ()
    assert usable(other) == {"one": ["untrusted"]}


def _own_repository(world: World, folder: Path, *, lists: Path) -> Path:
    """A repository in the stranger's hands: it names the stranger's folder as its worktree, and one more."""
    for name, path in (("here", world.project), ("there", lists)):
        (folder / "worktrees" / name).mkdir(parents=True)
        (folder / "worktrees" / name / "gitdir").write_text(f"{path}/.git\n")
        (folder / "worktrees" / name / "commondir").write_text(f"{lists}/.git\n")
    (folder / "commondir").write_text(f"{lists}/.git\n")
    (folder / "config").write_text(f"[core]\n\tworktree = {lists}\n")
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (world.project / ".git").write_text(f"gitdir: {folder}/worktrees/here\n")
    return folder


def test_a_repository_of_the_strangers_own_can_not_name_a_trusted_checkout(repository: World) -> None:
    other = stranger(repository)
    _own_repository(other, other.project / "inner/.git", lists=repository.project)
    assert str(repository.project) not in other_checkouts(str(other.project))
    assert usable(other) == {"one": ["untrusted"]}


def test_nor_a_trusted_worktree_of_another_repository(repository: World) -> None:
    tree = worktree(repository)
    tree.trust()
    other = stranger(repository)
    _own_repository(other, other.project / "inner/.git", lists=tree.project)
    assert usable(other) == {"one": ["untrusted"]}


def test_links_to_the_trusted_repository_do_not_help(repository: World) -> None:
    other = stranger(repository)
    (other.project / "inner").symlink_to(repository.project)
    (other.project / ".git").write_text("gitdir: inner/.git/worktrees/x\n")
    assert usable(other) == {"one": ["untrusted"]}
    (other.project / ".git").unlink()
    (other.project / ".git").symlink_to(repository.project / ".git")
    assert usable(other) == {"one": ["untrusted"]}


def test_a_submodule_is_no_worktree_of_what_it_lies_in(repository: World) -> None:
    other = stranger(repository)
    module = repository.project / ".git/modules/sub"
    module.mkdir(parents=True)
    (module / "config").write_text(f"[core]\n\tworktree = {other.project}\n")
    (other.project / ".git").write_text(f"gitdir: {module}\n")
    assert other_checkouts(str(other.project)) == ()
    assert usable(other) == {"one": ["untrusted"]}


def test_a_repository_of_which_only_some_skills_are_trusted_lends_nothing(repository: World) -> None:
    tree = worktree(repository)
    revoke_trust(str(repository.state), str(repository.project))
    trust_skills(
        str(repository.state),
        str(repository.project),
        make_trust_record(str(repository.project), repository.open().skills, 256_000),
    )
    assert project_record(str(tree.state), str(tree.project)) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("given", ["", ".git"])
def test_a_worktree_that_somebody_else_made_again_is_worth_nothing(repository: World, given: str) -> None:
    tree = worktree(repository)
    assert usable(tree) == {"one": []}
    # The repository still lists the folder; its owner is another person now.
    os.chown(tree.project / given, 12_345, -1)
    assert other_checkouts(str(tree.project)) == ()
    assert usable(tree) == {"one": ["untrusted"]}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_nor_does_it_lend_its_trust(repository: World) -> None:
    tree, second = worktree(repository), worktree(repository, "second")
    assert str(tree.project) in other_checkouts(str(second.project))
    os.chown(tree.project, 12_345, -1)
    assert other_checkouts(str(second.project)) == (str(repository.project),)


@pytest.mark.parametrize("where", ["gitdir", "commondir"])
def test_a_pipe_in_place_of_a_pointer_is_not_waited_for(repository: World, where: str) -> None:
    tree = worktree(repository)
    worktree(repository, "second")
    pointer = repository.project / ".git/worktrees/second" / where
    pointer.unlink()
    os.mkfifo(pointer)
    asked = "import sys; from metier.host.worktrees import other_checkouts; print(*other_checkouts(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", asked, tree.project], capture_output=True, text=True, timeout=20)
    assert str(repository.project) in done.stdout.split()


def test_a_pointer_of_any_length_is_not_read(repository: World) -> None:
    tree = worktree(repository)
    pointer = repository.project / ".git/worktrees/tree/gitdir"
    pointer.write_text(pointer.read_text() + "x" * 5_000)
    assert other_checkouts(str(tree.project)) == ()

"""Where the repository of a checkout is: only where both sides say so."""

import subprocess
from pathlib import Path

import pytest

from metier.host.git import repository_of


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder that a project would like to be given."""
    folder = tmp_path / "home" / ".ssh"
    folder.mkdir(parents=True)
    (folder / "id_rsa").write_text("key")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_a_worktree_leads_to_its_repository_and_no_further(tmp_path: Path, project: Path):
    for words in (["init", "-q", "main"], ["-C", "main", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "x", "--allow-empty"], ["-C", "main", "worktree", "add", "-q", str(project)]):  # fmt: skip
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    assert repository_of(str(project)) == f"{tmp_path}/main/.git"
    assert repository_of(f"{tmp_path}/main") == ""


@pytest.mark.parametrize("said", ["{0}", "../home/.ssh", "{0}/worktrees/x", "../home", "/", "", "\0", "../missing"])
def test_a_file_that_points_to_any_folder_opens_nothing(project: Path, secret: Path, said: str):
    (project / ".git").write_text(f"gitdir: {said.format(secret)}\n")
    assert repository_of(str(project)) == ""


def test_the_worktree_of_another_project_opens_nothing(tmp_path: Path, project: Path):
    theirs = tmp_path / "main" / ".git" / "worktrees" / "other"
    theirs.mkdir(parents=True)
    (theirs / "gitdir").write_text(f"{tmp_path}/other/.git\n")
    (project / ".git").write_text(f"gitdir: {theirs}\n")
    assert repository_of(str(project)) == ""


def test_the_submodule_of_another_project_opens_nothing(tmp_path: Path, project: Path):
    theirs = tmp_path / "main" / ".git" / "modules" / "other"
    theirs.mkdir(parents=True)
    (theirs / "config").write_text("[core]\n\tworktree = ../../../other\n")
    (project / ".git").write_text(f"gitdir: {theirs}\n")
    assert repository_of(str(project)) == ""


def test_a_link_and_a_folder_and_nothing_open_nothing(tmp_path: Path, project: Path):
    assert repository_of(str(project)) == ""
    (project / ".git").mkdir()
    assert repository_of(str(project)) == ""
    (project / ".git").rmdir()
    (project / ".git").symlink_to(tmp_path / "elsewhere")
    assert repository_of(str(project)) == ""

"""A checkout and its repository, which may lie elsewhere: `.git` is a file there, and says where."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from ..types.errors import HostError
from .paths import is_inside, read_text_file

_SMALL = 65_536


def repository_of(project: str) -> str:
    """The repository of a worktree or a submodule, where it lies outside the project; empty for any other project.

    Anybody can write a `.git` that points to any folder, so the other side must point back to this one.
    """
    said = _lines(f"{project}/.git")[:1]
    if not said or not said[0].startswith("gitdir: ") or os.path.islink(f"{project}/.git"):
        return ""
    own = _real(project, said[0].removeprefix("gitdir: "))
    above = os.path.dirname(own)
    if os.path.basename(above) == "worktrees":
        back = _lines(f"{own}/gitdir")[:1]
        if back and _real(own, back[0]) == _real(project, ".git"):
            return os.path.dirname(above)
        return ""
    settings = [line.partition("=") for line in _lines(f"{own}/config")]
    back = [value.strip().strip('"') for name, _, value in settings if name.strip() == "worktree"]
    return own if back and _real(own, back[-1]) == _real(project, ".") else ""


def repositories(project: str) -> tuple[str, ...]:
    """The folders that git writes for a checkout: its repository and, in a worktree, its own part of that."""
    git = f"{project}/.git"
    if os.path.isdir(git) and not os.path.islink(git) and os.path.isfile(f"{git}/HEAD"):
        return (git,)
    common = repository_of(project)
    if not common:
        return ()
    own = _real(project, _lines(git)[0].removeprefix("gitdir: "))
    return tuple(dict.fromkeys((common, own))) if ".git" in own.split("/") else ()


_ASKED = r"^(user\.name|user\.email|core\.hookspath)$"
_ORDERS = ("commondir", "rebase-merge", "rebase-apply")
"""Of a repository: where git looks for its settings, and what it runs when a rebase goes on.

An empty folder can't stand for these, which git would take for a repository elsewhere or a rebase under way."""


def configured(project: str, env: Mapping[str, str]) -> dict[str, str]:
    """Who commits here and where hooks lie, as the settings of the user and the repository say.  Nothing is run."""
    if not os.path.lexists(f"{project}/.git"):
        return {}
    plain = {name: env[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in env}
    plain["PATH"] = elsewhere(env.get("PATH", os.defpath), project)
    try:
        said = subprocess.run(
            ["git", "config", "--includes", "-z", "--get-regexp", _ASKED], env=plain, cwd=project, timeout=10,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
        ).stdout.decode("utf-8", "replace")  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return {}
    return {key: value for key, _, value in (one.partition("\n") for one in said.split("\0")) if value}


def elsewhere(path: str, project: str) -> str:
    """The folders of a PATH in which a project can't put a git of its own."""
    real = os.path.realpath(project)
    folders = [one for one in path.split(":") if one.startswith("/")]
    return ":".join(one for one in folders if not is_inside(os.path.realpath(one), real))


@contextlib.contextmanager
def sweep(folders: Sequence[str]) -> Iterator[list[str]]:
    """What gives git orders and was not in a repository before is not in it afterwards; a note for each."""
    missing = [path for folder in folders for name in _ORDERS if not os.path.lexists(path := f"{folder}/{name}")]
    notes: list[str] = []
    try:
        yield notes
    finally:
        for path in filter(os.path.lexists, missing):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
            notes.append(f"{path} was taken away: git takes orders from it")


def _lines(path: str) -> list[str]:
    """The lines of a small file; none where there is no such file."""
    try:
        return (read_text_file(path, _SMALL) or "").splitlines()
    except (HostError, ValueError):
        return []


def _real(folder: str, path: str) -> str:
    try:
        return os.path.realpath(os.path.join(folder, path))
    except ValueError:
        return ""

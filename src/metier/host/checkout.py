"""A checkout whose repository lies elsewhere: `.git` is a file there, and says where."""

from __future__ import annotations

import os

from ..types.errors import HostError
from .paths import read_text_file

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

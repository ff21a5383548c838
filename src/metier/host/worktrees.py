"""The other checkouts of a repository, as the repository itself lists them.

A worktree's `.git` is a file that names its repository, and anybody can write one that names a repository of somebody
else.  So nothing counts unless both sides agree: the repository's own list names the worktree, and the worktree names
the repository.  `commondir` and `core.worktree` are not read: they are one side's word.  A repository keeps listing a
worktree that is gone, and whoever makes a folder of that path could name the repository in it; so both must have the
same owner too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..types.errors import HostError
from .git import repository_of
from .paths import read_text_file

_MOST_WORKTREES = 200
_MOST_BYTES = 4_096
"""Of a file that names a folder."""


def other_checkouts(project: str) -> tuple[str, ...]:
    """For a worktree, the real paths of the other checkouts of its repository; none for any other folder."""
    if not os.path.isfile(f"{project}/.git"):
        return ()
    common = repository_of(project)
    # A submodule has a repository of its own, which is nobody's worktree.
    if not common or not _is_listed(common, project) or not _same_owner(common, project):
        return ()
    here = os.path.realpath(project)
    return tuple(dict.fromkeys(path for path in _checkouts(common) if path != here))


def _is_listed(common: str, project: str) -> bool:
    return os.path.realpath(project) in _listed_worktrees(common)


def _same_owner(common: str, worktree: str) -> bool:
    """Whether the owner of a repository owns a worktree of it: the folder, and the file that names the repository."""
    try:
        owners = {os.lstat(path).st_uid for path in (common, os.path.realpath(worktree), f"{worktree}/.git")}
    except OSError:
        return False
    return len(owners) == 1


def _checkouts(common: str) -> Iterator[str]:
    main = os.path.dirname(common)
    if os.path.basename(common) == ".git" and os.path.realpath(f"{main}/.git") == common:
        yield main
    for worktree in _listed_worktrees(common):
        # The list may be a stranger's, and name a folder that never heard of it.
        if repository_of(worktree) == common and _same_owner(common, worktree):
            yield worktree


def _listed_worktrees(common: str) -> list[str]:
    """The folders that a repository says are its worktrees."""
    try:
        names = sorted(os.listdir(f"{common}/worktrees"))[:_MOST_WORKTREES]
    except OSError:
        return []
    found = []
    for name in names:
        try:
            # Only a regular file is read: a pipe in its place would never answer.
            text = read_text_file(f"{common}/worktrees/{name}/gitdir", _MOST_BYTES) or ""
        except HostError:
            continue
        pointer = text.partition("\n")[0]
        if pointer.endswith("/.git") and "\0" not in pointer:
            found.append(os.path.realpath(os.path.join(common, "worktrees", name, pointer.removesuffix("/.git"))))
    return found

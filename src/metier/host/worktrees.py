"""The other checkouts of a repository, as the repository itself lists them.

A worktree's `.git` is a file that names its repository, and anybody can write one that names a repository of somebody
else.  So nothing counts unless both sides agree: the repository's own list names the worktree, and the worktree names
the repository.  `commondir` and `core.worktree` are not read: they are one side's word.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from .git import repository_of

_MOST_WORKTREES = 200


def other_checkouts(project: str) -> tuple[str, ...]:
    """For a worktree, the real paths of the other checkouts of its repository; none for any other folder."""
    if not os.path.isfile(f"{project}/.git"):
        return ()
    common = repository_of(project)
    # A submodule has a repository of its own, which is nobody's worktree.
    if not common or not _is_listed(common, project):
        return ()
    here = os.path.realpath(project)
    return tuple(dict.fromkeys(path for path in _checkouts(common) if path != here))


def _is_listed(common: str, project: str) -> bool:
    return os.path.realpath(project) in _listed_worktrees(common)


def _checkouts(common: str) -> Iterator[str]:
    main = os.path.dirname(common)
    if os.path.basename(common) == ".git" and os.path.realpath(f"{main}/.git") == common:
        yield main
    for worktree in _listed_worktrees(common):
        # The list may be a stranger's, and name a folder that never heard of it.
        if repository_of(worktree) == common:
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
            with open(f"{common}/worktrees/{name}/gitdir", encoding="utf-8", errors="surrogateescape") as file:
                pointer = file.readline(4_096).rstrip("\n")
        except OSError:
            continue
        if pointer.endswith("/.git"):
            found.append(os.path.realpath(os.path.join(common, "worktrees", name, pointer.removesuffix("/.git"))))
    return found

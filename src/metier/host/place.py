"""Facts about where we are: the working folder, the project, the home, and what skills ask about."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

from ..types.errors import BadRequest
from ..types.place import Place
from ..types.verdict import Facts


def here(path: str = ".", profile: str = "") -> Place:
    """The place a path names.  Nothing in it is read: only whether `.git` is there."""
    cwd = os.path.abspath(path)
    if not os.path.isdir(cwd):
        raise BadRequest(f"{path} is not a folder", "give the folder of your project", path)
    if profile and ("/" in profile or profile.startswith(".") or "\0" in profile):
        raise BadRequest(f"`{profile}` is not the name of a profile", "give a name without `/`")
    home = os.environ.get("HOME") or os.path.expanduser("~")
    home = home.rstrip("/") or "/"
    state = os.environ.get("METIER_HOME") or home.rstrip("/") + "/.metier"
    return Place(cwd, _project(cwd, home), home, os.path.abspath(state), os.environ, sys.platform, profile)


def _project(cwd: str, home: str) -> str:
    """The nearest folder with `.git`; the home folder is nobody's project unless it is where we stand."""
    at = cwd
    while True:
        if os.path.lexists(at + "/.git"):
            return at
        parent = os.path.dirname(at)
        if parent == at or at == home:
            return cwd
        at = parent


def facts(binaries: Iterable[str], names: Iterable[str], env: Mapping[str, str], platform: str) -> Facts:
    """What is true here of the binaries and variables that skills ask about."""
    present = frozenset(binary for binary in binaries if has_binary(binary, env.get("PATH", "")))
    names = [name for name in names if name in env]
    return Facts(
        platform,
        present,
        frozenset(name for name in names if env[name]),
        frozenset(name for name in names if not env[name]),
    )


def has_binary(name: str, path: str) -> bool:
    """Whether an executable file of that name is on the path.  It is looked up, never run."""
    if not name or "/" in name or "\\" in name or "\0" in name or name in (".", ".."):
        return False
    for folder in path.split(os.pathsep):
        candidate = (folder or ".") + "/" + name
        try:
            if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
                return True
        except ValueError:
            return False
    return False

"""Facts about where we are: the working folder, the project, the home, and what skills ask about."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

from ..types.errors import BadRequest
from ..types.place import Place
from ..types.verdict import Facts
from .memo import has_binary as has_binary


def here(path: str = ".", profile: str = "") -> Place:
    """The place a path names.  Nothing in it is read: only whether `.git` is there."""
    try:
        cwd = os.path.abspath(path)
    except FileNotFoundError:
        raise BadRequest("the working folder is gone", "change to a folder that is there", path) from None
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

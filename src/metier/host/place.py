"""Facts about where we are: the working folder, the project, the home, and what skills ask about."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

from ..types.errors import BadRequest, HostError
from ..types.place import Place
from ..types.verdict import Facts
from .memo import has_binary as has_binary
from .memo import search_path


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
    home = _home()
    state = os.environ.get("METIER_HOME") or home.rstrip("/") + "/.metier"
    if state.startswith("~/"):
        state = home.rstrip("/") + state[1:]
    cwd = _as_home_says(cwd, home)
    state = os.path.abspath(state)
    return Place(cwd, _project(cwd, home), home, state, _environment(state), sys.platform, profile)


def _environment(state: str) -> Mapping[str, str]:
    """The environment; where metier has installed programs of its own, they are found as well."""
    path = os.environ.get("PATH", "")
    wider = search_path(path, state)
    return os.environ if wider == path else {**os.environ, "PATH": wider}


def is_superuser() -> bool:
    return os.getuid() == 0


def _home() -> str:
    """HOME, or what the system says of this user.  Never a relative path: that would be another one everywhere."""
    home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        import pwd  # hardly ever needed

        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            home = ""
    if home.startswith("/"):
        return home.rstrip("/") or "/"
    if os.environ.get("METIER_HOME"):
        return "/nonexistent"
    raise HostError("there is no home folder to keep anything in", "set HOME, or METIER_HOME")


def _as_home_says(cwd: str, home: str) -> str:
    """The working folder spelled through the home, when the home is a link: it is the same folder, not a project's."""
    if cwd == home or cwd.startswith(home.rstrip("/") + "/"):
        return cwd
    real = os.path.realpath(home)
    if real != home and (cwd == real or cwd.startswith(real.rstrip("/") + "/")):
        return home + cwd[len(real.rstrip("/")) :]
    return cwd


def _project(cwd: str, home: str) -> str:
    """The nearest folder with `.git`; the home folder is nobody's project unless it is where we stand."""
    at = cwd
    while True:
        if at == home and at != cwd:
            return cwd
        if os.path.lexists(at + "/.git"):
            return at
        parent = os.path.dirname(at)
        if parent == at or at == home:
            return cwd
        at = parent


def facts(binaries: Iterable[str], names: Iterable[str], env: Mapping[str, str], platform: str) -> Facts:
    """What is true here of the binaries and variables that skills ask about."""
    present = frozenset(binary for binary in binaries if has_binary(binary, env.get("PATH", "")))
    names = [name for name in names if _can_be_set(name) and name in env]
    return Facts(
        platform,
        present,
        frozenset(name for name in names if env[name]),
        frozenset(name for name in names if not env[name]),
    )


def _can_be_set(name: str) -> bool:
    """Whether a variable of that name can be at all: frontmatter may ask for one that no system can hold."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

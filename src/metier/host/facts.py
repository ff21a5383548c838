"""The wall clock, the zone it shows, and chance."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping

from ..types.errors import BadRequest, HostError
from ..types.place import Place
from ..types.verdict import Facts
from .lookup import has_binary, search_path

now_ns = time.time_ns
monotonic = time.monotonic
sleep = time.sleep


def sortable_timestamp() -> str:
    """Now, as a name that sorts: `20260801T093000.123456Z`."""
    now = time.time_ns()
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 1_000_000_000)) + f".{now % 1_000_000_000 // 1000:06d}Z"


def utc_timestamp() -> str:
    """Now, as a lock has it: `2026-08-01T09:30:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def format_utc_time(at: int) -> str:
    """A second, in the same words."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def zone_name() -> str:
    """The zone of this machine, by name; UTC where nobody says."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named and not named.startswith("/"):
        return named
    try:
        target = os.path.realpath("/etc/localtime")
    except OSError:
        return "UTC"
    _, separator, zone = target.partition("/zoneinfo/")
    return zone if separator else "UTC"


def local_stamp(at_ns: int) -> str:
    """A moment as `20260131-235959`, in the time of this machine."""
    return time.strftime("%Y%m%d-%H%M%S", time.localtime(at_ns / 1e9))


def new_name() -> str:
    """A name for what begins now: it sorts by when, down to a part of a second, with a word against chance."""
    now = now_ns()
    return f"{local_stamp(now)}-{now % 1_000_000_000 * 4096 // 1_000_000_000:03x}{random_hex(2)[1:]}"


def format_local_time(at: float) -> str:
    """A moment as a person reads it, in the time of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def random_hex(size: int) -> str:
    return os.urandom(size).hex()


def find_place(path: str = ".", profile: str = "") -> Place:
    """The place a path names.  Nothing in it is read: only whether `.git` is there."""
    try:
        cwd = os.path.abspath(path)
    except FileNotFoundError:
        raise BadRequest("the working folder is gone", "change to a folder that is there", path) from None
    if not os.path.isdir(cwd):
        raise BadRequest(f"{path} is not a folder", "give the folder of your project", path)
    if profile and ("/" in profile or profile.startswith(".") or "\0" in profile):
        raise BadRequest(f"`{profile}` is not the name of a profile", "give a name without `/`")
    home = _home_folder()
    state = os.environ.get("METIER_HOME") or home.rstrip("/") + "/.metier"
    if state.startswith("~/"):
        state = home.rstrip("/") + state[1:]
    cwd = _spell_through_home(cwd, home)
    state = os.path.abspath(state)
    return Place(cwd, _project_folder(cwd, home), home, state, _extended_environment(state), sys.platform, profile)


def _extended_environment(state: str) -> Mapping[str, str]:
    """The environment; where metier has installed programs of its own, they are found as well."""
    path = os.environ.get("PATH", "")
    wider = search_path(path, state)
    return os.environ if wider == path else {**os.environ, "PATH": wider}


def is_superuser() -> bool:
    return os.getuid() == 0


def _home_folder() -> str:
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


def _spell_through_home(cwd: str, home: str) -> str:
    """The working folder spelled through the home, when the home is a link: it is the same folder, not a project's."""
    if cwd == home or cwd.startswith(home.rstrip("/") + "/"):
        return cwd
    real = os.path.realpath(home)
    if real != home and (cwd == real or cwd.startswith(real.rstrip("/") + "/")):
        return home + cwd[len(real.rstrip("/")) :]
    return cwd


def _project_folder(cwd: str, home: str) -> str:
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


def gather_facts(binaries: Iterable[str], names: Iterable[str], env: Mapping[str, str], platform: str) -> Facts:
    """What is true here of the binaries and variables that skills ask about."""
    present = frozenset(binary for binary in binaries if has_binary(binary, env.get("PATH", "")))
    names = [name for name in names if _is_settable_name(name) and name in env]
    return Facts(
        platform,
        present,
        frozenset(name for name in names if env[name]),
        frozenset(name for name in names if not env[name]),
    )


def _is_settable_name(name: str) -> bool:
    """Whether a variable of that name can be at all: frontmatter may ask for one that no system can hold."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def usable_cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""What is true of this machine right now: the clock, chance, where we stand, and which programs there are.

The command line asks some of this before it has loaded anything else, so this module imports only what every
interpreter has loaded; the types it returns are imported where they are made.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False  # `typing` itself costs more to import than this module
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ..types.place import Place
    from ..types.verdict import Facts

# --- Clock and chance ---

now_ns = time.time_ns
monotonic = time.monotonic
sleep = time.sleep
thread_seconds = time.thread_time


def sortable_timestamp() -> str:
    """The current time in UTC as a name that sorts: `20260801T093000.123456Z`."""
    now = time.time_ns()
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 1_000_000_000)) + f".{now % 1_000_000_000 // 1000:06d}Z"


def utc_timestamp() -> str:
    """The current time as lock files record it: `2026-08-01T09:30:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def format_utc_time(at: int) -> str:
    """A Unix time in seconds, in the format of `utc_timestamp`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def local_stamp(at_ns: int) -> str:
    """A time as `20260131-235959`, in the local zone."""
    return time.strftime("%Y%m%d-%H%M%S", time.localtime(at_ns / 1e9))


def format_local_time(at: float) -> str:
    """A Unix time for people to read, in the local zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def zone_name() -> str:
    """The IANA name of the local time zone; UTC if the system does not say."""
    zone = os.environ.get("TZ", "").removeprefix(":")
    if zone and not zone.startswith("/"):
        return zone
    try:
        target = os.path.realpath("/etc/localtime")
    except OSError:
        return "UTC"
    _, separator, zone = target.partition("/zoneinfo/")
    return zone if separator else "UTC"


def new_name() -> str:
    """A unique name that sorts by creation time, to a quarter of a millisecond."""
    now = now_ns()
    # Three digits of 1/4096 s and three random ones: two names from one moment still differ.
    return f"{local_stamp(now)}-{now % 1_000_000_000 * 4096 // 1_000_000_000:03x}{random_hex(2)[1:]}"


def random_hex(size: int) -> str:
    """Random bytes from the system's generator, as hexadecimal digits."""
    return os.urandom(size).hex()


# --- Place: the working folder, its project and the user ---


def find_place(path: str = ".", profile: str = "") -> Place:
    """The place a path names.  Reads nothing in it but whether `.git` exists."""
    from ..types.errors import BadRequest
    from ..types.place import Place

    try:
        cwd = os.path.abspath(path)
    except FileNotFoundError:
        raise BadRequest("the working folder no longer exists", "change to an existing folder", path) from None
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


def _home_folder() -> str:
    """HOME, or the user's entry in the password database; always absolute."""
    home = os.environ.get("HOME", "")
    if not home.startswith("/"):  # a relative HOME would mean another folder wherever we run
        import pwd  # rarely needed

        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            home = ""
    if home.startswith("/"):
        return home.rstrip("/") or "/"
    if os.environ.get("METIER_HOME"):
        return "/nonexistent"
    from ..types.errors import HostError

    raise HostError("there is no home folder to keep state in", "set HOME or METIER_HOME")


def _spell_through_home(cwd: str, home: str) -> str:
    """The working folder written as a path beneath HOME if HOME is a link to a folder above it."""
    if cwd == home or cwd.startswith(home.rstrip("/") + "/"):
        return cwd
    real = os.path.realpath(home)
    if real != home and (cwd == real or cwd.startswith(real.rstrip("/") + "/")):
        return home + cwd[len(real.rstrip("/")) :]
    return cwd


def _project_folder(cwd: str, home: str) -> str:
    """The nearest folder with `.git`, or the working folder."""
    folder = cwd
    while True:
        # A home under version control (dotfiles) is not the project of everything beneath it.
        if folder == home and folder != cwd:
            return cwd
        if os.path.lexists(folder + "/.git"):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder or folder == home:
            return cwd
        folder = parent


def _extended_environment(state: str) -> Mapping[str, str]:
    """The environment, with the programs that metier installed on PATH."""
    path = os.environ.get("PATH", "")
    extended = search_path(path, state)
    return os.environ if extended == path else {**os.environ, "PATH": extended}


def is_superuser() -> bool:
    return os.getuid() == 0


def usable_cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- Programs and variables that skills require ---


def gather_facts(binaries: Iterable[str], names: Iterable[str], env: Mapping[str, str], platform: str) -> Facts:
    """Which of the binaries and variables that skills require are here."""
    from ..types.verdict import Facts

    present = frozenset(binary for binary in binaries if has_binary(binary, env.get("PATH", "")))
    names = [name for name in names if _is_settable_name(name) and name in env]
    return Facts(
        platform,
        present,
        frozenset(name for name in names if env[name]),
        frozenset(name for name in names if not env[name]),
    )


def _is_settable_name(name: str) -> bool:
    """Whether the system can hold a variable of that name: frontmatter may contain any text."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def search_path(path: str, state: str) -> str:
    """PATH, followed by the folder of the programs that metier installed."""
    tools_folder = state + "/tools/bin"
    return f"{path}:{tools_folder}" if os.path.isdir(tools_folder) else path


def has_binary(name: str, path: str) -> bool:
    """Whether PATH has an executable file of that name.  Nothing is run."""
    return bool(which(name, path))


def which(name: str, path: str) -> str:
    """The first executable file of that name on PATH; empty if there is none."""
    # `shutil.which` takes longer to import than the lookup takes, and accepts names with slashes.
    if not name or not path or "/" in name or "\\" in name or "\0" in name or name in (".", ".."):
        return ""
    for folder in path.split(os.pathsep):
        candidate = (folder or ".") + "/" + name
        try:
            if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
                return candidate
        except ValueError:
            return ""
    return ""


# --- The index, asked before anything else is loaded ---


def query_index(path: str, version: int, query: str, values: tuple[object, ...]) -> list[Any]:
    """The rows of one read-only query; none if the index is missing, busy, damaged or of another version."""
    import sqlite3

    try:
        connection = sqlite3.connect(f"file:{_quote_uri_path(path)}?mode=ro", uri=True, timeout=0.05)
    except sqlite3.Error:
        return []
    try:
        if connection.execute("PRAGMA user_version").fetchall() != [(version,)]:
            return []
        return connection.execute(query, values).fetchall()
    except sqlite3.Error:
        return []
    finally:
        connection.close()


def _quote_uri_path(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")

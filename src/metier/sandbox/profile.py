"""What a program in a sandbox sees: the program itself, the system, the paths it was granted, and what stays closed.

A grant is bound by its real path, so that no link leads past what is hidden or guarded.  Inside a writable folder,
what other programs obey (`obeyed`) stays read-only if it is there.  Nothing is put into the folder to keep the rest
from being made: `quarantine` moves that away.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from ..host.git import git_target
from ..host.paths import is_inside
from ..host.process import executables_on_path
from ..types.errors import BadRequest, Refused
from ..types.sandbox import ProgramSpec, SandboxSpec
from .obeyed import PROTECTED, obeyed_names
from .scan import FoundEntry, GrantScan, scan_grant

# --- Choosing the program ---

_SYSTEM = ("/usr", "/opt", "/nix/store", "/bin", "/sbin")
_INTERPRETER = re.compile(r"python[0-9.]*|node|deno|bun|bash|sh").fullmatch
_FALLBACK = ("/usr/local/bin", "/usr/bin", "/bin")


class ChosenProgram(NamedTuple):
    """A program, the folders it needs besides the system's, and a note on the choice."""

    path: str
    prefixes: tuple[str, ...] = ()
    note: str = ""


def choose_program(name: str, path: str, cwd: str, granted: Iterable[str], homes: Iterable[str]) -> ChosenProgram:
    """The program that a name means; an interpreter that can't be made visible is replaced by the system's."""
    granted, homes = tuple(granted), tuple(homes)
    candidates = [os.path.join(cwd, name)] if "/" in name else list(executables_on_path(name, path, cwd))
    for candidate in candidates:
        if chosen := _fit_candidate(candidate, granted, homes):
            return chosen._replace(note=_substitution_note(chosen.path, candidates[0]))
    # Only an interpreter named by its path has a substitute: a virtual environment's python is as good as the system's.
    plain = os.path.basename(name)
    if "/" not in name or _INTERPRETER(plain):
        for folder in _FALLBACK:
            for spelled in (plain, plain.rstrip("0123456789.") + "3" * plain.startswith("python")):
                if chosen := _fit_candidate(f"{folder}/{spelled}", granted, homes):
                    return chosen._replace(note=_substitution_note(chosen.path, *candidates[:1]))
    return ChosenProgram("")


def _substitution_note(path: str, requested: str = "") -> str:
    same = not requested or path == os.path.normpath(requested)
    return "" if same else f"{path} was run: {requested} is not visible in the sandbox"


def current_python() -> str:
    """The interpreter that runs us, and scripts."""
    return sys.executable or "/usr/bin/python3"


def _fit_candidate(candidate: str, granted: tuple[str, ...], homes: tuple[str, ...]) -> ChosenProgram | None:
    """The candidate with the folders it needs; None if one of them can't be made visible."""
    if not os.access(candidate, os.X_OK) or os.path.isdir(candidate):
        return None
    candidate = os.path.normpath(candidate)
    real = os.path.realpath(candidate)
    needed = []
    for step in (*_link_hops(candidate), real):
        if _is_below(step, (*_SYSTEM, *granted)):
            continue
        prefix = _install_prefix(step, homes) if _INTERPRETER(os.path.basename(candidate)) else ""
        if not prefix or not _is_binary(real):
            return None
        needed.append(prefix)
    if needed and os.path.samefile(real, os.path.realpath(current_python())):
        needed += [folder for folder in (sys.prefix, sys.base_prefix) if not _is_below(folder, (*_SYSTEM, *needed))]
    return ChosenProgram(candidate, tuple(dict.fromkeys(needed)))


def _link_hops(path: str) -> Iterable[str]:
    """The path, and each path that a link at its end leads to."""
    for _ in range(40):
        yield path
        if not os.path.islink(path):
            return
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(is_inside(path, folder) for folder in folders)


def _install_prefix(path: str, homes: tuple[str, ...]) -> str:
    """The folder that a program was installed in; empty if it holds more than the program, such as a home."""
    folder, last = os.path.split(os.path.dirname(path))
    # A prefix at the root of the file system would show too much.
    if last != "bin" or folder.count("/") < 2:
        return ""
    return "" if any(_is_below(home, (folder,)) for home in homes) or folder.endswith("/.local") else folder


def _is_binary(path: str) -> bool:
    """Whether it is a binary of Linux or macOS, not a script that would need another interpreter."""
    try:
        with open(path, "rb") as file:
            return file.read(4) in (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
    except OSError:
        return False


# --- Placeholders of earlier versions ---

_PLACEHOLDER_MODE = 0o1555
"""The mode of the empty folders that earlier versions mounted on: an unlikely one for any other."""
_PLACEHOLDER_NAMES = tuple(dict.fromkeys(name.split("/")[0] for name in PROTECTED if name.startswith(".")))


def _remove_placeholders(folder: str) -> None:
    """Remove what an earlier version left in a folder when it was killed, and nothing else."""
    with contextlib.suppress(OSError):
        for name in set(os.listdir(folder)).intersection(_PLACEHOLDER_NAMES):
            with contextlib.suppress(OSError):
                if stat.S_IMODE(os.lstat(f"{folder}/{name}").st_mode) == _PLACEHOLDER_MODE:
                    os.rmdir(f"{folder}/{name}")


# --- What is visible, hidden and guarded ---

AccessKind: TypeAlias = Literal["hide", "guard", "read", "write", "link"]

SYSTEM = ("/usr", "/opt", "/nix/store")
"""Programs and libraries, which every user of the machine may read."""
LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/ssl/openssl.cnf",
    "/etc/fonts",
    "/etc/inputrc",
    "/etc/locale.alias",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/perl",
    "/etc/protocols",
    "/etc/services",
    "/etc/terminfo",
    "/etc/timezone",
)
"""Settings without secrets that programs read: under Landlock one that is there and can't be read is an error."""
NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs", "/etc/pki/tls", "/etc/gai.conf")
PRIVATE = (
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".password-store",
    ".mozilla",
    ".metier",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".config/google-chrome",
    ".config/chromium",
    ".local/share/keyrings",
    ".cargo/credentials.toml",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    "Library/Keychains",
    "Library/Cookies",
    "Library/Application Support/Firefox",
    "Library/Application Support/Google/Chrome",
)
"""Paths beneath a home that stay hidden even if the home may be read."""
IN_GIT = ("hooks", "config", "config.worktree", "modules", "worktrees", "info", "remotes", "branches")
"""The same for a writable folder that is a `.git`, or part of one."""
_IN_GIT_IF_THERE = ("commondir", "gitdir", "rebase-merge", "rebase-apply")
"""Guarded only if they exist: git would misread an empty placeholder (see `git.py`)."""
_NEVER_GRANTED = (
    *("/", "/proc", "/sys", "/dev", "/run", "/boot", "/etc", "/usr", "/var", "/home"),
    *("/Users", "/System", "/System/Volumes/Data", "/Library", "/Volumes", "/private", "/private/etc", "/private/var"),
)


def system_settings(network: bool) -> tuple[str, ...]:
    """The settings of the machine that every program may read, and those of its Pythons.

    Distributions link files of an interpreter into /etc, such as Debian its `sitecustomize.py`.
    """
    with contextlib.suppress(OSError):
        pythons = [f"/etc/{name}" for name in sorted(os.listdir("/etc")) if name.startswith("python3")]
        return (*ETC, *pythons, *(NETWORK if network else ()))
    return (*ETC, *(NETWORK if network else ()))


@dataclass(frozen=True)
class PathAccess:
    """One path and what may be done with it; a link leads to a path that is visible itself."""

    path: str
    kind: AccessKind


@dataclass(frozen=True)
class SandboxView:
    """Everything a program sees."""

    seen: tuple[PathAccess, ...]
    """Outer paths before inner ones, as they are mounted."""
    program: str
    argv: tuple[str, ...]
    cwd: str
    work: str
    env: Mapping[str, str] = field(repr=False)
    writes: tuple[str, ...] = ()
    """Writable folders besides the work folder."""
    pinned: tuple[str, ...] = ()
    """Writable folders that must stay where they are, because of what is closed in them."""
    note: str = ""
    scans: tuple[GrantScan, ...] = ()
    """What other programs obey in the writable folders, before the program runs."""
    missing: tuple[str, ...] = ()
    """What is guarded by its path and does not exist."""


def build_view(
    program: ProgramSpec, box: SandboxSpec, work: str, homes: Iterable[str], chosen: ChosenProgram | None = None
) -> SandboxView:
    """What a program in a sandbox sees; it may always write `work`.  Without `chosen` the machine's program is run."""
    allowed = box.permissions
    grants: dict[str, AccessKind] = {}
    links: set[str] = set()
    for path in filter(None, (box.skill, *allowed.read)):
        grants[_resolve_grant(path, links)] = "read"
    # After the reads: a path granted for both is writable.
    for path in filter(None, (*allowed.write, work)):
        grants[_resolve_grant(path, links)] = "write"
    cwd, work = os.path.normpath(program.cwd or work or "/tmp"), work and os.path.realpath(work)
    seen_as = (*grants, *links)
    chosen = chosen or choose_program(program.argv[0], program.env.get("PATH", os.defpath), cwd, seen_as, homes)
    for path in chosen.prefixes:
        grants.setdefault(path, "read")
    shut = [os.path.realpath(path) for path in box.hidden]
    hidden = [*shut, *(os.path.realpath(f"{home}/{name}") for home in homes for name in PRIVATE)]
    kept_paths = [os.path.realpath(path) for path in (*box.kept, *own_folders())]
    protected = tuple(dict.fromkeys((*PROTECTED, *box.protected)))
    guards = _guarded_paths(grants, work, hidden, kept_paths, protected)
    laid = {**guards.paths, **_paths_inside(grants, hidden, "hide"), **grants}
    # Grants win over the general lists above, so that a person can open a hidden folder by name.
    laid |= {path: "hide" for path in shut if path in grants and path != work}  # no grant opens what the caller hides
    if cwd != "/tmp" and not any(is_inside(cwd, path) for path in (*grants, *links, *SYSTEM)):
        raise Refused(
            f"the program would run in {cwd}, which is not visible in the sandbox",
            "grant that folder, or run it elsewhere",
            cwd,
        )
    laid |= dict.fromkeys(_missing_links(links, (*grants, *SYSTEM, *LINKS)), "link")
    accesses = tuple(PathAccess(path, laid[path]) for path in sorted(laid, key=lambda path: path.split("/")))
    writes = tuple(path for path, kind in grants.items() if kind == "write" and path != work)
    argv, env = (chosen.path, *program.argv[1:]), _inner_environment(program.env, work, seen_as)
    pinned, missing = tuple(_pinned_folders(laid)), tuple(path for path in guards.missing if path not in grants)
    view = SandboxView(accesses, chosen.path, argv, cwd, work, env, writes, pinned, chosen.note)
    return replace(view, scans=tuple(guards.scans), missing=missing)


def own_folders() -> tuple[str, ...]:
    """Where metier itself lies: the next program would be started by what one wrote there, outside every sandbox."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    packages = [path for path in sys.path if path.endswith(("/site-packages", "/dist-packages"))]
    return tuple(dict.fromkeys((package, sys.prefix, sys.base_prefix, *packages)))


def _pinned_folders(laid: Mapping[str, AccessKind]) -> Iterator[str]:
    """The folders between a writable one and what is closed: moved away, another could take its place."""
    found: set[str] = set()
    for path, kind in laid.items():
        if kind == "link" or (kind == "guard" and not os.path.lexists(path)):
            continue
        around = os.path.dirname(path)
        between = []
        while around not in laid and around != "/":
            between.append(around)
            around = os.path.dirname(around)
        if laid.get(around) == "write":
            found.update(between)
    return iter(sorted(found, key=lambda path: path.split("/")))


def mounted_paths(view: SandboxView) -> list[PathAccess]:
    """What is mounted, outer paths before inner ones.  A folder is pinned by mounting it on itself."""
    there = (access for access in view.seen if access.kind != "guard" or os.path.lexists(access.path))
    mounts = [*there, *(PathAccess(path, "write") for path in view.pinned)]
    return sorted(mounts, key=lambda access: access.path.split("/"))


def _resolve_grant(path: str, links: set[str]) -> str:
    """The real path of a grant; refused if it would open the whole machine."""
    if not path.startswith("/") or "\0" in path:
        raise BadRequest(f"`{path}` is not an absolute path", "give an absolute path")
    path = "/" + os.path.normpath(path).lstrip("/")
    real = os.path.realpath(path)
    for spelling in (path, real):
        if spelling in _NEVER_GRANTED or spelling.startswith(("/proc/", "/sys/", "/dev/")):
            raise Refused(f"{spelling} is never opened to a sandboxed program", "grant only the folder it needs", path)
    if real != path:
        links.add(path)
    return real


def _missing_links(links: Iterable[str], visible: Iterable[str]) -> list[str]:
    """The links that no visible folder already contains."""
    missing: list[str] = []
    for path in sorted(links):
        if not any(is_inside(path, folder) for folder in (*visible, *missing)):
            missing.append(path)
    return missing


def _paths_inside(grants: Mapping[str, AccessKind], paths: Iterable[str], kind: AccessKind) -> dict[str, AccessKind]:
    """Those of the paths that exist and that a grant would open."""
    return {path: kind for path in paths if path not in grants and _is_below(path, grants) and os.path.lexists(path)}


def _is_kept(path: str, folder: str) -> bool:
    """Whether a path to keep lies inside a folder and can exist there."""
    return path != folder and is_inside(path, folder) and os.path.isdir(os.path.dirname(path))


@dataclass
class _Guards:
    """What stays read-only inside writable folders, except the work folder, which is private."""

    paths: dict[str, AccessKind] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    """Those that do not exist and are in no table: a program that makes one is found by its path."""
    scans: list[GrantScan] = field(default_factory=list)

    def add(self, path: str, folder: str, listed: bool = False) -> None:
        if os.path.islink(path):
            raise Refused(
                f"{path} is a link, which can't be protected while {folder} is writable",
                "grant a folder without it, or replace the link by the real folder",
                path,
            )
        self.paths[path] = "guard"
        if not listed and not os.path.lexists(path):
            self.missing.append(path)


def _guarded_paths(
    grants: Mapping[str, AccessKind],
    work: str,
    hidden: Sequence[str],
    kept_paths: Sequence[str],
    protected: tuple[str, ...],
) -> _Guards:
    guards = _Guards()
    for folder, kind in grants.items():
        if kind != "write" or folder == work or not os.path.isdir(folder):
            continue
        inner = [path for path in kept_paths if _is_kept(path, folder)]
        inner += [path for path in hidden if os.path.dirname(path) == folder and not os.path.lexists(path)]
        if ".git" in folder.split("/"):
            inner += [f"{folder}/{name}" for name in IN_GIT]
            inner += [path for name in _IN_GIT_IF_THERE if os.path.lexists(path := f"{folder}/{name}")]
        else:
            _guard_listed(guards, folder, grants, hidden, protected)
        for path in inner:
            if path not in grants:
                guards.add(path, folder)
    return guards


def _guard_listed(
    guards: _Guards, folder: str, grants: Mapping[str, AccessKind], hidden: Sequence[str], protected: tuple[str, ...]
) -> None:
    """Guard what programs of the user's obey in a folder, wherever it is in there."""
    _remove_placeholders(folder)
    scan = scan_grant(folder, obeyed_names(protected), frozenset((*hidden, *grants)) - {folder})
    guards.scans.append(scan)
    listed = [path for name in protected if (path := _guard_path(folder, name))]
    for path, entry in scan.found:
        if entry.row.kept and not (entry.target and os.path.dirname(path) != folder):
            listed.append(path)
        # A link further in is put back if a program replaces it; where it leads to can be closed.
        listed += [target for target in _obeyed_targets(path, entry) if is_inside(target, folder) and target != folder]
    for path in (*listed, *scan.bare):
        if path not in grants:
            guards.add(path, folder, listed=True)


def _obeyed_targets(path: str, entry: FoundEntry) -> Iterator[str]:
    """What a link, or a `.git` that is a file, leads to."""
    if entry.target and entry.row.kept:
        yield os.path.realpath(path)
    elif entry.row.pattern == ".git" and os.path.isfile(path):
        yield from filter(os.path.isdir, [git_target(path)])


def _guard_path(folder: str, name: str) -> str:
    """The path to guard for a name at the top of a folder; empty for none.

    Names further in are found by looking.  A path of several names is guarded also if it does not exist, where the
    tier can do that: its last name alone means nothing.
    """
    path = f"{folder}/{name}"
    if os.path.lexists(path):
        return path
    return path if name.startswith(".") and "/" in name and not os.path.islink(f"{folder}/{name.split('/')[0]}") else ""


def _inner_environment(env: Mapping[str, str], work: str, visible: Iterable[str]) -> dict[str, str]:
    """The environment, with HOME and TMPDIR set to visible folders."""
    inner_env = dict(env)
    scratch = work or "/tmp"
    for name in ("HOME", "TMPDIR"):
        if not _is_below(inner_env.get(name, "/"), visible):
            inner_env[name] = scratch
    return inner_env

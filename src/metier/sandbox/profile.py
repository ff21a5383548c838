"""What a program in a sandbox sees: the program itself, the system, the paths it was granted, and what stays closed.

A grant is bound by its real path, so that no link leads past what is hidden or guarded.  Inside a writable folder,
what other programs take orders from (`PROTECTED`) stays read-only; if it does not exist, a placeholder is mounted so
that nothing can be created there.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from ..host.facts import sleep
from ..host.fs import make_folder, try_flock
from ..host.paths import is_inside
from ..host.process import executables_on_path
from ..types.errors import BadRequest, HostError, Refused
from ..types.sandbox import ProgramSpec, SandboxSpec

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


# --- Placeholders ---

_PLACEHOLDER_MODE = 0o1555
"""The mode of our empty folders, which recognises them: an unlikely one for any other."""


@contextlib.contextmanager
def lay_placeholders(guarded: Sequence[str], state: str) -> Iterator[None]:
    """Make empty folders to mount on for guarded paths that do not exist, for as long as any program runs there.

    Programs that share a folder hold a shared lock on it; the last one, which gets the lock exclusively, removes them.
    Removing one earlier would lift the guard from another program.
    """
    with contextlib.ExitStack() as stack:
        if state and guarded:
            stack.enter_context(
                _note_placeholders(
                    [path for path in guarded if not os.path.lexists(path) or is_placeholder(path)], state
                )
            )
        locked_folders = {folder: _lock_shared(folder, stack) for folder in {os.path.dirname(path) for path in guarded}}
        for path in guarded:
            with contextlib.suppress(OSError):  # it exists, or can't be made by the program either
                os.mkdir(path)
                os.chmod(path, _PLACEHOLDER_MODE)
        try:
            yield
        finally:
            for folder, opened in locked_folders.items():
                if try_flock(opened):
                    for path in guarded:
                        if os.path.dirname(path) == folder:
                            _remove_placeholder(path)


def _lock_shared(folder: str, stack: contextlib.ExitStack) -> int:
    """Open a folder and lock it together with all other programs in it."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f"{folder} can't be guarded: {error.strerror}", "try again", folder) from error
    stack.callback(os.close, opened)
    for _ in range(100):
        if try_flock(opened, shared=True):
            return opened
        sleep(0.02)
    raise HostError(f"{folder} is locked by another program", "try again when that one has ended", folder)


def _remove_placeholder(path: str) -> None:
    """Remove a placeholder, and nothing else."""
    with contextlib.suppress(OSError):
        if is_placeholder(path):
            os.rmdir(path)


def is_placeholder(path: str) -> bool:
    """Whether a path is one of our placeholders."""
    try:
        return stat.S_IMODE(os.lstat(path).st_mode) == _PLACEHOLDER_MODE
    except OSError:
        return False


@contextlib.contextmanager
def _note_placeholders(paths: Sequence[str], state: str) -> Iterator[None]:
    """Record the placeholders in a locked file: if we are killed, the next run finds it unlocked and removes them."""
    folder = f"{state}/placeholders"
    opened = -1
    with contextlib.suppress(OSError, HostError):  # without a record, only the tidying is lost
        make_folder(folder)
        sweep_placeholders(state)
        if paths:
            opened, note = tempfile.mkstemp(dir=folder)
            try_flock(opened)  # its name is new: no other process can hold it
            os.write(opened, os.fsencode("\0".join(paths)))
    try:
        yield
    finally:
        if opened >= 0:
            with contextlib.suppress(OSError):
                os.unlink(note)
            os.close(opened)


def sweep_placeholders(state: str) -> None:
    """Remove the placeholders of runs that were killed."""
    folder = f"{state}/placeholders"
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        with contextlib.suppress(OSError), open(f"{folder}/{name}", "rb") as file:
            if not try_flock(file.fileno()):
                continue
            leftover = [os.fsdecode(path) for path in file.read().split(b"\0") if path]
            if leftover and all(_tidy_placeholder(path) for path in leftover):
                os.unlink(f"{folder}/{name}")


def _tidy_placeholder(path: str) -> bool:
    """Remove a placeholder unless another program still needs it, and will remove it; whether it is gone."""
    try:
        opened = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        free = try_flock(opened)
        if free:
            _remove_placeholder(path)
    finally:
        os.close(opened)
    return free


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
PROTECTED = (
    ".git",
    ".metier",
    ".claude",
    ".claude-plugin",
    ".cursor",
    ".codex",
    ".gemini",
    ".mcp.json",
    ".envrc",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".husky",
    ".github/workflows",
    ".pre-commit-config.yaml",
    ".npmrc",
    ".yarnrc.yml",
    ".gitmodules",
    ".gitconfig",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    "agents",
    "workspace/agents",
)
"""Paths in a writable folder that stay read-only, whether they exist or not: other programs take orders from them.

The folders that products keep skills in are not listed here: `SandboxSpec.protected` brings them.  Names without a dot
are guarded only if they exist: a new skill or agent is not trusted yet, and an empty folder in plain sight would
mislead.  `AGENTS.md` and `CLAUDE.md` may be written: some skills are for that.
"""
_MOST_FOLDERS = 2_000
"""Folders that are searched for more of these, nearest first."""
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
    guarded = _guarded_paths(grants, work, hidden, kept_paths, protected)
    laid = {**guarded, **_paths_inside(grants, hidden, "hide"), **grants}
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
    pinned = tuple(_pinned_folders(laid, protected))
    return SandboxView(accesses, chosen.path, argv, cwd, work, env, writes, pinned, chosen.note)


def own_folders() -> tuple[str, ...]:
    """Where metier itself lies: the next program would be started by what one wrote there, outside every sandbox."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    packages = [path for path in sys.path if path.endswith(("/site-packages", "/dist-packages"))]
    return tuple(dict.fromkeys((package, sys.prefix, sys.base_prefix, *packages)))


def _pinned_folders(laid: Mapping[str, AccessKind], protected: Iterable[str]) -> Iterator[str]:
    """The folders between a writable one and what is closed by its path: moved away, another could take its place."""
    anywhere = {name for name in protected if name.startswith(".")}  # these are protected wherever they are moved
    found: set[str] = set()
    for path, kind in laid.items():
        if kind == "link" or (kind == "guard" and os.path.basename(path) in anywhere):
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
    mounts = [*view.seen, *(PathAccess(path, "write") for path in view.pinned)]
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


def _guarded_paths(
    grants: Mapping[str, AccessKind],
    work: str,
    hidden: Sequence[str],
    kept_paths: Sequence[str],
    protected: Sequence[str],
) -> dict[str, AccessKind]:
    """What stays read-only inside writable folders, except the work folder, which is private."""
    guarded: dict[str, AccessKind] = {}
    for folder, kind in grants.items():
        if kind != "write" or folder == work or not os.path.isdir(folder):
            continue
        names = IN_GIT if ".git" in folder.split("/") else protected
        inner = [path for name in names if (path := _guard_path(folder, name))]
        if names is IN_GIT:
            inner += [path for name in _IN_GIT_IF_THERE if os.path.lexists(path := f"{folder}/{name}")]
        inner += [path for path in kept_paths if _is_kept(path, folder)]
        inner += _find_nested(folder, protected, (*hidden, *grants)) if names is protected else []
        inner += [path for path in hidden if os.path.dirname(path) == folder and not os.path.lexists(path)]
        for path in inner:
            if path in grants:
                continue
            if os.path.islink(path):
                raise Refused(
                    f"{path} is a link, which can't be protected while {folder} is writable",
                    "grant a folder without it, or replace the link by the real folder",
                    path,
                )
            guarded[path] = "guard"
    return guarded


def _guard_path(folder: str, name: str) -> str:
    """The path to guard so that a name stays as it is; empty for none.

    A parent that does not exist is guarded as a whole.  Placeholders, also those of a killed run, do not exist.
    """
    path = f"{folder}/{name}"
    if name not in IN_GIT and not name.startswith("."):
        return path if os.path.lexists(path) and not is_placeholder(path) else ""
    around = f"{folder}/{outer}" if (outer := os.path.dirname(name)) else folder
    if outer and name not in PROTECTED and (os.path.islink(around) or not os.path.isdir(around)):
        return ""  # a product's folder in a shared one, such as `.config`: that one stays free for everything else
    return path if os.path.isdir(around) and not is_placeholder(around) else around


def _find_nested(folder: str, protected: Sequence[str], excluded: Iterable[str]) -> list[str]:
    """Protected names further in, such as nested repositories: those that exist."""
    names = {name for name in protected if name.startswith(".")}
    skipped = {f"{folder}/{name}" for name in protected} | set(excluded)
    nested: list[str] = []
    waiting = collections.deque([folder])
    # Breadth first and bounded: a huge tree must not delay every program.
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            break
        with contextlib.suppress(OSError), os.scandir(waiting.popleft()) as entries:
            for entry in entries:
                if entry.path in skipped:
                    continue
                if entry.name in names:
                    nested.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return sorted(nested)


def _inner_environment(env: Mapping[str, str], work: str, visible: Iterable[str]) -> dict[str, str]:
    """The environment, with HOME and TMPDIR set to visible folders."""
    inner_env = dict(env)
    scratch = work or "/tmp"
    for name in ("HOME", "TMPDIR"):
        if not _is_below(inner_env.get(name, "/"), visible):
            inner_env[name] = scratch
    return inner_env

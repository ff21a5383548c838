"""Find a program that can be seen from inside: the system's, or one whose own folder is shown too."""

from __future__ import annotations

import collections
import contextlib
import fcntl
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from ...types.errors import BadRequest, HostError, Refused
from ...types.sandbox import ProgramSpec, SandboxSpec
from ..facts import sleep
from ..fs import make_folder

_SYSTEM = ("/usr", "/opt", "/nix/store", "/bin", "/sbin")
_INTERPRETER = re.compile(r"python[0-9.]*|node|deno|bun|bash|sh").fullmatch
_FALLBACK = ("/usr/local/bin", "/usr/bin", "/bin")


class ChosenProgram(NamedTuple):
    """A program, the folders it needs beside the system's, and what a person should know about the choice."""

    path: str
    prefixes: tuple[str, ...] = ()
    note: str = ""


def choose_program(name: str, path: str, cwd: str, granted: Iterable[str], homes: Iterable[str]) -> ChosenProgram:
    """The program that a name means; an interpreter that can't be shown gives way to the system's."""
    granted, homes = tuple(granted), tuple(homes)
    candidates = [os.path.join(cwd, name)] if "/" in name else list(_candidates_on_path(name, path, cwd))
    for candidate in candidates:
        if chosen := _fit_candidate(candidate, granted, homes):
            return chosen._replace(note=_substitution_note(chosen.path, candidates[0]))
    plain = os.path.basename(name)
    if "/" not in name or _INTERPRETER(plain):
        for folder in _FALLBACK:
            for spelled in (plain, plain.rstrip("0123456789.") + "3" * plain.startswith("python")):
                if chosen := _fit_candidate(f"{folder}/{spelled}", granted, homes):
                    return chosen._replace(note=_substitution_note(chosen.path, *candidates[:1]))
    return ChosenProgram("")


def _substitution_note(path: str, requested: str = "") -> str:
    same = not requested or path == os.path.normpath(requested)
    return "" if same else f"{path} was run: {requested} can't be shown inside"


def current_python() -> str:
    """The interpreter that runs us, which is the one scripts are run with."""
    return sys.executable or "/usr/bin/python3"


def _candidates_on_path(name: str, path: str, cwd: str) -> Iterable[str]:
    for folder in path.split(os.pathsep):
        candidate = os.path.join(cwd, folder, name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            yield candidate


def _fit_candidate(candidate: str, granted: tuple[str, ...], homes: tuple[str, ...]) -> ChosenProgram | None:
    """The candidate with what it needs, when all of that can be shown."""
    if not os.access(candidate, os.X_OK) or os.path.isdir(candidate):
        return None
    candidate = os.path.normpath(candidate)
    real = os.path.realpath(candidate)
    needed = []
    for place in (*_link_hops(candidate), real):
        if _is_below(place, (*_SYSTEM, *granted)):
            continue
        prefix = _install_prefix(place, homes) if _INTERPRETER(os.path.basename(candidate)) else ""
        if not prefix or not _is_binary(real):
            return None
        needed.append(prefix)
    if needed and os.path.samefile(real, os.path.realpath(current_python())):
        needed += [folder for folder in (sys.prefix, sys.base_prefix) if not _is_below(folder, (*_SYSTEM, *needed))]
    return ChosenProgram(candidate, tuple(dict.fromkeys(needed)))


def _link_hops(path: str) -> Iterable[str]:
    """The path, and each that a link at its end leads to."""
    for _ in range(40):
        yield path
        if not os.path.islink(path):
            return
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _install_prefix(path: str, homes: tuple[str, ...]) -> str:
    """The folder that a program was installed in; empty when that holds more than the program."""
    folder, last = os.path.split(os.path.dirname(path))
    if last != "bin" or folder.count("/") < 2:
        return ""
    return "" if any(_is_below(home, (folder,)) for home in homes) or folder.endswith("/.local") else folder


def _is_binary(path: str) -> bool:
    """Whether it is a program itself, not a script that would go looking for one."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


_PLACEHOLDER_MODE = 0o1555
"""The mode of an empty folder that we made: nobody makes one like it by chance."""


@contextlib.contextmanager
def lay_placeholders(guarded: Sequence[str], state: str) -> Iterator[None]:
    """What is guarded and not there needs a folder to mount on, for as long as any program runs in that grant.

    Whoever is the last in a grant takes them away: removing one would lift the guard from another's program.
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
            with contextlib.suppress(OSError):  # it is there, or nobody can make it
                os.mkdir(path)
                os.chmod(path, _PLACEHOLDER_MODE)
        try:
            yield
        finally:
            for folder, opened in locked_folders.items():
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    for path in guarded:
                        if os.path.dirname(path) == folder:
                            _remove_placeholder(path)


def _lock_shared(folder: str, stack: contextlib.ExitStack) -> int:
    """A folder held open and locked with all others who have programs in it."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f"{folder} can't be guarded: {error.strerror}", "try again", folder) from error
    stack.callback(os.close, opened)
    for _ in range(100):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return opened
        sleep(0.02)
    raise HostError(f"{folder} is locked by another program", "try again when that has ended", folder)


def _remove_placeholder(path: str) -> None:
    """Take a placeholder away, and nothing else."""
    with contextlib.suppress(OSError):
        if is_placeholder(path):
            os.rmdir(path)


def is_placeholder(path: str) -> bool:
    """Whether something that is there stands for what is not."""
    try:
        return stat.S_IMODE(os.lstat(path).st_mode) == _PLACEHOLDER_MODE
    except OSError:
        return False


@contextlib.contextmanager
def _note_placeholders(paths: Sequence[str], state: str) -> Iterator[None]:
    """A note of what is being laid down, locked while we live: should we be killed, the next run tidies up."""
    folder = f"{state}/placeholders"
    opened = -1
    with contextlib.suppress(OSError, HostError):  # a note saves tidying and nothing else
        make_folder(folder)
        sweep_placeholders(state)
        if paths:
            opened, note = tempfile.mkstemp(dir=folder)
            fcntl.flock(opened, fcntl.LOCK_EX)
            os.write(opened, os.fsencode("\0".join(paths)))
    try:
        yield
    finally:
        if opened >= 0:
            with contextlib.suppress(OSError):
                os.unlink(note)
            os.close(opened)


def sweep_placeholders(state: str) -> None:
    """Take away what runs that were killed left behind."""
    folder = f"{state}/placeholders"
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        with contextlib.suppress(OSError), open(f"{folder}/{name}", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover = [os.fsdecode(path) for path in file.read().split(b"\0") if path]
            if leftover and all(_tidy_placeholder(path) for path in leftover):
                os.unlink(f"{folder}/{name}")


def _tidy_placeholder(path: str) -> bool:
    """Whether a placeholder is gone; it stays while another program runs in the same grant, which takes it away."""
    try:
        opened = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_placeholder(path)
    except BlockingIOError:
        return False
    finally:
        os.close(opened)
    return True


AccessKind: TypeAlias = Literal["hide", "guard", "read", "write", "link"]

SYSTEM = ("/usr", "/opt", "/nix/store")
"""Programs and their libraries: what every user of the machine may read."""
LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/ssl/openssl.cnf",
)
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
)
"""Beneath a home: out of sight although the home may be read."""
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
"""In a folder that may be written: what other programs take orders from stays as it is, there or not.

The folders that products keep skills in are not listed here: `SandboxSpec.protected` brings them.
Names without a dot are kept only where they are there: a new skill or agent is trusted by nobody yet,
and an empty folder in everybody's sight would mislead.
Documents that agents read, `AGENTS.md` and `CLAUDE.md`, can be written: to write them is what some skills are for.
"""
_MOST_FOLDERS = 2_000
"""Folders that are looked into for more of them further in, the nearest first."""
IN_GIT = ("hooks", "config", "config.worktree", "modules", "worktrees", "info", "remotes", "branches")
"""The same, where it is a `.git` itself that may be written, or a part of one."""
_IN_GIT_IF_THERE = ("commondir", "gitdir", "rebase-merge", "rebase-apply")
"""And these, which nothing empty can stand for."""
_NEVER_GRANTED = ("/", "/proc", "/sys", "/dev", "/run", "/boot", "/etc", "/usr", "/var", "/home")


@dataclass(frozen=True)
class PathAccess:
    """One path and what may be done with it; a link leads to a path that is seen itself."""

    path: str
    kind: AccessKind


@dataclass(frozen=True)
class SandboxView:
    """What there is for a program."""

    seen: tuple[PathAccess, ...]
    """The outer before the inner."""
    program: str
    argv: tuple[str, ...]
    cwd: str
    work: str
    env: Mapping[str, str] = field(repr=False)
    writes: tuple[str, ...] = ()
    """Folders that may be written beside the work folder."""
    note: str = ""


def build_view(program: ProgramSpec, box: SandboxSpec, work: str, homes: Iterable[str]) -> SandboxView:
    """What a program in a box sees; `work` is where it may always write."""
    allowed = box.permissions
    grants: dict[str, AccessKind] = {}
    links: set[str] = set()
    for path in filter(None, (box.skill, *allowed.read)):
        grants[_resolve_grant(path, links)] = "read"
    for path in filter(None, (*allowed.write, work)):
        grants[_resolve_grant(path, links)] = "write"
    cwd, work = os.path.normpath(program.cwd or work or "/tmp"), work and os.path.realpath(work)
    seen_as = (*grants, *links)
    chosen = choose_program(program.argv[0], program.env.get("PATH", os.defpath), cwd, seen_as, homes)
    for path in chosen.prefixes:
        grants.setdefault(path, "read")
    shut = [os.path.realpath(path) for path in box.hidden]
    hidden = [*shut, *(os.path.realpath(f"{home}/{name}") for home in homes for name in PRIVATE)]
    kept_paths = [os.path.realpath(path) for path in box.kept]
    protected = tuple(dict.fromkeys((*PROTECTED, *box.protected)))
    guarded = _guarded_paths(grants, work, hidden, kept_paths, protected)
    laid = {**guarded, **_paths_inside(grants, hidden, "hide"), **grants}
    laid |= {path: "hide" for path in shut if path in grants and path != work}  # no grant opens these
    if cwd != "/tmp" and not any(_is_within(cwd, path) for path in (*grants, *links, *SYSTEM)):
        raise Refused(
            f"the program would run in {cwd}, which it may not see", "let it read that folder, or run it elsewhere", cwd
        )
    laid |= dict.fromkeys(_missing_links(links, (*grants, *SYSTEM, *LINKS)), "link")
    accesses = tuple(PathAccess(path, laid[path]) for path in sorted(laid, key=lambda path: path.split("/")))
    writes = tuple(path for path, kind in grants.items() if kind == "write" and path != work)
    argv = (chosen.path, *program.argv[1:])
    return SandboxView(
        accesses, chosen.path, argv, cwd, work, _inner_environment(program.env, work, seen_as), writes, chosen.note
    )


def _resolve_grant(path: str, links: set[str]) -> str:
    """A path as it is bound: where it really is, so that no link leads past what is hidden or guarded.

    What would open the whole machine is no grant.
    """
    if not path.startswith("/") or "\0" in path:
        raise BadRequest(f"`{path}` is not an absolute path", "give paths from the root of the file system")
    path = "/" + os.path.normpath(path).lstrip("/")
    real = os.path.realpath(path)
    for spelling in (path, real):
        if spelling in _NEVER_GRANTED or spelling.startswith(("/proc/", "/sys/", "/dev/")):
            raise Refused(
                f"{spelling} is never opened to a boxed program", "grant the folder it needs, by its own path", path
            )
    if real != path:
        links.add(path)
    return real


def _missing_links(links: Iterable[str], visible: Iterable[str]) -> list[str]:
    """The links that are not there already, with a folder that holds them."""
    missing: list[str] = []
    for path in sorted(links):
        if not any(_is_within(path, folder) for folder in (*visible, *missing)):
            missing.append(path)
    return missing


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _paths_inside(grants: Mapping[str, AccessKind], paths: Iterable[str], kind: AccessKind) -> dict[str, AccessKind]:
    """Those of the paths that a grant would open, and that are there."""
    return {path: kind for path in paths if path not in grants and _is_opened(path, grants) and os.path.lexists(path)}


def _is_opened(path: str, grants: Iterable[str]) -> bool:
    return any(_is_within(path, folder) for folder in grants)


def _is_kept(path: str, folder: str) -> bool:
    """Whether something named is kept inside a folder: it is there, or the folder around it is."""
    return path != folder and _is_within(path, folder) and os.path.isdir(os.path.dirname(path))


def _guarded_paths(
    grants: Mapping[str, AccessKind],
    work: str,
    hidden: Sequence[str],
    kept_paths: Sequence[str],
    protected: Sequence[str],
) -> dict[str, AccessKind]:
    """What stays as it is inside the folders that may be written; the work folder is private and holds no orders."""
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
                    f"{path} is a link, which can't be kept as it is while {folder} may be written",
                    "grant a folder without it, or put the real folder in its place",
                    path,
                )
            guarded[path] = "guard"
    return guarded


def _guard_path(folder: str, name: str) -> str:
    """What to keep for a name to stay as it is; a folder that is missing is kept whole if nobody sees it anyway.

    What stands for something that is missing, here or since a run was killed, is missing.
    """
    path = f"{folder}/{name}"
    if name not in IN_GIT and not name.startswith("."):
        return path if os.path.lexists(path) and not is_placeholder(path) else ""
    around = f"{folder}/{outer}" if (outer := os.path.dirname(name)) else folder
    if outer and name not in PROTECTED and (os.path.islink(around) or not os.path.isdir(around)):
        return ""  # a product's folder in a shared one, such as `.config`: that one stays free for everything else
    return path if os.path.isdir(around) and not is_placeholder(around) else around


def _find_nested(folder: str, protected: Sequence[str], excluded: Iterable[str]) -> list[str]:
    """The same further in, such as repositories within the repository: those that are there."""
    names = {name for name in protected if name.startswith(".")}
    skipped = {f"{folder}/{name}" for name in protected} | set(excluded)
    nested: list[str] = []
    waiting = collections.deque([folder])
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
    """Its environment, with a home and a place for temporary files that are there."""
    inner_env = dict(env)
    scratch = work or "/tmp"
    for name in ("HOME", "TMPDIR"):
        if not _is_opened(inner_env.get(name, "/"), visible):
            inner_env[name] = scratch
    return inner_env

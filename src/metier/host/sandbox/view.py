"""What a boxed program sees of the machine: decided here once, as a value, and laid down by each tier in its way."""

from __future__ import annotations

import collections
import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ...types.errors import BadRequest, Refused
from ...types.running import Box, Program
from . import interpreter, placeholders

Kind: TypeAlias = Literal["hide", "guard", "read", "write", "link"]

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
    ".agents",
    ".umbra",
    ".openclaw",
    ".super-multica",
    ".skills",
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
    "skills",
    "agents",
    "workspace/agents",
    "extensions/skills",
)
"""In a folder that may be written: what other programs take orders from stays as it is, there or not.

The last few have no dot and are kept only where they are there: a new skill or agent is trusted by nobody yet,
and an empty folder in everybody's sight would mislead.
Documents that agents read, `AGENTS.md` and `CLAUDE.md`, can be written: to write them is what some skills are for.
"""
_FARTHEST = 2_000
"""Folders that are looked into for more of them further in, the nearest first."""
IN_GIT = ("hooks", "config", "config.worktree", "modules", "worktrees", "info", "remotes", "branches")
"""The same, where it is a `.git` itself that may be written, or a part of one."""
_IN_GIT_IF_THERE = ("commondir", "gitdir", "rebase-merge", "rebase-apply")
"""And these, which nothing empty can stand for."""
_CLOSED = ("/", "/proc", "/sys", "/dev", "/run", "/boot", "/etc", "/usr", "/var", "/home")


@dataclass(frozen=True)
class Seen:
    """One path and what may be done with it; a link leads to a path that is seen itself."""

    path: str
    kind: Kind


@dataclass(frozen=True)
class View:
    """What there is for a program."""

    seen: tuple[Seen, ...]
    """The outer before the inner."""
    program: str
    argv: tuple[str, ...]
    cwd: str
    work: str
    env: Mapping[str, str] = field(repr=False)
    writes: tuple[str, ...] = ()
    """Folders that may be written beside the work folder."""
    note: str = ""


def view(program: Program, box: Box, work: str, homes: Iterable[str]) -> View:
    """What a program in a box sees; `work` is where it may always write."""
    allowed = box.permissions
    given: dict[str, Kind] = {}
    links: set[str] = set()
    for path in filter(None, (box.skill, *allowed.read)):
        given[_grant(path, links)] = "read"
    for path in filter(None, (*allowed.write, work)):
        given[_grant(path, links)] = "write"
    cwd, work = os.path.normpath(program.cwd or work or "/tmp"), work and os.path.realpath(work)
    seen_as = (*given, *links)
    chosen = interpreter.choose(program.argv[0], program.env.get("PATH", os.defpath), cwd, seen_as, homes)
    for path in chosen.prefixes:
        given.setdefault(path, "read")
    shut = [os.path.realpath(path) for path in box.hidden]
    hidden = [*shut, *(os.path.realpath(f"{home}/{name}") for home in homes for name in PRIVATE)]
    kept = [os.path.realpath(path) for path in box.kept]
    laid = {**_guards(given, work, hidden, kept), **_inside(given, hidden, "hide"), **given}
    laid |= {path: "hide" for path in shut if path in given and path != work}  # no grant opens these
    if cwd != "/tmp" and not any(_within(cwd, path) for path in (*given, *links, *SYSTEM)):
        raise Refused(
            f"the program would run in {cwd}, which it may not see", "let it read that folder, or run it elsewhere", cwd
        )
    laid |= dict.fromkeys(_outside(links, (*given, *SYSTEM, *LINKS)), "link")
    seen = tuple(Seen(path, laid[path]) for path in sorted(laid, key=lambda path: path.split("/")))
    writes = tuple(path for path, kind in given.items() if kind == "write" and path != work)
    argv = (chosen.path, *program.argv[1:])
    return View(seen, chosen.path, argv, cwd, work, _environment(program.env, work, seen_as), writes, chosen.note)


def _grant(path: str, links: set[str]) -> str:
    """A path as it is bound: where it really is, so that no link leads past what is hidden or guarded.

    What would open the whole machine is no grant.
    """
    if not path.startswith("/") or "\0" in path:
        raise BadRequest(f"`{path}` is not an absolute path", "give paths from the root of the file system")
    path = "/" + os.path.normpath(path).lstrip("/")
    real = os.path.realpath(path)
    for one in (path, real):
        if one in _CLOSED or one.startswith(("/proc/", "/sys/", "/dev/")):
            raise Refused(
                f"{one} is never opened to a boxed program", "grant the folder it needs, by its own path", path
            )
    if real != path:
        links.add(path)
    return real


def _outside(links: Iterable[str], shown: Iterable[str]) -> list[str]:
    """The links that are not there already, with a folder that holds them."""
    made: list[str] = []
    for path in sorted(links):
        if not any(_within(path, folder) for folder in (*shown, *made)):
            made.append(path)
    return made


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _inside(given: Mapping[str, Kind], paths: Iterable[str], kind: Kind) -> dict[str, Kind]:
    """Those of the paths that a grant would open, and that are there."""
    return {path: kind for path in paths if path not in given and _opened(path, given) and os.path.lexists(path)}


def _opened(path: str, given: Iterable[str]) -> bool:
    return any(_within(path, folder) for folder in given)


def _kept(path: str, folder: str) -> bool:
    """Whether something named is kept inside a folder: it is there, or the folder around it is."""
    return path != folder and _within(path, folder) and os.path.isdir(os.path.dirname(path))


def _guards(given: Mapping[str, Kind], work: str, hidden: Sequence[str], kept: Sequence[str] = ()) -> dict[str, Kind]:
    """What stays as it is inside the folders that may be written; the work folder is private and holds no orders."""
    found: dict[str, Kind] = {}
    for folder, kind in given.items():
        if kind != "write" or folder == work or not os.path.isdir(folder):
            continue
        names = IN_GIT if ".git" in folder.split("/") else PROTECTED
        inner = [path for name in names if (path := _guard(folder, name))]
        if names is IN_GIT:
            inner += [path for name in _IN_GIT_IF_THERE if os.path.lexists(path := f"{folder}/{name}")]
        inner += [path for path in kept if _kept(path, folder)]
        inner += _deeper(folder, (*hidden, *given)) if names is PROTECTED else []
        inner += [path for path in hidden if os.path.dirname(path) == folder and not os.path.lexists(path)]
        for path in inner:
            if path in given:
                continue
            if os.path.islink(path):
                raise Refused(
                    f"{path} is a link, which can't be kept as it is while {folder} may be written",
                    "grant a folder without it, or put the real folder in its place",
                    path,
                )
            found[path] = "guard"
    return found


def _guard(folder: str, name: str) -> str:
    """What to keep for a name to stay as it is; a folder that is missing is kept whole if nobody sees it anyway.

    What stands for something that is missing, here or since a run was killed, is missing.
    """
    path = f"{folder}/{name}"
    if name in PROTECTED and not name.startswith("."):
        return path if os.path.lexists(path) and not placeholders.is_one(path) else ""
    around = f"{folder}/{outer}" if (outer := os.path.dirname(name)) else folder
    return path if os.path.isdir(around) and not placeholders.is_one(around) else around


def _deeper(folder: str, known: Iterable[str]) -> list[str]:
    """The same further in, such as repositories within the repository: those that are there."""
    names = {name for name in PROTECTED if name.startswith(".")}
    skipped = {f"{folder}/{name}" for name in PROTECTED} | set(known)
    found: list[str] = []
    waiting = collections.deque([folder])
    for _ in range(_FARTHEST):
        if not waiting:
            break
        with contextlib.suppress(OSError), os.scandir(waiting.popleft()) as entries:
            for entry in entries:
                if entry.path in skipped:
                    continue
                if entry.name in names:
                    found.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return sorted(found)


def _environment(env: Mapping[str, str], work: str, given: Iterable[str]) -> dict[str, str]:
    """Its environment, with a home and a place for temporary files that are there."""
    made = dict(env)
    scratch = work or "/tmp"
    for name in ("HOME", "TMPDIR"):
        if not _opened(made.get(name, "/"), given):
            made[name] = scratch
    return made

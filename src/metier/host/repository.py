"""A git repository of our own: bare, hardened, written by plumbing under one lock, so that a kill leaves it whole."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
from collections.abc import Iterator, Mapping
from hashlib import sha1
from typing import NamedTuple

from ..types.errors import HostError, Refused
from . import files, locks, swap
from .git import HARDENED, is_there
from .paths import MOST_FILES
from .state import make_folder

REF = "refs/heads/main"
NOTHING = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The empty tree."""
_NONE = "0" * 40
_SECONDS = 120
_PASSED_OVER = frozenset({"__pycache__", ".git"})
_FIXED = (*HARDENED, ("core.fsync", "committed,loose-object,reference"), ("core.logAllRefUpdates", "false"),
          ("safe.bareRepository", "explicit"), ("core.quotePath", "false"),
          ("init.defaultBranch", "main"), ("i18n.commitEncoding", "UTF-8"), ("log.showSignature", "false"))  # fmt: skip


class Leaf(NamedTuple):
    """A file or a link, as a tree has it."""

    mode: str
    """100644, 100755 or 120000."""
    oid: str


class Seen(NamedTuple):
    """A file or a link on the disk."""

    leaf: Leaf
    permissions: int


class Repository(NamedTuple):
    folder: str
    held: tuple[int, ...] = ()
    """The lock, open: every git that writes holds it too, so that it outlives an owner who is killed."""


@contextlib.contextmanager
def writing(folder: str) -> Iterator[Repository]:
    """The repository, ours alone for now; made where there is none, and swept of what a killed process left."""
    make_folder(os.path.dirname(folder))
    with locks.held([f"{folder}.lock"]) as held:
        one = Repository(folder, tuple(held))
        _make(one)
        _sweep(folder)
        incoming = f"{folder}/incoming"
        make_folder(incoming)
        try:
            yield one
        finally:
            swap.remove_tree(incoming)


def is_made(folder: str) -> bool:
    return os.path.isdir(folder)


def _make(one: Repository) -> None:
    if is_made(one.folder):
        return
    new = f"{one.folder}.new"
    swap.remove_tree(new)
    _git(one._replace(folder=""), "init", "--quiet", "--bare", "--template=", "--object-format=sha1", new)
    swap.move(new, one.folder)


def _sweep(folder: str) -> None:
    """Nobody writes now: every lock file is of somebody who was killed, and so is every half-written object."""
    for where in (folder, f"{folder}/refs", f"{folder}/refs/heads"):
        for name in swap.names(where):
            if name.endswith(".lock"):
                swap.remove_file(f"{where}/{name}")
    if os.path.isdir(f"{folder}/incoming"):
        swap.remove_tree(f"{folder}/incoming")
        for inner in swap.names(f"{folder}/objects"):
            for name in swap.names(f"{folder}/objects/{inner}"):
                if name.startswith("tmp_"):
                    swap.remove_file(f"{folder}/objects/{inner}/{name}")


# --- What is on the disk ---


def looked(folder: str) -> dict[str, Seen] | None:
    """Every file and link beneath a folder, by path, but for what git and Python keep there; None where it is gone."""
    if not os.path.lexists(folder):
        return None
    found: dict[str, Seen] = {}
    try:
        for inner, folders, names, opened in os.fwalk(folder, onerror=_raise):
            base = inner[len(folder) + 1 :]
            links = [name for name in folders if stat.S_ISLNK(_status(name, opened).st_mode)]
            folders[:] = [name for name in folders if name not in _PASSED_OVER and name not in links]
            for name in (*names, *links):
                seen = _seen(name, opened)
                if seen is not None:
                    found[f"{base}/{name}" if base else name] = seen
            if len(found) > MOST_FILES:
                raise Refused(f"{folder} holds more than {MOST_FILES} files", "its history is not kept", folder)
    except OSError as error:
        raise HostError(f"{folder} can't be read: {error.strerror}", "check permissions", folder) from error
    return found


def _raise(error: OSError) -> None:
    raise error


def _status(name: str, folder: int) -> os.stat_result:
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _seen(name: str, folder: int) -> Seen | None:
    status = _status(name, folder)
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=folder))
        return Seen(Leaf("120000", _oid_of(target)), 0o777)
    if not stat.S_ISREG(status.st_mode):
        return None
    opened = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(opened, "rb") as file:
        size, mode = os.fstat(opened).st_size, stat.S_IMODE(os.fstat(opened).st_mode)
        found = sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        while piece := file.read(1 << 20):
            found.update(piece)
    return Seen(Leaf("100755" if mode & 0o100 else "100644", found.hexdigest()), mode)


def _oid_of(data: bytes) -> str:
    return sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


# --- Writing ---


def keep_files(one: Repository, folder: str, paths: list[str]) -> dict[str, str]:
    """Keep these files and links of a folder; the id of each, which is that of the very bytes that were kept."""
    copies = []
    try:
        opened = files.open_folder(folder)
        try:
            for number, path in enumerate(paths):
                copies.append(f"{one.folder}/incoming/{number}")
                _copy(opened, folder, path, copies[-1])
        finally:
            os.close(opened)
    except OSError as error:
        raise HostError(f"{folder} can't be read: {error.strerror}", "it changed meanwhile; try again") from error
    return dict(zip(paths, _kept(one, copies), strict=True))


def _copy(opened: int, folder: str, path: str, copy: str) -> None:
    """A copy of our own, so that nothing can be put in the file's place between a look and the next."""
    if os.path.islink(f"{folder}/{path}"):
        data = os.fsencode(os.readlink(f"{folder}/{path}"))
        with open(copy, "wb") as target:
            target.write(data)
        return
    with os.fdopen(files.open_beneath(opened, path), "rb") as source, open(copy, "wb") as target:
        while piece := source.read(1 << 20):
            target.write(piece)


def keep_bytes(one: Repository, data: bytes) -> str:
    return _git(one, "hash-object", "-w", "--no-filters", "--stdin", given=data).decode().strip()


def _kept(one: Repository, copies: list[str]) -> list[str]:
    if not copies:
        return []
    given = "".join(f"{copy}\n" for copy in copies).encode("utf-8", "surrogateescape")
    return _git(one, "hash-object", "-w", "--no-filters", "--stdin-paths", given=given).decode().split()


def commit(one: Repository, old: str, prefix: str, leaves: Mapping[str, Leaf], said: tuple[str, int]) -> str:
    """A commit in which everything beneath a prefix is exactly this; the branch moves only from where it was."""
    index = {"GIT_INDEX_FILE": f"{one.folder}/incoming/index"}
    if old:
        _git(one, "read-tree", old, extra=index)
    gone = tree(one, old, prefix) if old else {}
    lines = [f"0 {_NONE}\t{prefix}/{path}\0" for path in gone if path not in leaves]
    lines += [f"{leaf.mode} {leaf.oid}\t{prefix}/{path}\0" for path, leaf in leaves.items() if gone.get(path) != leaf]
    _git(
        one, "update-index", "-z", "--index-info", given="".join(lines).encode("utf-8", "surrogateescape"), extra=index
    )
    made = _git(one, "write-tree", extra=index).decode().strip()
    message, at = said
    me = {"NAME": "metier", "EMAIL": "metier@localhost", "DATE": f"@{at} +0000"}
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in me.items()}
    parents = ("-p", old) if old else ()
    given = message.encode("utf-8", "replace")
    new = _git(one, "commit-tree", made, *parents, given=given, extra=who).decode().strip()
    _git(one, "update-ref", REF, new, old or _NONE)
    return new


# --- Reading ---


def head(one: Repository) -> str:
    """The newest commit; empty where there is none."""
    return _git(one, "for-each-ref", "--format=%(objectname)", REF).decode().strip()


def tree(one: Repository, commit: str, prefix: str) -> dict[str, Leaf]:
    """Every file beneath a prefix of a commit, by its path there."""
    found = {}
    for record in _git(one, "ls-tree", "-r", "-z", "--full-tree", commit, f"{prefix}/").split(b"\0"):
        about, _, path = record.partition(b"\t")
        if about:
            mode, _, oid = about.decode().split(" ")
            found[path.decode("utf-8", "surrogateescape")[len(prefix) + 1 :]] = Leaf(mode, oid)
    return found


def names(one: Repository, commit: str, prefix: str) -> list[str]:
    """What lies right beneath a prefix of a commit."""
    said = _git(one, "ls-tree", "-z", "--name-only", "--full-tree", commit, f"{prefix}/")
    return [path.decode("utf-8", "surrogateescape")[len(prefix) + 1 :] for path in said.split(b"\0") if path]


def log(one: Repository, limit: int, prefix: str = "", since: str = "", rev: str = REF) -> list[tuple[str, int, str]]:
    """The newest commits, or those that touched a prefix, or those after one: id, second, message."""
    command = ["log", "-z", "--no-decorate", "--format=%H%n%ct%n%B", f"--max-count={limit}"]
    command += [f"{since}..{rev}" if since else rev]
    found = []
    for record in _git(one, *command, "--", *((prefix,) if prefix else ())).decode("utf-8", "replace").split("\0"):
        if record:
            rev, at, message = record.split("\n", 2)
            found.append((rev, int(at), message))
    return found


def resolved(one: Repository, rev: str) -> str:
    """The commit that a few hexadecimal digits mean, if it is one of the branch; empty where there is none."""
    try:
        found = _git(one, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}").decode().strip()
        _git(one, "merge-base", "--is-ancestor", found, REF)
    except HostError:
        return ""
    return found


def read(one: Repository, oids: list[str]) -> list[bytes]:
    """The bytes of these files."""
    said = _git(one, "cat-file", "--batch", given="".join(f"{oid}\n" for oid in oids).encode()) if oids else b""
    found, at = [], 0
    for oid in oids:
        end = said.index(b"\n", at)
        words = said[at:end].split()
        if len(words) != 3:
            raise HostError(f"the history lacks {oid}", "run `git fsck` on it", one.folder)
        size = int(words[2])
        found.append(said[end + 1 : end + 1 + size])
        at = end + 2 + size
    return found


def difference(one: Repository, old: str, new: str) -> str:
    """What differs between two trees, as text."""
    options = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "-p", "-r")
    return _git(one, "diff-tree", *options, old, new).decode("utf-8", "replace")


def blame(one: Repository, commit: str, path: str) -> list[tuple[str, str]]:
    """Each line of a file, with the commit that it came from."""
    found = []
    rev = ""
    for line in _git(one, "blame", "--porcelain", "--no-textconv", commit, "--", path).split(b"\n"):
        if line.startswith(b"\t"):
            found.append((rev, line[1:].decode("utf-8", "replace")))
        elif len(line.split(b" ")[0]) == 40:
            rev = line[:40].decode()
    return found


def fault(folder: str) -> str:
    """What `git fsck --strict` finds fault with; empty when all is well."""
    try:
        _git(Repository(folder), "fsck", "--strict", "--full", "--no-dangling")
    except HostError as error:
        return error.message
    return ""


# --- git itself ---


def _git(one: Repository, *arguments: str, given: bytes = b"", extra: Mapping[str, str] | None = None) -> bytes:
    """Run git to its end with nothing but what it needs; what it printed."""
    if not is_there(os.environ):
        raise HostError("git is not installed", "install git, then try again")
    inside = (f"--git-dir={one.folder}",) if one.folder else ()
    try:
        running = subprocess.Popen(
            ["git", "--no-pager", "--literal-pathspecs", *inside, *arguments],
            cwd="/", env=_environment() | dict(extra or {}), umask=0o077, pass_fds=one.held, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        raise HostError(f"git can't be started: {error.strerror}", "check that git works") from error
    with running:
        try:
            said, complaint = running.communicate(given, _SECONDS)
        except subprocess.TimeoutExpired:
            raise HostError(
                f"git {arguments[0]} took longer than {_SECONDS} seconds", "try again", one.folder
            ) from None
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
    if running.returncode:
        text = "; ".join(dict.fromkeys(complaint.decode("utf-8", "replace").strip().splitlines()))[:500]
        hint = f"check permissions and space of {one.folder}"
        raise HostError(f"git {arguments[0]} failed: {text or running.returncode}", hint, one.folder)
    return said


def _environment() -> dict[str, str]:
    env = {
        "PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "/bin/false",
        "GIT_ALLOW_PROTOCOL": "", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": str(len(_FIXED)),
    }  # fmt: skip
    for number, (key, value) in enumerate(_FIXED):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env

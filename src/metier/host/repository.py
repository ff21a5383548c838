"""A git repository of our own: bare, hardened, written by plumbing under one lock, so that a kill leaves it whole."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import stat
import subprocess
from collections.abc import Iterator, Mapping
from hashlib import sha1
from typing import BinaryIO, NamedTuple

from ..types.errors import HostError, Refused
from . import files, locks, paths, swap
from .git import HARDENED, is_there
from .state import make_folder

REF = "refs/heads/main"
NOTHING = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The empty tree."""
_NONE = "0" * 40
_SECONDS = 120
_whole = re.compile(r"[0-9a-f]{40}").fullmatch
_PASSED_OVER = frozenset({"__pycache__", ".git"})
_FIXED = (
    *HARDENED, ("core.fsync", "committed,loose-object,reference"), ("core.logAllRefUpdates", "false"),
    ("safe.bareRepository", "explicit"), ("core.quotePath", "false"), ("init.defaultBranch", "main"),
    ("i18n.commitEncoding", "UTF-8"), ("log.showSignature", "false"), ("fastimport.unpackLimit", "20"),
)  # fmt: skip
_MANY = 16
"""Loose objects in one folder of 256: with so many it is time to pack them."""


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
        if len(swap.names(f"{folder}/objects/17")) > _MANY:
            _git(one, "repack", "-d", "-q")
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
    """Every file and link beneath a folder, by path, but for what git and Python keep there; None where it is gone.

    Only the folder itself may be a link: whoever made it says that the skill lies elsewhere.
    """
    folder = os.path.realpath(folder)
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
            if len(found) > paths.MOST_FILES:
                raise Refused(f"{folder} holds more than {paths.MOST_FILES} files", "its history is not kept", folder)
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
        return Seen(Leaf("120000", oid_of(target)), 0o777)
    if not stat.S_ISREG(status.st_mode):
        return None
    opened = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(opened, "rb") as file:
        size, mode = os.fstat(opened).st_size, stat.S_IMODE(os.fstat(opened).st_mode)
        found = sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        while piece := file.read(1 << 20):
            found.update(piece)
    return Seen(Leaf("100755" if mode & 0o100 else "100644", found.hexdigest()), mode)


def oid_of(data: bytes) -> str:
    return sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


# --- Writing ---


def keep(one: Repository, folder: str, names: list[str], text: bytes | None) -> dict[str, str]:
    """Keep these files and links of a folder, and a text; the id of each file is that of the very bytes kept.

    All of them become one stream that git takes at once: many files are one write to the disk, few are loose objects.
    """
    if not names and text is None:
        return {}
    stream = f"{one.folder}/incoming/stream"
    try:
        opened = files.open_folder(folder)
        try:
            with open(stream, "wb") as target:
                kept = {name: _put(target, opened, folder, name) for name in names}
                if text is not None:
                    _put_bytes(target, text)
        finally:
            os.close(opened)
        with open(stream, "rb") as source:
            _git(one, "fast-import", "--quiet", "--date-format=raw", given=source)
    except OSError as error:
        raise HostError(f"{folder} can't be kept: {error.strerror}", "check space, then try again", folder) from error
    return kept


def _put(target: BinaryIO, opened: int, folder: str, name: str) -> str:
    """One file in the stream: what was read is what is kept, whatever comes in its place meanwhile."""
    if os.path.islink(f"{folder}/{name}"):
        return _put_bytes(target, os.fsencode(os.readlink(f"{folder}/{name}")))
    with os.fdopen(files.open_beneath(opened, name), "rb") as source:
        size = os.fstat(source.fileno()).st_size
        found = sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        target.write(b"blob\ndata %d\n" % size)
        while size and (piece := source.read(min(size, 1 << 20))):
            found.update(piece)
            target.write(piece)
            size -= len(piece)
    if size:
        raise OSError(errno.EAGAIN, f"{name} changed meanwhile")
    target.write(b"\n")
    return found.hexdigest()


def _put_bytes(target: BinaryIO, data: bytes) -> str:
    target.write(b"blob\ndata %d\n%b\n" % (len(data), data))
    return oid_of(data)


class Step(NamedTuple):
    """From what a prefix held to what it is to hold."""

    prefix: str
    before: Mapping[str, Leaf]
    after: Mapping[str, Leaf]


def commit(one: Repository, old: str, step: Step, message: str, at: int) -> str:
    """A commit in which everything beneath a prefix is exactly this; the branch moves only from where it was."""
    prefix, before, after = step
    index = {"GIT_INDEX_FILE": f"{one.folder}/incoming/index"}
    if old:
        _git(one, "read-tree", old, extra=index)
    lines = [f"0 {_NONE}\t{prefix}/{path}\0" for path in before if path not in after]
    lines += [f"{leaf.mode} {leaf.oid}\t{prefix}/{path}\0" for path, leaf in after.items() if before.get(path) != leaf]
    _git(
        one, "update-index", "-z", "--index-info", given="".join(lines).encode("utf-8", "surrogateescape"), extra=index
    )
    made = _git(one, "write-tree", extra=index).decode().strip()
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
    found = (paths.read_text_file(f"{one.folder}/{REF}", 100) or "").strip()
    if _whole(found):
        return found
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
    """The commit that a few digits or `HEAD` mean, if it is one of the branch; empty where there is none."""
    rev = rev.replace("HEAD", REF, 1)
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


def _git(
    one: Repository, *arguments: str, given: bytes | BinaryIO = b"", extra: Mapping[str, str] | None = None
) -> bytes:
    """Run git to its end with nothing but what it needs; what it printed."""
    feed = given if isinstance(given, bytes) else None
    if not is_there(os.environ):
        raise HostError("git is not installed", "install git, then try again")
    inside = (f"--git-dir={one.folder}",) if one.folder else ()
    try:
        running = subprocess.Popen(
            ["git", "--no-pager", "--literal-pathspecs", *inside, *arguments],
            cwd="/", env=_environment() | dict(extra or {}), umask=0o077, pass_fds=one.held, start_new_session=True,
            stdin=subprocess.PIPE if isinstance(given, bytes) else given, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        raise HostError(f"git can't be started: {error.strerror}", "check that git works") from error
    with running:
        try:
            said, complaint = running.communicate(feed, _SECONDS)
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

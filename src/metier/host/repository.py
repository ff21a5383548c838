"""A bare git repository of metier's own: the history of skills.

It is written with plumbing commands under one lock.  Objects are stored first and the branch moves last, in one
compare-and-swap, so a process that is killed leaves either the old history or the new; what it left half-written is
swept by the next writer.  A working tree would be simpler to commit from, but skills live in folders of their own.
"""

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
from . import files, fs, paths, trees
from .fs import make_folder
from .git import HARDENED_CONFIG, has_git

REF = "refs/heads/main"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The id that every repository gives the empty tree."""
_NULL_OID = "0" * 40
_SECONDS = 120
_is_full_oid = re.compile(r"[0-9a-f]{40}").fullmatch
_PASSED_OVER = frozenset({"__pycache__", ".git"})
_GIT_CONFIG = (
    *HARDENED_CONFIG,
    ("core.fsync", "committed,loose-object,reference"),
    ("core.logAllRefUpdates", "false"),
    ("safe.bareRepository", "explicit"),
    ("core.quotePath", "false"),
    ("init.defaultBranch", "main"),
    ("i18n.commitEncoding", "UTF-8"),
    ("log.showSignature", "false"),
    ("fastimport.unpackLimit", "20"),
)
_MANY_LOOSE_OBJECTS = 16
"""Loose objects in one of the 256 folders above which all are packed: git's own estimate, at about 4,000 in all."""


class TreeLeaf(NamedTuple):
    """A file or a link, as a tree has it."""

    mode: str
    """100644, 100755 or 120000."""
    oid: str


class WorktreeFile(NamedTuple):
    """A file or a link on the disk."""

    leaf: TreeLeaf
    permissions: int


class BareRepository(NamedTuple):
    folder: str
    held: tuple[int, ...] = ()
    """The descriptors of the lock.  Every git that writes inherits them: if we are killed, it still holds the lock."""


@contextlib.contextmanager
def open_for_writing(folder: str) -> Iterator[BareRepository]:
    """Lock the repository, make it if missing, and sweep what a killed process left."""
    make_folder(os.path.dirname(folder))
    with fs.hold_locks([f"{folder}.lock"]) as descriptors:
        repository = BareRepository(folder, tuple(descriptors))
        _ensure_repository(repository)
        _sweep_leftovers(folder)
        # One folder stands for all: ids are evenly distributed.
        if len(trees.list_names(f"{folder}/objects/17")) > _MANY_LOOSE_OBJECTS:
            _run_git(repository, "repack", "-d", "-q")
        incoming = f"{folder}/incoming"
        make_folder(incoming)
        try:
            yield repository
        finally:
            trees.remove_tree(incoming)


def repository_exists(folder: str) -> bool:
    return os.path.isdir(folder)


def _ensure_repository(repository: BareRepository) -> None:
    if repository_exists(repository.folder):
        return
    new = f"{repository.folder}.new"
    trees.remove_tree(new)
    _run_git(repository._replace(folder=""), "init", "--quiet", "--bare", "--template=", "--object-format=sha1", new)
    trees.move_into_place(new, repository.folder)


def _sweep_leftovers(folder: str) -> None:
    """Remove lock files and half-written objects; we hold the lock, so their owners were killed."""
    for where in (folder, f"{folder}/refs", f"{folder}/refs/heads"):
        for name in trees.list_names(where):
            if name.endswith(".lock"):
                trees.remove_file(f"{where}/{name}")
    if os.path.isdir(f"{folder}/incoming"):
        trees.remove_tree(f"{folder}/incoming")
        for inner in trees.list_names(f"{folder}/objects"):
            for name in trees.list_names(f"{folder}/objects/{inner}"):
                if name.startswith("tmp_"):
                    trees.remove_file(f"{folder}/objects/{inner}/{name}")


# --- Scanning folders ---


def scan_worktree(folder: str) -> dict[str, WorktreeFile] | None:
    """Every file and link beneath a folder, by path, without `.git` and `__pycache__`; None if it does not exist.

    Only the folder itself may be a link, to a skill that lies elsewhere.
    """
    folder = os.path.realpath(folder)
    if not os.path.lexists(folder):
        return None
    scanned: dict[str, WorktreeFile] = {}
    try:
        for inner, folders, names, opened in os.fwalk(folder, onerror=_raise_error):
            base = inner[len(folder) + 1 :]
            links = [name for name in folders if stat.S_ISLNK(_entry_status(name, opened).st_mode)]
            folders[:] = [name for name in folders if name not in _PASSED_OVER and name not in links]
            for name in (*names, *links):
                entry = _scan_file(name, opened)
                if entry is not None:
                    scanned[f"{base}/{name}" if base else name] = entry
            if len(scanned) > paths.MOST_FILES:
                raise Refused(f"{folder} holds more than {paths.MOST_FILES} files", "its history is not kept", folder)
    except OSError as error:
        raise HostError(f"{folder} can't be read: {error.strerror}", "check permissions", folder) from error
    return scanned


def _raise_error(error: OSError) -> None:
    raise error


def _entry_status(name: str, folder: int) -> os.stat_result:
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _scan_file(name: str, folder: int) -> WorktreeFile | None:
    status = _entry_status(name, folder)
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=folder))
        return WorktreeFile(TreeLeaf("120000", blob_oid(target)), 0o777)
    if not stat.S_ISREG(status.st_mode):
        return None
    opened = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(opened, "rb") as file:
        size, mode = os.fstat(opened).st_size, stat.S_IMODE(os.fstat(opened).st_mode)
        # Hashed here as git does: an unchanged skill costs no process.
        digest = sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        while piece := file.read(1 << 20):
            digest.update(piece)
    return WorktreeFile(TreeLeaf("100755" if mode & 0o100 else "100644", digest.hexdigest()), mode)


def blob_oid(data: bytes) -> str:
    return sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


# --- Writing ---


def store_files(repository: BareRepository, folder: str, names: list[str], text: bytes | None) -> dict[str, str]:
    """Store files and links of a folder, and a text; the id of each file, computed from the bytes stored.

    All go into one `fast-import` stream: many files become one pack, few become loose objects.
    """
    if not names and text is None:
        return {}
    stream = f"{repository.folder}/incoming/stream"
    try:
        opened = files.open_folder(folder)
        try:
            with open(stream, "wb") as target:
                oids = {name: _write_blob(target, opened, folder, name) for name in names}
                if text is not None:
                    _write_blob_bytes(target, text)
        finally:
            os.close(opened)
        with open(stream, "rb") as source:
            _run_git(repository, "fast-import", "--quiet", "--date-format=raw", stdin_data=source)
    except OSError as error:
        raise HostError(f"{folder} can't be stored: {error.strerror}", "check space, then try again", folder) from error
    return oids


def _write_blob(target: BinaryIO, opened: int, folder: str, name: str) -> str:
    """Write one file to the stream; the id is that of the bytes read, whatever replaces the file meanwhile."""
    if os.path.islink(f"{folder}/{name}"):
        return _write_blob_bytes(target, os.fsencode(os.readlink(f"{folder}/{name}")))
    with os.fdopen(files.open_beneath(opened, name), "rb") as source:
        size = os.fstat(source.fileno()).st_size
        digest = sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        target.write(b"blob\ndata %d\n" % size)
        while size and (piece := source.read(min(size, 1 << 20))):
            digest.update(piece)
            target.write(piece)
            size -= len(piece)
    if size:  # the stream announced more bytes than the file still had
        raise OSError(errno.EAGAIN, f"{name} changed meanwhile")
    target.write(b"\n")
    return digest.hexdigest()


def _write_blob_bytes(target: BinaryIO, data: bytes) -> str:
    target.write(b"blob\ndata %d\n%b\n" % (len(data), data))
    return blob_oid(data)


class TreeChange(NamedTuple):
    """What a prefix holds before and after a commit."""

    prefix: str
    before: Mapping[str, TreeLeaf]
    after: Mapping[str, TreeLeaf]


def commit_change(repository: BareRepository, old: str, change: TreeChange, message: str, at: int) -> str:
    """Commit a prefix; the branch moves only if it is still at the old commit."""
    prefix, before, after = change
    index = {"GIT_INDEX_FILE": f"{repository.folder}/incoming/index"}
    if old:
        _run_git(repository, "read-tree", old, extra=index)
    lines = [f"0 {_NULL_OID}\t{prefix}/{path}\0" for path in before if path not in after]
    lines += [f"{leaf.mode} {leaf.oid}\t{prefix}/{path}\0" for path, leaf in after.items() if before.get(path) != leaf]
    _run_git(
        repository,
        "update-index",
        "-z",
        "--index-info",
        stdin_data="".join(lines).encode("utf-8", "surrogateescape"),
        extra=index,
    )
    tree_oid = _run_git(repository, "write-tree", extra=index).decode().strip()
    identity = {"NAME": "metier", "EMAIL": "metier@localhost", "DATE": f"@{at} +0000"}
    author = {f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER") for field, value in identity.items()}
    parents = ("-p", old) if old else ()
    message_bytes = message.encode("utf-8", "replace")
    new = (
        _run_git(repository, "commit-tree", tree_oid, *parents, stdin_data=message_bytes, extra=author).decode().strip()
    )
    # Fails if the branch is no longer at the old commit.
    _run_git(repository, "update-ref", REF, new, old or _NULL_OID)
    return new


# --- Reading ---


def head_commit(repository: BareRepository) -> str:
    """The newest commit; empty if there is none."""
    # Reading the file saves a process; only a packed ref needs git.
    oid = (paths.read_text_file(f"{repository.folder}/{REF}", 100) or "").strip()
    if _is_full_oid(oid):
        return oid
    return _run_git(repository, "for-each-ref", "--format=%(objectname)", REF).decode().strip()


def list_tree(repository: BareRepository, commit: str, prefix: str) -> dict[str, TreeLeaf]:
    """Every file beneath a prefix of a commit, by its path there."""
    leaves = {}
    for record in _run_git(repository, "ls-tree", "-r", "-z", "--full-tree", commit, f"{prefix}/").split(b"\0"):
        about, _, path = record.partition(b"\t")
        if about:
            mode, _, oid = about.decode().split(" ")
            leaves[path.decode("utf-8", "surrogateescape")[len(prefix) + 1 :]] = TreeLeaf(mode, oid)
    return leaves


def list_names(repository: BareRepository, commit: str, prefix: str) -> list[str]:
    """The names directly beneath a prefix of a commit."""
    output = _run_git(repository, "ls-tree", "-z", "--name-only", "--full-tree", commit, f"{prefix}/")
    return [path.decode("utf-8", "surrogateescape")[len(prefix) + 1 :] for path in output.split(b"\0") if path]


def list_commits(
    repository: BareRepository, limit: int, prefix: str = "", since: str = "", rev: str = REF
) -> list[tuple[str, int, str]]:
    """The newest commits, of a prefix or after another commit: id, Unix time, message."""
    command = ["log", "-z", "--no-decorate", "--format=%H%n%ct%n%B", f"--max-count={limit}"]
    command += [f"{since}..{rev}" if since else rev]
    commits = []
    for record in (
        _run_git(repository, *command, "--", *((prefix,) if prefix else ())).decode("utf-8", "replace").split("\0")
    ):
        if record:
            rev, at, message = record.split("\n", 2)
            commits.append((rev, int(at), message))
    return commits


def resolve_revision(repository: BareRepository, rev: str) -> str:
    """The commit that an abbreviated id or `HEAD` names; empty if it is not on the branch."""
    rev = rev.replace("HEAD", REF, 1)
    try:
        oid = (
            _run_git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
            .decode()
            .strip()
        )
        _run_git(repository, "merge-base", "--is-ancestor", oid, REF)
    except HostError:
        return ""
    return oid


def read_blobs(repository: BareRepository, oids: list[str]) -> list[bytes]:
    """The bytes of these files."""
    output = (
        _run_git(repository, "cat-file", "--batch", stdin_data="".join(f"{oid}\n" for oid in oids).encode())
        if oids
        else b""
    )
    contents, at = [], 0
    for oid in oids:
        end = output.index(b"\n", at)
        header = output[at:end].split()
        if len(header) != 3:
            raise HostError(f"the history lacks the object {oid}", "run `git fsck` on it", repository.folder)
        size = int(header[2])
        contents.append(output[end + 1 : end + 1 + size])
        at = end + 2 + size
    return contents


def diff_trees(repository: BareRepository, old: str, new: str) -> str:
    """The difference between two trees, as a patch."""
    options = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "-p", "-r")
    return _run_git(repository, "diff-tree", *options, old, new).decode("utf-8", "replace")


def blame_lines(repository: BareRepository, commit: str, path: str) -> list[tuple[str, str]]:
    """Each line of a file with the commit it comes from."""
    annotated = []
    rev = ""
    for line in _run_git(repository, "blame", "--porcelain", "--no-textconv", commit, "--", path).split(b"\n"):
        if line.startswith(b"\t"):
            annotated.append((rev, line[1:].decode("utf-8", "replace")))
        elif len(line.split(b" ")[0]) == 40:
            rev = line[:40].decode()
    return annotated


def integrity_fault(folder: str) -> str:
    """The error that `git fsck --strict` reports; empty if there is none."""
    try:
        _run_git(BareRepository(folder), "fsck", "--strict", "--full", "--no-dangling")
    except HostError as error:
        return error.message
    return ""


# --- Running git ---


def _run_git(
    repository: BareRepository,
    *arguments: str,
    stdin_data: bytes | BinaryIO = b"",
    extra: Mapping[str, str] | None = None,
) -> bytes:
    """Run git in a minimal environment and wait; its output."""
    feed = stdin_data if isinstance(stdin_data, bytes) else None
    if not has_git(os.environ):
        raise HostError("git is not installed", "install git, then try again")
    inside = (f"--git-dir={repository.folder}",) if repository.folder else ()
    try:
        running = subprocess.Popen(
            ["git", "--no-pager", "--literal-pathspecs", *inside, *arguments],
            cwd="/",
            env=_git_environment() | dict(extra or {}),
            # The history is as private as the skills it holds.
            umask=0o077,
            pass_fds=repository.held,
            start_new_session=True,
            stdin=subprocess.PIPE if isinstance(stdin_data, bytes) else stdin_data,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise HostError(f"git can't be started: {error.strerror}", "check that git works") from error
    with running:
        try:
            output, complaint = running.communicate(feed, _SECONDS)
        except subprocess.TimeoutExpired:
            raise HostError(
                f"git {arguments[0]} took longer than {_SECONDS} seconds", "try again", repository.folder
            ) from None
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
    if running.returncode:
        text = "; ".join(dict.fromkeys(complaint.decode("utf-8", "replace").strip().splitlines()))[:500]
        hint = f"check permissions and space of {repository.folder}"
        raise HostError(f"git {arguments[0]} failed: {text or running.returncode}", hint, repository.folder)
    return output


def _git_environment() -> dict[str, str]:
    # Nothing of the user's: no settings, no replaced objects, no attributes, no transport.
    env = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": str(len(_GIT_CONFIG)),
    }
    for number, (key, value) in enumerate(_GIT_CONFIG):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env

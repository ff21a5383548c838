"""Folders put in place of others: one step where the system can, two that can be told apart where it can't."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from hashlib import sha256

from ..types.errors import HostError
from ..types.installed import FileMark
from .clock import now_ns
from .paths import MOST_FILES

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
_AT_CWD, _EXCHANGE = -100, 2
_DAY = 86_400 * 10**9


def exchange(one: str, other: str) -> bool:
    """Let two folders change places at once; False where the system can't."""
    try:
        import ctypes  # only where something is replaced

        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, AttributeError):
        return False
    if call(_AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), other)


def inode(path: str) -> int:
    """Of the thing itself, not of what a link leads to; 0 where there is nothing."""
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0


def is_link(path: str) -> bool:
    return os.path.islink(path)


def others_may_write(path: str) -> bool:
    """Whether everybody on this machine may change a file."""
    try:
        return bool(os.stat(path).st_mode & 0o002)
    except OSError:
        return False


def make_folders(path: str, mode: int = 0o755) -> None:
    try:
        os.makedirs(path, mode, exist_ok=True)
    except OSError as error:
        raise HostError(f"{path} can't be made: {error.strerror}", "check permissions", path) from error


def move(source: str, target: str) -> None:
    """Rename something to a name that nothing has."""
    try:
        if os.path.lexists(target):
            raise OSError(errno.EEXIST, "it is there already")
        os.rename(source, target)
    except OSError as error:
        raise HostError(f"{target} can't be put in place: {error.strerror}", "check permissions", target) from error


def remove_tree(path: str) -> None:
    """Remove a folder of ours, or a link; what is gone already is fine."""
    import shutil

    if os.path.islink(path) or os.path.isfile(path):
        with contextlib.suppress(OSError):
            os.unlink(path)
        return
    shutil.rmtree(path, ignore_errors=True)


def remove_empty(base: str, inside: str) -> None:
    """Remove a folder and those above it, as long as nothing is in them."""
    while inside:
        try:
            os.rmdir(f"{base}/{inside}")
        except OSError:
            return
        inside = inside.rpartition("/")[0]


def remove_file(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def names(path: str) -> list[str]:
    """What a folder holds, sorted; nothing when it is not there."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def touched(path: str) -> bool:
    """Whether a file is there; it counts as new from now on."""
    try:
        os.utime(path, follow_symlinks=False)
    except OSError:
        return os.path.lexists(path)
    return True


def days_old(path: str) -> float:
    """Since something was made or last changed; 0 where it is not there."""
    try:
        return max(0.0, (now_ns() - os.lstat(path).st_mtime_ns) / _DAY)
    except OSError:
        return 0.0


def size_of_tree(path: str) -> int:
    """Bytes of all files beneath a folder, links not followed."""
    total = 0
    for at, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{at}/{name}").st_size
    return total


def marks(path: str) -> dict[str, FileMark]:
    """Every file beneath a folder as it is now, by its bytes and its mode; links and special files by what they are."""
    found: dict[str, FileMark] = {}
    try:
        folder = os.open(path, _FOLDER)
    except OSError as error:
        raise HostError(f"{path} can't be read: {error.strerror}", "check that it is a folder", path) from error
    waiting = [("", folder)]
    try:
        while waiting:
            inner, opened = waiting.pop()
            try:
                waiting += _level(opened, inner, found)
            finally:
                os.close(opened)
    except OSError as error:
        raise HostError(f"{path} can't be read: {error.strerror}", "check permissions", path) from error
    finally:
        for _, opened in waiting:
            os.close(opened)
    return dict(sorted(found.items()))


def _level(folder: int, inner: str, found: dict[str, FileMark]) -> Iterator[tuple[str, int]]:
    below = []
    for name in os.listdir(folder):
        place = f"{inner}/{name}" if inner else name
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            below.append((place, os.open(name, _FOLDER, dir_fd=folder)))
            continue
        if len(found) >= MOST_FILES:
            raise OSError(errno.EFBIG, f"it holds more than {MOST_FILES} files")
        found[place] = _mark(folder, name, status)
    return iter(below)


def _mark(folder: int, name: str, status: os.stat_result) -> FileMark:
    if stat.S_ISLNK(status.st_mode):
        return FileMark("link:" + os.readlink(name, dir_fd=folder), "link")
    if not stat.S_ISREG(status.st_mode):
        return FileMark("special", "special")
    opened = os.open(name, _READ, dir_fd=folder)
    digest = sha256()
    try:
        while piece := os.read(opened, 1 << 20):
            digest.update(piece)
        mode = os.fstat(opened).st_mode
    finally:
        os.close(opened)
    return FileMark("sha256:" + digest.hexdigest(), f"{mode & 0o7777:o}")


def keys(path: str) -> tuple[str, int]:
    """What `stat` says of every file beneath a folder, as one digest: while it holds, the bytes are the same.
    With it, when the last of them changed."""
    found = []
    newest = 0
    waiting = [path]
    while waiting:
        here = waiting.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                    continue
                newest = max(newest, status.st_mtime_ns, status.st_ctime_ns)
                found.append(
                    f"{entry.path}\0{status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_size}"
                    f" {status.st_mode}"
                )
    return sha256("\0".join(sorted(found)).encode("utf-8", "surrogateescape")).hexdigest(), newest


def keep_bytes(path: str, data: bytes) -> None:
    """Write a file that only ever has this content: whole, or not at all."""
    if os.path.exists(path):
        return
    make_folders(os.path.dirname(path), 0o700)
    beside = f"{path}.{os.urandom(6).hex()}"
    try:
        with open(beside, "xb") as file:
            file.write(data)
        os.chmod(beside, 0o400)
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise HostError(f"{path} can't be written: {error.strerror}", "check permissions and space", path) from error


def put_bytes(path: str, data: bytes, mode: int) -> None:
    """Write or replace a file in a folder of ours."""
    make_folders(os.path.dirname(path))
    remove_tree(path)
    with open(path, "xb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)


def make_executable(path: str) -> None:
    os.chmod(path, os.stat(path, follow_symlinks=False).st_mode & 0o777 | 0o111)


def replace_link(path: str, target: str) -> None:
    """Let a link lead to a target, whatever it led to before."""
    beside = f"{path}.{os.urandom(6).hex()}"
    os.symlink(target, beside)
    os.replace(beside, path)


def carry_over(source: str, target: str) -> None:
    """Copy what git and Python keep at the top of a folder into the one that takes its place."""
    import shutil

    for name in (".git", "__pycache__"):
        if os.path.isdir(f"{source}/{name}") and not os.path.islink(f"{source}/{name}"):
            shutil.copytree(f"{source}/{name}", f"{target}/{name}", symlinks=True)


def copy_entry(source: str, target: str) -> None:
    """Copy one file with its mode, or one link as a link."""
    import shutil

    make_folders(os.path.dirname(target))
    remove_tree(target)
    shutil.copy2(source, target, follow_symlinks=False)

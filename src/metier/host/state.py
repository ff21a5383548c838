"""Files that metier keeps for itself: owner-only, written beside and renamed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator

from ..types.errors import BadRequest, HostError
from .clock import now_ns
from .files import open_beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_FORGOTTEN_NS = 60_000_000_000
"""No write takes this long: what is older was left by a process that was killed."""


def make_folder(path: str) -> None:
    """A folder of the owner's alone, and so is each one made on the way; one that is there already stays as it is."""
    for folder in _missing(path):
        try:
            os.mkdir(folder, 0o700)
            os.chmod(folder, 0o700)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise HostError(f"{folder} is not a folder", "move it away, or set METIER_HOME", folder) from None
        except OSError as error:
            raise HostError(
                f"{folder} can't be made: {error.strerror}", "set METIER_HOME to a folder you may write", folder
            ) from error


def next_folder(above: str, name: str) -> str:
    """A new folder `name-1`, `name-2`, …: the first that nobody has."""
    make_folder(above)
    number = 1
    while True:
        try:
            os.mkdir(f"{above}/{name}-{number}", 0o700)
            return f"{above}/{name}-{number}"
        except FileExistsError:
            number += 1
        except OSError as error:
            raise HostError(f"{above} can't be written: {error.strerror}", "choose another folder", above) from error


def _missing(path: str) -> list[str]:
    """The folders to make for a folder to be there, the outermost first."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    return missing[::-1]


def _fill(opened: int, text: str, mode: int, sync: bool = True) -> None:
    """Put a text into a file that was just made, down to the disk."""
    with os.fdopen(opened, "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text.encode())
        file.flush()
        if sync:
            os.fsync(file.fileno())


def write_text(path: str, text: str, mode: int = 0o600, sync: bool = True) -> None:
    """Replace a file whole: a reader sees the old text or the new, never a part; unsynced it may be lost with power."""
    folder = os.path.dirname(path)
    beside = _beside(path)
    try:
        opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        try:
            _fill(opened, text, mode, sync)
            os.replace(beside, path)
        except BaseException:  # nothing half-written stays behind, whatever stopped us
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        if sync:
            _sync_folder(folder)
        for name in leftovers(path, now_ns() - _FORGOTTEN_NS):
            with contextlib.suppress(OSError):
                os.unlink(name)
    except OSError as error:
        raise HostError(f"{path} can't be written: {error.strerror}", "check permissions and space", path) from error


def _beside(path: str) -> str:
    """A name beside a path that nobody can guess."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{os.urandom(8).hex()}.tmp"


def leftovers(path: str, before_ns: int) -> list[str]:
    """What writers of a path left beside it when they were killed before that time."""
    import re  # writing is rare, and starting must be quick

    folder, _, name = path.rpartition("/")
    ours = re.compile(re.escape(f".{name}.") + r"[0-9a-f]{16}\.tmp(\.old)?").fullmatch
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if ours(entry.name) and entry.stat(follow_symlinks=False).st_ctime_ns < before_ns:
                    found.append(f"{folder}/{entry.name}")
    return sorted(found)


def _sync_folder(folder: str) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    except OSError:
        pass  # some file systems can't; the rename itself still holds
    finally:
        os.close(opened)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold a lock that the kernel lets go of when the process ends, however it ends."""
    make_folder(os.path.dirname(path))
    try:
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise HostError(f"{path} can't be locked: {error.strerror}", "check its permissions", path) from error
    try:
        os.fchmod(opened, 0o600)
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def copy_tree(source: str, target: str) -> None:
    """Copy a folder of ours beside its target, then put it in place: it is there whole or not at all."""
    import shutil  # slow to start, and rarely wanted

    beside = _beside(target)
    old = beside + ".old"
    try:
        shutil.copytree(source, beside, ignore=shutil.ignore_patterns("__pycache__"))
        if os.path.lexists(target):
            os.rename(target, old)
        try:
            os.rename(beside, target)
        except OSError:
            if os.path.lexists(old):
                os.rename(old, target)
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise HostError(f"{target} can't be written: {reason}", "check permissions and space", target) from error
    finally:
        for leftover in (beside, old):
            shutil.rmtree(leftover, ignore_errors=True)


def mend_tree(target: str) -> None:
    """Finish what a killed `copy_tree` left: the old folder goes back where no new one came, the rest is removed."""
    import shutil

    for name in leftovers(target, now_ns()):
        if name.endswith(".old") and not os.path.lexists(target):
            rename(name, target)
        else:
            shutil.rmtree(name, ignore_errors=True)


def remove_tree(folder: str) -> None:
    """Remove a folder of ours and all it holds; what it links to stays."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def rename(path: str, target: str) -> None:
    try:
        os.rename(path, target)
    except OSError as error:
        raise HostError(f"{path} can't be renamed: {error.strerror}", "check permissions", path) from error


@contextlib.contextmanager
def folder_beneath(base: str, inner: str) -> Iterator[int]:
    """A folder held open: whatever its path leads to later, it is this one.  No link beyond the base is followed."""
    outer = os.open(base, _FOLDER)
    try:
        opened = open_beneath(outer, inner)
    finally:
        os.close(outer)
    try:
        yield opened
    finally:
        os.close(opened)


def plain_mode(folder: int, name: str) -> int | None:
    """The permissions of a regular file in an open folder; None when it is a link or anything else."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return found.st_mode & 0o777 if stat.S_ISREG(found.st_mode) else None


def replace_in(folder: int, name: str, text: str, mode: int) -> None:
    """Replace a file of an open folder whole, by its name in that folder."""
    beside = _beside(name)[1:]
    try:
        opened = os.open(beside, _CREATE, 0o600, dir_fd=folder)
        try:
            _fill(opened, text, mode)
            os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(beside, dir_fd=folder)
            raise
    except OSError as error:
        raise HostError(f"{name} can't be written: {error.strerror}", "check permissions and space", name) from error


def rename_in(folder: int, name: str, target: str) -> bool:
    """Rename a file of an open folder to a name that nothing in it has."""
    try:
        os.stat(target, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        pass
    else:
        return False
    try:
        os.rename(name, target, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        raise HostError(f"{name} can't be renamed: {error.strerror}", "check permissions", name) from error
    return True


def write_new(base: str, inner: str, text: str) -> None:
    """Write a file in a new folder beneath a base, one step at a time and through no link beyond the base."""
    *steps, last, name = inner.split("/")
    at = base
    try:
        for outer in _missing(base):
            with contextlib.suppress(FileExistsError):
                os.mkdir(outer, 0o755)
        folder = os.open(base, _FOLDER)
        try:
            for step in steps:
                at = f"{at}/{step}"
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, 0o755, dir_fd=folder)
                folder = _entered(folder, step)
            at = f"{at}/{last}"
            os.mkdir(last, 0o755, dir_fd=folder)
            _fill_new(folder, last, name, text)
        finally:
            os.close(folder)
    except FileExistsError as error:
        raise BadRequest(f"{at} is there already", "choose another name, or edit that one", at) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            hint = "give the folder that is meant with --dir, or remove the link"
            raise BadRequest(f"{at} is a link or no folder: nothing is written through it", hint, at) from error
        raise HostError(f"{at} can't be written: {error.strerror}", "check permissions", at) from error


def _entered(folder: int, step: str) -> int:
    """The folder in a folder, in its place: no link is followed, and the outer one is closed."""
    inner = os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    os.close(folder)
    return inner


def _fill_new(outer: int, last: str, name: str, text: str) -> None:
    """A file in the folder just made; if it can't be written, neither stays."""
    folder = os.open(last, _FOLDER | os.O_NOFOLLOW, dir_fd=outer)
    try:
        opened = os.open(name, _CREATE, 0o644, dir_fd=folder)
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        with contextlib.suppress(OSError):
            os.rmdir(last, dir_fd=outer)
        raise
    finally:
        os.close(folder)


def remove_file(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)

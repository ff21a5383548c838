"""The file primitives: private folders, atomic replacement, append-only files, locks, and an agent's working folder.

One of each, for the whole package.  A file is replaced by writing a temporary one in the same folder and renaming it:
a reader sees the old content or the new, and a crash leaves either.  Locks are `flock`, which the kernel releases when
a process ends, however it ends; files that record a process id were rejected, because a killed process leaves them.
Whatever lies in a folder that others may write is opened by descriptor, one step at a time and through no link.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator

from ..light_typing import TYPE_CHECKING
from ..types.errors import BadRequest, HostError, NoFile, Refused
from . import files, paths
from .facts import monotonic, now_ns, sleep

if TYPE_CHECKING:
    from typing import BinaryIO

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW

# --- Folders ---


def make_folder(path: str) -> None:
    """Make a private folder and its missing parents, private too.

    An existing folder keeps its permissions, but for others' right to write to it, which a careless umask gave.
    """
    with contextlib.suppress(OSError):
        status = os.stat(path)
        if status.st_mode & 0o022 and status.st_uid == os.geteuid() and not status.st_mode & stat.S_ISVTX:
            os.chmod(path, stat.S_IMODE(status.st_mode) & 0o700)
    for folder in missing_folders(path):
        try:
            os.mkdir(folder, 0o700)
            os.chmod(folder, 0o700)  # whatever the umask
        except FileExistsError:
            # Another process may have made it meanwhile.
            if not os.path.isdir(folder):
                raise HostError(f"{folder} is not a folder", "move it away, or set METIER_HOME", folder) from None
        except OSError as error:
            raise HostError(
                f"{folder} can't be made: {error.strerror}", "set METIER_HOME to a folder you may write", folder
            ) from error


def next_folder(above: str, name: str) -> str:
    """Make the first free folder of `name-1`, `name-2`, …"""
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


def missing_folders(path: str) -> list[str]:
    """The folders to make so that a path exists, outermost first."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    return missing[::-1]


def enter_folder(folder: int, name: str) -> int:
    """Open a folder inside an open one, made if missing and never through a link; the outer one is closed."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=folder)
    inner = os.open(name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
    os.close(folder)
    return inner


# --- Atomic replacement ---

_STALE_NS = 60_000_000_000
"""No write takes a minute: an older temporary file was left by a process that was killed."""


@contextlib.contextmanager
def atomic_write(
    path: str, mode: int = 0o600, *, sync: bool = True, umask: bool = False, folder: int | None = None
) -> Iterator[BinaryIO]:
    """A file to write that replaces the path when the block ends, and vanishes when it raises.

    With `sync`, content and name survive a power failure.  With `umask`, the mode is subject to the process's umask.
    With `folder`, the path is a name in that open folder.
    """
    temporary = temporary_name(path)
    opened = os.open(temporary, CREATE_FLAGS, mode if umask else mode & 0o700, dir_fd=folder)
    replaced = False
    try:
        with os.fdopen(opened, "wb") as file:
            yield file
            if not umask:  # at the end: others must not read it half-written
                os.fchmod(opened, mode)
            file.flush()
            if sync:
                os.fsync(opened)
        os.replace(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
        replaced = True
    finally:
        if not replaced:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
    if sync:
        _sync_folder(os.path.dirname(path) or "." if folder is None else folder)


@contextlib.contextmanager
def write_errors(path: str) -> Iterator[None]:
    """Report a failed write as an error that names the path."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise HostError(f"{path} can't be written: {reason}", "check permissions and space", path) from error


def write_bytes(path: str, data: bytes, mode: int = 0o600, *, sync: bool = True, umask: bool = False) -> None:
    """Replace a file atomically; see `atomic_write`."""
    with write_errors(path), atomic_write(path, mode, sync=sync, umask=umask) as file:
        file.write(data)


def write_text(path: str, text: str, mode: int = 0o600, sync: bool = True) -> None:
    """Replace a text file atomically, and remove what killed writers of the same file left."""
    write_bytes(path, text.encode(), mode, sync=sync)
    with write_errors(path):
        for leftover in find_leftovers(path, now_ns() - _STALE_NS):
            with contextlib.suppress(OSError):
                os.unlink(leftover)


def replace_file_in(folder: int, name: str, text: str, mode: int) -> None:
    """Replace a file of an open folder atomically."""
    with write_errors(name), atomic_write(name, mode, folder=folder) as file:
        file.write(text.encode())


def copy_tree(source: str, target: str) -> None:
    """Replace a folder by a copy of another: copied next to the target, then renamed."""
    import shutil  # slow to import, and rarely needed

    temporary = temporary_name(target)
    old = temporary + ".old"
    try:
        with write_errors(target):
            _copy_folder(source, temporary)
            if os.path.lexists(target):
                os.rename(target, old)
            try:
                os.rename(temporary, target)
            except OSError:
                if os.path.lexists(old):
                    os.rename(old, target)
                raise
    finally:
        for leftover in (temporary, old):
            shutil.rmtree(leftover, ignore_errors=True)


def _copy_folder(source: str, target: str) -> None:
    """Copy a folder with its modes, without bytecode.  A umask that denies the owner doesn't stop it."""
    import shutil

    os.mkdir(target)
    os.chmod(target, 0o700)  # until it is filled: `shutil.copytree` leaves it to the umask who may write here
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.name == "__pycache__":
                continue
            copy = _copy_folder if entry.is_dir() else shutil.copy2
            copy(entry.path, f"{target}/{entry.name}")
    shutil.copystat(source, target)


def recover_copy(target: str) -> None:
    """Undo a `copy_tree` that was killed: put the old folder back if no new one took its place."""
    import shutil

    for leftover in find_leftovers(target, now_ns()):
        if leftover.endswith(".old") and not os.path.lexists(target):
            with write_errors(target):
                os.rename(leftover, target)
        else:
            shutil.rmtree(leftover, ignore_errors=True)


def temporary_name(path: str) -> str:
    """An unguessable name in the same folder, which `find_leftovers` recognises."""
    folder, separator, name = path.rpartition("/")
    return f"{folder}{separator}.{name}.{os.urandom(8).hex()}.tmp"


def find_leftovers(path: str, before_ns: int) -> list[str]:
    """The temporary files of a path that are older than a time."""
    import re  # writing is rare, and starting must be quick

    folder, _, name = path.rpartition("/")
    is_ours = re.compile(re.escape(f".{name}.") + r"[0-9a-f]{16}\.tmp(\.old)?").fullmatch
    stale = []
    with os.scandir(folder or ".") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if is_ours(entry.name) and entry.stat(follow_symlinks=False).st_ctime_ns < before_ns:
                    stale.append(f"{folder}/{entry.name}")
    return sorted(stale)


def _sync_folder(folder: str | int) -> None:
    opened = os.open(folder, FOLDER_FLAGS) if isinstance(folder, str) else os.dup(folder)
    try:
        os.fsync(opened)
    except OSError:
        pass  # some file systems can't; the rename itself still holds
    finally:
        os.close(opened)


# --- Files of a folder that is held open ---


@contextlib.contextmanager
def folder_beneath(base: str, inner: str) -> Iterator[int]:
    """A folder beneath a base, held open: renaming or replacing its path later changes nothing.  Follows no link."""
    outer = os.open(base, FOLDER_FLAGS)
    try:
        opened = files.open_beneath(outer, inner)
    finally:
        os.close(outer)
    try:
        yield opened
    finally:
        os.close(opened)


def regular_file_mode(folder: int, name: str) -> int | None:
    """The permissions of a regular file in an open folder; None for a link or anything else."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return status.st_mode & 0o777 if stat.S_ISREG(status.st_mode) else None


def rename_file_in(folder: int, name: str, target: str) -> bool:
    """Rename a file of an open folder; False if the new name is taken."""
    try:
        # `rename` would replace the other file without a word.
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


def write_new_file(base: str, inner: str, text: str) -> None:
    """Write a file in a new folder beneath a base, following no link beneath the base."""
    *steps, last, name = inner.split("/")
    at = base
    try:
        for outer in missing_folders(base):
            with contextlib.suppress(FileExistsError):
                os.mkdir(outer, 0o755)
        folder = os.open(base, FOLDER_FLAGS)
        try:
            for step in steps:
                at = f"{at}/{step}"
                folder = enter_folder(folder, step)
            at = f"{at}/{last}"
            os.mkdir(last, 0o755, dir_fd=folder)
            _fill_new_folder(folder, last, name, text)
        finally:
            os.close(folder)
    except FileExistsError as error:
        raise BadRequest(f"{at} already exists", "choose another name, or edit that one", at) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            hint = "name the real folder with --dir, or remove the link"
            raise BadRequest(f"{at} is a link or not a folder: metier does not write through it", hint, at) from error
        raise HostError(f"{at} can't be written: {error.strerror}", "check permissions", at) from error


def _fill_new_folder(outer: int, last: str, name: str, text: str) -> None:
    """Write a file in the folder just made; on failure, remove both."""
    folder = os.open(last, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=outer)
    try:
        opened = os.open(name, CREATE_FLAGS, 0o644, dir_fd=folder)
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


# --- Append-only files ---

_APPEND_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def append_line(path: str, line: str) -> None:
    """Append one line in one write, so that a reader sees all of it or none."""
    make_folder(os.path.dirname(path))
    with write_errors(path):
        opened = os.open(path, _APPEND_FLAGS, 0o600)
        try:
            size = os.fstat(opened).st_size
            # A crash may have left a line without its end: finish it, so that only that one line is lost.
            broken = size > 0 and os.pread(opened, 1, size - 1) != b"\n"
            data = (b"\n" if broken else b"") + line.encode("utf-8", "replace") + b"\n"
            while data:
                data = data[os.write(opened, data) :]
        finally:
            os.close(opened)


def read_lines(path: str, start: int = 0) -> Iterator[str]:
    """The complete lines of a file from a position on; none if it does not exist."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            for line in file:
                if line.endswith(b"\n"):
                    yield line.decode("utf-8", "replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise HostError(f"{path} can't be read: {error.strerror}", "check its permissions", path) from error


# --- Locks ---

_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_POLL_SECONDS = 0.02


def open_lock(path: str) -> int:
    """A lock file, open and not yet locked; made if missing."""
    try:
        opened = os.open(path, _LOCK_FLAGS, 0o600)
        os.fchmod(opened, 0o600)  # whatever the umask
        return opened
    except OSError as error:
        raise HostError(f"{path} can't be locked: {error.strerror}", "check its permissions", path) from error


def try_flock(opened: int, shared: bool = False) -> bool:
    """Lock an open file or folder without waiting; False if another holder excludes us."""
    try:
        fcntl.flock(opened, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise HostError(f"the file system can't lock files: {error.strerror}", "use a local file system") from error
    return True


@contextlib.contextmanager
def hold_lock(path: str) -> Iterator[None]:
    """Hold one lock, after waiting for as long as it takes."""
    make_folder(os.path.dirname(path))
    opened = open_lock(path)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


@contextlib.contextmanager
def hold_locks(
    paths: Iterable[str], seconds: float = 600, waiting: Callable[[], None] | None = None
) -> Iterator[list[int]]:
    """Hold several locks; `waiting` is called once if one is taken, and too long a wait is an error.

    A child process that inherits the descriptors yielded holds the locks too, for as long as it runs.
    """
    opened: list[int] = []
    until = monotonic() + seconds
    notified = False
    try:
        for path in sorted(set(paths)):  # one order for everybody, or two processes could wait for each other
            descriptor = open_lock(path)
            opened.append(descriptor)
            while not try_flock(descriptor):
                if monotonic() > until:
                    raise HostError(f"another metier process holds {path}", "stop it, then try again", path)
                if waiting is not None and not notified:
                    waiting()
                    notified = True
                sleep(_POLL_SECONDS)
        yield opened
    finally:
        for descriptor in opened:
            os.close(descriptor)


def try_lock(path: str) -> int | None:
    """An existing lock, held until released; None if it is taken or missing."""
    try:
        opened = os.open(path, _LOCK_FLAGS & ~os.O_CREAT)
    except OSError:
        return None
    if try_flock(opened):
        return opened
    os.close(opened)
    return None


def create_lock(path: str) -> int:
    """A new lock, held until released; its name must be unique."""
    opened = open_lock(path)
    try_flock(opened)
    return opened


def release_lock(opened: int) -> None:
    os.close(opened)


@contextlib.contextmanager
def claim_file(path: str) -> Iterator[bool]:
    """Whether a data file is ours: locked for the length of the block, and made if missing."""
    # The file itself is the lock: no second file can be left behind.
    make_folder(os.path.dirname(path))
    opened = open_lock(path)
    try:
        yield try_flock(opened)
    finally:
        os.close(opened)


def remove_unclaimed(path: str) -> None:
    """Remove a data file, unless a process has claimed it."""
    with claim_file(path) as free:
        if free:
            os.unlink(path)


# --- The working folder of an agent's file tools ---

IGNORED_FOLDERS = frozenset(
    {"__pycache__", ".git", "node_modules", ".venv", ".mypy_cache", ".ruff_cache", ".hg", ".svn"}
)
"""Folders that listings skip."""


def path_from_base(base: str, cwd: str, path: str) -> str:
    """A path as a model writes it, relative to the base; refused if it leads out of the base."""
    if "\0" in path or not paths.can_be_path(path):
        raise BadRequest("that is not a path", "give a path in the working folder")
    # Judged as text; links are refused later, when the path is opened step by step.
    target = os.path.normpath(os.path.join(cwd, path))
    if not paths.is_inside(target, base):
        raise Refused(f"Access denied: '{path}' is outside the working folder", f"stay inside {base}")
    return os.path.relpath(target, base)


def leads_into(base: str, cwd: str, path: str) -> bool:
    """Whether a path as a model writes it lies in the base."""
    return paths.can_be_path(path) and paths.is_inside(os.path.normpath(os.path.join(cwd, path)), base)


def read_file_part(base: str, relative: str, offset: int, most: int) -> tuple[int, bytes]:
    """The size of a file, and part of it."""
    with _translate_errors(relative):
        return files.read_part(base, relative, offset, most)


def write_file(base: str, relative: str, text: str) -> bool:
    """Write a file, making missing folders; True if it replaced one."""
    folder, _, name = relative.rpartition("/")
    with _translate_errors(relative):
        _make_folders_beneath(base, folder)
        with folder_beneath(base, folder or ".") as opened:
            mode: int | None = 0o644
            existed = True
            try:
                mode = regular_file_mode(opened, name)
            except FileNotFoundError:
                existed = False
            if mode is None:
                raise Refused(f"Access denied: '{relative}' is a link or not a file", "name the real file")
            replace_file_in(opened, name, text, mode)
        return existed


def _make_folders_beneath(base: str, folder: str) -> None:
    opened = os.open(base, FOLDER_FLAGS)
    try:
        for step in folder.split("/") if folder else ():
            opened = enter_folder(opened, step)
    finally:
        os.close(opened)


def list_folder(base: str, relative: str) -> list[str]:
    """The names in a folder: folders end in `/`, links in `@`."""
    with _translate_errors(relative), folder_beneath(base, relative) as opened:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            raise BadRequest(f"Not a folder: '{relative}'", "read it as a file")
        listing = paths.list_names(opened)
    return sorted([*(f"{name}/" for name in listing.folders), *(f"{name}@" for name in listing.links), *listing.files])


def list_tree(base: str, relative: str) -> list[str]:
    """Every file beneath a folder by its path in it, without `IGNORED_FOLDERS`."""
    with _translate_errors(relative), folder_beneath(base, relative):
        pass  # only to report a folder that is missing or behind a link
    return [path for path, _ in paths.tree_of(os.path.normpath(f"{base}/{relative}"), passing_over=IGNORED_FOLDERS)]


@contextlib.contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    """Report system errors in the words that models know from other agents' tools."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoFile(f"File not found: '{path}'", "list the folder to see what exists") from error
    except files.NotRegular as error:
        raise BadRequest(f"Not a file: '{path}' is {error}") from error
    except IsADirectoryError as error:
        raise BadRequest(f"Not a file: '{path}' is a folder") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise Refused(f"Access denied: '{path}' is a link that leads elsewhere") from error
        raise HostError(f"'{path}' can't be used: {error.strerror}", "check its permissions", path) from error

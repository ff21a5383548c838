"""Files that metier keeps for itself: owner-only, written beside and renamed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator

from ..types.errors import BadRequest, HostError, NoFile, Refused
from . import files, paths
from .facts import monotonic, now_ns, sleep
from .files import open_beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_FORGOTTEN_NS = 60_000_000_000
"""No write takes this long: what is older was left by a process that was killed."""


def make_folder(path: str) -> None:
    """A folder of the owner's alone, and so is each one made on the way; one that is there already stays as it is."""
    for folder in _missing_folders(path):
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


def _missing_folders(path: str) -> list[str]:
    """The folders to make for a folder to be there, the outermost first."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    return missing[::-1]


def _fill_file(opened: int, text: str, mode: int, sync: bool = True) -> None:
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
    beside = _temporary_name(path)
    try:
        opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        try:
            _fill_file(opened, text, mode, sync)
            os.replace(beside, path)
        except BaseException:  # nothing half-written stays behind, whatever stopped us
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        if sync:
            _sync_folder(folder)
        for name in find_leftovers(path, now_ns() - _FORGOTTEN_NS):
            with contextlib.suppress(OSError):
                os.unlink(name)
    except OSError as error:
        raise HostError(f"{path} can't be written: {error.strerror}", "check permissions and space", path) from error


def _temporary_name(path: str) -> str:
    """A name beside a path that nobody can guess."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{os.urandom(8).hex()}.tmp"


def find_leftovers(path: str, before_ns: int) -> list[str]:
    """What writers of a path left beside it when they were killed before that time."""
    import re  # writing is rare, and starting must be quick

    folder, _, name = path.rpartition("/")
    ours = re.compile(re.escape(f".{name}.") + r"[0-9a-f]{16}\.tmp(\.old)?").fullmatch
    stale = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if ours(entry.name) and entry.stat(follow_symlinks=False).st_ctime_ns < before_ns:
                    stale.append(f"{folder}/{entry.name}")
    return sorted(stale)


def _sync_folder(folder: str) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    except OSError:
        pass  # some file systems can't; the rename itself still holds
    finally:
        os.close(opened)


@contextlib.contextmanager
def hold_lock(path: str) -> Iterator[None]:
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

    beside = _temporary_name(target)
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

    for name in find_leftovers(target, now_ns()):
        if name.endswith(".old") and not os.path.lexists(target):
            rename_path(name, target)
        else:
            shutil.rmtree(name, ignore_errors=True)


def remove_tree(folder: str) -> None:
    """Remove a folder of ours and all it holds; what it links to stays."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def rename_path(path: str, target: str) -> None:
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


def regular_file_mode(folder: int, name: str) -> int | None:
    """The permissions of a regular file in an open folder; None when it is a link or anything else."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return status.st_mode & 0o777 if stat.S_ISREG(status.st_mode) else None


def replace_file_in(folder: int, name: str, text: str, mode: int) -> None:
    """Replace a file of an open folder whole, by its name in that folder."""
    beside = _temporary_name(name)[1:]
    try:
        opened = os.open(beside, _CREATE, 0o600, dir_fd=folder)
        try:
            _fill_file(opened, text, mode)
            os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(beside, dir_fd=folder)
            raise
    except OSError as error:
        raise HostError(f"{name} can't be written: {error.strerror}", "check permissions and space", name) from error


def rename_file_in(folder: int, name: str, target: str) -> bool:
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


def write_new_file(base: str, inner: str, text: str) -> None:
    """Write a file in a new folder beneath a base, one step at a time and through no link beyond the base."""
    *steps, last, name = inner.split("/")
    at = base
    try:
        for outer in _missing_folders(base):
            with contextlib.suppress(FileExistsError):
                os.mkdir(outer, 0o755)
        folder = os.open(base, _FOLDER)
        try:
            for step in steps:
                at = f"{at}/{step}"
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, 0o755, dir_fd=folder)
                folder = _enter_folder(folder, step)
            at = f"{at}/{last}"
            os.mkdir(last, 0o755, dir_fd=folder)
            _fill_new_folder(folder, last, name, text)
        finally:
            os.close(folder)
    except FileExistsError as error:
        raise BadRequest(f"{at} is there already", "choose another name, or edit that one", at) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            hint = "give the folder that is meant with --dir, or remove the link"
            raise BadRequest(f"{at} is a link or no folder: nothing is written through it", hint, at) from error
        raise HostError(f"{at} can't be written: {error.strerror}", "check permissions", at) from error


def _enter_folder(folder: int, step: str) -> int:
    """The folder in a folder, in its place: no link is followed, and the outer one is closed."""
    inner = os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    os.close(folder)
    return inner


def _fill_new_folder(outer: int, last: str, name: str, text: str) -> None:
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


_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_BOTH = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def append_line(path: str, line: str) -> None:
    """Add one line, in one write: a reader sees it whole, or not yet.  What a crash left unfinished ends first."""
    make_folder(os.path.dirname(path))
    try:
        opened = os.open(path, _BOTH, 0o600)
        try:
            size = os.fstat(opened).st_size
            broken = size > 0 and os.pread(opened, 1, size - 1) != b"\n"
            data = (b"\n" if broken else b"") + line.encode("utf-8", "replace") + b"\n"
            while data:
                data = data[os.write(opened, data) :]
        finally:
            os.close(opened)
    except OSError as error:
        raise HostError(f"{path} can't be written: {error.strerror}", "check permissions and space", path) from error


def read_lines(path: str) -> Iterator[str]:
    """The lines of a file; a last one that is not finished is left out."""
    try:
        with open(path, "rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line.decode("utf-8", "replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise HostError(f"{path} can't be read: {error.strerror}", "check its permissions", path) from error


def remove_unclaimed(path: str) -> None:
    """Remove a file that nobody has claimed."""
    with claim_file(path) as free:
        if free:
            os.unlink(path)


def list_files(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


@contextlib.contextmanager
def claim_file(path: str) -> Iterator[bool]:
    """Whether a file is ours for now; the kernel lets go of it when the process ends, however it ends."""
    make_folder(os.path.dirname(path))
    try:
        opened = os.open(path, _APPEND, 0o600)
    except OSError as error:
        raise HostError(f"{path} can't be written: {error.strerror}", "check permissions and space", path) from error
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(opened)


_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_PAUSE = 0.02


@contextlib.contextmanager
def hold_locks(
    paths: Iterable[str], seconds: float = 600, waiting: Callable[[], None] | None = None
) -> Iterator[list[int]]:
    """Hold all of these locks, taken in one order by everybody so that nobody waits for each other in a circle.

    A child that is given what is yielded holds them too, as long as it runs.
    """
    opened: list[int] = []
    until = monotonic() + seconds
    notified = False
    try:
        for path in sorted(set(paths)):
            descriptor = _open_lock(path)
            opened.append(descriptor)
            while not _try_flock(descriptor):
                if monotonic() > until:
                    raise HostError(f"another metier has held {path} for too long", "end it, then try again", path)
                if waiting is not None and not notified:
                    waiting()
                    notified = True
                sleep(_PAUSE)
        yield opened
    finally:
        for descriptor in opened:
            os.close(descriptor)


def try_lock(path: str) -> int | None:
    """The lock, open until it is closed; None when somebody holds it or it is gone."""
    try:
        opened = os.open(path, _FLAGS & ~os.O_CREAT)
    except OSError:
        return None
    if _try_flock(opened):
        return opened
    os.close(opened)
    return None


def create_lock(path: str) -> int:
    """A lock of our own that nobody can have yet."""
    opened = _open_lock(path)
    _try_flock(opened)
    return opened


def release_lock(opened: int) -> None:
    os.close(opened)


def _open_lock(path: str) -> int:
    try:
        return os.open(path, _FLAGS, 0o600)
    except OSError as error:
        raise HostError(f"{path} can't be locked: {error.strerror}", "check its permissions", path) from error


def _try_flock(opened: int) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
IGNORED_FOLDERS = frozenset(
    {"__pycache__", ".git", "node_modules", ".venv", ".mypy_cache", ".ruff_cache", ".hg", ".svn"}
)
"""Folders that nobody means when they ask for files."""


def path_from_base(base: str, cwd: str, path: str) -> str:
    """A path as a model writes it, relative to the base; one that leads elsewhere is refused."""
    if "\0" in path or not paths.can_be_path(path):
        raise BadRequest("that is not a path", "give a path in the working folder")
    target = os.path.normpath(os.path.join(cwd, path))
    if not paths.is_inside(target, base):
        raise Refused(f"Access denied: '{path}' is outside the working folder", f"stay inside {base}")
    return os.path.relpath(target, base)


def leads_into(base: str, cwd: str, path: str) -> bool:
    """Whether a path as a model writes it leads into a folder."""
    return paths.can_be_path(path) and paths.is_inside(os.path.normpath(os.path.join(cwd, path)), base)


def read_file_part(base: str, relative: str, offset: int, most: int) -> tuple[int, bytes]:
    """The size of a file, and part of it."""
    with _translate_errors(relative):
        return files.read_part(base, relative, offset, most)


def write_file(base: str, relative: str, text: str) -> bool:
    """Write a file whole, its folders too where they are missing; True where there was one before."""
    folder, _, name = relative.rpartition("/")
    with _translate_errors(relative):
        _make_folders(base, folder)
        with folder_beneath(base, folder or ".") as opened:
            mode: int | None = 0o644
            existed = True
            try:
                mode = regular_file_mode(opened, name)
            except FileNotFoundError:
                existed = False
            if mode is None:
                raise Refused(f"Access denied: '{relative}' is a link or no file", "name the file that is meant")
            replace_file_in(opened, name, text, mode)
        return existed


def _make_folders(base: str, folder: str) -> None:
    """The folders of a path, one step at a time, through no link."""
    opened = os.open(base, _FOLDER_FLAGS)
    try:
        for step in folder.split("/") if folder else ():
            with contextlib.suppress(FileExistsError):
                os.mkdir(step, 0o755, dir_fd=opened)
            entered = os.open(step, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=opened)
            os.close(opened)
            opened = entered
    finally:
        os.close(opened)


def list_folder(base: str, relative: str) -> list[str]:
    """What a folder holds: folders with a `/`, links with an `@`."""
    with _translate_errors(relative), folder_beneath(base, relative) as opened:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            raise BadRequest(f"Not a folder: '{relative}'", "read it as a file")
        listing = paths.list_names(opened)
    return sorted([*(f"{name}/" for name in listing.folders), *(f"{name}@" for name in listing.links), *listing.files])


def list_tree(base: str, relative: str) -> list[str]:
    """Every file beneath a folder, by its path in it; what nobody means is passed over."""
    with _translate_errors(relative), folder_beneath(base, relative):
        pass
    return [path for path, _ in paths.tree_of(os.path.normpath(f"{base}/{relative}"), passing_over=IGNORED_FOLDERS)]


@contextlib.contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoFile(f"File not found: '{path}'", "list the folder to see what there is") from error
    except files.NotRegular as error:
        raise BadRequest(f"Not a file: '{path}' is {error}") from error
    except IsADirectoryError as error:
        raise BadRequest(f"Not a file: '{path}' is a folder") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise Refused(f"Access denied: '{path}' is a link that leads elsewhere") from error
        raise HostError(f"'{path}' can't be used: {error.strerror}", "check its permissions", path) from error

"""Whole folders: list, make, copy, exchange and remove them, digest what they hold, and fill them from outside.

Paths from an archive or a repository are judged as text, all of them before anything is written, so that a refusal
leaves nothing behind.  What passes is written through `FolderWriter`, beneath an open folder and through no link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import TextIO

from ..types.errors import BadRequest, HostError, Refused
from ..types.installed import FileRecord
from .facts import now_ns
from .fs import (
    CREATE_FLAGS,
    FOLDER_FLAGS,
    enter_folder,
    make_folder,
    missing_folders,
    temporary_name,
    write_bytes,
    write_errors,
)
from .paths import MOST_FILES, tree_of

# --- Listing and looking ---

_DAY_NS = 86_400 * 10**9


def list_names(path: str) -> list[str]:
    """The names in a folder, sorted; none if it can't be read."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def inode_of(path: str) -> int:
    """The inode of a path itself, not of what a link leads to; 0 if it does not exist."""
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0


def is_link(path: str) -> bool:
    return os.path.islink(path)


def others_may_write(path: str) -> bool:
    """Whether every user of this machine may change a file."""
    try:
        return bool(os.stat(path).st_mode & 0o002)
    except OSError:
        return False


def days_old(path: str) -> float:
    """Days since the last change; 0 if it does not exist."""
    try:
        return max(0.0, (now_ns() - os.lstat(path).st_mtime_ns) / _DAY_NS)
    except OSError:
        return 0.0


def changed_at(path: str) -> int:
    """When a file was last written, in nanoseconds since 1970; 0 if it does not exist."""
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


def touch_file(path: str) -> bool:
    """Whether a file exists; if so, its age starts again."""
    try:
        os.utime(path, follow_symlinks=False)
    except OSError:
        return os.path.lexists(path)
    return True


def size_of_tree(path: str) -> int:
    """Bytes of all files beneath a folder, following no link."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{folder}/{name}").st_size
    return total


# --- Making and removing ---


def make_folders(path: str, mode: int = 0o755) -> None:
    """Make a folder and its missing parents, subject to the umask; `fs.make_folder` makes private ones.

    Whatever the umask, nobody else may write to them: who could would place skills of his own.
    """
    try:
        if outer := os.path.dirname(path.rstrip("/")):
            for folder in missing_folders(outer):
                with contextlib.suppress(FileExistsError):  # another process may have made it meanwhile
                    os.mkdir(folder, 0o755)
        os.makedirs(path, mode, exist_ok=True)
    except OSError as error:
        raise HostError(f"{path} can't be made: {error.strerror}", "check permissions", path) from error


def make_executable(path: str) -> None:
    os.chmod(path, os.stat(path, follow_symlinks=False).st_mode & 0o777 | 0o111)


def remove_file(path: str) -> None:
    """Remove a file or a link; one that does not exist is fine."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise HostError(f"{path} can't be removed: {error.strerror}", "check permissions", path) from error


def remove_tree(path: str) -> None:
    """Remove a folder with all it holds, or a file or link; what can't be removed stays."""
    import shutil  # slow to import, and rarely needed

    if os.path.islink(path) or not os.path.isdir(path):
        with contextlib.suppress(OSError):
            os.unlink(path)
        return
    shutil.rmtree(path, ignore_errors=True)


def remove_empty(base: str, inside: str) -> None:
    """Remove a folder and those above it up to the base, as long as they are empty."""
    while inside:
        try:
            os.rmdir(f"{base}/{inside}")
        except OSError:
            return
        inside = inside.rpartition("/")[0]


# --- Moving and replacing ---

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def move_into_place(source: str, target: str) -> None:
    """Rename something to a name that is free."""
    try:
        if os.path.lexists(target):  # rename alone would replace an empty folder
            raise OSError(errno.EEXIST, "it already exists")
        os.rename(source, target)
    except OSError as error:
        raise HostError(f"{target} can't be put in place: {error.strerror}", "check permissions", target) from error


def exchange_folders(first: str, second: str) -> bool:
    """Swap two folders in one step; False if the system can't."""
    try:
        import ctypes  # only when something is replaced

        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, AttributeError):
        return False
    if renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), second)


def replace_link(path: str, target: str) -> None:
    """Make a path a link to a target, replacing a file or link that has the name."""
    temporary = temporary_name(path)
    os.symlink(target, temporary)
    os.replace(temporary, path)


def put_bytes(path: str, data: bytes, mode: int) -> None:
    """Write a file in a folder that is being prepared, replacing whatever has its name."""
    make_folders(os.path.dirname(path))
    if os.path.isdir(path) and not os.path.islink(path):
        remove_tree(path)  # a rename can't replace a folder
    write_bytes(path, data, mode, sync=False)


def keep_bytes(path: str, data: bytes) -> None:
    """Write a read-only file whose name is the digest of its content; an existing one stays."""
    if os.path.exists(path):
        return
    make_folder(os.path.dirname(path))
    write_bytes(path, data, 0o400, sync=False)  # a reader checks the digest, so a torn write is noticed


def copy_entry(source: str, target: str) -> None:
    """Copy one file with its mode, or one link as a link."""
    import shutil

    make_folders(os.path.dirname(target))
    remove_tree(target)
    shutil.copy2(source, target, follow_symlinks=False)


def carry_over(source: str, target: str) -> None:
    """Copy what git and Python keep in a folder into the folder that replaces it."""
    import shutil

    for name in (".git", "__pycache__"):
        if os.path.isdir(f"{source}/{name}") and not os.path.islink(f"{source}/{name}"):
            shutil.copytree(f"{source}/{name}", f"{target}/{name}", symlinks=True)


# --- Temporary and new folders ---


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="metier-") as path:
        yield os.path.realpath(path)


def remove_empty_folder(path: str) -> None:
    """Remove a folder if it is there and empty."""
    with contextlib.suppress(OSError):
        os.rmdir(path)


@contextlib.contextmanager
def staged_folder(target: str) -> Iterator[str]:
    """A folder that becomes the target when the block ends, and vanishes when it raises."""
    if os.path.lexists(target) and (os.path.islink(target) or not os.path.isdir(target) or os.listdir(target)):
        raise BadRequest(f"{target} already exists", "pass a new or empty folder", target)
    above = os.path.dirname(target)
    with write_errors(target):
        os.makedirs(above, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".metier-", dir=above) as path:
            inner = f"{path}/folder"
            os.mkdir(inner, 0o755)
            yield inner
            if os.path.isdir(target):
                os.rmdir(target)
            os.rename(inner, target)


def path_inside(path: str, name: object) -> str:
    """A path in a folder, by a name from elsewhere; ValueError for a name that could lead out of it."""
    if not isinstance(name, str) or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"{name!r} is not a name inside a folder")
    return f"{path}/{name}"


def fill_folder(path: str, contents: Mapping[str, bytes]) -> None:
    """Make a folder with these files."""
    for name in contents:
        path_inside(path, name)  # all names are checked before anything is written
    os.makedirs(path)
    with open_folder_writer(path) as folder:
        for name, data in contents.items():
            folder.put(name, [data], executable=False)


def open_devnull() -> TextIO:
    """A text file that discards what is written to it."""
    return open(os.devnull, "w", encoding="utf-8")


# --- Digests ---

_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW


def file_marks(path: str) -> dict[str, FileRecord]:
    """Digest and mode of every file beneath a folder; links and special files are recorded by kind."""
    records: dict[str, FileRecord] = {}
    try:
        folder = os.open(path, FOLDER_FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        raise HostError(f"{path} can't be read: {error.strerror}", "check that it is a folder", path) from error
    # Every level is opened by descriptor: a folder swapped for a link meanwhile is not followed.
    waiting = [("", folder)]
    try:
        while waiting:
            inner, opened = waiting.pop()
            try:
                waiting += _mark_level(opened, inner, records)
            finally:
                os.close(opened)
    except OSError as error:
        raise HostError(f"{path} can't be read: {error.strerror}", "check permissions", path) from error
    finally:
        for _, opened in waiting:
            os.close(opened)
    return dict(sorted(records.items()))


def _mark_level(folder: int, inner: str, records: dict[str, FileRecord]) -> Iterator[tuple[str, int]]:
    """Record the files of one folder; the folders in it, open."""
    below = []
    for name in os.listdir(folder):
        path = f"{inner}/{name}" if inner else name
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            below.append((path, os.open(name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)))
            continue
        if len(records) >= MOST_FILES:
            raise OSError(errno.EFBIG, f"it holds more than {MOST_FILES} files")
        records[path] = _mark_file(folder, name, status)
    return iter(below)


def _mark_file(folder: int, name: str, status: os.stat_result) -> FileRecord:
    if stat.S_ISLNK(status.st_mode):
        return FileRecord("link:" + os.readlink(name, dir_fd=folder), "link")
    if not stat.S_ISREG(status.st_mode):
        return FileRecord("special", "special")
    opened = os.open(name, _READ_FLAGS, dir_fd=folder)
    digest = sha256()
    try:
        while piece := os.read(opened, 1 << 20):
            digest.update(piece)
        mode = os.fstat(opened).st_mode
    finally:
        os.close(opened)
    return FileRecord("sha256:" + digest.hexdigest(), f"{mode & 0o7777:o}")


def tree_stat_digest(path: str) -> tuple[str, int]:
    """A digest of the `stat` of every file beneath a folder, and the time of the newest change.

    While the digest is the same, the bytes are: reading them again is not needed."""
    records = []
    newest = 0
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                    continue
                newest = max(newest, status.st_mtime_ns, status.st_ctime_ns)
                records.append(
                    f"{entry.path}\0{status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_size}"
                    f" {status.st_mode}"
                )
    return sha256("\0".join(sorted(records)).encode("utf-8", "surrogateescape")).hexdigest(), newest


def newest_change(path: str, above: str) -> int:
    """When anything in a folder, or one of the folders between it and the one above, was last made, moved or changed.

    In nanoseconds, by the kernel's own time of change, which no program sets.  Folders count: what is moved in keeps
    the times of its files.
    """
    folders = [path]
    while (outer := os.path.dirname(folders[-1])) != above and os.path.dirname(outer) != outer:
        folders.append(outer)
    newest = max(os.lstat(folder).st_ctime_ns for folder in folders)
    for folder, names, files in os.walk(path):
        newest = max([newest, *(os.lstat(os.path.join(folder, name)).st_ctime_ns for name in (*names, *files))])
    return newest


# --- Paths from an archive or a repository ---

_find_control = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
).search
"""Among them marks of direction, which make a name look like another one: `gpj.exe` shown as `exe.jpg`."""


def inner_path(text: str) -> str:
    """A path as an archive or a repository names it, without `./` and trailing slashes; refused if unsafe."""
    fault = _path_fault(text)
    if fault:
        raise Refused(f"`{text[:200]}` is refused: {fault}", "nothing was written; report it to the author")
    return "/".join(part for part in text.split("/") if part not in ("", "."))


def _path_fault(text: str) -> str:
    if not text:
        return "an entry has no name"
    if text.startswith("/") or re.match(r"[A-Za-z]:", text):
        return "its path is absolute"
    if "\\" in text:
        return "its path holds a backslash"
    if _find_control(text):
        return "its path holds a control character"
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        return "its path leads out of the folder"
    if any(len(part.encode("utf-8", "surrogatepass")) > 255 for part in parts) or len(text) > 1024:
        return "its path is too long"
    if any(_is_git_name(part) for part in parts):
        return "it would bring a git repository of its own"
    return ""


def _is_git_name(part: str) -> bool:
    """`.git` in every spelling that some file system takes for it."""
    # HFS+ ignores format characters, NTFS trailing dots and spaces, alternate streams and short names (CVE-2014-9390).
    plain = "".join(character for character in part if unicodedata.category(character) != "Cf").lower().rstrip(". ")
    return plain.partition(":")[0] == ".git" or plain == "git~1"


def check_path_conflicts(files: Iterable[str]) -> None:
    """Refuse paths that are the same file on some system, and a file that is also a folder."""
    paths_by_fold: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in files:
        folded = _fold_path(path)
        if folded in paths_by_fold:
            raise Refused(f"`{path}` is there twice, as `{paths_by_fold[folded]}` too", "nothing was written")
        paths_by_fold[folded] = path
        parts = path.split("/")
        for end in range(1, len(parts)):
            above = "/".join(parts[:end])
            if folders.setdefault(_fold_path(above), above) != above:
                raise Refused(f"`{above}` is there twice, as `{folders[_fold_path(above)]}` too", "nothing was written")
    for folded, path in paths_by_fold.items():
        if folded in folders:
            raise Refused(f"`{path}` is a file and a folder at once", "nothing was written")


def _fold_path(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


# --- Filling a folder from outside ---


class FolderWriter:
    """Writes new files beneath an open folder, and records them."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self.files: dict[str, FileRecord] = {}

    def put(self, path: str, pieces: Iterable[bytes], executable: bool) -> int:
        """Write a new file; its size in bytes."""
        above, _, name = path.rpartition("/")
        mode = 0o755 if executable else 0o644
        digest, size = sha256(), 0
        with self._inside(above) as folder, os.fdopen(os.open(name, CREATE_FLAGS, mode, dir_fd=folder), "wb") as file:
            os.fchmod(file.fileno(), mode)
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                file.write(piece)
        self.files[path] = FileRecord("sha256:" + digest.hexdigest(), f"{mode:o}")
        return size

    def folder(self, path: str) -> None:
        """Make a folder, which may stay empty."""
        with self._inside(path):
            pass

    @contextlib.contextmanager
    def _inside(self, path: str) -> Iterator[int]:
        current = os.dup(self._folder)
        try:
            for part in path.split("/") if path else ():
                current = enter_folder(current, part)
            yield current
        finally:
            os.close(current)


@contextlib.contextmanager
def open_folder_writer(path: str) -> Iterator[FolderWriter]:
    """A writer for an existing folder."""
    try:
        folder = os.open(path, FOLDER_FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        raise HostError(f"{path} can't be opened: {error.strerror}", "check permissions", path) from error
    try:
        with write_errors(path):
            yield FolderWriter(folder)
    finally:
        os.close(folder)


def copy_folder_into(source: str, into: FolderWriter, most_files: int, most_bytes: int) -> list[tuple[str, str]]:
    """Copy the files of a folder; what is not a regular file is left out and returned with its kind."""
    left_out: list[tuple[str, str]] = []
    total = 0
    tree = tree_of(source, most_files + 1, frozenset())
    if len(tree) > most_files:
        raise Refused(f"{source} holds more than {most_files} files", "give the folder of the skill alone")
    for path, status in tree:
        inside = inner_path(path)
        if not stat.S_ISREG(status.st_mode):
            left_out.append((inside, "a link" if stat.S_ISLNK(status.st_mode) else "no file"))
            continue
        total += status.st_size
        if total > most_bytes:
            raise Refused(f"{source} holds more than {most_bytes} bytes", "give the folder of the skill alone")
        into.put(inside, read_pieces(f"{source}/{path}", status.st_size), bool(status.st_mode & 0o111))
    return left_out


def read_pieces(path: str, most: int) -> Iterator[bytes]:
    """The bytes of a regular file, at most so many."""
    # Not blocking: a named pipe may have taken the file's place since it was listed.
    with os.fdopen(os.open(path, _READ_FLAGS), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Refused(f"{path} is no longer a file", "try again")
        while most > 0 and (piece := file.read(min(most, 65_536))):
            most -= len(piece)
            yield piece


def read_first_bytes(path: str, most: int) -> bytes:
    """The first bytes of a file."""
    return b"".join(read_pieces(path, most))


# --- Copies that what runs is run from ---


def copy_marked_files(source: str, target: str, marks: Mapping[str, FileRecord], most: int) -> None:
    """Copy files that were recorded, exactly as they were recorded; OSError if one has changed since."""
    from . import files

    folder = files.open_folder(source)
    try:
        for path, mark in marks.items():
            copy = f"{target}/{path}"
            os.makedirs(os.path.dirname(copy), 0o700, exist_ok=True)
            if mark.mode == "link":
                os.symlink(mark.digest.removeprefix("link:"), copy)
                continue
            if mark.mode == "special":
                raise OSError(f"{path} is no regular file")
            data = files.read_whole(folder, path, most)[1]
            if "sha256:" + sha256(data).hexdigest() != mark.digest:
                raise OSError(f"{path} was changed")
            put_bytes(copy, data, int(mark.mode, 8))
            os.chmod(copy, int(mark.mode, 8))  # whatever the umask is
    finally:
        os.close(folder)


@contextlib.contextmanager
def temporary_folder_in(above: str) -> Iterator[str]:
    """A private folder inside another, so that what is made there can be renamed into place."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=above) as path:
        yield path


def seal_folder(folder: str, sealed: str) -> None:
    """Give a finished copy its name; one that is there already holds the same."""
    make_folders(os.path.dirname(sealed), 0o700)
    try:
        os.rename(folder, sealed)
    except OSError:
        if not os.path.isdir(sealed):
            raise


def remove_older(folder: str, days: float, most: int) -> None:
    """Remove all but the newest entries of a folder, if they were not touched for so many days."""
    with contextlib.suppress(HostError, OSError):
        entries = sorted((f"{folder}/{name}" for name in os.listdir(folder)), key=days_old)
        for path in entries[most:]:
            if days_old(path) > days:
                remove_tree(path)

"""Paths inside an archive or a repository: judged as text, all of them before anything is written."""

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
from ..types.lockfile import FileRecord
from .facts import now_ns
from .paths import MOST_FILES

_find_control = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]").search


def inner_path(text: str) -> str:
    """A path inside a folder, as an archive or a repository names it, without `./` and trailing slashes."""
    fault = _path_fault(text)
    if fault:
        raise Refused(f"`{text[:200]}` is refused: {fault}", "nothing was written; tell whoever made it")
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
    plain = "".join(character for character in part if unicodedata.category(character) != "Cf").lower().rstrip(". ")
    return plain.partition(":")[0] == ".git" or plain == "git~1"


def check_path_conflicts(files: Iterable[str]) -> None:
    """Refuse files that would be one on some system, and a file that is a folder to another."""
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


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="metier-") as path:
        yield os.path.realpath(path)


def path_inside(path: str, name: object) -> str:
    """A path in a folder, by a name that somebody else chose: whatever could lead out of the folder is refused."""
    if not isinstance(name, str) or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"{name!r} is not a name inside a folder")
    return f"{path}/{name}"


def write_file(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def make_link(path: str, target: str) -> None:
    os.symlink(target, path)


def fill_folder(path: str, contents: Mapping[str, bytes]) -> None:
    """A folder with these files in it."""
    places = {path_inside(path, name): data for name, data in contents.items()}  # all are judged before any is written
    os.makedirs(path)
    for place, data in places.items():
        os.makedirs(os.path.dirname(place), exist_ok=True)
        write_file(place, data)


@contextlib.contextmanager
def staged_folder(target: str) -> Iterator[str]:
    """A folder that becomes the target when all went well, and is gone when it did not."""
    if os.path.lexists(target) and (os.path.islink(target) or not os.path.isdir(target) or os.listdir(target)):
        raise BadRequest(f"{target} is there already", "give a new folder, or an empty one", target)
    above = os.path.dirname(target)
    try:
        os.makedirs(above, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".metier-", dir=above) as path:
            inner = f"{path}/folder"
            os.mkdir(inner, 0o755)
            yield inner
            if os.path.isdir(target):
                os.rmdir(target)
            os.rename(inner, target)
    except OSError as error:
        raise HostError(
            f"{target} can't be written: {error.strerror}", "check permissions and space", target
        ) from error


def allow_execution(path: str) -> None:
    os.chmod(path, 0o755)


def open_devnull() -> TextIO:
    """A file that swallows what is written to it."""
    return open(os.devnull, "w", encoding="utf-8")


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
_AT_CWD, _EXCHANGE = -100, 2
_DAY = 86_400 * 10**9


def exchange_folders(first: str, second: str) -> bool:
    """Let two folders change places at once; False where the system can't."""
    try:
        import ctypes  # only where something is replaced

        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, AttributeError):
        return False
    if call(_AT_CWD, os.fsencode(first), _AT_CWD, os.fsencode(second), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), second)


def inode_of(path: str) -> int:
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


def move_into_place(source: str, target: str) -> None:
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


def list_names(path: str) -> list[str]:
    """What a folder holds, sorted; nothing when it is not there."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def touch_file(path: str) -> bool:
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


def file_marks(path: str) -> dict[str, FileRecord]:
    """Every file beneath a folder as it is now, by its bytes and its mode; links and special files by what they are."""
    collected: dict[str, FileRecord] = {}
    try:
        folder = os.open(path, _FOLDER)
    except OSError as error:
        raise HostError(f"{path} can't be read: {error.strerror}", "check that it is a folder", path) from error
    waiting = [("", folder)]
    try:
        while waiting:
            inner, opened = waiting.pop()
            try:
                waiting += _mark_level(opened, inner, collected)
            finally:
                os.close(opened)
    except OSError as error:
        raise HostError(f"{path} can't be read: {error.strerror}", "check permissions", path) from error
    finally:
        for _, opened in waiting:
            os.close(opened)
    return dict(sorted(collected.items()))


def _mark_level(folder: int, inner: str, collected: dict[str, FileRecord]) -> Iterator[tuple[str, int]]:
    below = []
    for name in os.listdir(folder):
        place = f"{inner}/{name}" if inner else name
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            below.append((place, os.open(name, _FOLDER, dir_fd=folder)))
            continue
        if len(collected) >= MOST_FILES:
            raise OSError(errno.EFBIG, f"it holds more than {MOST_FILES} files")
        collected[place] = _mark_file(folder, name, status)
    return iter(below)


def _mark_file(folder: int, name: str, status: os.stat_result) -> FileRecord:
    if stat.S_ISLNK(status.st_mode):
        return FileRecord("link:" + os.readlink(name, dir_fd=folder), "link")
    if not stat.S_ISREG(status.st_mode):
        return FileRecord("special", "special")
    opened = os.open(name, _READ, dir_fd=folder)
    digest = sha256()
    try:
        while piece := os.read(opened, 1 << 20):
            digest.update(piece)
        mode = os.fstat(opened).st_mode
    finally:
        os.close(opened)
    return FileRecord("sha256:" + digest.hexdigest(), f"{mode & 0o7777:o}")


def tree_stat_digest(path: str) -> tuple[str, int]:
    """What `stat` says of every file beneath a folder, as one digest: while it holds, the bytes are the same.
    With it, when the last of them changed."""
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


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class FolderWriter:
    """The open folder, and what was written into it."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self.files: dict[str, FileRecord] = {}

    def put(self, path: str, pieces: Iterable[bytes], executable: bool) -> int:
        """Write a new file; how many bytes it has."""
        above, _, name = path.rpartition("/")
        mode = 0o755 if executable else 0o644
        digest, size = sha256(), 0
        with self._inside(above) as folder, os.fdopen(os.open(name, _NEW, mode, dir_fd=folder), "wb") as file:
            os.fchmod(file.fileno(), mode)
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                file.write(piece)
        self.files[path] = FileRecord("sha256:" + digest.hexdigest(), f"{mode:o}")
        return size

    def folder(self, path: str) -> None:
        """A folder that may stay empty."""
        with self._inside(path):
            pass

    @contextlib.contextmanager
    def _inside(self, path: str) -> Iterator[int]:
        current = os.dup(self._folder)
        try:
            for part in path.split("/") if path else ():
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=current)
                inner = os.open(part, _FOLDER, dir_fd=current)
                os.close(current)
                current = inner
            yield current
        finally:
            os.close(current)


@contextlib.contextmanager
def open_folder_writer(path: str) -> Iterator[FolderWriter]:
    """Fill a folder that is there already."""
    try:
        folder = os.open(path, _FOLDER)
    except OSError as error:
        raise HostError(f"{path} can't be opened: {error.strerror}", "check permissions", path) from error
    try:
        yield FolderWriter(folder)
    except OSError as error:
        raise HostError(f"{path} can't be written: {error.strerror}", "check permissions and space", path) from error
    finally:
        os.close(folder)


def copy_folder_into(source: str, into: FolderWriter, most_files: int, most_bytes: int) -> list[tuple[str, str]]:
    """Copy what a folder holds; what is no file is left out, and named with what it is."""
    from .paths import tree_of

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
    """The bytes of a file, which must still be one."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Refused(f"{path} is no longer a file", "try again")
        while most > 0 and (piece := file.read(min(most, 65_536))):
            most -= len(piece)
            yield piece


def read_first_bytes(path: str, most: int) -> bytes:
    """The first bytes of a file."""
    return b"".join(read_pieces(path, most))

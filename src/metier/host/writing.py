"""A folder being filled with what somebody else made: new files only, through no link, by the folder held open."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from hashlib import sha256

from ..types.errors import HostError, Refused
from ..types.installed import FileMark
from .inner import inner_path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Filling:
    """The open folder, and what was written into it."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self.files: dict[str, FileMark] = {}

    def put(self, path: str, pieces: Iterable[bytes], executable: bool) -> int:
        """Write a new file; how many bytes it has."""
        above, _, name = path.rpartition("/")
        mode = 0o755 if executable else 0o644
        found, size = sha256(), 0
        with self._inside(above) as folder, os.fdopen(os.open(name, _NEW, mode, dir_fd=folder), "wb") as file:
            os.fchmod(file.fileno(), mode)
            for piece in pieces:
                found.update(piece)
                size += len(piece)
                file.write(piece)
        self.files[path] = FileMark("sha256:" + found.hexdigest(), f"{mode:o}")
        return size

    def folder(self, path: str) -> None:
        """A folder that may stay empty."""
        with self._inside(path):
            pass

    @contextlib.contextmanager
    def _inside(self, path: str) -> Iterator[int]:
        here = os.dup(self._folder)
        try:
            for part in path.split("/") if path else ():
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=here)
                inner = os.open(part, _FOLDER, dir_fd=here)
                os.close(here)
                here = inner
            yield here
        finally:
            os.close(here)


@contextlib.contextmanager
def filling(path: str) -> Iterator[Filling]:
    """Fill a folder that is there already."""
    try:
        folder = os.open(path, _FOLDER)
    except OSError as error:
        raise HostError(f"{path} can't be opened: {error.strerror}", "check permissions", path) from error
    try:
        yield Filling(folder)
    except OSError as error:
        raise HostError(f"{path} can't be written: {error.strerror}", "check permissions and space", path) from error
    finally:
        os.close(folder)


def copy_in(source: str, into: Filling, most_files: int, most_bytes: int) -> list[tuple[str, str]]:
    """Copy what a folder holds; what is no file is left out, and named with what it is."""
    from .paths import tree_of

    left_out: list[tuple[str, str]] = []
    total = 0
    found = tree_of(source, most_files + 1, frozenset())
    if len(found) > most_files:
        raise Refused(f"{source} holds more than {most_files} files", "give the folder of the skill alone")
    for path, status in found:
        inside = inner_path(path)
        if not stat.S_ISREG(status.st_mode):
            left_out.append((inside, "a link" if stat.S_ISLNK(status.st_mode) else "no file"))
            continue
        total += status.st_size
        if total > most_bytes:
            raise Refused(f"{source} holds more than {most_bytes} bytes", "give the folder of the skill alone")
        into.put(inside, pieces_of(f"{source}/{path}", status.st_size), bool(status.st_mode & 0o111))
    return left_out


def pieces_of(path: str, most: int) -> Iterator[bytes]:
    """The bytes of a file, which must still be one."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Refused(f"{path} is no longer a file", "try again")
        while most > 0 and (piece := file.read(min(most, 65_536))):
            most -= len(piece)
            yield piece


def head_of(path: str, most: int) -> bytes:
    """The first bytes of a file."""
    return b"".join(pieces_of(path, most))

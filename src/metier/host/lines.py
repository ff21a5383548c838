"""Files of lines that only grow: journals."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from ..types.errors import HostError
from .state import make_folder

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_BOTH = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def append(path: str, line: str) -> None:
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


def read(path: str) -> Iterator[str]:
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


def remove(path: str) -> None:
    """Remove a file that nobody has claimed."""
    with claimed(path) as free:
        if free:
            os.unlink(path)


def names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


@contextlib.contextmanager
def claimed(path: str) -> Iterator[bool]:
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

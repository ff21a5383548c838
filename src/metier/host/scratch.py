"""A folder for the moment: private, unpredictable, and gone afterwards."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import TextIO

from ..types.errors import BadRequest, HostError


@contextlib.contextmanager
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="metier-") as path:
        yield os.path.realpath(path)


def inside(path: str, name: object) -> str:
    """A path in a folder, by a name that somebody else chose: whatever could lead out of the folder is refused."""
    if not isinstance(name, str) or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"{name!r} is not a name inside a folder")
    return f"{path}/{name}"


def write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def link(path: str, target: str) -> None:
    os.symlink(target, path)


def fill(path: str, contents: Mapping[str, bytes]) -> None:
    """A folder with these files in it."""
    places = {inside(path, name): data for name, data in contents.items()}  # all are judged before any is written
    os.makedirs(path)
    for place, data in places.items():
        os.makedirs(os.path.dirname(place), exist_ok=True)
        write(place, data)


def nowhere() -> TextIO:
    """A file that swallows what is written to it."""
    return open(os.devnull, "w", encoding="utf-8")


@contextlib.contextmanager
def becoming(target: str) -> Iterator[str]:
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


def make_executable(path: str) -> None:
    os.chmod(path, 0o755)

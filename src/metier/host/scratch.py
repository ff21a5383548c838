"""A folder for the moment: private, unpredictable, and gone afterwards."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import TextIO


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

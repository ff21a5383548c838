"""A folder for the moment: private, unpredictable, and gone afterwards."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="metier-") as path:
        yield os.path.realpath(path)


def write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def fill(path: str, contents: Mapping[str, bytes]) -> None:
    """A folder with these files in it."""
    os.makedirs(path)
    for name, data in contents.items():
        os.makedirs(os.path.dirname(f"{path}/{name}"), exist_ok=True)
        write(f"{path}/{name}", data)

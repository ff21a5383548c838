"""Archives written from bytes: the same content gives the same bytes, on every machine and day."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Mapping
from typing import NamedTuple

from ..types.errors import HostError, Refused
from .state import make_folder

_LONG_AGO = (1980, 1, 1, 0, 0, 0)


class Content(NamedTuple):
    data: bytes
    program: bool = False
    """Whether it may be run."""

    @property
    def mode(self) -> int:
        return 0o755 if self.program else 0o644


def zipped(contents: Mapping[str, Content]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(contents):
            info = zipfile.ZipInfo(path, _LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = (0o100000 | contents[path].mode) << 16
            archive.writestr(info, contents[path].data)
    return packed.getvalue()


def tarred(contents: Mapping[str, Content]) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", fileobj=packed, mtime=0) as outer, tarfile.open(fileobj=outer, mode="w") as archive:
        for path in sorted(contents):
            info = tarfile.TarInfo(path)
            info.size = len(contents[path].data)
            info.mode = contents[path].mode
            archive.addfile(info, io.BytesIO(contents[path].data))
    return packed.getvalue()


def write_all(folder: str, contents: Mapping[str, Content], force: bool = False) -> None:
    """Write files beneath a folder.  One that is there already is left, and nothing is written, unless forced."""
    there = [path for path in sorted(contents) if os.path.lexists(f"{folder}/{path}")]
    if there and not force:
        raise Refused(f"{folder}/{there[0]} is there already", "choose another --out, or overwrite with --force")
    for path in sorted(contents):
        _write(f"{folder}/{path}", contents[path])


def _write(path: str, content: Content) -> None:
    make_folder(os.path.dirname(path) or ".")
    beside = f"{path}.{os.urandom(6).hex()}.tmp"
    try:
        opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, content.mode)
        with os.fdopen(opened, "wb") as file:
            file.write(content.data)
        os.replace(beside, path)
    except OSError as error:
        raise HostError(f"{path} can't be written: {error.strerror}", "check permissions and space", path) from error


def is_program(path: str) -> bool:
    """Whether a file may be run by its owner."""
    try:
        return bool(os.stat(path).st_mode & 0o100)
    except OSError:
        return False

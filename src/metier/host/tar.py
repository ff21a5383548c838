"""The members of a tar, read header by header; what is neither file nor folder is named as such."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..types.errors import Refused

_BLOCK = 512
_LONGEST_HEADER = 65_536
_ODD = {b"1": "a hard link", b"2": "a link", b"3": "a device", b"4": "a device", b"6": "a named pipe"}


class Member(NamedTuple):
    """One entry of an archive."""

    path: str
    size: int
    executable: bool
    folder: bool
    odd: str = ""
    """What it is, when it is neither a file nor a folder that can be taken."""


class Plain:
    """A stream of bytes of which exactly so many are taken at a time."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""

    def some(self, most: int) -> bytes:
        if not self._left:
            self._left = next(self._pieces, b"")
        piece, self._left = self._left[:most], self._left[most:]
        return piece

    def exactly(self, count: int) -> bytes:
        parts = []
        while count:
            piece = self.some(count)
            if not piece:
                raise EOFError("it ends too early")
            parts.append(piece)
            count -= len(piece)
        return b"".join(parts)

    def pieces(self, count: int) -> Iterator[bytes]:
        while count:
            piece = self.some(count)
            if not piece:
                raise EOFError("it ends too early")
            count -= len(piece)
            yield piece


def could_be_tar(start: bytes) -> bool:
    """Whether a file begins as a tar does: a whole block, with a number where its sum belongs."""
    return len(start) == _BLOCK and not start[148:156].strip(b"01234567 \0")


def members(stream: Plain) -> Iterator[tuple[Member, Iterator[bytes]]]:
    """Each member with its bytes; those not taken are passed over."""
    long_name, size = "", -1
    while True:
        header = stream.exactly(_BLOCK)
        if not any(header):
            _check_end(stream)
            return
        _check_sum(header)
        kind, length = header[156:157], _number(header[124:136])
        if kind in (b"x", b"g", b"L", b"K"):
            text = _extended(stream, length)
            if kind == b"L":
                long_name = text.rstrip(b"\0").decode()
            elif kind != b"K":
                named, sized = _pax(text)
                if kind == b"g" and (named or sized >= 0):
                    raise Refused("the tar names all its members alike", "nothing was written")
                long_name, size = named or long_name, sized if sized >= 0 else size
            continue
        if size >= 0:
            length = size
        member = _member(header, kind, length, long_name)
        taken = stream.pieces(length)
        yield member, taken
        for _ in taken:
            pass
        stream.exactly(-length % _BLOCK)
        long_name, size = "", -1


def _member(header: bytes, kind: bytes, length: int, long_name: str) -> Member:
    name = long_name or _name(header)
    odd = "" if kind in (b"0", b"\0", b"5", b"7") else _ODD.get(kind, "neither a file nor a folder")
    folder = kind == b"5" or (kind in (b"0", b"\0") and name.endswith("/"))
    if folder and length:
        odd = "a folder with bytes of its own"
    return Member(name, length, bool(_number(header[100:108]) & 0o111) and not folder, folder, odd)


def _name(header: bytes) -> str:
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return (prefix + b"/" + name if prefix else name).decode()


def _number(field: bytes) -> int:
    """Octal digits, or the binary form that large numbers have."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    text = field.partition(b"\0")[0].strip(b" ")
    if text and not all(48 <= digit < 56 for digit in text):
        raise Refused("a header of the tar is damaged", "nothing was written; fetch it anew")
    return int(text, 8) if text else 0


def _check_sum(header: bytes) -> None:
    if sum(header[:148]) + 256 + sum(header[156:]) != _number(header[148:156]):
        raise Refused("it is not an archive that metier reads, or it is damaged", "zip and tar are; fetch it anew")


def _extended(stream: Plain, length: int) -> bytes:
    if length > _LONGEST_HEADER:
        raise Refused("a header of the tar is too long", "nothing was written")
    text = stream.exactly(length)
    stream.exactly(-length % _BLOCK)
    return text


def _pax(text: bytes) -> tuple[str, int]:
    """The path and size that an extended header gives; -1 where it gives none."""
    path, size = "", -1
    while text:
        digits, _, _ = text.partition(b" ")
        if not digits.isdigit() or not len(digits) < int(digits) <= len(text):
            raise Refused("a header of the tar is damaged", "nothing was written; fetch it anew")
        key, _, value = text[len(digits) + 1 : int(digits)].rstrip(b"\n").partition(b"=")
        if key.startswith(b"GNU.sparse"):
            raise Refused("the tar holds a sparse file", "nothing was written; pack it plainly")
        if key == b"path":
            path = value.decode()
        elif key == b"size":
            if not value.isdigit():
                raise Refused("a header of the tar is damaged", "nothing was written; fetch it anew")
            size = int(value)
        text = text[int(digits) :]
    return path, size


def _check_end(stream: Plain) -> None:
    """A second empty block, and nothing but zeros behind it."""
    while piece := stream.some(65_536):
        if any(piece):
            raise Refused("something follows the end of the archive", "nothing was written; tell whoever made it")

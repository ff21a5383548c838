"""Archives, taken apart by metier's own hand: files and folders only, all judged before any is written."""

from __future__ import annotations

import bz2
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, TypeAlias

from ..types.errors import HostError, Refused
from .inner import check_together, inner_path
from .tar import Member, Plain, could_be_tar, members
from .writing import filling

Progress: TypeAlias = Callable[[str, int, int], None]
"""What is going on, how much is done, and of how much; 0 where nobody knows."""
_CHUNK = 65_536
_MOST_DIRECTORY = 8_388_608
"""Bytes of a zip's table of contents."""


class Bounds(NamedTuple):
    """How much an archive may hold.  What it says of itself counts for nothing; bytes are counted as they come."""

    entries: int = 20_000
    total: int = 536_870_912
    one: int = 268_435_456
    ratio: int = 200
    """Times its own size, beyond the first bytes that are free."""
    free: int = 10_485_760
    archive: int = 268_435_456


BOUNDS = Bounds()


def unpack(archive: str, target: str, strip: int = 0, bounds: Bounds = BOUNDS, progress: Progress | None = None) -> int:
    """Take an archive apart into a folder that is empty; how many files there were.

    Everything is read once to be judged and once to be written; a refusal comes before the first byte is written,
    or leaves a folder that the caller throws away.
    """
    try:
        with open(archive, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > bounds.archive:
                raise Refused(f"{archive} has more than {bounds.archive} bytes", "nothing was written")
            read = _reader(file, size, bounds)
            judged = [_judged(member, strip) for member, _ in read(False)]
            kept = [path for path, _ in judged if path]
            if strip and judged and not any(path and not member.folder for path, member in judged):
                raise Refused(f"no file of {archive} lies in {strip} folders or more", "strip fewer of them")
            check_together(path for (path, member) in judged if path and not member.folder)
            return _write(read, judged, target, len(kept), progress)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error, NotImplementedError) as error:
        raise Refused(
            f"{archive} can't be read as an archive: {error}", "nothing was written; fetch it anew"
        ) from error
    except UnicodeDecodeError as error:
        raise Refused(f"{archive} holds a name that is not UTF-8", "nothing was written") from error
    except OSError as error:
        if "Invalid data stream" in str(error):
            raise _unreadable(archive, error) from error
        raise HostError(f"{archive} can't be read: {error.strerror or error}", "check the file", archive) from error


def _unreadable(archive: str, error: Exception) -> Refused:
    return Refused(f"{archive} can't be read as an archive: {error}", "nothing was written; fetch it anew")


Read: TypeAlias = Callable[[bool], Iterator[tuple[Member, Iterator[bytes]]]]


def _write(read: Read, judged: list[tuple[str, Member]], target: str, count: int, progress: Progress | None) -> int:
    done = 0
    with filling(target) as folder:
        again = read(True)
        for path, member in judged:
            now, pieces = next(again, (None, iter(())))
            if now != member:
                raise Refused("the archive changed while it was read", "nothing was placed; try again")
            if not path:
                continue
            if member.folder:
                folder.folder(path)
            elif folder.put(path, pieces, member.executable) != member.size:
                raise Refused(f"`{path}` is not as long as the archive says", "nothing was placed; fetch it anew")
            done += not member.folder
            if progress is not None:
                progress("unpacking", done, count)
    return done


def _judged(member: Member, strip: int) -> tuple[str, Member]:
    """Where a member goes; nowhere when stripping leaves nothing of its path."""
    if member.odd:
        raise Refused(f"`{member.path[:200]}` is {member.odd}", "nothing was written; tell whoever made it")
    path = inner_path(member.path)
    return "/".join(path.split("/")[strip:]), member


def _reader(file: BinaryIO, size: int, bounds: Bounds) -> Read:
    """What takes this kind of archive apart, by how it begins and not by what it is called."""
    head = file.read(6)
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return lambda whole: _zipped(file, size, bounds, whole)
    opened: Callable[[], Iterator[bytes]]
    if head[:2] == b"\x1f\x8b":
        opened = lambda: _inflated(file, lambda: zlib.decompressobj(31))  # noqa: E731
    elif head[:3] == b"BZh":
        opened = lambda: _inflated(file, bz2.BZ2Decompressor)  # noqa: E731
    elif head == b"\xfd7zXZ\x00":
        opened = lambda: _inflated(file, lambda: lzma.LZMADecompressor(memlimit=67_108_864))  # noqa: E731
    elif could_be_tar(head + file.read(506)):
        opened = lambda: _chunks(file)  # noqa: E731
    else:
        raise Refused("it is not an archive", "zip and tar are, plain or with gzip, bzip2 or xz; fetch it anew")

    def read(whole: bool) -> Iterator[tuple[Member, Iterator[bytes]]]:
        file.seek(0)
        return _bounded(members(Plain(_counted(opened(), size, bounds))), bounds)

    return read


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_CHUNK):
        yield piece


def _inflated(file: BinaryIO, make: Callable[[], object]) -> Iterator[bytes]:
    """What a compressed stream holds, a bounded piece at a time; nothing may follow it."""
    engine = make()
    waiting = b""
    while not getattr(engine, "eof"):  # noqa: B009  # the three kinds share no type
        fresh = waiting or (file.read(_CHUNK) if getattr(engine, "needs_input", True) else b"")
        piece = engine.decompress(fresh, _CHUNK)  # type: ignore[attr-defined]
        waiting = getattr(engine, "unconsumed_tail", b"")
        if piece:
            yield piece
        elif not fresh and not getattr(engine, "eof"):  # noqa: B009
            raise EOFError("it ends too early")
    if getattr(engine, "unused_data") or file.read(1):  # noqa: B009
        raise Refused("something follows the end of the archive", "nothing was written; tell whoever made it")


def _counted(pieces: Iterator[bytes], size: int, bounds: Bounds) -> Iterator[bytes]:
    """The same bytes, until they are too many in all or for an archive of that size."""
    most = min(bounds.total, max(bounds.free, size * bounds.ratio))
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > most:
            raise Refused(f"the archive unpacks to more than {most} bytes", "nothing was placed; it may be a bomb")
        yield piece


def _bounded(
    found: Iterator[tuple[Member, Iterator[bytes]]], bounds: Bounds
) -> Iterator[tuple[Member, Iterator[bytes]]]:
    for number, (member, pieces) in enumerate(found, 1):
        if number > bounds.entries:
            raise Refused(f"the archive has more than {bounds.entries} entries", "nothing was placed")
        if member.size > bounds.one:
            raise Refused(f"`{member.path[:200]}` has more than {bounds.one} bytes", "nothing was placed")
        yield member, pieces


def _zipped(file: BinaryIO, size: int, bounds: Bounds, whole: bool) -> Iterator[tuple[Member, Iterator[bytes]]]:
    _check_end(file, size)
    with zipfile.ZipFile(file) as opened:
        found = opened.infolist()
        _check_apart(file, found, opened.start_dir)
        left = min(bounds.total, max(bounds.free, size * bounds.ratio))
        for number, one in enumerate(found, 1):
            if number > bounds.entries:
                raise Refused(f"the archive has more than {bounds.entries} entries", "nothing was placed")
            left -= one.file_size
            if one.file_size > bounds.one or left < 0:
                raise Refused("the archive unpacks to too many bytes", "nothing was placed; it may be a bomb")
            member = _zip_member(one)
            yield member, _zip_pieces(opened, one) if whole and not member.folder else iter(())


def _zip_pieces(opened: zipfile.ZipFile, one: zipfile.ZipInfo) -> Iterator[bytes]:
    with opened.open(one) as inner:
        while piece := inner.read(_CHUNK):
            yield piece


def _zip_member(one: zipfile.ZipInfo) -> Member:
    mode = one.external_attr >> 16
    kind = stat.S_IFMT(mode)
    folder = one.filename.endswith("/")
    odd = ""
    if one.flag_bits & 0x1:
        odd = "locked with a password"
    elif one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        odd = "packed in a way that metier does not read"
    elif kind == stat.S_IFLNK:
        odd = "a link"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        odd = "neither a file nor a folder"
    name = one.orig_filename
    return Member(name, 0 if folder else one.file_size, bool(mode & 0o111) and not folder, folder, odd)


def _check_end(file: BinaryIO, size: int) -> None:
    """The end record must end the file, and its table must fit: nothing before, between or behind."""
    start = max(0, size - 65_557)
    file.seek(start)
    tail = file.read(65_557)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < 22:
        raise Refused("it is a broken zip: its end is missing", "nothing was written; fetch it anew")
    disk, first, here, count, length, offset, comment = struct.unpack("<4H2LH", tail[at + 4 : at + 22])
    if at + 22 + comment != len(tail):
        raise Refused("something follows the end of the archive", "nothing was written; tell whoever made it")
    if disk or first or here != count or 0xFFFF in (count,) or 0xFFFFFFFF in (length, offset):
        raise Refused("the zip is of a kind that metier does not read", "nothing was written; pack it plainly")
    if length > _MOST_DIRECTORY:
        raise Refused("the zip has too many entries", "nothing was written")
    if offset + length != start + at:
        raise Refused("the zip does not begin where its file begins", "nothing was written; tell whoever made it")


def _check_apart(file: BinaryIO, found: list[zipfile.ZipInfo], end: int) -> None:
    """No two entries may share bytes: a small file that unpacks to a mountain does."""
    order = sorted(found, key=lambda one: one.header_offset)
    for one, after in zip(order, [*(two.header_offset for two in order[1:]), end], strict=True):
        file.seek(one.header_offset)
        head = file.read(30)
        if len(head) < 30 or head[:4] != b"PK\x03\x04":
            raise Refused(f"`{one.filename[:200]}` is not where the zip says", "nothing was written")
        name, extra = struct.unpack("<2H", head[26:30])
        if one.header_offset + 30 + name + extra + one.compress_size > after:
            raise Refused("entries of the zip overlap", "nothing was written; it may be a bomb")

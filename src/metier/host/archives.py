"""Extract an archive safely, and pack one reproducibly.

`tarfile` and `zipfile.extractall` are not used to extract: they follow what an archive says of itself, and their
safety filters depend on the Python version.  Here an archive is read twice.  The first pass judges every member (its
kind, its path, how much it unpacks to) and the second writes, beneath an open folder, what the first one saw.
Sizes that an archive declares count for nothing; bytes are counted as they come out.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, NamedTuple, TypeAlias

from ..types.errors import HostError, Refused
from .fs import make_folder, write_bytes
from .trees import check_path_conflicts, inner_path, open_folder_writer

_BLOCK = 512
_LONGEST_HEADER = 65_536
_UNSUPPORTED_KINDS = {b"1": "a hard link", b"2": "a link", b"3": "a device", b"4": "a device", b"6": "a named pipe"}


class ArchiveMember(NamedTuple):
    """One entry of an archive."""

    path: str
    size: int
    executable: bool
    folder: bool
    odd: str = ""
    """What it is, if it is neither a file nor a folder that can be extracted."""


# --- tar ---


class ByteStream:
    """Reads exact numbers of bytes from a stream of pieces."""

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
                raise EOFError("unexpected end of file")
            parts.append(piece)
            count -= len(piece)
        return b"".join(parts)

    def pieces(self, count: int) -> Iterator[bytes]:
        while count:
            piece = self.some(count)
            if not piece:
                raise EOFError("unexpected end of file")
            count -= len(piece)
            yield piece


def could_be_tar(start: bytes) -> bool:
    """Whether a file begins as a tar does: one block with a number in the place of its checksum."""
    return len(start) == _BLOCK and not start[148:156].strip(b"01234567 \0")


def read_members(stream: ByteStream) -> Iterator[tuple[ArchiveMember, Iterator[bytes]]]:
    """Each member with its bytes; bytes not read are skipped."""
    long_name, size = "", -1
    while True:
        header = stream.exactly(_BLOCK)
        if not any(header):
            _check_tar_end(stream)
            return
        _check_checksum(header)
        kind, length = header[156:157], _parse_number(header[124:136])
        # Extended headers: pax for one member or all, GNU long name, GNU long link target (links are refused anyway).
        if kind in (b"x", b"g", b"L", b"K"):
            text = _read_extended(stream, length)
            if kind == b"L":
                long_name = text.rstrip(b"\0").decode()
            elif kind != b"K":
                named, sized = _parse_pax(text)
                if kind == b"g" and (named or sized >= 0):
                    raise Refused("the tar gives all its members one name or size", "nothing was written")
                long_name, size = named or long_name, sized if sized >= 0 else size
            continue
        if size >= 0:
            length = size
        member = _parse_member(header, kind, length, long_name)
        content = stream.pieces(length)
        yield member, content
        for _ in content:
            pass
        stream.exactly(-length % _BLOCK)
        long_name, size = "", -1


def _parse_member(header: bytes, kind: bytes, length: int, long_name: str) -> ArchiveMember:
    name = long_name or _member_name(header)
    odd = "" if kind in (b"0", b"\0", b"5", b"7") else _UNSUPPORTED_KINDS.get(kind, "neither a file nor a folder")
    folder = kind == b"5" or (kind in (b"0", b"\0") and name.endswith("/"))
    if folder and length:
        odd = "a folder with content of its own"
    return ArchiveMember(name, length, bool(_parse_number(header[100:108]) & 0o111) and not folder, folder, odd)


def _member_name(header: bytes) -> str:
    name = header[:100].partition(b"\0")[0]
    # Only POSIX headers have a prefix; in GNU headers these bytes mean something else.
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return (prefix + b"/" + name if prefix else name).decode()


def _parse_number(field: bytes) -> int:
    """Octal digits, or the base-256 form of large numbers."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    text = field.partition(b"\0")[0].strip(b" ")
    if text and not all(48 <= digit < 56 for digit in text):
        raise Refused("a header of the tar is damaged", "nothing was written; download it again")
    return int(text, 8) if text else 0


def _check_checksum(header: bytes) -> None:
    # The checksum counts its own field as eight spaces, which sum to 256.
    if sum(header[:148]) + 256 + sum(header[156:]) != _parse_number(header[148:156]):
        raise Refused(
            "it is not an archive that metier reads, or it is damaged", "metier reads zip and tar; download it again"
        )


def _read_extended(stream: ByteStream, length: int) -> bytes:
    if length > _LONGEST_HEADER:
        raise Refused("a header of the tar is too long", "nothing was written")
    text = stream.exactly(length)
    stream.exactly(-length % _BLOCK)
    return text


def _parse_pax(text: bytes) -> tuple[str, int]:
    """The path and size in an extended header; empty and -1 if it has none."""
    path, size = "", -1
    while text:
        digits, _, _ = text.partition(b" ")
        if not digits.isdigit() or not len(digits) < int(digits) <= len(text):
            raise Refused("a header of the tar is damaged", "nothing was written; download it again")
        key, _, value = text[len(digits) + 1 : int(digits)].rstrip(b"\n").partition(b"=")
        if key.startswith(b"GNU.sparse"):
            raise Refused("the tar holds a sparse file", "nothing was written; pack it without sparse files")
        if key == b"path":
            path = value.decode()
        elif key == b"size":
            if not value.isdigit():
                raise Refused("a header of the tar is damaged", "nothing was written; download it again")
            size = int(value)
        text = text[int(digits) :]
    return path, size


def _check_tar_end(stream: ByteStream) -> None:
    """After the first empty block, only zeros may follow: anything else could be a second archive."""
    while piece := stream.some(65_536):
        if any(piece):
            raise Refused("something follows the end of the archive", "nothing was written; report it to the author")


# --- Extracting ---

Progress: TypeAlias = Callable[[str, int, int], None]
"""The current step, how much is done, and of how much; 0 if unknown."""
_CHUNK = 65_536
_MOST_DIRECTORY = 8_388_608
"""Bytes of a zip's central directory."""


class ArchiveBounds(NamedTuple):
    """How much an archive may hold, in bytes as they are unpacked."""

    entries: int = 20_000
    total: int = 536_870_912
    one: int = 268_435_456
    ratio: int = 200
    """How many times its own size an archive may unpack to, once past `free`."""
    free: int = 10_485_760
    archive: int = 268_435_456


BOUNDS = ArchiveBounds()


def unpack_archive(
    archive: str, target: str, strip: int = 0, bounds: ArchiveBounds = BOUNDS, progress: Progress | None = None
) -> int:
    """Extract an archive into an empty folder; the number of files.

    Most refusals come before the first byte is written; after a later one the caller discards the folder.
    """
    try:
        # Not blocking: a named pipe would keep us waiting for somebody to write into it.
        with os.fdopen(os.open(archive, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Refused(f"{archive} is no regular file", "give an archive")
            size = os.fstat(file.fileno()).st_size
            if size > bounds.archive:
                raise Refused(f"{archive} has more than {bounds.archive} bytes", "nothing was written")
            read = _choose_reader(file, size, bounds)
            judged = [_judge_member(member, strip) for member, _ in read(False)]
            placed_paths = [path for path, _ in judged if path]
            if strip and judged and not any(path and not member.folder for path, member in judged):
                raise Refused(f"no file of {archive} is {strip} folders deep", "strip fewer folders")
            check_path_conflicts(path for (path, member) in judged if path and not member.folder)
            return _write_members(read, judged, target, len(placed_paths), progress)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error, NotImplementedError) as error:
        raise _unreadable_archive(archive, error) from error
    except UnicodeDecodeError as error:
        raise Refused(f"{archive} holds a name that is not UTF-8", "nothing was written") from error
    except OSError as error:
        if "Invalid data stream" in str(error):  # how bz2 reports damage
            raise _unreadable_archive(archive, error) from error
        raise HostError(f"{archive} can't be read: {error.strerror or error}", "check the file", archive) from error


def _unreadable_archive(archive: str, error: Exception) -> Refused:
    return Refused(f"{archive} can't be read as an archive: {error}", "nothing was written; download it again")


MemberReader: TypeAlias = Callable[[bool], Iterator[tuple[ArchiveMember, Iterator[bytes]]]]


def _write_members(
    read: MemberReader, judged: list[tuple[str, ArchiveMember]], target: str, count: int, progress: Progress | None
) -> int:
    written = 0
    with open_folder_writer(target) as folder:
        again = read(True)
        for path, member in judged:
            # The file may have been replaced since it was judged.
            now, pieces = next(again, (None, iter(())))
            if now != member:
                raise Refused("the archive changed while it was read", "nothing was placed; try again")
            if not path:
                continue
            if member.folder:
                folder.folder(path)
            elif folder.put(path, pieces, member.executable) != member.size:
                raise Refused(
                    f"`{path}` has not the size that the archive says", "nothing was placed; download it again"
                )
            written += not member.folder
            if progress is not None:
                progress("unpacking", written, count)
    return written


def _judge_member(member: ArchiveMember, strip: int) -> tuple[str, ArchiveMember]:
    """Where a member goes; nowhere if stripping leaves nothing of its path."""
    if member.odd:
        raise Refused(f"`{member.path[:200]}` is {member.odd}", "nothing was written; report it to the author")
    path = inner_path(member.path)
    return "/".join(path.split("/")[strip:]), member


def _choose_reader(file: BinaryIO, size: int, bounds: ArchiveBounds) -> MemberReader:
    """The reader for this kind of archive, by its first bytes and not by its name."""
    head = file.read(6)
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return lambda with_content: _read_zip_members(file, size, bounds, with_content)
    opened: Callable[[], Iterator[bytes]]
    # 31 makes zlib expect a gzip header; the limit for xz is there because a header can ask for gigabytes.
    if head[:2] == b"\x1f\x8b":
        opened = lambda: _inflate_chunks(file, lambda: zlib.decompressobj(31))  # noqa: E731
    elif head[:3] == b"BZh":
        opened = lambda: _inflate_chunks(file, bz2.BZ2Decompressor)  # noqa: E731
    elif head == b"\xfd7zXZ\x00":
        opened = lambda: _inflate_chunks(file, lambda: lzma.LZMADecompressor(memlimit=67_108_864))  # noqa: E731
    elif could_be_tar(head + file.read(506)):
        opened = lambda: _read_chunks(file)  # noqa: E731
    else:
        raise Refused(
            "it is not an archive", "metier reads zip, and tar plain or with gzip, bzip2 or xz; download it again"
        )

    def read(with_content: bool) -> Iterator[tuple[ArchiveMember, Iterator[bytes]]]:
        file.seek(0)
        return _limit_members(read_members(ByteStream(_limit_total_size(opened(), size, bounds))), bounds)

    return read


def _read_chunks(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_CHUNK):
        yield piece


def _inflate_chunks(file: BinaryIO, make: Callable[[], object]) -> Iterator[bytes]:
    """Decompress a stream, one bounded piece at a time; nothing may follow it."""
    engine = make()
    unconsumed = b""
    while not getattr(engine, "eof"):  # noqa: B009  # the three kinds share no type
        fresh = unconsumed or (file.read(_CHUNK) if getattr(engine, "needs_input", True) else b"")
        piece = engine.decompress(fresh, _CHUNK)  # type: ignore[attr-defined]
        unconsumed = getattr(engine, "unconsumed_tail", b"")
        if piece:
            yield piece
        elif not fresh and not getattr(engine, "eof"):  # noqa: B009
            raise EOFError("unexpected end of file")
    if getattr(engine, "unused_data") or file.read(1):  # noqa: B009
        raise Refused("something follows the end of the archive", "nothing was written; report it to the author")


def _limit_total_size(pieces: Iterator[bytes], size: int, bounds: ArchiveBounds) -> Iterator[bytes]:
    """The same bytes; refused once there are too many, in all or for an archive of that size."""
    most = min(bounds.total, max(bounds.free, size * bounds.ratio))
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > most:
            raise Refused(
                f"the archive unpacks to more than {most} bytes", "nothing was placed; it may be a decompression bomb"
            )
        yield piece


def _limit_members(
    entries: Iterator[tuple[ArchiveMember, Iterator[bytes]]], bounds: ArchiveBounds
) -> Iterator[tuple[ArchiveMember, Iterator[bytes]]]:
    for number, (member, pieces) in enumerate(entries, 1):
        if number > bounds.entries:
            raise Refused(f"the archive has more than {bounds.entries} entries", "nothing was placed")
        if member.size > bounds.one:
            raise Refused(f"`{member.path[:200]}` has more than {bounds.one} bytes", "nothing was placed")
        yield member, pieces


# --- zip ---


def _read_zip_members(
    file: BinaryIO, size: int, bounds: ArchiveBounds, with_content: bool
) -> Iterator[tuple[ArchiveMember, Iterator[bytes]]]:
    _check_zip_end(file, size)
    with zipfile.ZipFile(file) as opened:
        infos = opened.infolist()
        _check_zip_overlaps(file, infos, opened.start_dir)
        remaining = min(bounds.total, max(bounds.free, size * bounds.ratio))
        for number, info in enumerate(infos, 1):
            if number > bounds.entries:
                raise Refused(f"the archive has more than {bounds.entries} entries", "nothing was placed")
            remaining -= info.file_size
            if info.file_size > bounds.one or remaining < 0:
                raise Refused(
                    "the archive unpacks to too many bytes", "nothing was placed; it may be a decompression bomb"
                )
            member = _describe_zip_member(info)
            yield member, _read_zip_pieces(opened, info) if with_content and not member.folder else iter(())


def _read_zip_pieces(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with opened.open(info) as inner:
        while piece := inner.read(_CHUNK):
            yield piece


def _describe_zip_member(info: zipfile.ZipInfo) -> ArchiveMember:
    mode = info.external_attr >> 16
    kind = stat.S_IFMT(mode)
    folder = info.filename.endswith("/")
    odd = ""
    if info.flag_bits & 0x1:
        odd = "encrypted"
    elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        odd = "compressed in a way that metier does not read"
    elif kind == stat.S_IFLNK:
        odd = "a link"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        odd = "neither a file nor a folder"
    # `filename` is cut at a NUL; the path is judged as it is stored.
    name = info.orig_filename
    return ArchiveMember(name, 0 if folder else info.file_size, bool(mode & 0o111) and not folder, folder, odd)


def _check_zip_end(file: BinaryIO, size: int) -> None:
    """The end record must end the file and the directory must touch it: no bytes before, between or after."""
    start = max(0, size - 65_557)  # the longest end record: 22 bytes and a comment of 65,535
    file.seek(start)
    tail = file.read(65_557)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < 22:
        raise Refused("it is a broken zip: its end is missing", "nothing was written; download it again")
    disk, first, disk_entries, count, length, offset, comment = struct.unpack("<4H2LH", tail[at + 4 : at + 22])
    if at + 22 + comment != len(tail):
        raise Refused("something follows the end of the archive", "nothing was written; report it to the author")
    # These values say that the real ones are in a zip64 record, elsewhere in the file.
    if disk or first or disk_entries != count or 0xFFFF in (count,) or 0xFFFFFFFF in (length, offset):
        raise Refused("metier does not read split or zip64 archives", "nothing was written; pack it as a plain zip")
    if length > _MOST_DIRECTORY:
        raise Refused("the zip has too many entries", "nothing was written")
    if offset + length != start + at:
        raise Refused("the zip starts after the beginning of its file", "nothing was written; report it to the author")


def _check_zip_overlaps(file: BinaryIO, infos: list[zipfile.ZipInfo], end: int) -> None:
    """No two entries may share bytes, which is how a small zip bomb unpacks to petabytes."""
    order = sorted(infos, key=lambda info: info.header_offset)
    for info, after in zip(order, [*(following.header_offset for following in order[1:]), end], strict=True):
        file.seek(info.header_offset)
        head = file.read(30)
        if len(head) < 30 or head[:4] != b"PK\x03\x04":
            raise Refused(f"`{info.filename[:200]}` is not where the zip says", "nothing was written")
        name, extra = struct.unpack("<2H", head[26:30])
        if info.header_offset + 30 + name + extra + info.compress_size > after:
            raise Refused("entries of the zip overlap", "nothing was written; it may be a decompression bomb")


# --- Packing ---

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip can hold, for every file: the same skill packs to the same bytes."""


class PackedFile(NamedTuple):
    data: bytes
    program: bool = False
    """Whether it is executable."""

    @property
    def mode(self) -> int:
        return 0o755 if self.program else 0o644


def build_zip(contents: Mapping[str, PackedFile]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(contents):
            info = zipfile.ZipInfo(path, _LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = (0o100000 | contents[path].mode) << 16
            archive.writestr(info, contents[path].data)
    return packed.getvalue()


def build_tar(contents: Mapping[str, PackedFile]) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", fileobj=packed, mtime=0) as outer, tarfile.open(fileobj=outer, mode="w") as archive:
        for path in sorted(contents):
            info = tarfile.TarInfo(path)
            info.size = len(contents[path].data)
            info.mode = contents[path].mode
            archive.addfile(info, io.BytesIO(contents[path].data))
    return packed.getvalue()


def write_files(folder: str, contents: Mapping[str, PackedFile], force: bool = False) -> None:
    """Write files beneath a folder; refused before anything is written if one exists, unless forced."""
    existing = [path for path in sorted(contents) if os.path.lexists(f"{folder}/{path}")]
    if existing and not force:
        raise Refused(f"{folder}/{existing[0]} already exists", "choose another --out, or overwrite with --force")
    for path in sorted(contents):
        target = f"{folder}/{path}"
        make_folder(os.path.dirname(target))
        write_bytes(target, contents[path].data, contents[path].mode, sync=False, umask=True)


def is_program(path: str) -> bool:
    """Whether its owner may execute a file."""
    try:
        return bool(os.stat(path).st_mode & 0o100)
    except OSError:
        return False

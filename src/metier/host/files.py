"""Open and read the files of skills: beneath a folder, through no link that leaves it, regular, and of bounded size.

A skill's folder may belong to somebody else, who could swap a file for a link between a check and its use.  So nothing
is checked by path and then opened: `openat2` resolves the path beneath an open folder in one call, and where the kernel
lacks it a walk does the same one step at a time.  The rest is for speed: a list of a thousand skills reads the first
bytes of each file, and of those whose `stat` is unchanged not even these.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ..light_typing import Any, TypeAlias
from ..types.errors import OutsideSkill
from ..types.skill import NO_STAT_KEY, StatKey

# --- Constants and keys ---

HEAD = 1_024
"""Bytes that hold the frontmatter of all but a few skills in a thousand."""
LONG_HEAD = 4_096
"""Bytes read of a skill without a description: the body stands in for it."""
LONGEST_HEAD = 69_632
"""Bytes read in search of the end of the frontmatter."""
# Compared as bits: `stat.S_ISREG` would be one more call for each of thousands of files.
_TYPE, _REGULAR, _FOLDER, _LINK = 0o170000, 0o100000, 0o040000, 0o120000
_KINDS = {
    _FOLDER: "a folder",
    _LINK: "a link",
    0o010000: "a named pipe",
    0o140000: "a socket",
    0o020000: "a device",
    0o060000: "a device",
}
# Opening a named pipe must not wait for a writer, and opening a terminal must not make it ours.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_OPEN_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
_PASS_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_OPENAT2 = 437  # on every architecture
_MOST_HOPS = 40  # as in the kernel
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08


class NotRegular(OSError):
    """The path is not a regular file; the argument says what it is."""


class TooLarge(OSError):
    """The file is larger than the limit; carries its key."""

    def __init__(self, key: StatKey) -> None:
        super().__init__(errno.EFBIG, "too large")
        self.key = key


FileHead: TypeAlias = tuple[StatKey, bytes, bool, int]
"""A file's key, its first bytes, whether they are all of it, and its device."""

NamedHead: TypeAlias = tuple[str, bytes | OSError, StatKey, bool, int]
"""A skill's folder, the first bytes of its file or why not, its key, whether they are all of it, and its device."""


def key_of(status: os.stat_result) -> StatKey:
    """What changes whenever a file's content does."""
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


def stat_key(path: str) -> StatKey | None:
    """The key of what a path leads to; None if it does not exist."""
    try:
        return key_of(os.stat(path))
    except (OSError, ValueError):
        return None


def folder_key(folder: int) -> StatKey:
    return key_of(os.fstat(folder))


def open_folder(path: str) -> int:
    """Open a folder that the user or the configuration named; its path may contain links."""
    return os.open(path, _OPEN_FOLDER)


close, fstat, read = os.close, os.fstat, os.read


# --- Opening beneath a folder ---


def _load_openat2() -> Callable[[int, bytes, bool], int] | None:
    """The system call; None if the kernel lacks it or a sandbox forbids it."""
    try:
        import ctypes  # only here: importing it takes as long as listing a hundred skills

        class How(ctypes.Structure):
            _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

        library = ctypes.CDLL(None, use_errno=True)
        call = library.syscall
        errno_of = ctypes.get_errno
    except (ImportError, OSError, AttributeError):
        return None
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    strict = How(_READ, 0, _BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS)
    linked = How(_READ, 0, _BENEATH | _NO_MAGICLINKS)
    size = ctypes.sizeof(How)
    at_strict, at_linked = ctypes.addressof(strict), ctypes.addressof(linked)

    def openat2(folder: int, relative: bytes, links: bool) -> int:
        opened: int = call(_OPENAT2, folder, relative, at_linked if links else at_strict, size)
        if opened < 0:
            number = errno_of()
            raise OSError(number, os.strerror(number), os.fsdecode(relative))
        return opened

    openat2.kept = (strict, linked)  # type: ignore[attr-defined]  # the structures live as long as the call
    return openat2 if _openat2_works(openat2) else None


def _openat2_works(openat2: Callable[[int, bytes, bool], int]) -> bool:
    try:
        folder = os.open("/", _OPEN_FOLDER)
    except OSError:
        return False
    try:
        os.close(openat2(folder, b".", False))
    except OSError as error:
        # EPERM: older container runtimes refuse calls that they do not know that way.
        return error.errno not in (errno.ENOSYS, errno.EPERM, errno.EINVAL)
    finally:
        os.close(folder)
    return True


def _walk_open(folder: int, relative: bytes, links: bool) -> int:
    """`openat2` in user space: opens one step at a time, and resolves each link itself instead of the kernel."""
    pending = relative.split(b"/")[::-1]
    inside = [folder]
    hops = 0
    try:
        while True:
            part = pending.pop() or b"."
            if part == b"..":
                if len(inside) == 1:
                    raise OSError(errno.EXDEV, "leaves the folder", os.fsdecode(relative))
                os.close(inside.pop())
                part = b"."
            if part == b"." and pending:
                continue  # not a step: counted as one, it would hide a `..` that leads out
            flags = _PASS_FOLDER if pending else _READ
            try:
                step = os.open(part, flags | os.O_NOFOLLOW, dir_fd=inside[-1])
            except OSError as error:
                target = _link_target(inside[-1], part) if error.errno in (errno.ELOOP, errno.ENOTDIR) else None
                if target is None:
                    raise
                hops += 1
                if not links or hops > _MOST_HOPS:
                    raise OSError(errno.ELOOP, "is a link", os.fsdecode(relative)) from None
                # An absolute link leaves the folder, wherever it leads.
                if target.startswith(b"/"):
                    raise OSError(errno.EXDEV, "leaves the folder", os.fsdecode(relative)) from None
                pending.extend(target.split(b"/")[::-1])
                continue
            if not pending:
                return step
            inside.append(step)
    finally:
        for opened in inside[1:]:
            os.close(opened)


def _link_target(folder: int, name: bytes) -> bytes | None:
    """Where a link leads; None if it is not a link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


_opener: Callable[[int, bytes, bool], int] | None = None


def open_beneath(folder: int, relative: str, links: bool = False) -> int:
    """Open a path beneath an open folder.  With `links`, follows links that stay beneath it."""
    global _opener
    if _opener is None:
        _opener = _load_openat2() or _walk_open
    return _opener(folder, relative.encode("utf-8", "surrogateescape"), links)


def has_openat2() -> bool:
    """Whether files are opened by one system call, which no swapped link can race."""
    global _opener
    if _opener is None:
        _opener = _load_openat2() or _walk_open
    return _opener is not _walk_open


def use_plain_walk(plain: bool) -> None:
    """Use the walk even where `openat2` works, or stop doing so."""
    global _opener
    _opener = _walk_open if plain else None


# --- Reading the heads of many skills ---


def read_head(folder: int, relative: str, limit: int, links: bool = False) -> FileHead:
    """The first bytes of a regular file beneath a folder, enough for its frontmatter."""
    return _read_open_head(open_beneath(folder, relative, links), limit)


def read_more(folder: int, relative: str, limit: int, contained: bool) -> FileHead:
    """A longer head of a skill whose first bytes were not enough, opened as `read_heads` opens it."""
    flags = _READ | os.O_NOFOLLOW
    return _read_open_head(
        open_beneath(folder, relative) if contained else os.open(relative, flags, dir_fd=folder), limit
    )


def read_heads(folder: int, prefix: str, names: Iterable[str], limit: int, contained: bool) -> list[NamedHead]:
    """The first bytes of many skills beneath a folder, or why each can't be read.

    With `contained`, no part of the path may be a link; otherwise only the file itself may not.
    """
    flags = _READ | os.O_NOFOLLOW
    open_file, fstat, read, close = os.open, os.fstat, os.read, os.close  # looked up once, used a thousand times
    heads: list[NamedHead] = []
    for name in names:
        file = f"{prefix}{name}/SKILL.md"
        try:
            opened = open_beneath(folder, file) if contained else open_file(file, flags, dir_fd=folder)
        except OSError as error:
            heads.append((name, error, NO_STAT_KEY, False, 0))
            continue
        try:
            now = fstat(opened)
            size = now.st_size
            key = (now.st_ino, now.st_mtime_ns, now.st_ctime_ns, size)
            plain = now.st_mode & _TYPE == _REGULAR and size <= limit
            head = read(opened, HEAD) if plain else _read_refusal(now, key)
            heads.append((name, head, key, size <= HEAD, now.st_dev))
        except OSError as error:
            heads.append((name, error, NO_STAT_KEY, False, 0))
        finally:
            close(opened)
    return heads


def _read_refusal(status: os.stat_result, key: StatKey) -> OSError:
    kind = status.st_mode & _TYPE
    return TooLarge(key) if kind == _REGULAR else NotRegular(_KINDS.get(kind, "special"))


def _read_open_head(opened: int, limit: int) -> FileHead:
    try:
        status = fstat(opened)
        size = status.st_size
        key = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, size)
        if status.st_mode & _TYPE != _REGULAR or size > limit:
            raise _read_refusal(status, key)
        head = read(opened, HEAD)
        if size > HEAD and (missing_bytes := bytes_needed_beyond(head)):
            head += read(opened, missing_bytes)
        return key, head, len(head) >= size, status.st_dev
    finally:
        close(opened)


def _find_closing_fence(head: bytes) -> int:
    """The position of the line break before a line that is `---`; -1 if there is none."""
    at = head.find(b"\n---", 3)
    while at >= 0:
        end = head.find(b"\n", at + 4)
        if end >= 0 and not head[at + 4 : end].strip(b" \t\r"):
            return at
        at = head.find(b"\n---", at + 4)
    # Old Mac line ends, if the file has no others.
    return head.find(b"\r---", 3) if b"\n" not in head else -1


def bytes_needed_beyond(head: bytes) -> int:
    """How many more bytes to read: none if the frontmatter ends in the head and has a description."""
    end = _find_closing_fence(head)
    if end < 0 and head.lstrip(b"\xef\xbb\xbf \t").startswith(b"---"):  # it goes on
        return LONGEST_HEAD - len(head)
    if end >= 0 and head.find(b"description:", 0, end) >= 0:
        return 0
    return LONG_HEAD - len(head)  # the first paragraph of the body stands in for a description


# --- Skills that have not changed ---


def all_unchanged(folder: int, names: Sequence[str], keys: Sequence[Sequence[int]], limit: int) -> set[int] | None:
    """The devices of all files if each is as its key says, else None; the keys come column by column."""
    lstat = os.lstat
    modes: set[int] = set()
    devices: set[int] = set()
    mode = device = -1
    try:
        for name, inode, modified, changed, size in zip(names, *keys, strict=True):
            now = lstat(name + "/SKILL.md", dir_fd=folder)
            if now.st_mtime_ns != modified or now.st_ino != inode or now.st_ctime_ns != changed or now.st_size != size:
                return None
            if now.st_mode != mode:  # nearly always the same: checked once, not a thousand times
                mode = now.st_mode
                modes.add(mode)
            if now.st_dev != device:
                device = now.st_dev
                devices.add(device)
    except OSError:
        return None
    if max(keys[3], default=0) > limit or any(mode & _TYPE != _REGULAR for mode in modes):
        return None
    return devices


def find_unchanged(
    folder: int, prefix: str, names: Iterable[str], remembered: Mapping[str, Any], limit: int
) -> list[tuple[str, Any, int]]:
    """Each name with its remembered item and device if the file is still as its key says, else with None."""
    lstat = os.lstat
    results: list[tuple[str, Any, int]] = []
    for name in names:
        inner = prefix + name if prefix else name
        item = remembered.get(inner)
        if item is not None:
            try:
                now = lstat(inner + "/SKILL.md", dir_fd=folder)
            except OSError:
                results.append((name, None, 0))
                continue
            if (
                (now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_size) == item.key
                and now.st_size <= limit
                and now.st_mode & _TYPE == _REGULAR
            ):
                results.append((name, item, now.st_dev))
                continue
        results.append((name, None, 0))
    return results


# --- Whole files ---


def read_whole(
    folder: int, relative: str, limit: int, links: bool = False, one_name: bool = False
) -> tuple[StatKey, bytes]:
    """All of a regular file that is no larger than the limit; with `one_name`, of one that has no other hard link."""
    opened = open_beneath(folder, relative, links)
    try:
        status = os.fstat(opened)
        if status.st_mode & _TYPE != _REGULAR:
            raise NotRegular(_KINDS.get(status.st_mode & _TYPE, "special"))
        if one_name and status.st_nlink > 1:
            raise NotRegular("hard link")
        if status.st_size > limit:
            raise TooLarge(key_of(status))
        parts = []
        remaining = limit + 1
        while remaining > 0:
            part = os.read(opened, min(remaining, 1 << 20))
            if not part:
                break
            parts.append(part)
            remaining -= len(part)
        if remaining <= 0:  # it grew while it was read
            raise TooLarge(key_of(status))
        return key_of(status), b"".join(parts)
    finally:
        os.close(opened)


def read_skill_file(directory: str, relative: str, limit: int, one_name: bool = False) -> tuple[StatKey, bytes]:
    """Read a file of a skill, by the skill's folder and a path inside it."""
    with _open_skill_folder(directory, relative) as folder:
        return read_whole(folder, relative, limit, links=True, one_name=one_name)


def read_part(directory: str, relative: str, offset: int, most: int) -> tuple[int, bytes]:
    """The size of a skill's file, and part of it."""
    with _open_skill_folder(directory, relative) as folder:
        opened = open_beneath(folder, relative, links=True)
        try:
            status = os.fstat(opened)
            if status.st_mode & _TYPE != _REGULAR:
                raise NotRegular(_KINDS.get(status.st_mode & _TYPE, "special"))
            return status.st_size, os.pread(opened, most, min(offset, status.st_size))
        finally:
            os.close(opened)


@contextlib.contextmanager
def _open_skill_folder(directory: str, relative: str) -> Iterator[int]:
    """Open a skill's folder for a path that must stay inside it."""
    if not relative or "\0" in relative or relative.startswith("/") or ".." in relative.split("/"):
        raise OutsideSkill(f"`{relative}` is outside the skill's folder", "give a path inside the folder")
    folder = open_folder(directory)
    try:
        yield folder
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP):
            raise OutsideSkill(
                f"`{relative}` is a link that leaves the skill's folder", "copy the file into the folder"
            ) from error
        raise
    finally:
        os.close(folder)


# --- Roots ---


def open_link(folder: int, relative: str, root: str, contain: bool) -> int:
    """Open the folder that a link in a root leads to.  With `contain`, it must lie beneath the root."""
    if contain:
        return _require_folder(open_beneath(folder, relative, links=True), relative)
    real = os.path.realpath(f"{root}/{relative}", strict=True)
    return _require_folder(os.open(real, _READ | os.O_NOFOLLOW), relative)


def open_root(path: str, base: str) -> int:
    """Open a root's folder.  With a base, the folder must lie beneath it once links are resolved."""
    opened = open_folder(path)
    if not base or path == base:
        return opened
    os.close(opened)
    outer = open_folder(base)
    try:
        return _require_folder(open_beneath(outer, path[len(base) :].lstrip("/"), links=True), path)
    finally:
        os.close(outer)


def _require_folder(opened: int, name: str) -> int:
    if os.fstat(opened).st_mode & _TYPE != _FOLDER:
        os.close(opened)
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", name)
    return opened


def read_linked_head(folder: int, relative: str, name: str, limit: int) -> FileHead:
    """The head of a file that is a link; refused if the link leads out of its folder."""
    inside = open_beneath(folder, relative, links=True) if relative else os.dup(folder)
    try:
        return read_head(inside, name, limit, links=True)
    finally:
        os.close(inside)


def regular_file_key(folder: int, relative: str) -> tuple[StatKey, int] | None:
    """The key and device of a regular file; None for a link or anything else."""
    try:
        status = os.stat(relative, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    if status.st_mode & _TYPE != _REGULAR:
        return None
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size), status.st_dev

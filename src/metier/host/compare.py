"""Whether files are still what the index remembers: one `stat` for each, and nothing is opened."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_TYPE, _REGULAR = 0o170000, 0o100000


def all_unchanged(folder: int, names: Sequence[str], keys: Sequence[Sequence[int]], limit: int) -> set[int] | None:
    """The devices of all files, if every single one is as its key says; the keys come column by column."""
    lstat = os.lstat
    modes: set[int] = set()
    devices: set[int] = set()
    mode = device = -1
    try:
        for name, inode, modified, changed, size in zip(names, *keys, strict=True):
            now = lstat(name + "/SKILL.md", dir_fd=folder)
            if (
                now.st_mtime_ns != modified
                or now.st_ino != inode
                or now.st_ctime_ns != changed
                or now.st_size != size
            ):  # fmt: skip
                return None
            if now.st_mode != mode:  # nearly always the same: looked at once, not a thousand times
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


def unchanged(
    folder: int, prefix: str, names: Iterable[str], known: Mapping[str, Any], limit: int
) -> list[tuple[str, Any, int]]:
    """Each name with what is known of it, if its key is still that of a plain file there, and the file's device."""
    lstat = os.lstat
    found: list[tuple[str, Any, int]] = []
    for name in names:
        inner = prefix + name if prefix else name
        item = known.get(inner)
        if item is not None:
            try:
                now = lstat(inner + "/SKILL.md", dir_fd=folder)
            except OSError:
                found.append((name, None, 0))
                continue
            if (
                (now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_size) == item.key
                and now.st_size <= limit
                and now.st_mode & _TYPE == _REGULAR
            ):
                found.append((name, item, now.st_dev))
                continue
        found.append((name, None, 0))
    return found

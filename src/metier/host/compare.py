"""Whether files are still what the index remembers: one `stat` for each, and nothing is opened."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

_TYPE, _REGULAR = 0o170000, 0o100000


def all_unchanged(
    folder: int, prefix: str, names: Iterable[str], rows: Mapping[str, Any], limit: int
) -> tuple[list[Any], set[tuple[int, int]]] | None:
    """The rows of all names, and device and inode of each file, if every single one is as its row says."""
    stat = os.stat
    found: list[Any] = []
    seen: set[tuple[int, int]] = set()
    take, see = found.append, seen.add
    for name in names:
        inner = prefix + name if prefix else name
        row = rows.get(inner)
        if row is None:
            return None
        try:
            now = stat(inner + "/SKILL.md", dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        if (
            now.st_mtime_ns != row[2]
            or now.st_ino != row[1]
            or now.st_ctime_ns != row[3]
            or now.st_size != row[4]
            or row[4] > limit
            or now.st_mode & _TYPE != _REGULAR
        ):
            return None
        take(row)
        see((now.st_dev, now.st_ino))
    return found, seen


def unchanged(
    folder: int, prefix: str, names: Iterable[str], rows: Mapping[str, Any], limit: int
) -> list[tuple[str, Any, int]]:
    """Each name with its row, if the row's key is still that of a plain file there, and the file's device."""
    stat = os.stat
    found = []
    for name in names:
        inner = prefix + name if prefix else name
        row = rows.get(inner)
        if row is not None:
            try:
                now = stat(inner + "/SKILL.md", dir_fd=folder, follow_symlinks=False)
            except OSError:
                found.append((name, None, 0))
                continue
            if (
                now.st_mtime_ns == row[2]
                and now.st_ino == row[1]
                and now.st_ctime_ns == row[3]
                and now.st_size == row[4] <= limit
                and now.st_mode & _TYPE == _REGULAR
            ):
                found.append((name, row, now.st_dev))
                continue
        found.append((name, None, 0))
    return found

"""Whether a folder's files are those of a lock.  It is asked whenever skills are listed, and so needs little."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from ..host import paths, swap
from ..types.installed import FileMark, Files

How: TypeAlias = Literal["changed", "added", "removed", "re-moded"]
_PLAIN = ("600", "640", "644", "660", "664")
_ABLE = ("700", "750", "755", "770", "775")


def differences(locked: Files, now: Files, shared: bool) -> Iterator[tuple[str, How]]:
    """Every file that differs.  In a project the modes that a umask explains are the same."""
    for path in sorted({*locked, *now}):
        before, after = locked.get(path), now.get(path)
        if before is None:
            yield path, "added"
        elif after is None:
            yield path, "removed"
        elif before.digest != after.digest:
            yield path, "changed"
        elif not _same_mode(before.mode, after.mode, shared):
            yield path, "re-moded"


def _same_mode(one: str, other: str, shared: bool) -> bool:
    if one == other or not shared:
        return one == other
    return any(one in modes and other in modes for modes in (_PLAIN, _ABLE))


def marks_at(path: str) -> Files:
    """Every file of a folder now; nothing when it is gone.  A link in its place is one file that nobody locked."""
    if swap.is_link(path):
        return {".": FileMark("link", "link")}
    return swap.marks(path) if paths.is_folder(path) else {}

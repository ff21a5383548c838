"""Texts that were edited here and that upstream does not have: the lock holds them for all who have the lock."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from ..host.writing import head_of
from ..types.installed import Entry, FileMark, Files, Rest
from .store import is_text

MOST = 65_536
"""Bytes of one text that a lock takes in."""
MOST_OF_ALL = 262_144
"""Bytes of all the texts of a skill."""


def edits_of(folder: str, files: Files, base: Mapping[str, FileMark | None]) -> dict[str, str]:
    """The files of a folder that are not upstream's, as far as they are texts of a size for a lock."""
    found: dict[str, str] = {}
    left = MOST_OF_ALL
    for path in sorted(base):
        if path not in files or files[path].mode in ("link", "special"):
            continue
        data = head_of(f"{folder}/{path}", MOST + 1)
        if len(data) <= min(MOST, left) and is_text(data):
            found[path] = data.decode()
            left -= len(data)
    return found


def edited(entry: Entry | Rest, path: str) -> bytes | None:
    """The text that the lock holds for a path, if it is the one that the lock means."""
    data = entry.edits.get(path, "").encode("utf-8", "surrogatepass")
    return data if path in entry.edits and "sha256:" + sha256(data).hexdigest() == entry.files[path].digest else None


def left_out(entry: Entry | Rest) -> list[str]:
    """Edited files that the lock does not hold: whoever shares the lock has to share them too."""
    return [path for path in sorted(entry.base) if path in entry.files and path not in entry.edits]

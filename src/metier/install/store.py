"""Upstream's own texts, kept by their digest: what a local edit is compared with when an update comes."""

from __future__ import annotations

from collections.abc import Iterator

from ..host import swap
from ..host.writing import head_of
from ..types.installed import Files

MOST = 1_048_576
"""Larger files are not merged, and so not kept."""


def keep(state: str, folder: str, files: Files) -> None:
    """Keep the texts of a folder."""
    for path, mark in files.items():
        place = _place(state, mark.digest)
        if not place or swap.touched(place):
            continue
        data = head_of(f"{folder}/{path}", MOST + 1)
        if len(data) <= MOST and is_text(data):
            swap.keep_bytes(place, data)


def kept(state: str, digest: str) -> bytes | None:
    """The text of that digest, if it was kept and is still that text."""
    from hashlib import sha256

    place = _place(state, digest)
    if not place or not swap.inode(place):
        return None
    data = head_of(place, MOST + 1)
    return data if "sha256:" + sha256(data).hexdigest() == digest else None


def every(state: str) -> Iterator[tuple[str, str]]:
    """The digest of each text that is kept, and its file."""
    for two in swap.names(f"{state}/store"):
        for rest in swap.names(f"{state}/store/{two}"):
            yield f"sha256:{two}{rest}", f"{state}/store/{two}/{rest}"


def _place(state: str, digest: str) -> str:
    kind, _, hexes = digest.partition(":")
    return f"{state}/store/{hexes[:2]}/{hexes[2:]}" if kind == "sha256" and len(hexes) == 64 else ""


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data

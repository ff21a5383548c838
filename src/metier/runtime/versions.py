"""Snapshot versions: per workspace and global, growing only when content changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from json import dumps, loads
from typing import TYPE_CHECKING

from ..host.clock import now_ns
from ..host.database import Database
from ..types.errors import MetierError
from ..types.skill import Skill

if TYPE_CHECKING:
    from .library import Library

_memory: dict[str, tuple[int, str]] = {}
"""Versions of this process, for libraries without an index."""


@dataclass(frozen=True)
class Snapshot:
    """The content of a library at one moment."""

    version: int
    """Grows with every change, here or for all workspaces."""
    workspace: str
    """The folder it is about."""
    fingerprint: str
    """The same for the same content and the same verdicts."""
    digests: dict[str, str]
    """By path: the digest of each SKILL.md."""


def bump(current: int) -> int:
    now = now_ns() // 1_000_000
    return now if now > current else current + 1


def snapshot_of(library: Library) -> Snapshot:
    digests = dict(_digests(library))
    text = dumps([sorted(digests.items()), sorted(_standing(library))])
    fingerprint = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    where = library.place.cwd if library.request.root is None else library.roots[0].origin.path
    workspace = f"{where}\0{library.dialect.name}"
    version, before = _load(library.database, workspace)
    if before != fingerprint:
        version = bump(version)
        _save(library.database, workspace, version, fingerprint)
    everywhere, _ = _load(library.database, "")
    return Snapshot(max(version, everywhere), where, fingerprint, digests)


def bump_everywhere(database: Database | None) -> int:
    """Make every workspace's snapshot out of date: after installing something for all of them."""
    version = bump(_load(database, "")[0])
    _save(database, "", version, "")
    return version


def _standing(library: Library) -> Iterable[str]:
    """What is decided about each skill counts as content: a binary that appears changes the catalog."""
    for verdict in library.verdicts:
        yield f"{verdict.skill.path}\0{','.join(mark.code for mark in verdict.marks)}"


def _digests(library: Library) -> Iterable[tuple[str, str]]:
    for broken in library.broken:
        yield broken.path, "broken:" + ",".join(mark.code for mark in broken.marks)
    for skill in library.skills:
        yield skill.path, _digest(library, skill)


def _digest(library: Library, skill: Skill) -> str:
    if skill.path in library.kept:
        return library.read(skill).digest
    key = f"digest\0{skill.path}"
    stamp = " ".join(map(str, skill.key))
    known = _note(library.database, key)
    if known is not None and known.startswith(stamp + " "):
        return known.rpartition(" ")[2]
    try:
        digest = library.read(skill).digest
    except MetierError:
        return "unreadable"
    _keep(library.database, key, f"{stamp} {digest}")
    return digest


def _load(database: Database | None, workspace: str) -> tuple[int, str]:
    text = _note(database, f"version\0{workspace}")
    if text is None:
        return _memory.get(workspace, (0, ""))
    version, fingerprint = loads(text)
    return int(version), str(fingerprint)


def _save(database: Database | None, workspace: str, version: int, fingerprint: str) -> None:
    _memory[workspace] = (version, fingerprint)
    _keep(database, f"version\0{workspace}", dumps([version, fingerprint]))


def _note(database: Database | None, key: str) -> str | None:
    rows = database.rows("SELECT value FROM notes WHERE key = ?", (key,)) if database is not None else []
    return rows[0][0] if rows else None


def _keep(database: Database | None, key: str, value: str) -> None:
    if database is not None:
        with database.change() as change:
            change("INSERT OR REPLACE INTO notes VALUES (?, ?)", (key, value))

"""Snapshot versions: a number per workspace that grows when the content of its library changes, and only then.

A version is a time in milliseconds, or one more than the last where the clock has not moved on: it grows across
processes and restarts without a counter that everybody would have to share.  `bump_everywhere` raises a global version
that counts for every workspace, after something was installed for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from json import dumps, loads
from typing import TYPE_CHECKING

from ..host.facts import now_ns
from ..host.sqlite import IndexDatabase
from ..sources.scan import is_settled
from ..types.errors import MetierError
from ..types.skill import Skill

if TYPE_CHECKING:
    from .library import Library

_WRITE_NOTE = "INSERT OR REPLACE INTO notes VALUES (?, ?)"
_UNREADABLE = "unreadable"
_memory: dict[str, tuple[int, str]] = {}
"""Versions in this process, for libraries without an index."""


@dataclass(frozen=True)
class Snapshot:
    """The content of a library at one moment."""

    version: int
    """Grows with every change, of this workspace or of all."""
    workspace: str
    """The folder that it describes."""
    fingerprint: str
    """Equal for equal content and verdicts."""
    digests: dict[str, str]
    """By path: the digest of each SKILL.md; for a broken one its findings, and the digest of the kept text if any."""


def next_version(current: int) -> int:
    now = now_ns() // 1_000_000
    return now if now > current else current + 1


def snapshot_of(library: Library) -> Snapshot:
    """The snapshot of a library; raises the version of its workspace if the content is new."""
    from hashlib import sha256  # slow to load, and every command imports this module

    digests = dict(_skill_digests(library))
    text = dumps([sorted(digests.items()), sorted(_verdict_lines(library))])
    fingerprint = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    where = library.place.cwd if library.request.root is None else library.roots[0].origin.path
    allowed = "" if library.allowed.everything else dumps(library.allowed.names)
    workspace = f"{where}\0{library.dialect.name}\0{library.place.profile}\0{allowed}"
    version, before = _load_version(library.database, workspace)
    if before != fingerprint:
        version = _raise_version(library.database, workspace, fingerprint)
    everywhere, _ = _load_version(library.database, "")
    return Snapshot(max(version, everywhere), where, fingerprint, digests)


def bump_everywhere(database: IndexDatabase | None) -> int:
    """Raise the version of every workspace, after installing something for all of them."""
    return _raise_version(database, "", None)


def _verdict_lines(library: Library) -> Iterable[str]:
    """Verdicts count as content: a program that is installed makes a skill usable and changes the catalog."""
    for verdict in library.verdicts:
        yield f"{verdict.skill.path}\0{','.join(finding.code for finding in verdict.findings)}"


def _skill_digests(library: Library) -> Iterable[tuple[str, str]]:
    broken = {item.path: "broken:" + ",".join(finding.code for finding in item.findings) for item in library.broken}
    yield from broken.items()
    began = now_ns()
    notes = _digest_notes(library.database)
    fresh: list[tuple[str, str]] = []
    for skill in library.skills:
        key, stamp = f"digest\0{skill.path}", " ".join(map(str, skill.key)) + " "
        cached = notes.get(key) if skill.path not in library.kept else None
        if cached is not None and cached.startswith(stamp):
            yield skill.path, cached.rpartition(" ")[2]
            continue
        digest = _digest_of_skill(library, skill)
        yield skill.path, f"{broken[skill.path]} {digest}" if skill.path in broken else digest
        # Only a file whose time stamps have settled can be recognised by them later.
        if digest != _UNREADABLE and skill.path not in library.kept and is_settled(skill.key, began):
            fresh.append((key, stamp + digest))
    _write_notes(library.database, fresh)


def _digest_notes(database: IndexDatabase | None) -> dict[str, str]:
    if database is None:
        return {}
    return dict(database.rows("SELECT key, value FROM notes WHERE key >= 'digest' AND key < 'digesu'"))


def _digest_of_skill(library: Library, skill: Skill) -> str:
    try:
        return library.read(skill).digest
    except MetierError:
        return _UNREADABLE


def _every_version(database: IndexDatabase | None) -> Iterable[int]:
    yield from (version for version, _ in _memory.values())
    rows = database.rows("SELECT value FROM notes WHERE key LIKE 'version%'") if database is not None else []
    yield from (int(loads(value)[0]) for (value,) in rows)


def _load_version(database: IndexDatabase | None, workspace: str) -> tuple[int, str]:
    text = _read_note(database, f"version\0{workspace}")
    if text is None:
        return _memory.get(workspace, (0, ""))
    version, fingerprint = loads(text)
    return int(version), str(fingerprint)


def _raise_version(database: IndexDatabase | None, workspace: str, fingerprint: str | None) -> int:
    """Raise a version, unless another process has just done so for the same content."""
    if database is None:
        return _advance_version(None, workspace, fingerprint)
    with database.change() as change:
        version = _advance_version(database, workspace, fingerprint)
        change(_WRITE_NOTE, (f"version\0{workspace}", dumps(_memory[workspace])))
    return version


def _advance_version(database: IndexDatabase | None, workspace: str, fingerprint: str | None) -> int:
    version, before = _load_version(database, workspace)
    if fingerprint is None or before != fingerprint:
        # Above every version handed out so far, so that a rise of one workspace shows above a global rise, and back.
        version = next_version(max([version, *_every_version(database)]))
    _memory[workspace] = (version, fingerprint or "")
    return version


def _read_note(database: IndexDatabase | None, key: str) -> str | None:
    rows = database.rows("SELECT value FROM notes WHERE key = ?", (key,)) if database is not None else []
    return rows[0][0] if rows else None


def _write_notes(database: IndexDatabase | None, notes: list[tuple[str, str]]) -> None:
    if database is not None and notes:
        with database.change() as change:
            for note in notes:
                change(_WRITE_NOTE, note)

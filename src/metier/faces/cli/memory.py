"""What the front door answers from: an answer, and everything it depended on."""

from __future__ import annotations

from collections.abc import Iterator

from ...host import files
from ...host.clock import now_ns
from ...runtime import Library
from ...types.skill import StatKey

_SETTLED_NS = 50_000_000
_MOST = 64


def remember(library: Library, key: str, answer: str) -> None:
    """Keep an answer for the next time, unless something it depends on is too young to be told apart."""
    database = library.database
    guards = _guards(library)
    if database is None or guards is None:
        return
    with database.change() as change:
        change(
            "INSERT OR REPLACE INTO memos (key, guards, answer, at) VALUES (?, ?, ?, ?)",
            (key, guards, answer, now_ns()),
        )
        change("DELETE FROM memos WHERE key NOT IN (SELECT key FROM memos ORDER BY at DESC LIMIT ?)", (_MOST,))


def _guards(library: Library) -> str | None:
    settled = now_ns() - _SETTLED_NS
    lines = []
    for path, key in _paths(library):
        if "\n" in path or "\t" in path or (key is not None and max(key[1], key[2]) > settled):
            return None
        lines.append(f"{path}\t" + (" ".join(map(str, key)) if key is not None else ""))
    env = library.place.env
    for skill in library.skills:
        for name in skill.requires.env:
            value = env.get(name)
            lines.append(f"={name}\t" + ("unset" if value is None else "set" if value else "empty"))
        asked = (*skill.requires.binaries, *skill.requires.any_binary)
        lines.extend(f"!{name}\t{name in library.facts.binaries}" for name in asked)
    if any("\n" in line for line in lines):
        return None
    return "\n".join(lines)


def _paths(library: Library) -> Iterator[tuple[str, StatKey | None]]:
    """Every path an answer depends on, with what `stat` said of it."""
    yield from library.guards
    for path in library.leaned_on:
        yield path, files.stat_key(path)
    for skill in library.skills:
        yield skill.path, skill.key
    for broken in library.broken:
        yield broken.path, broken.key if broken.key[0] else files.stat_key(broken.path)

"""What the front door answers from: an answer, and everything it depended on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...host import files, paths
from ...host.clock import now_ns
from ...runtime import Library
from ...sources.plugins import MANIFESTS
from ...types.skill import StatKey
from . import door

_SETTLED_NS = 50_000_000
_MOST = 64
_MOST_FOLDERS = 2_000
_half = re.compile("[\ud800-\udfff]")
"""A path that is not UTF-8, which a database can't hold."""


def remember(library: Library, what: str, root: str, answer: str) -> None:
    """Keep an answer for the next time, unless something it depends on is too young to be told apart."""
    database = library.database
    # That the index itself was damaged or locked is said once: it is not true the next time.
    if database is None or any(problem.code.startswith("index-") for problem in library.problems):
        return
    try:
        key = door.key_of(what, root)
    except OSError:  # a terminal that does not know its width, a folder that is gone
        return
    guards = _guards(library)
    if guards is None or _half.search(key):
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
    guards = "\n".join(lines)
    return None if _half.search(guards) else guards


def _paths(library: Library) -> Iterator[tuple[str, StatKey | None]]:
    """Every path an answer depends on, with what `stat` said of it."""
    yield from library.guards
    for skill in library.skills:
        yield skill.path, skill.key
    for broken in library.broken:
        yield broken.path, broken.key if broken.key[0] else files.stat_key(broken.path)
    for path in dict.fromkeys((*library.leaned_on, *_ancestors(library.place.cwd), *_beside(library))):
        yield path, files.stat_key(path)


def _ancestors(folder: str) -> Iterator[str]:
    """Wherever a `.git` would make another folder the project."""
    while folder:
        yield f"{folder}/.git"
        folder = folder.rpartition("/")[0]
    yield "/.git"


def _beside(library: Library) -> Iterator[str]:
    """Plugins and their manifests, what a problem is about, and the folders of skills that a person trusted."""
    place = library.place
    for holder in (f"{place.state}/plugins", f"{place.project}/.metier/plugins"):
        yield holder
        for name in _folders(holder):
            yield f"{holder}/{name}"
            yield from (f"{holder}/{name}/{file}" for file in (*MANIFESTS, "skills"))
    yield from (problem.path for problem in library.problems if problem.path.startswith("/"))
    trusted = [skill for skill in library.skills if skill.origin.source == "project" and skill.origin.trusted]
    for skill in trusted:
        yield from _folders_beneath(skill.directory)


def _folders(path: str) -> list[str]:
    try:
        listed = paths.list_names(path)
    except OSError:
        return []
    return [*listed.folders, *listed.links]


def _folders_beneath(path: str) -> Iterator[str]:
    """Empty folders too: a script may be put into one."""
    waiting, found = [path], 0
    while waiting and found < _MOST_FOLDERS:
        here = waiting.pop()
        found += 1
        yield here
        try:
            waiting += [f"{here}/{name}" for name in paths.list_names(here).folders]
        except OSError:
            continue

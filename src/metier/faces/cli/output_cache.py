"""What the front door answers from: an answer, and everything it depended on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...host import files, paths
from ...host.facts import now_ns
from ...library.library import Library
from ...sources.plugins import MANIFEST_FILES
from ...types.skill import StatKey
from . import fastlist

_SETTLED_NS = 50_000_000
_MAX_MEMOS = 64
_MAX_FOLDERS = 2_000
_SURROGATE = re.compile("[\ud800-\udfff]")
"""A path that is not UTF-8, which a database can't hold."""


def remember_answer(library: Library, kind: str, root: str, answer: str) -> None:
    """Keep an answer for the next time, unless something it depends on is too young to be told apart."""
    database = library.database
    # That the index itself was damaged or locked is said once: it is not true the next time.
    if database is None or any(problem.code.startswith("index-") for problem in library.problems):
        return
    try:
        key = fastlist.memo_key(kind, root)
    except OSError:  # a terminal that does not know its width, a folder that is gone
        return
    guards = _guard_lines(library)
    if guards is None or _SURROGATE.search(key):
        return
    with database.change() as change:
        change(
            "INSERT OR REPLACE INTO memos (key, guards, answer, at) VALUES (?, ?, ?, ?)",
            (key, guards, answer, now_ns()),
        )
        change("DELETE FROM memos WHERE key NOT IN (SELECT key FROM memos ORDER BY at DESC LIMIT ?)", (_MAX_MEMOS,))


def _guard_lines(library: Library) -> str | None:
    settled = now_ns() - _SETTLED_NS
    lines = []
    for path, key in _guarded_paths(library):
        if "\n" in path or "\t" in path or (key is not None and max(key[1], key[2]) > settled):
            return None
        lines.append(f"{path}\t" + (" ".join(map(str, key)) if key is not None else ""))
    env = library.place.env
    for skill in library.skills:
        for name in skill.requires.env:
            value = env.get(name)
            lines.append(f"={name}\t" + ("unset" if value is None else "set" if value else "empty"))
        binaries = (*skill.requires.binaries, *skill.requires.any_binary)
        lines.extend(f"!{name}\t{name in library.facts.binaries}" for name in binaries)
    if any("\n" in line for line in lines):
        return None
    guards = "\n".join(lines)
    return None if _SURROGATE.search(guards) else guards


def _guarded_paths(library: Library) -> Iterator[tuple[str, StatKey | None]]:
    """Every path an answer depends on, with what `stat` said of it."""
    yield from library.guards
    for skill in library.skills:
        yield skill.path, skill.key
    for broken in library.broken:
        yield broken.path, broken.key if broken.key[0] else files.stat_key(broken.path)
    for path in dict.fromkeys((*library.dependencies, *_git_ancestors(library.place.cwd), *_extra_paths(library))):
        yield path, files.stat_key(path)


def _git_ancestors(folder: str) -> Iterator[str]:
    """Wherever a `.git` would make another folder the project."""
    while folder:
        yield f"{folder}/.git"
        folder = folder.rpartition("/")[0]
    yield "/.git"


def _extra_paths(library: Library) -> Iterator[str]:
    """Plugins and their manifests, what a problem is about, and the folders of skills that a person trusted."""
    place = library.place
    for holder in (f"{place.state}/plugins", f"{place.project}/.metier/plugins"):
        yield holder
        for name in _list_folders(holder):
            yield f"{holder}/{name}"
            yield from (f"{holder}/{name}/{file}" for file in (*MANIFEST_FILES, "skills"))
    yield from (problem.path for problem in library.problems if problem.path.startswith("/"))
    trusted = [skill for skill in library.skills if skill.origin.source == "project" and skill.origin.trusted]
    for skill in trusted:
        yield from _folders_beneath(skill.directory)


def _list_folders(path: str) -> list[str]:
    try:
        listed = paths.list_names(path)
    except OSError:
        return []
    return [*listed.folders, *listed.links]


def _folders_beneath(path: str) -> Iterator[str]:
    """Empty folders too: a script may be put into one."""
    pending, count = [path], 0
    while pending and count < _MAX_FOLDERS:
        folder = pending.pop()
        count += 1
        yield folder
        try:
            pending += [f"{folder}/{name}" for name in paths.list_names(folder).folders]
        except OSError:
            continue

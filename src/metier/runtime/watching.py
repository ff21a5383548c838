"""Hot reload: the library as it changes, with the last good version of what breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..host import files, paths
from ..host.clock import monotonic
from ..host.watch import Stop as Stop
from ..host.watch import batches
from ..types.errors import MetierError
from ..types.skill import Skill
from .library import Library

_MOST_KEPT = 67_108_864
_SHORTEST_MS = 1_000
_SHARE = 50
"""The backstop may cost a fiftieth of the time."""


@dataclass(frozen=True)
class Change:
    """A new version of a library, and the names of what is different in it."""

    library: Library
    """As it is now."""
    version: int
    """That of its snapshot."""
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


def reloaded(library: Library) -> Library:
    """Look again; a skill whose file no longer loads stays as it was, if its text was kept."""
    from .opening import open_at

    return _with_last_good(library, open_at(library.place, library.request), library.kept)


def _with_last_good(old: Library, new: Library, texts: Mapping[str, bytes]) -> Library:
    broken = {item.path for item in new.broken}
    if not broken:
        return new
    saved = [skill for skill in old.skills if skill.path in broken]
    if not saved:
        return new
    kept = {skill.path: texts[skill.path] for skill in saved if skill.path in texts}
    standing = {skill.path: mark for skill in saved if (mark := old.untrusted.get(skill.path)) is not None}
    skills = tuple(sorted((*new.skills, *saved), key=lambda skill: (-skill.origin.rank, skill.path)))
    return replace(new, skills=skills, kept=kept, untrusted={**new.untrusted, **standing})


def changes(library: Library, stop: Stop | None = None) -> Iterator[Change]:
    """Yield each change of content.  Events make it quick; looking again at intervals makes it certain."""
    texts = _texts(library, {})
    current = library
    while stop is None or not stop.is_set():
        began = monotonic()
        fresh = _with_last_good(current, reloaded(current), texts)
        change = _difference(current, fresh)
        took = monotonic() - began
        if change is not None:
            current = fresh
            texts = _texts(current, texts)
            yield change
            continue
        every = max(_SHORTEST_MS, int(took * 1000 * _SHARE))
        folders = _folders(current)
        for _ in batches(folders, _wanted(current), every, stop):
            break
        else:
            return


def _texts(library: Library, before: Mapping[str, bytes]) -> dict[str, bytes]:
    """The text of every skill file, so that a good version outlives a bad edit."""
    kept: dict[str, bytes] = {}
    room = _MOST_KEPT
    for skill in library.skills:
        data = before.get(skill.path) if skill.path in library.kept else _text(skill, library)
        if data is not None and len(data) <= room:
            kept[skill.path] = data
            room -= len(data)
    return kept


def _text(skill: Skill, library: Library) -> bytes | None:
    folder, _, name = skill.path.rpartition("/")
    try:
        key, data = files.read_skill_file(folder, name, library.limits.file_bytes)
    except (OSError, MetierError):
        return None
    return data if key == skill.key else None


def _difference(old: Library, new: Library) -> Change | None:
    before, after = old.snapshot, new.snapshot
    if before.fingerprint == after.fingerprint:
        return None
    names = {skill.path: skill.name for skill in (*old.skills, *new.skills)}
    names.update({item.path: item.id for item in (*old.broken, *new.broken) if item.path not in names})
    added = sorted(names[path] for path in after.digests.keys() - before.digests.keys())
    removed = sorted(names[path] for path in before.digests.keys() - after.digests.keys())
    both = before.digests.keys() & after.digests.keys()
    changed = sorted(names[path] for path in both if before.digests[path] != after.digests[path])
    return Change(new, after.version, tuple(added), tuple(changed), tuple(removed))


def _folders(library: Library) -> set[str]:
    """Every folder whose names or files matter, and the nearest parent of a root that is not there yet."""
    folders = {path for path, _ in library.guards}
    folders |= {skill.directory for skill in library.skills}
    folders |= {item.path.rpartition("/")[0] for item in library.broken}
    for root in library.roots:
        path = root.origin.path
        while path and not paths.is_folder(path):
            path = path.rpartition("/")[0]
        if path:
            folders.add(path)
    return folders


def _wanted(library: Library) -> Callable[[str], bool]:
    skill_folders = {skill.directory for skill in library.skills}

    def wanted(path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return name.lower() == "skill.md" or (folder not in skill_folders and not name.endswith((".swp", "~")))

    return wanted

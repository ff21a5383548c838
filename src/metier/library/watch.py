"""Hot reload: yield a new library for each change, with the last good version of what breaks.

File events make it quick, but can be lost (network mounts, overflowing queues, folders that come later).  So the
library is also reopened at intervals, at most a fiftieth of the time, and a change counts only if the snapshot's
fingerprint differs: saving a file without changing it yields nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..host import files, paths
from ..host.facts import monotonic
from ..host.paths import DEBOUNCE_MS, watch_batches
from ..host.paths import StopSignal as StopSignal
from ..types.errors import MetierError
from ..types.problem import Finding, problem_from
from ..types.skill import Skill

if TYPE_CHECKING:
    from .library import Library

_MAX_KEPT_BYTES = 67_108_864
"""Of all texts kept in memory as last good versions."""
_MIN_INTERVAL_MS = 1_000
_MAX_INTERVAL_MS = 60_000
_BACKSTOP_SHARE = 50
"""Looking again may take one fiftieth of the time."""


@dataclass(frozen=True)
class Change:
    """A new version of a library, and the names of what differs."""

    library: Library
    """As it is now."""
    version: int
    """That of its snapshot."""
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


def reload_library(library: Library) -> Library:
    """Reopen a library; a skill that no longer loads keeps its last good version, if its text was kept."""
    return _with_last_good(library, library.reopen(library.place, library.request), library.kept)


def _with_last_good(old: Library, new: Library, texts: Mapping[str, bytes]) -> Library:
    broken = {item.path: item.origin for item in new.broken}
    if not broken:
        return new
    # The root may have another rank or trust by now; how the file was parsed is still the old way.
    saved = [
        skill._replace(origin=broken[skill.path]._replace(dialect=skill.origin.dialect))
        for skill in old.skills
        if skill.path in broken and skill.path in texts
    ]
    if not saved:
        return new
    from .settings import read_trust_record
    from .trust import mark_trusted_skills, trust_findings

    record = read_trust_record(new.place)
    untrusted = trust_findings(saved, new.place, record, new.limits)
    kept_skills = mark_trusted_skills(saved, untrusted, record)
    skills = sorted((*new.skills, *kept_skills), key=lambda skill: (-skill.origin.rank, skill.path.split("/")))
    return new.replace(
        skills=tuple(skills),
        kept={skill.path: texts[skill.path] for skill in saved},
        untrusted={**new.untrusted, **untrusted},
    )


def watch_changes(library: Library, stop: StopSignal | None = None) -> Iterator[Change]:
    """Yield each change of content until `stop` is set."""
    texts = _read_texts(library, library.kept)
    current = library
    _ = library.snapshot  # the first one reads every file; measure later looks without that
    while stop is None or not stop.is_set():
        began = monotonic()
        fresh = _with_last_good(current, reopen_library(current), texts)
        change = _library_change(current, fresh)
        took = monotonic() - began
        if change is not None:
            current = fresh
            texts = _read_texts(current, texts)
            yield change
            every = DEBOUNCE_MS  # look again soon: changes before the watch started raise no event
        else:
            if fresh.database is not None and fresh.database is not current.database:
                fresh.database.close()  # unused: waiting for the collector would keep files open
            every = min(max(_MIN_INTERVAL_MS, int(took * 1000 * _BACKSTOP_SHARE)), _MAX_INTERVAL_MS)
        folders = _watched_folders(current)
        for _ in watch_batches(folders, _watched_path_filter(current), every, stop):
            break
        else:
            return


def reopen_library(library: Library) -> Library:
    """Reopen a library.  While that fails (the named root is gone, the trust book is damaged) there are no skills,
    but no error either: a watch must outlive it."""
    try:
        return library.reopen(library.place, library.request)
    except MetierError as error:
        gone = library.request.root is not None and not paths.is_folder(library.roots[0].origin.path)
        finding = Finding("not-found") if gone else Finding("config-syntax", 0, (error.message,), fatal=True)
        problems = (problem_from(finding, error.path),)
        return library.replace(skills=(), broken=(), problems=problems, kept={}, untrusted={})


def _read_texts(library: Library, before: Mapping[str, bytes]) -> dict[str, bytes]:
    """The text of every skill file, so that a good version survives a bad edit."""
    texts: dict[str, bytes] = {}
    remaining = _MAX_KEPT_BYTES
    for skill in library.skills:
        # A kept skill is broken on disk: its good text is only in memory.
        data = before.get(skill.path) if skill.path in library.kept else _read_unchanged_text(skill, library)
        if data is not None and len(data) <= remaining:
            texts[skill.path] = data
            remaining -= len(data)
    return texts


def _read_unchanged_text(skill: Skill, library: Library) -> bytes | None:
    folder, _, name = skill.path.rpartition("/")
    try:
        key, data = files.read_skill_file(folder, name, library.limits.file_bytes)
    except (OSError, MetierError):
        return None
    return data if key == skill.key else None


def _library_change(old: Library, new: Library) -> Change | None:
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


def _watched_folders(library: Library) -> set[str]:
    """Every folder whose entries matter, and the nearest existing parent of each missing root."""
    folders = {path for path, _ in library.guards}
    folders |= {skill.directory for skill in library.skills}
    folders |= {item.path.rpartition("/")[0] for item in library.broken}
    folders |= {path.rpartition("/")[0] for path in _missing_roots(library)}
    return folders


def _missing_roots(library: Library) -> set[str]:
    """For each missing root, the first folder on the way to it that is missing."""
    missing = set()
    for root in library.roots:
        path = root.origin.path
        if paths.is_folder(path):
            continue
        parent = path.rpartition("/")[0]
        while parent and not paths.is_folder(parent):
            path, parent = parent, parent.rpartition("/")[0]
        missing.add(path)
    return missing


def _watched_path_filter(library: Library) -> Callable[[str], bool]:
    searched = {path for path, _ in library.guards}
    missing = _missing_roots(library)

    def wanted(path: str) -> bool:
        folder, _, name = path.rpartition("/")
        if name.lower() == "skill.md" or path in missing:
            return True
        return folder in searched and not name.endswith((".swp", "~"))

    return wanted

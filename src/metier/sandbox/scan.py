"""What a writable folder holds that other programs obey: noted before a program runs, and compared afterwards.

Names can't be kept from being made by mounts, since a mount needs something to be mounted on, and whatever is put
there for that stands in the user's own project.  So the mount tiers close what is there, and what a program made is
found here when it has ended, and moved away by `quarantine`.

A folder's times change with its entries, so afterwards only folders whose times changed are listed again.  The kernel
sets the time of a change (`ctime`), and no program can set it back.
"""

from __future__ import annotations

import collections
import os
import re
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ..host.facts import now_ns
from ..host.files import open_folder, read_whole
from .obeyed import BARE, GIT_ENTRIES, ObeyedFile, ObeyedNames, is_bare_repository

MOST_FOLDERS = 2_000
"""Folders that are looked at before a program runs, nearest first: a huge tree must not delay every program."""
MOST_NEW_FOLDERS = 20_000
"""Folders of a program's own that are looked at afterwards."""
_COARSE_CLOCK, _FINE_CLOCK = 2_500_000_000, 50_000_000
"""Nanoseconds within which two changes may have the same time; some file systems count seconds."""
_MOST_ROOTS = 16
_PACKAGE_SCRIPTS = re.compile(rb'"scripts"\s*:').search
_MOST_BYTES = 1_048_576


class FoundEntry(NamedTuple):
    """An entry that is obeyed."""

    row: ObeyedFile
    inode: int
    target: str = ""
    """Where it leads, if it is a link."""


class FolderNote(NamedTuple):
    """What a folder held."""

    stamp: tuple[int, int, int] | None
    """Its inode and times; None where it changed so recently that another change might not show."""
    inner: frozenset[str]
    found: dict[str, FoundEntry]
    bare: frozenset[str] = frozenset()
    """If it is a repository without a `.git`: those of its entries that git obeys."""


@dataclass(frozen=True)
class GrantScan:
    """A writable folder before a program ran."""

    root: str
    names: ObeyedNames
    notes: dict[str, FolderNote]
    skipped: frozenset[str]
    """Folders in it that are closed, or granted themselves."""
    unseen: frozenset[str] = frozenset()
    """Folders beyond the bound, whatever is in them."""

    @property
    def found(self) -> Iterator[tuple[str, FoundEntry]]:
        for folder, note in self.notes.items():
            for name, entry in note.found.items():
                yield f"{folder}/{name}", entry

    @property
    def bare(self) -> Iterator[str]:
        """What git obeys in repositories that have no `.git`."""
        return (f"{folder}/{name}" for folder, note in self.notes.items() for name in note.bare)


class MadeEntry(NamedTuple):
    """What a program made that another one obeys."""

    path: str
    row: ObeyedFile
    link: str = ""
    """Where a link led that it took the place of."""


@dataclass
class SweepFindings:
    """What was found afterwards."""

    made: list[MadeEntry] = field(default_factory=list)
    unsearched: list[str] = field(default_factory=list)
    """New folders that were too many to look at, or can't be listed."""


_lock = threading.Lock()
_known: collections.OrderedDict[tuple[str, ObeyedNames], dict[str, FolderNote]] = collections.OrderedDict()


def scan_grant(root: str, names: ObeyedNames, skipped: frozenset[str]) -> GrantScan:
    """Look at a writable folder, reading only what changed since the last look."""
    key = (root, names)
    with _lock:
        before = _known.get(key, {})
    notes: dict[str, FolderNote] = {}
    waiting, packages = collections.deque([root]), collections.deque[str]()
    while (waiting or packages) and len(notes) < MOST_FOLDERS:
        # What a package manager installed is large and rarely matters: it comes last.
        folder = waiting.popleft() if waiting else packages.popleft()
        note = _look_at(folder, names, folder == root, before.get(folder))
        if note is None:
            continue
        notes[folder] = note
        for name in note.inner:
            path = f"{folder}/{name}"
            if path not in skipped:
                (packages if name == "node_modules" else waiting).append(path)
    with _lock:
        _known[key] = notes
        _known.move_to_end(key)
        while len(_known) > _MOST_ROOTS:
            _known.popitem(last=False)
    return GrantScan(root, names, notes, skipped, frozenset((*waiting, *packages)))


def _look_at(folder: str, names: ObeyedNames, top: bool, before: FolderNote | None) -> FolderNote | None:
    """What a folder holds; None if it is none, or can't be listed."""
    try:
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode):
            return None
        stamp = _stamp_of(status)
        if before is not None and stamp is not None and before.stamp == stamp:
            return before
        return _list_folder(folder, names, top, stamp)
    except OSError:
        return None


def _stamp_of(status: os.stat_result) -> tuple[int, int, int] | None:
    coarse = status.st_ctime_ns % 1_000_000 == 0
    settled = now_ns() - status.st_ctime_ns > (_COARSE_CLOCK if coarse else _FINE_CLOCK)
    return (status.st_ino, status.st_ctime_ns, status.st_mtime_ns) if settled else None


def _list_folder(folder: str, names: ObeyedNames, top: bool, stamp: tuple[int, int, int] | None) -> FolderNote:
    inner: list[str] = []
    found: dict[str, FoundEntry] = {}
    with os.scandir(folder) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False), entry) for entry in entries]
    here = {name for name, _, _ in listed}
    top = top or ".git" in here
    for name, is_folder, entry in listed:
        row = names.find(folder, name, top)
        target = os.readlink(entry.path) if not is_folder and entry.is_symlink() and (row or names.outer(name)) else ""
        if row is None and target:
            row = names.leads_to(entry.path)
        if row is not None:
            found[name] = FoundEntry(row, entry.inode(), target)
        elif is_folder:
            inner.append(name)
    bare = frozenset(here & GIT_ENTRIES) if is_bare_repository(here) else frozenset[str]()
    return FolderNote(stamp, frozenset(inner), found, bare)


# --- Afterwards ---


def sweep_grant(scan: GrantScan, strict: bool) -> SweepFindings:
    """What a program made in a folder that another program obeys.

    Files that people ask agents to write count only if `strict`.
    """
    findings = SweepFindings()
    known = {(entry.row.pattern, entry.inode) for _, entry in scan.found}
    waiting: collections.deque[str] = collections.deque()
    for folder, before in scan.notes.items():
        note = _look_again(folder, scan, before)
        if note is not before and note is not None:
            _compare(scan, folder, (before, note), known, findings)
            fresh = (f"{folder}/{name}" for name in note.inner - before.inner)
            waiting.extend(path for path in fresh if path not in scan.notes and path not in scan.unseen)
    seen = 0
    while waiting:
        folder = waiting.popleft()
        seen += 1
        note = _look_again(folder, scan, None) if seen <= MOST_NEW_FOLDERS else None
        if note is None:
            if os.path.isdir(folder) and not os.path.islink(folder):
                findings.unsearched.append(folder)
            continue
        _compare(scan, folder, (None, note), known, findings)
        waiting.extend(f"{folder}/{name}" for name in note.inner if f"{folder}/{name}" not in scan.skipped)
    findings.made[:] = [made for made in findings.made if strict or not made.row.ordinary]
    return findings


def sweep_top(scan: GrantScan) -> list[MadeEntry]:
    """The same for the top of a folder alone, while a program still runs there."""
    before = scan.notes.get(scan.root)
    note = _look_at(scan.root, scan.names, True, before)
    if note is before or note is None:
        return []
    findings = SweepFindings()
    _compare(scan, scan.root, (before, note), set(), findings)
    return [made for made in findings.made if not made.row.ordinary]


def _look_again(folder: str, scan: GrantScan, before: FolderNote | None) -> FolderNote | None:
    """What a folder holds now; one that its maker closed to us is opened first."""
    note = _look_at(folder, scan.names, folder == scan.root, before)
    if note is None and not os.access(folder, os.R_OK | os.X_OK) and _open_to_us(folder):
        note = _look_at(folder, scan.names, folder == scan.root, before)
    return note


def _open_to_us(folder: str) -> bool:
    """Give ourselves the rights to list a folder and to change it.

    With the right to pass through alone, a program's own `.git` is obeyed in a folder that can't be listed.
    """
    try:
        opened = os.open(folder, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return False
    try:
        os.chmod(f"/proc/self/fd/{opened}", stat.S_IMODE(os.fstat(opened).st_mode) | 0o700)
    except OSError:
        return False
    finally:
        os.close(opened)
    return True


def _compare(
    scan: GrantScan,
    folder: str,
    notes: tuple[FolderNote | None, FolderNote],
    known: set[tuple[str, int]],
    findings: SweepFindings,
) -> None:
    before, now = notes
    for name, entry in now.found.items():
        path = f"{folder}/{name}"
        old = before.found.get(name) if before else None
        # What was there is closed by a mount or the broker, or is what agents may edit.  A link can't be closed.  Its
        # inode says nothing: what takes its place may get the same number.
        unchanged = old is not None and old.target == entry.target
        # A folder may be moved with the ordinary files in it.
        moved = entry.row.ordinary and (entry.row.pattern, entry.inode) in known
        if path in scan.skipped or unchanged or moved:
            continue
        if entry.row.pattern != "package.json" or _has_scripts(folder, name):
            findings.made.append(MadeEntry(path, entry.row, old.target if old else ""))
    if now.bare:
        new = now.bare - before.bare if before and before.bare else frozenset(("HEAD",))
        findings.made += [MadeEntry(f"{folder}/{name}", BARE) for name in sorted(new)]


def _has_scripts(folder: str, name: str) -> bool:
    """Whether a `package.json` has scripts, or can't be read."""
    try:
        opened = open_folder(folder)
        try:
            return _PACKAGE_SCRIPTS(read_whole(opened, name, _MOST_BYTES)[1]) is not None
        finally:
            os.close(opened)
    except OSError:
        return True

"""metier sync: a root made what its lock says, to the commit and the byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

from ..host import paths, trees
from ..host.trees import read_first_bytes
from ..library import lockfile
from ..library.lockfile import InstallRoot, compare_files, folder_manifest, read_entry
from ..record import history
from ..sources.skill_files import manifest_digest
from ..types.errors import MetierError, Refused
from ..types.lockfile import FileManifest, FileRecord, FolderEntry, LockEntry, Lockfile, Provenance
from . import transaction
from .add import AddRequest, describe_source
from .fetch import FetchedFolder, FetchOptions, fetch_git
from .merge import edited_text, kept_text
from .transaction import FolderChange, StagingArea
from .update import fetch_again, installed_folders, reference_of


class SyncResult(NamedTuple):
    """What became of one folder."""

    folder: str
    state: str
    """`unchanged`, `placed`, or `failed`."""
    fault: MetierError | None = None
    without: tuple[str, ...] = ()
    """Edited files that were nowhere to be found, and are upstream's now."""


def sync_root(
    request: AddRequest, options: FetchOptions, waiting: Callable[[], None] | None = None
) -> Iterator[SyncResult]:
    """Make a root what its lock says: what is missing or differs is fetched again, at the very commit.

    A folder that can't be had stops none of the others.
    """
    lock = lockfile.read_lock(request.install_root)
    for name, source in installed_folders(lock, ()).items():
        try:
            with (
                transaction.open_staging(request.install_root) as staging,
                transaction.hold_folders(request.install_root, [name], waiting),
            ):
                result = _sync_folder(request, lock, name, source, (staging, options))
        except MetierError as error:
            result = SyncResult(name, "failed", error)
        yield result
    for key, entry in sorted(lock.skills.items()):
        if entry.frozen and entry.provenance.kind == "local" and not _matches_lock(request.install_root, {key: entry}):
            yield _sync_own(request, key, entry, waiting)


def _sync_own(request: AddRequest, key: str, entry: LockEntry, waiting: Callable[[], None] | None) -> SyncResult:
    """A skill of one's own made what it was when it was frozen, from what was kept of it."""
    install_root = request.install_root
    try:
        with transaction.open_staging(install_root) as staging, transaction.hold_folders(install_root, [key], waiting):
            if not request.force:
                _refuse_edits(install_root, {key: entry})
            new, lost = staging.inner(), []
            for inner, mark in entry.files.items():
                data = _find_edited(request.state, install_root, key, entry, inner)
                if data is None:
                    lost.append(inner)
                else:
                    trees.put_bytes(f"{new}/{inner}", data, int(mark.mode, 8) & 0o777)
            if lost:
                raise _lost_edits(key, lost, own=True)
            _must_match(key, new, {key: entry}, install_root.shared)
            transaction.commit_change(
                staging, FolderChange("place", key, {key: entry}, act="sync", evidence="as it was frozen"), new
            )
    except MetierError as error:
        return SyncResult(key, "failed", error)
    return SyncResult(key, "placed")


def _sync_folder(
    request: AddRequest, lock: Lockfile, name: str, source: Provenance, kit: tuple[StagingArea, FetchOptions]
) -> SyncResult:
    install_root, (staging, options) = request.install_root, kit
    mine = {key: entry for key, entry in lock.skills.items() if entry.folder == name}
    rests = {name: lock.folders[name]} if name in lock.folders else {}
    if _matches_lock(install_root, mine):
        return SyncResult(name, "unchanged")
    if not request.force:
        _refuse_edits(install_root, mine)
    fetched = _fetch_exactly(source, staging, options)
    lost: list[str] = []
    every: dict[str, LockEntry | FolderEntry] = {**mine, **rests}
    for key, entry in every.items():
        gone = _restore_edits(
            request.state, install_root, key, entry, f"{fetched.path}/{key[len(name) + 1 :]}".rstrip("/")
        )
        if gone and not request.force:
            raise _lost_edits(key, gone)
        lost += gone
        if gone and isinstance(entry, FolderEntry):
            files, base = _without_lost(entry, gone)
            rests[key] = replace(entry, files=files, base=base)
        elif gone and isinstance(entry, LockEntry):
            files, base = _without_lost(entry, gone)
            mine[key] = replace(entry, files=files, base=base, approval=None)  # nobody has said yes to upstream's
    _must_match(name, fetched.path, mine, install_root.shared)
    transaction.commit_change(
        staging, FolderChange("place", name, mine, rests, "sync", describe_source(source)), fetched.path
    )
    return SyncResult(name, "placed", None, tuple(lost))


def _refuse_edits(install_root: InstallRoot, mine: Mapping[str, LockEntry]) -> None:
    """Files that somebody wrote here, and that neither the lock nor metier put there, are not replaced unasked."""
    for key, entry in mine.items():
        now = folder_manifest(f"{install_root.root}/{key}")
        differing = dict(compare_files(entry.files, now, install_root.shared))
        before = _placed_before(install_root, key)
        edited = [
            path
            for path, kind in differing.items()
            if kind in ("changed", "added") and (before is None or before.files.get(path) != now.get(path))
        ]
        if edited:
            raise Refused(
                f"{', '.join(edited[:5])} of `{key}` was edited here, and is not what the lock says",
                "say --force to have the lock's; yours then goes to the trash (`metier restore` lists it)",
            )


def _placed_before(install_root: InstallRoot, key: str) -> LockEntry | None:
    """What metier itself last put there, as the history of the root has it: an older lock's is nobody's edit."""
    try:
        for version in history.list_versions(install_root.history, key) if install_root.history else ():
            if version.act in ("add", "update", "sync", "restore", "approve", "freeze", "thaw"):
                locked = history.read_lock_entry(install_root.history, key, version.rev)
                return read_entry(json.loads(locked)) if locked else None
    except MetierError:
        return None
    return None


def _matches_lock(install_root: InstallRoot, mine: Mapping[str, LockEntry]) -> bool:
    return all(
        not list(compare_files(entry.files, folder_manifest(f"{install_root.root}/{key}"), install_root.shared))
        for key, entry in mine.items()
    )


def _fetch_exactly(source: Provenance, staging: StagingArea, options: FetchOptions) -> FetchedFolder:
    if source.kind in ("github", "git"):
        return fetch_git(reference_of(source), staging.inner, options, source.commit)
    return fetch_again(source, staging, options)


def _restore_edits(
    state: str, install_root: InstallRoot, key: str, entry: LockEntry | FolderEntry, path: str
) -> list[str]:
    """Edits that the lock knows, put back into upstream's files.  Those that are nowhere to be found."""
    lost = []
    for inner in entry.base:
        mark = entry.files.get(inner)
        if mark is None:
            trees.remove_tree(f"{path}/{inner}")
            trees.remove_empty(path, inner.rpartition("/")[0])
            continue
        data = _find_edited(state, install_root, key, entry, inner)
        if data is None:
            lost.append(inner)
        else:
            trees.put_bytes(f"{path}/{inner}", data, int(mark.mode, 8) & 0o777)
    return lost


def _without_lost(
    entry: LockEntry | FolderEntry, lost: list[str]
) -> tuple[FileManifest, Mapping[str, FileRecord | None]]:
    """An entry's files with upstream's in place of those that are lost, and the base that is left."""
    marks = {**entry.files, **{path: entry.base[path] for path in lost}}
    files = {path: mark for path, mark in marks.items() if mark is not None}
    return files, {path: mark for path, mark in entry.base.items() if path not in lost}


def _find_edited(
    state: str, install_root: InstallRoot, key: str, entry: LockEntry | FolderEntry, inner: str
) -> bytes | None:
    """An edited file: from the lock, from what was kept, from what is there, from what was there."""
    mark = entry.files[inner]
    if mark.mode in ("link", "special"):
        return None
    data = edited_text(entry, inner)
    data = kept_text(state, mark.digest) if data is None else data
    if data is None and _is_here(f"{install_root.root}/{key}", inner, mark):
        data = read_first_bytes(f"{install_root.root}/{key}/{inner}", 1 << 40)
    for version in history.list_versions(install_root.history, key) if data is None and install_root.history else ():
        _, was = history.read_files(install_root.history, key, version.rev).get(inner, (0, b""))
        if "sha256:" + sha256(was).hexdigest() == mark.digest:
            return was
    return data


def _is_here(folder: str, inner: str, mark: FileRecord) -> bool:
    return paths.exists(f"{folder}/{inner}") and folder_manifest(folder).get(inner) == mark


def _lost_edits(key: str, paths: list[str], own: bool = False) -> MetierError:
    if own:
        return MetierError(
            f"{', '.join(paths[:5])} of `{key}` is not what the lock says, and the text that it names is not here",
            f"bring the file back from where it is kept, or `metier approve {key}` takes it as it is",
        )
    return MetierError(
        f"{', '.join(paths[:5])} of `{key}` was edited by whoever made the lock, and that text is not here",
        f"`metier approve {key}` where it still is enters it in the lock, or commit the file itself;"
        " --force takes upstream's",
    )


def _must_match(name: str, path: str, mine: Mapping[str, LockEntry], shared: bool) -> None:
    for key, entry in mine.items():
        inside = key[len(name) + 1 :]
        now = folder_manifest(f"{path}/{inside}" if inside else path)
        differing = [inner for inner, _ in compare_files(entry.files, now, shared)]
        if differing:
            raise Refused(
                f"what was fetched for `{key}` is not what the lock says: {', '.join(differing[:5])}",
                f"nothing was placed; the lock wants {manifest_digest(entry.files)}",
            )

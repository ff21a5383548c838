"""metier sync: make a root what its lock says, to the commit and the byte.

A folder that differs is fetched again at the locked commit, local edits that the lock knows are put back, and the
result must match the lock file by file before it is placed.  Edits that neither the lock nor metier made are never
replaced without --force; they then go to the trash.
"""

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
from ..registries.source_policy import source_names
from ..sources.skill_files import manifest_digest
from ..types.errors import MetierError, Refused
from ..types.installed import FileManifest, FileRecord, FolderEntry, LockEntry, Lockfile, Provenance
from . import transaction
from .add import AddRequest, describe_source
from .fetch import FetchedFolder, fetch_git
from .fetch_access import FetchOptions
from .merge import edited_text, kept_text
from .transaction import FolderChange, StagingArea
from .update import fetch_again, installed_folders, reference_of


class SyncResult(NamedTuple):
    """What happened to one folder."""

    folder: str
    state: str
    """`unchanged`, `placed`, or `failed`."""
    fault: MetierError | None = None
    without: tuple[str, ...] = ()
    """Edited files whose text was not found, and which are upstream's now."""


def sync_root(
    request: AddRequest, options: FetchOptions, waiting: Callable[[], None] | None = None
) -> Iterator[SyncResult]:
    """Make a root what its lock says.  A folder that fails does not stop the others."""
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
        # A skill of the user's own that is not frozen may be anything.
        if entry.frozen and entry.provenance.kind == "local" and not _matches_lock(request.install_root, {key: entry}):
            yield _sync_own(request, key, entry, waiting)


def _sync_own(request: AddRequest, key: str, entry: LockEntry, waiting: Callable[[], None] | None) -> SyncResult:
    """Restore a frozen skill of the user's own from stored texts: it has no upstream."""
    install_root = request.install_root
    try:
        with transaction.open_staging(install_root) as staging, transaction.hold_folders(install_root, [key], waiting):
            if not request.force:
                _refuse_edits(install_root, {key: entry})
            new, lost = staging.inner(), []
            for inner, record in entry.files.items():
                data = _find_edited(request.state, install_root, key, entry, inner)
                if data is None:
                    lost.append(inner)
                else:
                    trees.put_bytes(f"{new}/{inner}", data, int(record.mode, 8) & 0o777)
            if lost:
                raise _lost_edits(key, lost, own=True)
            _must_match(key, new, {key: entry}, install_root.shared)
            transaction.commit_change(
                staging, FolderChange("place", key, {key: entry}, act="sync", evidence="as frozen"), new
            )
    except MetierError as error:
        return SyncResult(key, "failed", error)
    return SyncResult(key, "placed")


def _sync_folder(
    request: AddRequest, lock: Lockfile, name: str, source: Provenance, means: tuple[StagingArea, FetchOptions]
) -> SyncResult:
    install_root, (staging, options) = request.install_root, means
    locked = {key: entry for key, entry in lock.skills.items() if entry.folder == name}
    folders = {name: lock.folders[name]} if name in lock.folders else {}
    if _matches_lock(install_root, locked):
        return SyncResult(name, "unchanged")
    # Before fetching: no download for what will be refused.
    if not request.force:
        _refuse_edits(install_root, locked)
    fetched = _fetch_exactly(source, staging, options)
    lost: list[str] = []
    entries: dict[str, LockEntry | FolderEntry] = {**locked, **folders}
    for key, entry in entries.items():
        gone = _restore_edits(
            request.state, install_root, key, entry, f"{fetched.path}/{key[len(name) + 1 :]}".rstrip("/")
        )
        if gone and not request.force:
            raise _lost_edits(key, gone)
        lost += gone
        if gone and isinstance(entry, FolderEntry):
            files, base = _without_lost(entry, gone)
            folders[key] = replace(entry, files=files, base=base)
        elif gone and isinstance(entry, LockEntry):
            files, base = _without_lost(entry, gone)
            locked[key] = replace(entry, files=files, base=base, approval=None)  # upstream's file was never approved
    _must_match(name, fetched.path, locked, install_root.shared)
    transaction.commit_change(
        staging, FolderChange("place", name, locked, folders, "sync", describe_source(source)), fetched.path
    )
    return SyncResult(name, "placed", None, tuple(lost))


def _refuse_edits(install_root: InstallRoot, locked: Mapping[str, LockEntry]) -> None:
    """Refuse to replace files that were edited here, that is, neither locked nor last placed by metier."""
    for key, entry in locked.items():
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
                f"{', '.join(edited[:5])} of `{key}` was edited here and differs from the lock",
                "pass --force to restore the locked version; yours goes to the trash (`metier restore` lists it)",
            )


def _placed_before(install_root: InstallRoot, key: str) -> LockEntry | None:
    """What metier itself last placed, from the history: a file of an older lock is not an edit."""
    try:
        for version in history.list_versions(install_root.history, key) if install_root.history else ():
            # Edits and rollbacks are the user's, not what metier placed from upstream.
            if version.act in ("add", "update", "sync", "restore", "approve", "freeze", "thaw"):
                locked = history.read_lock_entry(install_root.history, key, version.rev)
                return read_entry(json.loads(locked)) if locked else None
    except MetierError:
        return None
    return None


def _matches_lock(install_root: InstallRoot, locked: Mapping[str, LockEntry]) -> bool:
    return all(
        not list(compare_files(entry.files, folder_manifest(f"{install_root.root}/{key}"), install_root.shared))
        for key, entry in locked.items()
    )


def _fetch_exactly(source: Provenance, staging: StagingArea, options: FetchOptions) -> FetchedFolder:
    options.policy.check(source_names(source))
    if source.kind in ("github", "git"):
        return fetch_git(reference_of(source), staging.inner, options, source.commit)
    if source.kind == "registry":
        # The version in the lock, not the newest; what is fetched must be what the lock lists.
        return fetch_again(replace(source, ref=source.commit or source.version), staging, options)
    return fetch_again(source, staging, options)


def _restore_edits(
    state: str, install_root: InstallRoot, key: str, entry: LockEntry | FolderEntry, path: str
) -> list[str]:
    """Put the edits that the lock knows back into upstream's files.  Returns those whose text was not found."""
    lost = []
    for inner in entry.base:
        record = entry.files.get(inner)
        if record is None:
            trees.remove_tree(f"{path}/{inner}")
            trees.remove_empty(path, inner.rpartition("/")[0])
            continue
        data = _find_edited(state, install_root, key, entry, inner)
        if data is None:
            lost.append(inner)
        else:
            trees.put_bytes(f"{path}/{inner}", data, int(record.mode, 8) & 0o777)
    return lost


def _without_lost(
    entry: LockEntry | FolderEntry, lost: list[str]
) -> tuple[FileManifest, Mapping[str, FileRecord | None]]:
    """An entry's files with upstream's in place of lost edits, and the remaining base."""
    records = {**entry.files, **{path: entry.base[path] for path in lost}}
    files = {path: record for path, record in records.items() if record is not None}
    return files, {path: record for path, record in entry.base.items() if path not in lost}


def _find_edited(
    state: str, install_root: InstallRoot, key: str, entry: LockEntry | FolderEntry, inner: str
) -> bytes | None:
    """An edited file: from the lock, from the store of texts, from the disk, or from the history."""
    record = entry.files[inner]
    if record.mode in ("link", "special"):
        return None
    data = edited_text(entry, inner)
    data = kept_text(state, record.digest) if data is None else data
    if data is None and _is_on_disk(f"{install_root.root}/{key}", inner, record):
        data = read_first_bytes(f"{install_root.root}/{key}/{inner}", 1 << 40)
    for version in history.list_versions(install_root.history, key) if data is None and install_root.history else ():
        _, was = history.read_files(install_root.history, key, version.rev).get(inner, (0, b""))
        if "sha256:" + sha256(was).hexdigest() == record.digest:
            return was
    return data


def _is_on_disk(folder: str, inner: str, record: FileRecord) -> bool:
    return paths.exists(f"{folder}/{inner}") and folder_manifest(folder).get(inner) == record


def _lost_edits(key: str, paths: list[str], own: bool = False) -> MetierError:
    if own:
        return MetierError(
            f"{', '.join(paths[:5])} of `{key}` differs from the lock, and the locked text is not stored here",
            f"restore the file from a backup, or accept it as it is with `metier approve {key}`",
        )
    return MetierError(
        f"{', '.join(paths[:5])} of `{key}` was edited by the author of the lock, and that text is not stored here",
        f"run `metier approve {key}` where the edit is to add it to the lock, or commit the file;"
        " --force takes upstream's",
    )


def _must_match(name: str, path: str, locked: Mapping[str, LockEntry], shared: bool) -> None:
    for key, entry in locked.items():
        inside = key[len(name) + 1 :]
        now = folder_manifest(f"{path}/{inside}" if inside else path)
        differing = [inner for inner, _ in compare_files(entry.files, now, shared)]
        if differing:
            raise Refused(
                f"what was fetched for `{key}` differs from the lock: {', '.join(differing[:5])}",
                f"nothing was placed; the lock has {manifest_digest(entry.files)}",
            )

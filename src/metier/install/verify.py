"""metier verify, freeze and approve: compare installed skills with the lock, and lock them as they are.

Freezing and thawing never approve anything: a skill that changed while frozen must be approved or rolled back first,
or `freeze --off` would be a way around the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

from ..host.facts import utc_timestamp
from ..library import lockfile
from ..library.lockfile import DifferenceKind, InstallRoot, compare_files, folder_manifest
from ..library.trust import run_digests
from ..sources.skill_files import manifest_digest
from ..types.dialect import Dialect
from ..types.errors import Changed, HostError, NotInstalled, Refused
from ..types.installed import FileManifest, FileRecord, FolderEntry, LockEntry, Lockfile, Provenance, SkillApproval
from . import transaction
from .add import read_folder, read_skill
from .inspect import inspect_skill
from .merge import collect_edits
from .remove import list_installed

_MAX_SKILL_BYTES = 256_000
"""Of one SKILL.md."""


class LockDifference(NamedTuple):
    """A file that differs from the lock."""

    skill: str
    """Its path in the root; for a file outside all skills, the folder's name."""
    path: str
    how: DifferenceKind


def verify_lock(install_root: InstallRoot, lock: Lockfile, names: Sequence[str] = ()) -> tuple[LockDifference, ...]:
    """Every file of the locked skills that was changed, added, removed or given another mode."""
    keys = _wanted_keys(lock, names)
    differing = [
        LockDifference(key, path, kind)
        for key in keys
        for path, kind in compare_files(
            lock.skills[key].files, folder_manifest(f"{install_root.root}/{key}"), install_root.shared
        )
    ]
    # Files outside skills belong to no name.
    if not names:
        differing += _folder_differences(install_root, lock)
    return tuple(differing)


def _folder_differences(install_root: InstallRoot, lock: Lockfile) -> Iterator[LockDifference]:
    """Differences in installed folders outside their skills."""
    for name, folder_entry in lock.folders.items():
        inside = [key[len(name) + 1 :] for key in lock.skills if key.startswith(name + "/")]
        now = {
            path: record
            for path, record in folder_manifest(f"{install_root.root}/{name}").items()
            if not any(path.startswith(folder + "/") for folder in inside)
        }
        for path, kind in compare_files(folder_entry.files, now, install_root.shared):
            yield LockDifference(name, path, kind)


def _wanted_keys(lock: Lockfile, names: Iterable[str]) -> list[str]:
    names = list(names)
    return [key for name in names for key in find_locked(lock, name)] if names else sorted(lock.skills)


def find_locked(lock: Lockfile, name: str) -> list[str]:
    """The locked skills that a name means: a path in the root, an installed folder, or a skill's folder or name."""
    for matches in (
        lambda key, locked: key == name,
        lambda key, locked: locked.folder == name,
        lambda key, locked: name in (key.rpartition("/")[2], locked.name),
    ):
        keys = [key for key, locked in sorted(lock.skills.items()) if matches(key, locked)]
        if keys:
            return keys
    labels = {label: None for key, entry in lock.skills.items() for label in (key, entry.name, entry.folder)}
    raise NotInstalled(name, tuple(get_close_matches(name, labels, 3)))


def find_places(install_root: InstallRoot, name: str) -> list[str]:
    """The existing skills of a root that a name means, locked or not."""
    return [
        skill.place
        for skill in list_installed(install_root)
        if not skill.missing and name in (skill.place, skill.place.rpartition("/")[2], skill.name, skill.folder)
    ]


def freeze_skills(
    install_root: InstallRoot, names: Sequence[str], dialect: Dialect, frozen: bool = True
) -> tuple[str, ...]:
    """Freeze skills as they are now, the named ones or all: from then on no file of theirs may differ.

    `frozen=False` thaws them.  Neither approves what was changed while frozen.
    """
    present = [skill.place for skill in list_installed(install_root) if not skill.missing]
    keys: list[str] = []
    for name in names or sorted(present):
        matches = find_places(install_root, name)
        if not matches:
            raise NotInstalled(name, tuple(get_close_matches(name, present, 3)))
        keys += matches
    with transaction.hold_folders(install_root, {key.partition("/")[0] for key in keys}):
        now = {key: folder_manifest(f"{install_root.root}/{key}") for key in keys}
        if frozen:
            _refuse_changed(install_root, now)
        for key in keys:
            transaction.try_record_history(install_root, key, "edit")

        def change(lock: Lockfile) -> Lockfile:
            skills = dict(lock.skills)
            for key, files in now.items():
                old = skills.get(key)
                # Changed while frozen: thaw it, but leave what was approved as it was.
                if not frozen and old is not None and list(compare_files(old.files, files, install_root.shared)):
                    skills[key] = replace(old, frozen=False)
                elif not frozen and (old is None or old.provenance.kind == "local"):
                    skills.pop(key, None)  # the user's own needs no lock
                else:
                    new = _relock_entry(install_root, key, files, old, dialect)
                    # Freezing is no approval: what nobody approved yet stays so.
                    approval = new.approval if old is None or old.approval is not None else None
                    skills[key] = replace(new, frozen=frozen, approval=approval)
            return Lockfile(skills, lock.folders)

        transaction.change_lock(install_root, change)
        for key in keys:
            transaction.try_record_history(install_root, key, "freeze" if frozen else "thaw")
    return tuple(keys)


def _refuse_changed(install_root: InstallRoot, now: Mapping[str, FileManifest]) -> None:
    lock = lockfile.read_lock(install_root)
    for key, files in now.items():
        old = lock.skills.get(key)
        changes = list(compare_files(old.files, files, install_root.shared)) if old is not None and old.frozen else []
        if changes:
            raise Refused(
                f"`{key}` is frozen, and {changes[0][0]} was {changes[0][1]} since",
                f"review it; then `metier approve {key}` accepts it, or `metier rollback {key}` undoes it",
                f"{install_root.root}/{key}/{changes[0][0]}",
            )


def approve_skills(
    install_root: InstallRoot, keys: Iterable[str], dialect: Dialect, seen: Mapping[str, str] | None = None
) -> None:
    """Approve skills as they are now; with `seen`, only if these are still the digests of their files."""
    keys = list(keys)
    with transaction.hold_folders(install_root, {key.partition("/")[0] for key in keys}):
        now = {key: folder_manifest(f"{install_root.root}/{key}") for key in keys}
        for key in keys:
            if seen is not None and manifest_digest(now[key]) != seen[key]:
                raise Changed(f"`{key}` changed since it was shown", "read it again, then decide")
            transaction.try_record_history(install_root, key, "edit")

        def change(lock: Lockfile) -> Lockfile:
            fresh = {
                key: _relock_entry(install_root, key, files, lock.skills.get(key), dialect)
                for key, files in now.items()
            }
            entries = {**lock.skills, **fresh}
            # The user's own skills need no lock entry, unless they are frozen.
            own = {key for key in fresh if entries[key].provenance.kind == "local" and not entries[key].frozen}
            return Lockfile({key: entry for key, entry in entries.items() if key not in own}, lock.folders)

        transaction.change_lock(install_root, change)
        for key in keys:
            transaction.try_record_history(install_root, key, "approve")


def _relock_entry(
    install_root: InstallRoot, key: str, files: FileManifest, old: LockEntry | None, dialect: Dialect
) -> LockEntry:
    """A lock entry for the current files that still knows upstream's, so that updates can merge."""
    if not files:
        raise HostError(f"{install_root.root}/{key} is gone", "run `metier sync` to restore it")
    path = f"{install_root.root}/{key}"
    read = read_skill(path, key.rpartition("/")[2], dialect)
    inspected = inspect_skill(read_folder(path, "", key.rpartition("/")[2], files), dialect, ())
    runs = tuple(sorted(run_digests(read, _MAX_SKILL_BYTES))) if read is not None else ()
    approval = SkillApproval(manifest_digest(files), utc_timestamp(), "user", runs)
    codes = tuple(sorted({finding.code for finding in inspected.findings}))
    if old is None:
        source = Provenance("local", path)
        return LockEntry(inspected.name, key.partition("/")[0], source, files, {}, inspected.powers, codes, approval)
    base = rebase_files(old.files, old.base, files)
    return replace(
        old,
        name=inspected.name,
        files=files,
        base=base,
        powers=inspected.powers,
        findings=codes,
        approval=approval,
        previous=manifest_digest(old.files),
        edits=collect_edits(path, files, base),
    )


def upstream_files(entry: LockEntry | FolderEntry) -> dict[str, FileRecord]:
    """Upstream's files as they were fetched last."""
    records = {**entry.files, **entry.base}
    return {path: record for path, record in records.items() if record is not None}


def rebase_files(
    files: FileManifest, base: Mapping[str, FileRecord | None], now: FileManifest
) -> dict[str, FileRecord | None]:
    """The base for new local files, so that upstream's stay known."""
    theirs = {path: record for path, record in {**files, **base}.items() if record is not None}
    return base_of(theirs, now)


def base_of(theirs: FileManifest, now: FileManifest) -> dict[str, FileRecord | None]:
    """Upstream's record of each file that differs from the local one; None if upstream has no such file."""
    return {path: theirs.get(path) for path in {*theirs, *now} if theirs.get(path) != now.get(path)}

"""Change single skills: each change replaces the folder as a whole and is kept in the history of its root.

A change starts from what is on disk, not from what metier last wrote: edits made by hand are recorded first, and a
folder that changed since the new files were made (`SkillEdit.base`) is not replaced.  Without a working history
nothing is changed, because then nothing could be taken back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from json import loads
from typing import TYPE_CHECKING, NamedTuple

from ..host import paths, trees
from ..host.repository import repository_exists
from ..library import lockfile
from ..library.lockfile import InstallRoot
from ..record import history
from ..record.history import SkillVersion, repository_path
from ..sources.bundled import BundledCopyReport
from ..sources.roots import receipts_path
from ..sources.skill_files import LINK_MODE, SkillFiles, manifest_digest
from ..types.errors import BadRequest, HostError, Refused, UnknownSkill
from ..types.installed import LockEntry
from ..types.place import Place
from ..types.skill import Skill
from . import remove, transaction
from .transaction import FolderChange, StagingArea

if TYPE_CHECKING:
    from ..library.library import Library

_ALL_VERSIONS = 1_000_000


def _ignore_note(text: str) -> None:
    """For callers that show no notes."""


def install_root_for(
    place: Place, root: str, shared: bool | None = None, note: Callable[[str], None] = _ignore_note
) -> InstallRoot:
    """An install root with its history."""
    if shared is None:
        shared = paths.is_inside(root, place.project) and not paths.is_inside(root, place.state)
        shared = shared and place.project != place.home
    return InstallRoot(root, shared, repository_path(place.state, root), receipts_path(place), note)


class ManagedSkill(NamedTuple):
    """A skill that can be changed."""

    install_root: InstallRoot
    key: str
    """Its path in the root."""

    @property
    def folder(self) -> str:
        return f"{self.install_root.root}/{self.key}"

    @property
    def repository(self) -> str:
        return self.install_root.history


class SkillEdit(NamedTuple):
    """New files for a skill, and why."""

    files: SkillFiles
    act: str
    evidence: str = ""
    run: str = ""
    base: str = ""
    """The manifest digest of the folder that the files were made from; if it changed since, it is not replaced."""


def managed_skill(library: Library, skill: Skill) -> ManagedSkill:
    """Where a skill of a library is changed; refuses one that can't be changed."""
    place = library.place
    plugins = f"{place.state}/plugins"
    root = plugins if paths.is_inside(skill.directory, plugins) else skill.origin.path
    if skill.origin.source == "bundled" and not paths.is_inside(skill.directory, place.state):
        raise Refused(f"`{skill.name}` ships with metier", "run `metier init` for a copy that you can change")
    # A root that is itself a skill can't be exchanged: its lock and staging folder lie beside or in it.
    if skill.directory == root or not paths.is_inside(skill.directory, root):
        raise Refused(f"`{skill.name}` is itself a root", "use its parent folder as the root")
    return ManagedSkill(install_root_for(place, root), skill.directory[len(root) + 1 :])


def apply_edit(target: ManagedSkill, edit: SkillEdit) -> SkillVersion | None:
    """Replace the files of a skill; the old ones stay in the history.  None if nothing changed."""
    return _replace_skill(target, edit, lambda entry: entry)


def _replace_skill(
    target: ManagedSkill, edit: SkillEdit, relocked: Callable[[LockEntry | None], LockEntry | None]
) -> SkillVersion | None:
    install_root = target.install_root
    _check_may_change(target)
    with (
        transaction.open_staging(install_root) as staging,
        transaction.hold_folders(install_root, [target.key.partition("/")[0]]),
    ):
        transaction.record_edits(install_root, [target.key])
        before = lockfile.folder_manifest(target.folder)
        if edit.base and manifest_digest(before) != edit.base:
            hint = "nothing was replaced; start again from its current files"
            raise Refused(f"`{target.key}` has changed since", hint)
        new = _stage_files(staging, target.folder, edit.files)
        old_entry = lockfile.read_lock(install_root).skills.get(target.key)
        entry = relocked(old_entry)
        if trees.file_marks(new) == before and entry == old_entry:
            return None
        # Once more, right before the exchange: an editor may have saved a file meanwhile.
        if lockfile.folder_manifest(target.folder) != before:
            raise Refused(f"`{target.key}` is being edited", "nothing was replaced; try again")
        change = FolderChange(
            "place", target.key, {target.key: entry} if entry else {}, {}, edit.act, edit.evidence, edit.run
        )
        _discard_trashed(transaction.commit_change(staging, change, new))
    return next(iter(history.list_versions(target.repository, target.key, 1)), None)


def _check_may_change(target: ManagedSkill) -> None:
    if trees.is_link(target.folder):
        raise Refused(f"{target.folder} is a link, and metier does not replace its target", "edit the target itself")
    entry = lockfile.read_lock(target.install_root).skills.get(target.key)
    if entry is not None and entry.frozen:
        raise Refused(f"`{target.key}` is frozen", f"run `metier freeze --off {target.key}` first")


def _discard_trashed(trashed: str) -> None:
    """Delete from the trash what the history has already."""
    if trashed:
        trees.remove_tree(trashed.rpartition("/")[0])


def _stage_files(staging: StagingArea, old: str, files: SkillFiles) -> str:
    """A new folder with these files, and with `.git` and `__pycache__` of the old one."""
    new = staging.inner()
    for path, (mode, data) in files.items():
        if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
            raise BadRequest(f"`{path}` is not a path inside a skill", "remove it")
        if mode == LINK_MODE:
            trees.make_folders(f"{new}/{path}".rpartition("/")[0])
            trees.replace_link(f"{new}/{path}", data.decode("utf-8", "surrogateescape"))
        else:
            trees.put_bytes(f"{new}/{path}", data, mode)
    trees.carry_over(old, new)
    return new


def record_written(
    place: Place, root: str, keys: Iterable[str], act: str, evidence: str, note: Callable[[str], None]
) -> None:
    """Record what metier itself wrote into a root, before it is edited."""
    install_root = install_root_for(place, root, note=note)
    for key in keys:
        transaction.try_record_history(install_root, key, act, evidence)


# --- Looking back ---


def roots_with_history(library: Library, note: Callable[[str], None] = _ignore_note) -> Iterator[InstallRoot]:
    """The roots of a library that have a history."""
    roots = dict.fromkeys([*(root.origin.path for root in library.roots), f"{library.place.state}/plugins"])
    for root in roots:
        install_root = install_root_for(library.place, root, note=note)
        if repository_exists(install_root.history):
            yield install_root


def record_hand_edits(install_root: InstallRoot, key: str = "") -> None:
    """Record edits made by hand, in one skill or in every skill of the history."""
    try:
        transaction.record_edits(install_root, [key] if key else history.skill_names(install_root.history))
    except HostError as error:
        install_root.note(error.message)


def find_managed(library: Library, name: str, note: Callable[[str], None] = _ignore_note) -> ManagedSkill:
    """The skill with that name: one with a history, even if it is in the trash; else one of the library."""
    by_name: dict[str, list[ManagedSkill]] = {}
    for install_root in roots_with_history(library, note):
        entries = lockfile.read_lock(install_root).skills
        for key in _names_in_history(install_root):
            named = entries[key].name if key in entries else key
            for label in {key, key.rpartition("/")[2], named}:
                by_name.setdefault(label, []).append(ManagedSkill(install_root, key))
    candidates = by_name.get(name, [])
    # A path in the root is exact; a name may mean several.
    exact = [candidate for candidate in candidates if candidate.key == name] or candidates
    if len(exact) > 1:
        where = ", ".join(candidate.folder for candidate in exact)
        raise BadRequest(f"several skills are called `{name}`: {where}", "choose its root: metier --root DIR …")
    if exact:
        return exact[0]
    try:
        return managed_skill(library, library.find(name).skill)  # its history starts now
    except UnknownSkill as error:
        raise UnknownSkill(name, tuple(get_close_matches(name, by_name, 3, 0.6)) or error.nearest) from error


def _names_in_history(install_root: InstallRoot) -> Iterable[str]:
    """Every skill in the history, including removed ones."""
    return dict.fromkeys(
        (
            *history.skill_names(install_root.history),
            *(version.name for version in history.list_versions(install_root.history, "", _ALL_VERSIONS)),
        )
    )


def approved_keys(target: ManagedSkill) -> tuple[str, ...]:
    """The skill's key, if it is approved in the lock."""
    entry = lockfile.read_lock(target.install_root).skills.get(target.key)
    return (target.key,) if entry is not None and entry.approval is not None else ()


_rolled_back_to = re.compile(r"to ([0-9a-f]{7,40})\b").match


def version_before(target: ManagedSkill) -> str:
    """The version that is one back: the one before the current one, or before the one last rolled back to."""
    record_hand_edits(target.install_root, target.key)
    versions = history.list_versions(target.repository, target.key, _ALL_VERSIONS)
    at = 0
    # Going back twice goes back two: a rollback is a version too, and must not be what is gone back to.
    while at < len(versions) and versions[at].act == "rollback" and (match := _rolled_back_to(versions[at].evidence)):
        at = next((older for older, version in enumerate(versions) if version.rev.startswith(match[1])), len(versions))
    if at + 1 >= len(versions) or versions[at + 1].act == "trash":
        raise BadRequest(
            f"`{target.key}` has no version before this one", f"`metier history {target.key}` lists its versions"
        )
    return versions[at + 1].rev


def rollback_skill(target: ManagedSkill, rev: str) -> SkillVersion | None:
    """Restore a skill at a version: bytes, modes and lock entry.  This is a change itself, so nothing is lost."""
    was = history.find_version(target.repository, rev)
    files = history.read_files(target.repository, target.key, was.rev)
    if not files:
        raise BadRequest(
            f"`{target.key}` was not there at {was.rev[:12]} ({was.subject})",
            f"`metier history {target.key}` lists its versions; `metier remove {target.key}` removes it",
        )
    lock_text = history.read_lock_entry(target.repository, target.key, was.rev)
    entry = lockfile.read_entry(loads(lock_text)) if lock_text else None
    return _replace_skill(
        target,
        SkillEdit(SkillFiles.from_pairs(files), "rollback", f"to {was.rev[:12]} ({was.subject})"),
        lambda current: entry,
    )


def log_lines(library: Library, limit: int) -> list[str]:
    """The newest changes of all roots, one line each."""
    versions: list[SkillVersion] = []
    for install_root in roots_with_history(library):
        record_hand_edits(install_root)
        versions += history.list_versions(install_root.history, "", limit)
    versions.sort(key=lambda version: version.at, reverse=True)
    return [f"{version.rev[:12]} {version.at} {version.subject}" for version in versions[:limit]]


def rollback_to(library: Library, rev: str, name: str = "") -> tuple[str, ...]:
    """Restore a skill, or every skill that changed since; those that did not exist then go to the trash."""
    if name:
        target = find_managed(library, name)
        return (target.key,) if rollback_skill(target, rev) else ()
    install_root = _root_with_version(library, rev)
    record_hand_edits(install_root)
    changed = []
    for key in sorted({version.name for version in history.versions_since(install_root.history, rev)}):
        if history.read_files(install_root.history, key, rev):
            did_change = rollback_skill(ManagedSkill(install_root, key), rev) is not None
        else:
            did_change = paths.exists(f"{install_root.root}/{key}") and bool(remove.remove_skill(install_root, key))
        changed += [key] if did_change else []
    return tuple(changed)


def _root_with_version(library: Library, rev: str) -> InstallRoot:
    """The root whose history has a version; of several, the one changed last."""
    candidates: list[tuple[str, InstallRoot]] = []
    for install_root in roots_with_history(library):
        newest = history.list_versions(install_root.history, "", 1)
        if newest and history.has_version(install_root.history, rev):
            candidates.append((newest[0].at, install_root))
    if not candidates:
        raise BadRequest(f"no history has a version `{rev}`", "find one with git_log or `metier history`")
    return max(candidates, key=lambda candidate: candidate[0])[1]


def record_bundled(place: Place, copied: BundledCopyReport, note: Callable[[str], None]) -> None:
    """Record the copies of bundled skills in the history, before they are edited."""
    for act, names in (("add", copied.added), ("update", copied.updated)):
        record_written(place, f"{place.state}/skills", names, act, "it ships with metier", note)

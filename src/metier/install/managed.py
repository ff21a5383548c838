"""Changes of managed skills, one by one: each is put in place whole, and kept in the history of its root."""

from __future__ import annotations

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
from ..sources.skill_files import LINK_MODE, SkillFiles, manifest_digest
from ..types.errors import BadRequest, HostError, Refused, UnknownSkill
from ..types.lockfile import LockEntry
from ..types.place import Place
from ..types.skill import Skill
from . import remove, transaction
from .transaction import FolderChange, StagingArea

if TYPE_CHECKING:
    from ..library.library import Library

_ALL_VERSIONS = 1_000_000


def _ignore_note(text: str) -> None:
    """Whoever asks not to be told."""


def install_root_for(
    here: Place, root: str, shared: bool | None = None, note: Callable[[str], None] = _ignore_note
) -> InstallRoot:
    """A root that skills are changed in, and the history that goes with it."""
    if shared is None:
        shared = paths.is_inside(root, here.project) and not paths.is_inside(root, here.state)
        shared = shared and here.project != here.home
    return InstallRoot(root, shared, repository_path(here.state, root), note)


class ManagedSkill(NamedTuple):
    """A skill where it can be changed."""

    install_root: InstallRoot
    key: str
    """Its place in the root."""

    @property
    def folder(self) -> str:
        return f"{self.install_root.root}/{self.key}"

    @property
    def repository(self) -> str:
        return self.install_root.history


class SkillEdit(NamedTuple):
    """A new text for a skill, and why."""

    files: SkillFiles
    act: str
    evidence: str = ""
    run: str = ""
    base: str = ""
    """The manifest digest of the folder that the files were made from; another one is not replaced."""


def managed_skill(library: Library, skill: Skill) -> ManagedSkill:
    """Where a skill of a library is changed; one that nobody may change is refused."""
    here = library.place
    plugins = f"{here.state}/plugins"
    root = plugins if paths.is_inside(skill.directory, plugins) else skill.origin.path
    if skill.origin.source == "bundled" and not paths.is_inside(skill.directory, here.state):
        raise Refused(f"`{skill.name}` ships with metier", "run `metier init` to have a copy that may change")
    if skill.directory == root or not paths.is_inside(skill.directory, root):
        raise Refused(f"`{skill.name}` is a root of its own", "give the folder that holds it as the root")
    return ManagedSkill(install_root_for(here, root), skill.directory[len(root) + 1 :])


def apply_edit(target: ManagedSkill, edit: SkillEdit) -> SkillVersion | None:
    """Put a new text of a skill in place of the old, which stays in the history; None when nothing changed.

    What was edited by hand is kept first.  Without a working history nothing is changed.
    """
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
            raise Refused(f"`{target.key}` changed meanwhile", "nothing was replaced; begin again from what is there")
        new = _stage_files(staging, target.folder, edit.files)
        old_entry = lockfile.read_lock(install_root).skills.get(target.key)
        entry = relocked(old_entry)
        if trees.file_marks(new) == before and entry == old_entry:
            return None
        if lockfile.folder_manifest(target.folder) != before:
            raise Refused(f"`{target.key}` is being edited", "nothing was replaced; try again")
        change = FolderChange(
            "place", target.key, {target.key: entry} if entry else {}, {}, edit.act, edit.evidence, edit.run
        )
        _discard_trashed(transaction.commit_change(staging, change, new))
    return next(iter(history.list_versions(target.repository, target.key, 1)), None)


def _check_may_change(target: ManagedSkill) -> None:
    if trees.is_link(target.folder):
        raise Refused(
            f"{target.folder} is a link: what it leads to is not metier's to replace", "change it where it lies"
        )
    entry = lockfile.read_lock(target.install_root).skills.get(target.key)
    if entry is not None and entry.frozen:
        raise Refused(f"`{target.key}` is frozen", f"run `metier freeze --off {target.key}` first")


def _discard_trashed(trashed: str) -> None:
    """What the history has needs no place in the trash."""
    if trashed:
        trees.remove_tree(trashed.rpartition("/")[0])


def _stage_files(staging: StagingArea, old: str, files: SkillFiles) -> str:
    """A new folder with these files, and with what is nobody's text: what git and Python keep in the old one."""
    new = staging.inner()
    for path, (mode, data) in files.items():
        if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
            raise BadRequest(f"`{path}` is no path inside a skill", "leave it out")
        if mode == LINK_MODE:
            trees.make_folders(f"{new}/{path}".rpartition("/")[0])
            trees.replace_link(f"{new}/{path}", data.decode("utf-8", "surrogateescape"))
        else:
            trees.put_bytes(f"{new}/{path}", data, mode)
    trees.carry_over(old, new)
    return new


def record_written(
    here: Place, root: str, keys: Iterable[str], act: str, evidence: str, note: Callable[[str], None]
) -> None:
    """What metier itself wrote into a root is kept before anybody edits it."""
    install_root = install_root_for(here, root, note=note)
    for key in keys:
        transaction.try_record_history(install_root, key, act, evidence)


# --- Looking back ---


def roots_with_history(library: Library, note: Callable[[str], None] = _ignore_note) -> Iterator[InstallRoot]:
    """The roots of a library that have a history; what was edited by hand is kept first."""
    roots = dict.fromkeys([*(root.origin.path for root in library.roots), f"{library.place.state}/plugins"])
    for root in roots:
        install_root = install_root_for(library.place, root, note=note)
        if repository_exists(install_root.history):
            yield install_root


def record_hand_edits(install_root: InstallRoot, key: str = "") -> None:
    """Keep what was edited by hand in a skill, or in every one that the history knows."""
    try:
        transaction.record_edits(install_root, [key] if key else history.skill_names(install_root.history))
    except HostError as error:
        install_root.note(error.message)


def find_managed(library: Library, name: str, note: Callable[[str], None] = _ignore_note) -> ManagedSkill:
    """The skill of that name: one that has a history, also where it is in the trash; else one of the library."""
    by_name: dict[str, list[ManagedSkill]] = {}
    for install_root in roots_with_history(library, note):
        entries = lockfile.read_lock(install_root).skills
        for key in _names_in_history(install_root):
            named = entries[key].name if key in entries else key
            for called in {key, key.rpartition("/")[2], named}:
                by_name.setdefault(called, []).append(ManagedSkill(install_root, key))
    candidates = by_name.get(name, [])
    exact = [candidate for candidate in candidates if candidate.key == name] or candidates
    if len(exact) > 1:
        where = ", ".join(candidate.folder for candidate in exact)
        raise BadRequest(f"several skills are called `{name}`: {where}", "name its root: metier --root DIR …")
    if exact:
        return exact[0]
    try:
        return managed_skill(library, library.find(name).skill)  # its history begins now
    except UnknownSkill as error:
        raise UnknownSkill(name, tuple(get_close_matches(name, by_name, 3, 0.6)) or error.nearest) from error


def _names_in_history(install_root: InstallRoot) -> Iterable[str]:
    """Every skill that the history knows of, those that are gone too."""
    return dict.fromkeys(
        (
            *history.skill_names(install_root.history),
            *(version.name for version in history.list_versions(install_root.history, "", _ALL_VERSIONS)),
        )
    )


def approved_keys(target: ManagedSkill) -> tuple[str, ...]:
    """The skill, if somebody said yes to it as it is in the lock now."""
    entry = lockfile.read_lock(target.install_root).skills.get(target.key)
    return (target.key,) if entry is not None and entry.approval is not None else ()


def rollback_skill(target: ManagedSkill, rev: str) -> SkillVersion | None:
    """Make a skill what it was: bytes, modes and what the lock said; itself a change, so nothing is lost."""
    was = history.find_version(target.repository, rev)
    files = history.read_files(target.repository, target.key, was.rev)
    if not files:
        raise BadRequest(
            f"`{target.key}` was not there at {was.rev[:12]} ({was.subject})",
            f"`metier history {target.key}` shows when it was; `metier remove {target.key}` takes it away",
        )
    lock_text = history.read_lock_entry(target.repository, target.key, was.rev)
    entry = lockfile.read_entry(loads(lock_text)) if lock_text else None
    return _replace_skill(
        target,
        SkillEdit(SkillFiles.from_pairs(files), "rollback", f"to {was.rev[:12]} ({was.subject})"),
        lambda current: entry,
    )


def log_lines(library: Library, limit: int) -> list[str]:
    """The newest changes of every root, a line each."""
    versions: list[SkillVersion] = []
    for install_root in roots_with_history(library):
        record_hand_edits(install_root)
        versions += history.list_versions(install_root.history, "", limit)
    versions.sort(key=lambda version: version.at, reverse=True)
    return [f"{version.rev[:12]} {version.at} {version.subject}" for version in versions[:limit]]


def rollback_to(library: Library, rev: str, name: str = "") -> tuple[str, ...]:
    """Make a skill, or every one that changed since, what it was then; those that were not there go to the trash."""
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
    """The root whose history has a version; of several, the one that changed last."""
    candidates: list[tuple[str, InstallRoot]] = []
    for install_root in roots_with_history(library):
        newest = history.list_versions(install_root.history, "", 1)
        if newest and history.has_version(install_root.history, rev):
            candidates.append((newest[0].at, install_root))
    if not candidates:
        raise BadRequest(f"no history has a version `{rev}`", "call git_log, or run `metier history`, to find one")
    return max(candidates, key=lambda candidate: candidate[0])[1]


def record_bundled(place: Place, copied: BundledCopyReport, note: Callable[[str], None]) -> None:
    """Keep the copies of bundled skills in the history, as they are before anybody edits them."""
    for act, names in (("add", copied.added), ("update", copied.updated)):
        record_written(place, f"{place.state}/skills", names, act, "it ships with metier", note)

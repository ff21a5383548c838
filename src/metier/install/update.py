"""metier update: fetch what upstream has now, merge local edits into it, and offer the result with its differences.

The base of the merge is what upstream had when it was fetched last, so only changes since then count.  A proposal shows
the differences and what the skill could not do before; it is placed only if the local folder is still what was merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from ..host import paths, trees
from ..host.trees import read_first_bytes
from ..library import lockfile
from ..library.lockfile import InstallRoot, compare_files, folder_manifest
from ..sources.skill_files import manifest_digest
from ..types.errors import BadRequest, MetierError, Refused
from ..types.installed import (
    FileManifest,
    FileRecord,
    FolderEntry,
    InspectedSkill,
    LockEntry,
    Lockfile,
    Provenance,
    SkillPowers,
    SourceReference,
)
from . import transaction
from .add import AddRequest, InstallTarget, NamedFolder, change_for_target, files_inside, inspect_target, skill_places
from .fetch import FetchedFolder, fetch_reference, latest_commit, resolve_registered
from .fetch_access import FetchOptions
from .merge import (
    MAX_TEXT_BYTES,
    collect_edits,
    diff_texts,
    is_text,
    keep_texts,
    kept_text,
    merge_texts,
    merged_mode,
    plan_merge,
)
from .transaction import FolderChange, StagingArea
from .verify import base_of, find_locked, upstream_files

_MAX_DIFF_LINES = 2_000


class UpdateProposal(NamedTuple):
    """An update that is ready, and waits for approval."""

    folder: str
    target: InstallTarget
    theirs: FileManifest
    """Upstream's files, before local edits were merged in."""
    before: FileManifest
    """The local files that were merged: they must be the same when the folder is replaced."""
    old: Mapping[str, LockEntry]
    text: tuple[str, ...]
    """The differences, as lines of text."""
    wider: Mapping[str, SkillPowers]
    """By skill: what it could not do before."""
    kept: tuple[str, ...] = ()
    """Files with local edits that stay."""

    @property
    def new_names(self) -> dict[str, NamedFolder]:
        """The skills with names that they did not have before, by their places in the root."""
        names = self.target.names
        return {key: named for key, named in names.items() if key not in self.old or self.old[key].name != named.name}


def reference_of(source: Provenance) -> SourceReference:
    """The reference to fetch a folder again."""
    if source.kind == "registry":
        return registered_reference(source, source.ref)
    if source.kind not in ("github", "git", "archive", "folder", "index"):
        raise BadRequest(f"it has no upstream ({source.kind})", "edit it in place")
    name = source.path.rpartition("/")[2] or source.source.rstrip("/").rpartition("/")[2].removesuffix(".git")
    path = "" if source.kind == "index" else source.path
    kind = source.kind
    return SourceReference(kind, source.source, source.source, path, source.ref, repo=name)  # type: ignore[arg-type]


def registered_reference(source: Provenance, version: str) -> SourceReference:
    """A version of what came from a registry; without one, the newest."""
    prefix, _, body = source.source.partition(":")
    spec = f"{source.source}@{version}" if version else source.source
    path = f"{body}@{version}" if version else body
    return SourceReference("registry", spec, "", path, owner=prefix)


def installed_folders(lock: Lockfile, names: Sequence[str]) -> dict[str, Provenance]:
    """The installed folders with these names (default: all with an upstream), each with its provenance."""
    sources = {name: folder.provenance for name, folder in lock.folders.items()}
    for entry in lock.skills.values():
        sources.setdefault(entry.folder, entry.provenance)
    chosen = {folder for name in names for folder in _folders_named(lock, name)}
    return {
        name: source
        for name, source in sorted(sources.items())
        if (name in chosen if names else source.kind != "local")
    }


def _folders_named(lock: Lockfile, name: str) -> set[str]:
    if name in lock.folders or any(entry.folder == name for entry in lock.skills.values()):
        return {name}
    return {lock.skills[key].folder for key in find_locked(lock, name)}


@contextmanager
def open_proposal(
    request: AddRequest, folder: str, options: FetchOptions
) -> Iterator[tuple[StagingArea, UpdateProposal | None]]:
    """Fetch and merge, and yield the proposal; None if upstream has nothing new."""
    install_root = request.install_root
    with transaction.open_staging(install_root) as staging, transaction.hold_folders(install_root, [folder]):
        lock = lockfile.read_lock(install_root)
        old = {key: entry for key, entry in lock.skills.items() if entry.folder == folder}
        refuse_frozen(folder, old)
        source = installed_folders(lock, [folder])[folder]
        fetched = fetch_again(source, staging, options)
        _refuse_rollback(folder, source, fetched.provenance, request.force)
        _refuse_moved(source, fetched, fetched_before(lock, folder), request.force)
        if old and not skill_places(fetched.path):
            raise _no_skill(folder, source)
        theirs = trees.file_marks(fetched.path)
        base = fetched_before(lock, folder)
        # Compared by files, not commits: a new commit may not touch this folder.
        if theirs == base:
            yield staging, None
            return
        yield (
            staging,
            _merge_folder(
                request, folder, fetched, _MergeSides(base, _current_files(install_root, folder, base), theirs), old
            ),
        )


def refuse_frozen(folder: str, entries: Mapping[str, LockEntry]) -> None:
    frozen = [key for key, entry in entries.items() if entry.frozen]
    if frozen:
        raise Refused(
            f"`{frozen[0]}` is frozen",
            f"run `metier freeze --off {frozen[0]}` first, then update `{folder}`",
        )


def _no_skill(folder: str, source: Provenance) -> Refused:
    """Upstream no longer has a skill: replacing the local copy would delete the last one."""
    where = f"{source.source} ({source.path})" if source.path else source.source
    return Refused(
        f"{where} no longer has a SKILL.md",
        f"nothing was changed; keep `{folder}`, or run `metier remove {folder}`",
    )


def fetch_again(source: Provenance, staging: StagingArea, options: FetchOptions) -> FetchedFolder:
    """Fetch a folder again from where it came."""
    fetched = fetch_reference(reference_of(source), staging.inner, options)
    if source.kind == "index":
        fetched = tuple(candidate for candidate in fetched if candidate.provenance.path == source.path)
        if not fetched:
            raise BadRequest(f"{source.source} no longer offers `{source.path}`", "keep it, or run `metier remove`")
    if source.path and source.kind in ("folder", "archive", "registry"):  # one skill that was chosen out of many
        path = f"{fetched[0].path}/{source.path}"
        if not paths.is_folder(path):
            raise BadRequest(f"{source.source} no longer has `{source.path}`", "keep it, or run `metier remove`")
        return fetched[0]._replace(path=path, provenance=replace(fetched[0].provenance, path=source.path))
    return fetched[0]


def _refuse_rollback(folder: str, before: Provenance, now: Provenance, force: bool) -> None:
    if now.commit != before.commit and now.committed < before.committed and not force:
        raise Refused(
            f"upstream of `{folder}` was rewound: {now.commit[:12]} is older than the installed {before.commit[:12]}",
            "pass --force to install the older commit",
        )


def _refuse_moved(source: Provenance, fetched: FetchedFolder, before: FileManifest, force: bool) -> None:
    """Refuse a version that has other content than when it was installed: a moved tag, or a replaced archive."""
    now = fetched.provenance
    if now.kind != "registry" or not now.version or now.version != source.version or force:
        return
    if trees.file_marks(fetched.path) != dict(before):
        raise Refused(
            f"version {now.version} of {now.source} has changed since it was installed",
            "nothing was changed; ask its author, or pass --force to take what it is now",
        )


def fetched_before(lock: Lockfile, folder: str) -> dict[str, FileRecord]:
    """Upstream's files of a whole folder, as they were when it was last fetched."""
    records: dict[str, FileRecord] = {}
    folder_entry: FolderEntry | None = lock.folders.get(folder)
    if folder_entry is not None:
        records |= upstream_files(folder_entry)
    for key, entry in lock.skills.items():
        if entry.folder == folder:
            inside = key[len(folder) + 1 :]
            prefix = f"{inside}/" if inside else ""
            records |= {prefix + path: record for path, record in upstream_files(entry).items()}
    return records


def _current_files(install_root: InstallRoot, folder: str, base: FileManifest) -> dict[str, FileRecord]:
    """The local files now; a mode that differs by a umask only counts as upstream's."""
    now = dict(folder_manifest(f"{install_root.root}/{folder}"))
    changed = {path for path, _ in compare_files(base, now, install_root.shared)}
    return {path: record if path in changed or path not in base else base[path] for path, record in now.items()}


class _MergeSides(NamedTuple):
    """The three versions of a folder in a merge."""

    base: FileManifest
    mine: FileManifest
    theirs: FileManifest


def _merge_folder(
    request: AddRequest, folder: str, fetched: FetchedFolder, sides: _MergeSides, old: Mapping[str, LockEntry]
) -> UpdateProposal:
    """Put local edits into upstream's folder: local files stay, texts that both changed are merged."""
    local_path = f"{request.install_root.root}/{folder}"
    # The differences before merging: afterwards the fetched folder also holds local edits.
    text = tuple(_diff_lines(request.state, fetched.path, sides))
    keep_texts(request.state, fetched.path, sides.theirs)
    kept: list[str] = []
    conflicts: list[str] = []
    for path, choice in plan_merge(sides.base, sides.mine, sides.theirs):
        if choice == "mine":
            kept.append(path)
            _take_mine(local_path, fetched.path, path, sides.mine.get(path))
        elif choice == "merge" and _merge_file(request.state, local_path, fetched.path, path, sides):
            kept.append(path)
        elif choice in ("merge", "clash") and not request.force:
            conflicts.append(path)
    if conflicts:
        raise Refused(
            f"both you and upstream changed {', '.join(conflicts[:10])} of `{folder}`",
            "undo your edit, or pass --force to take upstream's; yours goes to the trash",
        )
    target = inspect_target(request, fetched, folder)
    wider = {}
    for skill in target.skills:
        key = f"{folder}/{skill.place}" if skill.place else folder
        beyond = skill.powers.beyond(old[key].powers if key in old else SkillPowers())
        beyond = replace(beyond, scripts=(*beyond.scripts, *_changed_files(skill, target.files, sides.mine)))
        if not beyond.nothing:
            wider[key] = beyond
    return UpdateProposal(folder, target, sides.theirs, sides.mine, old, text, wider, tuple(kept))


def _changed_files(skill: InspectedSkill, files: FileManifest, before: FileManifest) -> Iterator[str]:
    """If a skill runs anything, the files whose content would differ from what was approved."""
    inside = f"{skill.place}/" if skill.place else ""
    if skill.powers.commands or skill.powers.scripts:
        for path, record in sorted(files.items()):
            name = path.removeprefix(inside)
            if path.startswith(inside) and path in before and record != before[path] and name.lower() != "skill.md":
                yield f"{name} (changed)"


def _take_mine(local_path: str, upstream_path: str, path: str, record: FileRecord | None) -> None:
    """Take the local version of one file into upstream's folder; None is one that was deleted here."""
    if record is None:
        trees.remove_tree(f"{upstream_path}/{path}")
        trees.remove_empty(upstream_path, path.rpartition("/")[0])
    else:
        trees.copy_entry(f"{local_path}/{path}", f"{upstream_path}/{path}")


def _merge_file(state: str, local_path: str, upstream_path: str, path: str, sides: _MergeSides) -> bool:
    """Merge one text that both sides changed; False if that is not possible."""
    old, mine, theirs = sides.base[path], sides.mine[path], sides.theirs[path]
    if "link" in (mine.mode, theirs.mode) or "special" in (mine.mode, theirs.mode):
        return False
    # One side changed only the mode, or both made the same change: no text has to be merged.
    if mine.digest == theirs.digest or mine.digest == old.digest:
        data = read_first_bytes(f"{upstream_path}/{path}", 1 << 40)
    elif theirs.digest == old.digest:
        data = read_first_bytes(f"{local_path}/{path}", 1 << 40)
    else:
        versions = [
            kept_text(state, old.digest),
            read_first_bytes(f"{local_path}/{path}", MAX_TEXT_BYTES + 1),
            read_first_bytes(f"{upstream_path}/{path}", MAX_TEXT_BYTES + 1),
        ]
        if any(version is None or len(version) > MAX_TEXT_BYTES or not is_text(version) for version in versions):
            return False
        merged = merge_texts(*(version.decode() for version in versions if version is not None))
        if merged is None:
            return False
        data = merged.encode()
    trees.put_bytes(f"{upstream_path}/{path}", data, int(merged_mode(old, mine, theirs), 8))
    return True


def _diff_lines(state: str, upstream_path: str, sides: _MergeSides) -> Iterator[str]:
    """What upstream changed: differences of texts, and one word for other files."""
    lines = 0
    for path in sorted({*sides.base, *sides.theirs}):
        old, new = sides.base.get(path), sides.theirs.get(path)
        if old == new:
            continue
        before = b"" if old is None else kept_text(state, old.digest)
        after = b"" if new is None else read_first_bytes(f"{upstream_path}/{path}", MAX_TEXT_BYTES + 1)
        if before is None or len(after) > MAX_TEXT_BYTES or not is_text(before) or not is_text(after):
            yield f"{path}: {'added' if old is None else 'removed' if new is None else 'changed'}"
        else:
            for line in diff_texts(path, before.decode(), after.decode()):
                lines += 1
                if lines <= _MAX_DIFF_LINES:
                    yield line
        if old is not None and new is not None and old.mode != new.mode:
            yield f"{path}: mode {old.mode} is now {new.mode}"
    if lines > _MAX_DIFF_LINES:
        yield f"… and {lines - _MAX_DIFF_LINES} more lines"


def accept_update(
    request: AddRequest, staging: StagingArea, proposal: UpdateProposal, approve: bool = True
) -> FolderChange:
    """Place an update; what it replaces goes to the trash."""
    now = _current_files(
        request.install_root, proposal.folder, fetched_before(lockfile.read_lock(request.install_root), proposal.folder)
    )
    # The folder may have been edited while the person was being asked.
    if now != proposal.before:
        raise Refused(f"`{proposal.folder}` changed while it was being updated", "nothing was replaced; try again")
    change = change_for_target(request, proposal.target, approve, proposal.old)
    skills = {}
    for key, entry in change.skills.items():
        inside = key[len(proposal.folder) + 1 :]
        base = base_of(files_inside(proposal.theirs, inside), entry.files)
        skill_path = f"{proposal.target.path}/{inside}" if inside else proposal.target.path
        skills[key] = replace(entry, base=base, edits=collect_edits(skill_path, entry.files, base))
    folders = {}
    for name, folder_entry in change.folders.items():
        upstream = {path: record for path, record in proposal.theirs.items() if not _is_in_skill(path, proposal.target)}
        base = base_of(upstream, folder_entry.files)
        edits = collect_edits(proposal.target.path, folder_entry.files, base)
        folders[name] = replace(folder_entry, base=base, edits=edits)
    change = replace(change, skills=skills, folders=folders, act="update")
    transaction.commit_change(staging, change, proposal.target.path)
    return change


def _is_in_skill(path: str, target: InstallTarget) -> bool:
    return any(not skill.place or path.startswith(skill.place + "/") for skill in target.skills)


# --- metier outdated ---


class UpstreamStatus(NamedTuple):
    """Whether upstream of an installed folder has changed."""

    folder: str
    source: str
    ref: str
    commit: str
    """The installed commit; without commits, the digest of upstream's files as they were fetched."""
    latest: str
    """The same of what upstream has now; empty if that is unknown."""
    fault: str = ""
    """Why it is unknown."""

    @property
    def outdated(self) -> bool:
        return bool(self.latest) and self.latest != self.commit


def check_outdated(install_root: InstallRoot, names: Sequence[str], options: FetchOptions) -> Iterator[UpstreamStatus]:
    """Whether upstream has changed.  Git is asked for its commit; anything newer or without commits is fetched."""
    lock = lockfile.read_lock(install_root)
    for name, source in installed_folders(lock, names).items():
        commit = source.commit or source.version or manifest_digest(fetched_before(lock, name))
        try:
            latest, fault = _latest_revision(install_root, lock, name, source, options), ""
        except MetierError as error:
            latest, fault = "", error.message
        yield UpstreamStatus(name, source.source, source.ref, commit, latest, fault)


def _latest_revision(
    install_root: InstallRoot, lock: Lockfile, name: str, source: Provenance, options: FetchOptions
) -> str:
    if source.kind in ("github", "git"):
        latest = latest_commit(reference_of(source), options)
        return (
            source.commit
            if latest == source.commit or _folder_unchanged(install_root, lock, name, source, options)
            else latest
        )
    if source.kind == "registry" and source.version:
        resolved = resolve_registered(reference_of(source), options)
        return resolved.commit or resolved.version
    with transaction.open_staging(install_root) as staging:
        return manifest_digest(trees.file_marks(fetch_again(source, staging, options).path))


def _folder_unchanged(
    install_root: InstallRoot, lock: Lockfile, name: str, source: Provenance, options: FetchOptions
) -> bool:
    """Whether a repository has new commits that do not touch this folder."""
    with transaction.open_staging(install_root) as staging:
        try:
            return trees.file_marks(fetch_again(source, staging, options).path) == fetched_before(lock, name)
        except BadRequest:  # the folder is gone upstream: that is a change, and `metier update` explains it
            return False

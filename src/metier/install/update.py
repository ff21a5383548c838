"""metier update: what upstream has now, merged with what was edited here, offered with its differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from ..host import git, paths, trees
from ..host.trees import read_first_bytes
from ..library import lockfile
from ..library.lockfile import InstallRoot, compare_files, folder_manifest
from ..sources.skill_files import manifest_digest
from ..types.errors import BadRequest, MetierError, Refused
from ..types.lockfile import (
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
from .add import AddRequest, InstallTarget, change_for_target, files_inside, inspect_target, skill_places
from .fetch import FetchedFolder, FetchOptions, fetch_reference, git_access
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
    """An update that is ready, and waits for a yes."""

    folder: str
    target: InstallTarget
    theirs: FileManifest
    """Upstream's own files, before anything of ours was merged in."""
    before: FileManifest
    """What was there when it was merged: it must still be there when it is replaced."""
    old: Mapping[str, LockEntry]
    text: tuple[str, ...]
    """The differences of its texts."""
    wider: Mapping[str, SkillPowers]
    """By skill: what it could not do before."""
    kept: tuple[str, ...] = ()
    """Files with edits of ours that stay."""


def reference_of(source: Provenance) -> SourceReference:
    """The reference that a folder came by."""
    if source.kind not in ("github", "git", "archive", "folder", "index"):
        raise BadRequest(f"it did not come from anywhere ({source.kind})", "edit it where it is")
    name = source.path.rpartition("/")[2] or source.source.rstrip("/").rpartition("/")[2].removesuffix(".git")
    path = "" if source.kind == "index" else source.path
    kind = source.kind
    return SourceReference(kind, source.source, source.source, path, source.ref, repo=name)  # type: ignore[arg-type]


def installed_folders(lock: Lockfile, names: Sequence[str]) -> dict[str, Provenance]:
    """The installed folders that names mean, each with where it came from."""
    sources = {name: rest.provenance for name, rest in lock.folders.items()}
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
    """Everything up to the question; None when upstream has nothing new."""
    install_root = request.install_root
    with transaction.open_staging(install_root) as staging, transaction.hold_folders(install_root, [folder]):
        lock = lockfile.read_lock(install_root)
        old = {key: entry for key, entry in lock.skills.items() if entry.folder == folder}
        refuse_frozen(folder, old)
        source = installed_folders(lock, [folder])[folder]
        fetched = fetch_again(source, staging, options)
        _refuse_rollback(folder, source, fetched.provenance, request.force)
        if old and not skill_places(fetched.path):
            raise _no_skill(folder, source)
        theirs = trees.file_marks(fetched.path)
        base = fetched_before(lock, folder)
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
            f"`{frozen[0]}` is frozen, and stays what it is",
            f"`metier freeze --off {frozen[0]}` lets it change; then update `{folder}`",
        )


def _no_skill(folder: str, source: Provenance) -> Refused:
    """Upstream without a skill is no update: what is here is all that is left of it."""
    where = f"{source.source} ({source.path})" if source.path else source.source
    return Refused(
        f"there is no SKILL.md in {where} any more",
        f"nothing was changed; keep `{folder}`, or `metier remove {folder}`",
    )


def fetch_again(source: Provenance, staging: StagingArea, options: FetchOptions) -> FetchedFolder:
    """What a folder came from, fetched anew."""
    fetched = fetch_reference(reference_of(source), staging.inner, options)
    if source.kind == "index":
        fetched = tuple(candidate for candidate in fetched if candidate.provenance.path == source.path)
        if not fetched:
            raise BadRequest(f"{source.source} no longer offers `{source.path}`", "keep it, or `metier remove` it")
    if source.path and source.kind in ("folder", "archive"):  # one skill that was chosen out of many
        path = f"{fetched[0].path}/{source.path}"
        if not paths.is_folder(path):
            raise BadRequest(f"{source.source} no longer has `{source.path}`", "keep it, or `metier remove` it")
        return fetched[0]._replace(path=path, provenance=replace(fetched[0].provenance, path=source.path))
    return fetched[0]


def _refuse_rollback(folder: str, before: Provenance, now: Provenance, force: bool) -> None:
    if now.commit != before.commit and now.committed < before.committed and not force:
        raise Refused(
            f"upstream of `{folder}` went back: {now.commit[:12]} was made before {before.commit[:12]}, which is here",
            "it was rewound; say --force if that is meant",
        )


def fetched_before(lock: Lockfile, folder: str) -> dict[str, FileRecord]:
    """Upstream's files of a whole folder, as they were when it was last fetched."""
    marks: dict[str, FileRecord] = {}
    rest: FolderEntry | None = lock.folders.get(folder)
    if rest is not None:
        marks |= upstream_files(rest)
    for key, entry in lock.skills.items():
        if entry.folder == folder:
            inside = key[len(folder) + 1 :]
            marks |= {f"{inside}/{path}" if inside else path: mark for path, mark in upstream_files(entry).items()}
    return marks


def _current_files(install_root: InstallRoot, folder: str, base: FileManifest) -> dict[str, FileRecord]:
    """What is there now; modes that differ by a umask alone are taken for upstream's."""
    now = dict(folder_manifest(f"{install_root.root}/{folder}"))
    changed = {path for path, _ in compare_files(base, now, install_root.shared)}
    return {path: mark if path in changed or path not in base else base[path] for path, mark in now.items()}


class _MergeSides(NamedTuple):
    base: FileManifest
    mine: FileManifest
    theirs: FileManifest


def _merge_folder(
    request: AddRequest, folder: str, fetched: FetchedFolder, sides: _MergeSides, old: Mapping[str, LockEntry]
) -> UpdateProposal:
    """Upstream's folder with our edits in it: local files stay, texts that both changed become one."""
    local_path = f"{request.install_root.root}/{folder}"
    text = tuple(_diff_lines(request.state, fetched.path, sides))
    keep_texts(request.state, fetched.path, sides.theirs)
    stays: list[str] = []
    clashes: list[str] = []
    for path, choice in plan_merge(sides.base, sides.mine, sides.theirs):
        if choice == "mine":
            stays.append(path)
            _take_mine(local_path, fetched.path, path, sides.mine.get(path))
        elif choice == "merge" and _merge_file(request.state, local_path, fetched.path, path, sides):
            stays.append(path)
        elif choice in ("merge", "clash") and not request.force:
            clashes.append(path)
    if clashes:
        raise Refused(
            f"both you and upstream changed {', '.join(clashes[:10])} of `{folder}`",
            "make your edit elsewhere, or say --force to take upstream's; yours then goes to the trash",
        )
    target = inspect_target(request, fetched, folder)
    wider = {}
    for skill in target.skills:
        key = f"{folder}/{skill.place}" if skill.place else folder
        beyond = skill.powers.beyond(old[key].powers if key in old else SkillPowers())
        beyond = replace(beyond, scripts=(*beyond.scripts, *_changed_files(skill, target.files, sides.mine)))
        if not beyond.nothing:
            wider[key] = beyond
    return UpdateProposal(folder, target, sides.theirs, sides.mine, old, text, wider, tuple(stays))


def _changed_files(skill: InspectedSkill, files: FileManifest, before: FileManifest) -> Iterator[str]:
    """Where a skill runs anything, the files that would have other content than what was approved."""
    inside = f"{skill.place}/" if skill.place else ""
    if skill.powers.commands or skill.powers.scripts:
        for path, mark in sorted(files.items()):
            name = path.removeprefix(inside)
            if path.startswith(inside) and path in before and mark != before[path] and name.lower() != "skill.md":
                yield f"{name} (changed)"


def _take_mine(local_path: str, upstream_path: str, path: str, mark: FileRecord | None) -> None:
    if mark is None:
        trees.remove_tree(f"{upstream_path}/{path}")
        trees.remove_empty(upstream_path, path.rpartition("/")[0])
    else:
        trees.copy_entry(f"{local_path}/{path}", f"{upstream_path}/{path}")


def _merge_file(state: str, local_path: str, upstream_path: str, path: str, sides: _MergeSides) -> bool:
    """One text that both changed; False when it can't be done."""
    old, mine, theirs = sides.base[path], sides.mine[path], sides.theirs[path]
    if "link" in (mine.mode, theirs.mode) or "special" in (mine.mode, theirs.mode):
        return False
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
    """What upstream changed, as differences of text; other files by a word."""
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
        yield f"… and {lines - _MAX_DIFF_LINES} lines more"


def accept_update(
    request: AddRequest, staging: StagingArea, proposal: UpdateProposal, approve: bool = True
) -> FolderChange:
    """Put an update in place of what was there, which goes to the trash."""
    now = _current_files(
        request.install_root, proposal.folder, fetched_before(lockfile.read_lock(request.install_root), proposal.folder)
    )
    if now != proposal.before:
        raise Refused(f"`{proposal.folder}` changed while it was being updated", "nothing was replaced; try again")
    change = change_for_target(request, proposal.target, approve, proposal.old)
    skills = {}
    for key, entry in change.skills.items():
        inside = key[len(proposal.folder) + 1 :]
        base = base_of(files_inside(proposal.theirs, inside), entry.files)
        skill_path = f"{proposal.target.path}/{inside}" if inside else proposal.target.path
        skills[key] = replace(entry, base=base, edits=collect_edits(skill_path, entry.files, base))
    rests = {}
    for name, rest in change.folders.items():
        mine = {path: mark for path, mark in proposal.theirs.items() if not _is_in_skill(path, proposal.target)}
        base = base_of(mine, rest.files)
        rests[name] = replace(rest, base=base, edits=collect_edits(proposal.target.path, rest.files, base))
    change = replace(change, skills=skills, folders=rests, act="update")
    transaction.commit_change(staging, change, proposal.target.path)
    return change


def _is_in_skill(path: str, target: InstallTarget) -> bool:
    return any(not skill.place or path.startswith(skill.place + "/") for skill in target.skills)


class UpstreamStatus(NamedTuple):
    """What upstream says about an installed folder."""

    folder: str
    source: str
    ref: str
    commit: str
    """The commit that is here; for what has none the digest of upstream's files, as they were fetched."""
    latest: str
    """The same of what upstream has now; empty where nobody could say."""
    fault: str = ""
    """Why nobody could."""

    @property
    def outdated(self) -> bool:
        return bool(self.latest) and self.latest != self.commit


def check_outdated(install_root: InstallRoot, names: Sequence[str], options: FetchOptions) -> Iterator[UpstreamStatus]:
    """Whether upstream has moved on: git is asked for its commit; what has another, or none, is fetched to one side."""
    lock = lockfile.read_lock(install_root)
    for name, source in installed_folders(lock, names).items():
        commit = source.commit or manifest_digest(fetched_before(lock, name))
        try:
            latest, fault = _latest_revision(install_root, lock, name, source, options), ""
        except MetierError as error:
            latest, fault = "", error.message
        yield UpstreamStatus(name, source.source, source.ref, commit, latest, fault)


def _latest_revision(
    install_root: InstallRoot, lock: Lockfile, name: str, source: Provenance, options: FetchOptions
) -> str:
    if source.kind in ("github", "git"):
        url, access = git_access(reference_of(source), options)
        latest = git.resolve_ref(url, source.ref, access)
        return (
            source.commit
            if latest == source.commit or _folder_unchanged(install_root, lock, name, source, options)
            else latest
        )
    with transaction.open_staging(install_root) as staging:
        return manifest_digest(trees.file_marks(fetch_again(source, staging, options).path))


def _folder_unchanged(
    install_root: InstallRoot, lock: Lockfile, name: str, source: Provenance, options: FetchOptions
) -> bool:
    """Whether a repository moved on and left this folder as it was."""
    with transaction.open_staging(install_root) as staging:
        try:
            return trees.file_marks(fetch_again(source, staging, options).path) == fetched_before(lock, name)
        except BadRequest:  # the folder is not there any more: that is news, and `metier update` says what
            return False

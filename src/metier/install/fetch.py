"""Fetch a reference into a staging folder: SourceReference -> FetchedFolder.  Nothing of it runs.

A git repository is never checked out: a checkout runs filters and hooks and creates links and submodules.  Blobs are
read from the object store and written file by file, so only plain files arrive, and only those below the wanted path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from ..host import archives, git, http, paths, trees
from ..host.trees import check_path_conflicts, copy_folder_into, inner_path, open_folder_writer, read_pieces
from ..registries.protocol import ResolvedSource, registry_source
from ..registries.reference import LocalKind, is_commit
from ..registries.source_policy import check_host_spelling, plain_name, registry_name, source_names
from ..types.errors import BadRequest, HostError, Refused
from ..types.installed import Provenance, SourceReference
from ..types.problem import Finding
from .fetch_access import FetchOptions, git_access
from .transaction import name_fault


class FetchedFolder(NamedTuple):
    """A staging folder with what was fetched."""

    path: str
    name: str
    """The default name for its folder."""
    provenance: Provenance
    notes: tuple[tuple[str, Finding], ...] = ()
    """Findings about what was left out, by path."""


_SKIPPED_MODES = {"120000": "a link", "160000": "another repository (a submodule)"}


def local_kind(path: str) -> LocalKind:
    """What kind of source is at a path."""
    if not paths.exists(path):
        return ""
    if not paths.is_folder(path):
        return "file"
    bare = all(paths.exists(f"{path}/{name}") for name in ("HEAD", "objects", "refs"))
    return "repository" if bare or paths.exists(f"{path}/.git") else "folder"


def fetch_reference(
    reference: SourceReference, new_folder: Callable[[], str], options: FetchOptions
) -> tuple[FetchedFolder, ...]:
    """Fetch what a reference names, each folder into one that `new_folder()` makes."""
    if reference.kind == "registry":
        return (_fetch_registered(reference, new_folder, options),)
    options.policy.check(_names_of(reference, options))
    return _fetch_plain(reference, new_folder, options)


def _names_of(reference: SourceReference, options: FetchOptions) -> tuple[str, ...]:
    """The names that `sources.allow` and `sources.deny` are compared with; a path of this machine is made absolute."""
    if reference.kind != "github" and "://" not in reference.url and reference.url.startswith(("/", ".", "~")):
        reference = replace(reference, url=paths.absolute_path(reference.url, options.cwd, options.home))
    else:
        check_host_spelling(reference.url)
    return source_names(reference)


def _fetch_plain(
    reference: SourceReference,
    new_folder: Callable[[], str],
    options: FetchOptions,
    commit: str = "",
    private: bool = True,
) -> tuple[FetchedFolder, ...]:
    if reference.kind in ("github", "git"):
        return (fetch_git(reference, new_folder, options, commit, private),)
    if reference.kind == "archive":
        return (_fetch_archive(reference, new_folder, options, private),)
    if reference.kind == "index":
        return fetch_index(reference, new_folder, options, private)
    return (_fetch_folder(reference, new_folder(), options),)


# --- Registries ---


def resolve_registered(reference: SourceReference, options: FetchOptions) -> ResolvedSource:
    """What a name of a registry stands for now; refused if its source is not allowed."""
    if options.registries is None:
        raise BadRequest(f"{reference.spec} needs a registry, and none is configured", "use owner/repo or a URL")
    names = source_names(reference)
    # Before anything is asked: a registry that is denied hears of nothing.
    if options.policy.denial(names):
        options.policy.check(names)
    registry, name, version = options.registries.find(reference.owner, reference.path)
    resolved = registry.resolve(name, version)
    # Where the owner was left out, the registry chose one.
    options.policy.check((*_registered_names(reference, resolved), *_names_of(resolved.reference, options)))
    return resolved


def _registered_names(reference: SourceReference, resolved: ResolvedSource) -> tuple[str, ...]:
    """The name that was asked for, and the one that the registry has for it."""
    found = registry_name(registry_source(resolved.registry, resolved.name))
    return tuple(dict.fromkeys((*source_names(reference), found)))


def _fetch_registered(
    reference: SourceReference, new_folder: Callable[[], str], options: FetchOptions
) -> FetchedFolder:
    """What a registry resolves a name to, checked against every digest that it promised."""
    resolved = resolve_registered(reference, options)
    source = registry_source(resolved.registry, resolved.name)
    options = replace(options, known_as=_registered_names(reference, resolved))
    try:
        (fetched, *_) = _fetch_plain(resolved.reference, new_folder, options, resolved.commit, resolved.private)
    except BadRequest as error:
        raise type(error)(f"{source}: {error.message}", error.hint) from error
    for path in resolved.unlisted:
        trees.remove_tree(f"{fetched.path}/{path}")
    _check_promises(source, fetched, resolved)
    if resolved.keep:
        _keep_only(source, fetched.path, resolved.keep)
    was = fetched.provenance
    asked = reference.path[1:].rpartition("@")[2] if "@" in reference.path[1:] else ""
    provenance = Provenance(
        "registry",
        source,
        ref=asked,
        commit=was.commit,
        committed=was.committed,
        digest=was.digest,
        version=resolved.version or was.commit,
        origin=_names_of(resolved.reference, options)[0],
    )
    notes = (*fetched.notes, *((source, note) for note in resolved.notes))
    return FetchedFolder(fetched.path, resolved.folder, provenance, notes)


def _check_promises(source: str, fetched: FetchedFolder, resolved: ResolvedSource) -> None:
    """Refuse what differs from what the registry promised: the archive, or any file of it."""
    if resolved.digest and fetched.provenance.digest != resolved.digest:
        raise Refused(
            f"digest mismatch for {source}: got {fetched.provenance.digest}, the registry says {resolved.digest}",
            "nothing was placed",
        )
    if not resolved.files:
        return
    marks = {path: record.digest.removeprefix("sha256:") for path, record in trees.file_marks(fetched.path).items()}
    for path in sorted({*marks, *resolved.files}):
        if marks.get(path) != resolved.files.get(path):
            why = "is missing" if path not in marks else "was not promised" if path not in resolved.files else "differs"
            raise Refused(f"digest mismatch for {source}: `{path}` {why}", "nothing was placed; tell the registry")


def _keep_only(source: str, path: str, keep: Sequence[str]) -> None:
    """Remove what does not belong to a plugin that is a part of a folder."""
    kept = [f"{inside}/" for inside in keep if paths.is_folder(f"{path}/{inside}")]
    if not kept:
        raise BadRequest(f"{source} has none of the folders that it lists", "tell the owner of the marketplace")
    for file, _ in paths.tree_of(path, passing_over=frozenset(), whole=True):
        if not file.startswith(tuple(kept)) and "" not in keep:
            trees.remove_tree(f"{path}/{file}")
            trees.remove_empty(path, file.rpartition("/")[0])


# --- Git ---


def fetch_git(
    reference: SourceReference,
    new_folder: Callable[[], str],
    options: FetchOptions,
    commit: str = "",
    private: bool = True,
) -> FetchedFolder:
    """One commit, resolved to its full hash before it is fetched; only the blobs below the path are downloaded."""
    url, access = git_access(reference, options)
    if not private:
        # Nobody named this server but a registry: it must be a public one, and git looks up no other address.
        access = access._replace(pinned=http.public_address(url, access.env))
    source = git.redact_url(reference.url if reference.kind == "github" else url)
    if options.progress is not None:
        options.progress("looking up", 0, 0)
    try:
        fetched = _fetch_git_folder(reference, (url, access), new_folder, options, commit)
    except git.GitRedirected:
        check_moved = partial(options.check_address, path=reference.path)
        moved = git.follow_redirect(url, access, check_moved)
        fetched = _fetch_git_folder(reference, moved, new_folder, options, commit)
    # What was asked for is recorded: the server decides again where it leads.
    return fetched._replace(provenance=replace(fetched.provenance, source=source))


def latest_commit(reference: SourceReference, options: FetchOptions) -> str:
    """The commit that a reference names now."""
    options.policy.check(_names_of(reference, options))
    url, access = git_access(reference, options)
    try:
        return git.resolve_ref(url, reference.ref, access)
    except git.GitRedirected:
        moved, access = git.follow_redirect(url, access, partial(options.check_address, path=reference.path))
        return git.resolve_ref(moved, reference.ref, access)


def _fetch_git_folder(
    reference: SourceReference,
    remote: tuple[str, git.GitAccess],
    new_folder: Callable[[], str],
    options: FetchOptions,
    commit: str,
) -> FetchedFolder:
    url, access = remote
    source = git.redact_url(url)
    commit = commit or git.resolve_ref(url, reference.ref, access)
    folder = f"{new_folder()}/git"
    git.fetch_commit(
        folder, url, commit, reference.ref if not is_commit(reference.ref) else commit, access, options.progress
    )
    inside = f"{reference.path}/" if reference.path else ""
    all_blobs = git.list_tree(folder, commit, access)
    blobs = [blob for blob in all_blobs if blob.path.startswith(inside)]
    if not blobs:
        raise _no_such_folder(reference, [blob.path for blob in all_blobs])
    # Counted before any blob is downloaded.
    if len(blobs) > options.bounds.entries:
        raise Refused(
            f"it has more than {options.bounds.entries} files", "pass the folder of the skill: owner/repo/path"
        )
    files = {inner_path(blob.path[len(inside) :]): blob for blob in blobs if blob.mode in ("100644", "100755")}
    # Names that differ only in case would overwrite each other on some file systems.
    check_path_conflicts(files)
    lacking = git.missing_blobs(folder, commit, access)
    git.fetch_blobs(folder, [blob.oid for blob in files.values() if blob.oid in lacking], access, options.progress)
    target = new_folder()
    _write_files(folder, files, target, access, options)
    notes = tuple(
        (
            blob.path[len(inside) :],
            Finding("left-out", 0, (blob.path[len(inside) :], _SKIPPED_MODES.get(blob.mode, "not a file"))),
        )
        for blob in blobs
        if blob.mode not in ("100644", "100755")
    )
    committed_at = git.commit_time(folder, commit, access)
    trees.remove_tree(folder)
    name = reference.path.rpartition("/")[2] or reference.repo
    return FetchedFolder(
        target, name, Provenance(reference.kind, source, reference.path, reference.ref, commit, committed_at), notes
    )


def _write_files(
    folder: str, files: Mapping[str, git.TreeEntry], target: str, access: git.GitAccess, options: FetchOptions
) -> None:
    bounds = options.bounds
    remaining = bounds.total
    with open_folder_writer(target) as into, git.open_blob_reader(folder, access) as read:
        for number, (path, blob) in enumerate(files.items(), 1):
            remaining -= into.put(path, read(blob.oid, min(bounds.one, remaining)), blob.mode == "100755")
            if options.progress is not None:
                options.progress("writing", number, len(files))


def _no_such_folder(reference: SourceReference, file_paths: list[str]) -> BadRequest:
    folders = {path.rpartition("/")[0] for path in file_paths if "/" in path}
    folders |= {"/".join(folder.split("/")[:end]) for folder in folders for end in range(1, folder.count("/") + 1)}
    near = get_close_matches(reference.path, sorted(folders), 1, 0.5)
    if reference.path in file_paths:
        return BadRequest(
            f"`{reference.path}` is a file", f"pass its folder: {reference.path.rpartition('/')[0] or 'none'}"
        )
    hint = f"did you mean `{near[0]}`?" if near else "check the folder's name in the repository"
    return BadRequest(f"{reference.spec} has no folder `{reference.path}`", hint)


# --- Folders and archives ---


def _fetch_folder(reference: SourceReference, target: str, options: FetchOptions) -> FetchedFolder:
    source = paths.absolute_path(reference.url, options.cwd, options.home)
    if not paths.is_folder(source):
        reason = "is not a folder" if paths.exists(source) else "does not exist"
        raise BadRequest(f"{source} {reason}", "restore it, or pass another source", source)
    with open_folder_writer(target) as into:
        left_out = copy_folder_into(source, into, options.bounds.entries, options.bounds.total)
    notes = tuple((path, Finding("left-out", 0, (path, reason))) for path, reason in left_out)
    return FetchedFolder(target, paths.real_name(source), Provenance("folder", source), notes)


def _fetch_archive(
    reference: SourceReference, new_folder: Callable[[], str], options: FetchOptions, private: bool = True
) -> FetchedFolder:
    source, digest = reference.url, ""
    if "://" in reference.url:
        file = f"{new_folder()}/archive"
        limits = http.FetchLimits(
            options.insecure,
            private,
            options.bounds.archive,
            options.seconds,
            reference.secret,
            options.env,
            options.check_address,
        )
        digest = http.download_file(reference.url, file, limits, options.progress).digest
    else:
        file = source = paths.absolute_path(reference.url, options.cwd, options.home)
    try:
        path, name = unpack_archive(file, new_folder(), reference.repo, options)
    except (BadRequest, Refused) as error:
        raise type(error)(f"{source}: {error.message}", error.hint, source) from error
    return FetchedFolder(path, name, Provenance("archive", source, digest=digest))


def unpack_archive(file: str, target: str, name: str, options: FetchOptions) -> tuple[str, str]:
    """Extract an archive: its only folder, or all of it if there is anything else."""
    archives.unpack_archive(file, target, 0, options.bounds, options.progress)
    listed = paths.list_names(target)
    if len(listed.folders) == 1 and not listed.files and not listed.links:
        return f"{target}/{listed.folders[0]}", listed.folders[0]
    return target, name


# --- Indexes of skills (/.well-known/agent-skills) ---

INDEX_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_INDEX_PATH = "/.well-known/agent-skills/index.json"
_OLD_INDEX_PATH = "/.well-known/skills/index.json"
_MAX_INDEX_BYTES = 4_194_304
_MAX_SKILLS = 500
"""More are refused: each skill of an index is downloaded and inspected."""


def fetch_index(
    reference: SourceReference, new_folder: Callable[[], str], options: FetchOptions, private: bool = True
) -> tuple[FetchedFolder, ...]:
    """Every skill of an index, or the one that the reference names; invalid entries are left out and reported."""
    limits = http.FetchLimits(
        options.insecure, private, _MAX_INDEX_BYTES, 60.0, reference.secret, options.env, options.check_address
    )
    where, tree = _read_index(reference.url, limits)
    skills = tree.get("skills")
    if not isinstance(skills, list) or not skills:
        raise BadRequest(f"{where} lists no skills", "check the address")
    if len(skills) > _MAX_SKILLS:
        raise Refused(f"{where} lists more than {_MAX_SKILLS} skills", "nothing was fetched")
    old = "$schema" not in tree
    fetched: list[FetchedFolder] = []
    left_out: list[tuple[str, Finding]] = []
    for entry in skills:
        name = entry.get("name") if isinstance(entry, dict) else None
        if reference.path and name != reference.path:
            continue
        kind = "skill-md" if old else entry.get("type") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name_fault(name) or kind not in ("skill-md", "archive"):
            left_out.append((str(name)[:80], Finding("left-out", 0, (str(name)[:80], "not a valid entry"))))
            continue
        fetched.append((_fetch_by_files if old else _fetch_by_digest)(name, entry, where, new_folder, options))
    if not fetched:
        raise BadRequest(f"{where} lists no valid skill", "ask the owner of the site")
    fetched[0] = fetched[0]._replace(notes=tuple(left_out))
    return tuple(fetched)


def _read_index(url: str, limits: http.FetchLimits) -> tuple[str, Mapping[str, Any]]:
    parts = urlsplit(url)
    named = "/.well-known/" in parts.path and parts.path.endswith(".json")
    places = [url] if named else [urljoin(url, _INDEX_PATH), urljoin(url, _OLD_INDEX_PATH)]
    for number, place in enumerate(places):
        try:
            where, data = http.fetch_document(place, limits)
        except HostError:
            if number + 1 < len(places):
                continue
            raise
        try:
            tree = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"{where} is not JSON: {error}", "check the address") from error
        if not isinstance(tree, dict):
            raise BadRequest(f"{where} is not an index of skills", "check the address")
        if tree.get("$schema", INDEX_SCHEMA) != INDEX_SCHEMA:
            raise Refused(f"{where} has an unknown schema", "a newer metier may read it")
        return where, tree
    raise BadRequest(f"{url} has no index of skills", "check the address")


def _fetch_by_digest(
    name: str, entry: Mapping[str, Any], where: str, new_folder: Callable[[], str], options: FetchOptions
) -> FetchedFolder:
    url, digest = urljoin(where, str(entry.get("url", ""))), str(entry.get("digest", ""))
    file = f"{new_folder()}/fetched"
    # Only the index's own host may have a private address: a person named that host, and the index any other.
    same_host = urlsplit(url).hostname == urlsplit(where).hostname
    _check_listed(url, where, options)
    limits = http.FetchLimits(
        options.insecure, same_host, options.bounds.archive, env=options.env, check_address=options.check_address
    )
    download = http.download_file(url, file, limits, options.progress)
    if download.digest != digest:
        raise Refused(
            f"digest mismatch for `{name}`: got {download.digest}, the index says {digest[:80]}", "nothing was placed"
        )
    target = new_folder()
    if entry["type"] == "skill-md":
        with open_folder_writer(target) as into:
            into.put("SKILL.md", read_pieces(file, download.size), False)
    else:
        target, _ = unpack_archive(file, target, name, options)
    return FetchedFolder(target, name, Provenance("index", where, name, digest=digest))


def _check_listed(url: str, where: str, options: FetchOptions) -> None:
    """Refuse what an index lists at a place that is not allowed; whoever allows the index allows its own server."""
    names = (plain_name(url), *options.known_as)
    if not http.same_origin(url, where) or options.policy.denial(names):
        options.check_address(url)


def _fetch_by_files(
    name: str, entry: Mapping[str, Any], where: str, new_folder: Callable[[], str], options: FetchOptions
) -> FetchedFolder:
    """The first version of the index: a list of files, without digests."""
    target = new_folder()
    with open_folder_writer(target) as into:
        for path in _listed_files(entry):
            url = urljoin(where, f"{name}/{path}")
            file = f"{new_folder()}/fetched"
            _check_listed(url, where, options)
            limits = http.FetchLimits(
                options.insecure, True, options.bounds.one, env=options.env, check_address=options.check_address
            )
            download = http.download_file(url, file, limits, options.progress)
            into.put(inner_path(path), read_pieces(file, download.size), False)
    return FetchedFolder(target, name, Provenance("index", where, name))


def _listed_files(entry: Mapping[str, Any]) -> Iterator[str]:
    files = entry.get("files")
    if not isinstance(files, list) or len(files) > 1_000 or not all(isinstance(path, str) for path in files):
        raise BadRequest("the index does not list the files of a skill", "ask the owner of the site")
    yield from files

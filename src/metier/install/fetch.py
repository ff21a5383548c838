"""A reference fetched into a folder of our own: Reference -> Fetched.  Nothing of it runs or is checked out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from ..host import git, paths, swap
from ..host.inner import check_together, inner_path
from ..host.writing import copy_in, filling
from ..types.errors import BadRequest, Refused
from ..types.installed import Provenance, Reference
from ..types.problem import Mark
from .outfit import Fetched, Outfit, opened
from .reference import Local, is_commit

INSECURE = ("http://", "git://", "file://")
_KINDS = {"120000": "a link", "160000": "another repository (a submodule)"}


def local_kind(path: str) -> Local:
    """What lies at a path."""
    if not paths.exists(path):
        return ""
    if not paths.is_folder(path):
        return "file"
    bare = all(paths.exists(f"{path}/{name}") for name in ("HEAD", "objects", "refs"))
    return "repository" if bare or paths.exists(f"{path}/.git") else "folder"


def fetch(wanted: Reference, room: Callable[[], str], outfit: Outfit) -> tuple[Fetched, ...]:
    """What a reference names, each thing in a folder that `room` gives."""
    if wanted.kind in ("github", "git"):
        return (from_git(wanted, room, outfit),)
    if wanted.kind == "archive":
        return (_from_archive(wanted, room, outfit),)
    if wanted.kind == "index":
        from .wellknown import from_index  # slow to start

        return from_index(wanted, room, outfit)
    return (_from_folder(wanted, room(), outfit),)


def access_of(wanted: Reference, outfit: Outfit) -> tuple[str, git.Access]:
    """The address for git, and how it may go there."""
    url = wanted.url
    protocols: tuple[str, ...] = ("https", "ssh", "http", "git", "file") if outfit.insecure else ("https", "ssh")
    if wanted.kind == "git" and url.startswith(INSECURE) and not outfit.insecure:
        raise BadRequest(
            f"`{url.partition(':')[0]}` does not protect what is fetched: it was added with --allow-insecure",
            "say --allow-insecure if you mean it",
        )
    if wanted.kind == "git" and url.startswith(("/", ".", "~")):
        url, protocols = paths.absolute(url, outfit.cwd, outfit.home), ("file",)
    return url, git.Access(outfit.env, protocols, url, wanted.secret, outfit.seconds)


def from_git(wanted: Reference, room: Callable[[], str], outfit: Outfit, commit: str = "") -> Fetched:
    """One commit, named by its 40 digits before it is fetched; only the files that are wanted come along."""
    url, access = access_of(wanted, outfit)
    if outfit.progress is not None:
        outfit.progress("looking up", 0, 0)
    commit = commit or git.resolve(url, wanted.ref, access)
    folder = f"{room()}/git"
    git.fetch(folder, url, commit, wanted.ref if not is_commit(wanted.ref) else commit, access, outfit.progress)
    inside = f"{wanted.path}/" if wanted.path else ""
    every = git.tree(folder, commit, access)
    mine = [blob for blob in every if blob.path.startswith(inside)]
    if not mine:
        raise _no_such_folder(wanted, [blob.path for blob in every])
    if len(mine) > outfit.bounds.entries:
        raise Refused(
            f"it holds more than {outfit.bounds.entries} files", "give the folder of the skill: owner/repo/path"
        )
    files = {inner_path(blob.path[len(inside) :]): blob for blob in mine if blob.mode in ("100644", "100755")}
    check_together(files)
    lacking = git.missing(folder, commit, access)
    git.bring(folder, [blob.oid for blob in files.values() if blob.oid in lacking], access, outfit.progress)
    target = room()
    _write(folder, files, target, access, outfit)
    notes = tuple(
        (blob.path[len(inside) :], Mark("left-out", 0, (blob.path[len(inside) :], _KINDS.get(blob.mode, "no file"))))
        for blob in mine
        if blob.mode not in ("100644", "100755")
    )
    source = git.shown(wanted.url if wanted.kind == "github" else url)
    made = git.committed(folder, commit, access)
    swap.remove_tree(folder)
    name = wanted.path.rpartition("/")[2] or wanted.repo
    return Fetched(target, name, Provenance(wanted.kind, source, wanted.path, wanted.ref, commit, made), notes)


def _write(folder: str, files: Mapping[str, git.Blob], target: str, access: git.Access, outfit: Outfit) -> None:
    bounds = outfit.bounds
    left = bounds.total
    with filling(target) as into, git.blobs(folder, access) as read:
        for number, (path, blob) in enumerate(files.items(), 1):
            left -= into.put(path, read(blob.oid, min(bounds.one, left)), blob.mode == "100755")
            if outfit.progress is not None:
                outfit.progress("writing", number, len(files))


def _no_such_folder(wanted: Reference, every: list[str]) -> BadRequest:
    folders = {path.rpartition("/")[0] for path in every if "/" in path}
    folders |= {"/".join(one.split("/")[:end]) for one in folders for end in range(1, one.count("/") + 1)}
    near = get_close_matches(wanted.path, sorted(folders), 1, 0.5)
    if wanted.path in every:
        return BadRequest(f"`{wanted.path}` is a file", f"give its folder: {wanted.path.rpartition('/')[0] or 'none'}")
    hint = f"did you mean `{near[0]}`?" if near else "look at the repository for the folder's name"
    return BadRequest(f"{wanted.spec} holds no folder `{wanted.path}`", hint)


def _from_folder(wanted: Reference, target: str, outfit: Outfit) -> Fetched:
    source = paths.absolute(wanted.url, outfit.cwd, outfit.home)
    if not paths.is_folder(source):
        what = "is no folder" if paths.exists(source) else "does not exist"
        raise BadRequest(f"{source} {what}", "bring it back, or give another source", source)
    with filling(target) as into:
        left = copy_in(source, into, outfit.bounds.entries, outfit.bounds.total)
    notes = tuple((path, Mark("left-out", 0, (path, what))) for path, what in left)
    return Fetched(target, paths.real_name(source), Provenance("folder", source), notes)


def _from_archive(wanted: Reference, room: Callable[[], str], outfit: Outfit) -> Fetched:
    source, digest = wanted.url, ""
    if "://" in wanted.url:
        from ..host import http  # slow to start

        file = f"{room()}/archive"
        reach = http.Reach(outfit.insecure, True, outfit.bounds.archive, outfit.seconds, wanted.secret, outfit.env)
        digest = http.download(wanted.url, file, reach, outfit.progress).digest
    else:
        file = source = paths.absolute(wanted.url, outfit.cwd, outfit.home)
    try:
        path, name = opened(file, room(), wanted.repo, outfit)
    except (BadRequest, Refused) as error:
        raise type(error)(f"{source}: {error.message}", error.hint, source) from error
    return Fetched(path, name, Provenance("archive", source, digest=digest))

"""The skills of a repository or a folder, by name and description, read without placing anything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..dialects import DIALECTS
from ..host import git, paths, trees
from ..parse.reader import parse
from ..types.errors import BadRequest
from ..types.installed import SourceReference
from ..types.skill import Found, Origin, Skill
from .protocol import RegistryAccess, RegistryHit

_MAX_SKILLS = 2_000
_MAX_SKILL_BYTES = 256_000
_MAX_DEPTH = 5
_word = re.compile(r"\w+").findall


class ListedSkill(NamedTuple):
    """A skill of a repository or a folder."""

    path: str
    name: str
    description: str


class RepositoryListing(NamedTuple):
    """One commit of a repository: its skills, and small files that were asked for."""

    commit: str
    skills: tuple[ListedSkill, ...]
    files: Mapping[str, bytes]


def repository_access(reference: SourceReference, access: RegistryAccess) -> tuple[str, git.GitAccess]:
    """The URL for git, and how it may connect."""
    url = reference.url
    protocols: tuple[str, ...] = ("https", "ssh", "http", "git", "file") if access.insecure else ("https", "ssh")
    if url.startswith(("/", ".", "~")):
        url, protocols = paths.absolute_path(url, access.cwd, access.home), ("file",)
    return url, git.GitAccess(access.env, protocols, url, reference.secret, max(access.seconds, 60.0))


def list_repository(
    reference: SourceReference, access: RegistryAccess, wanted: Sequence[str] = (), commit: str = ""
) -> RepositoryListing:
    """The skills of a repository at what a reference names now.  Of its files only SKILL.md files are downloaded."""
    url, how = repository_access(reference, access)
    try:
        return _list_commit(url, how, reference, wanted, commit)
    except git.GitRedirected:
        moved, how = git.follow_redirect(url, how)
        return _list_commit(moved, how, reference, wanted, commit)


def _list_commit(
    url: str, how: git.GitAccess, reference: SourceReference, wanted: Sequence[str], commit: str
) -> RepositoryListing:
    # Resolved before it is fetched: what is listed is one commit, whatever happens to the branch meanwhile.
    commit = commit or git.resolve_ref(url, reference.ref, how)
    inside = f"{reference.path}/" if reference.path else ""
    with trees.temporary_folder() as above:
        folder = f"{above}/git"
        git.fetch_commit(folder, url, commit, reference.ref or commit, how)
        blobs = [blob for blob in git.list_tree(folder, commit, how) if blob.mode in ("100644", "100755")]
        chosen = [blob for blob in blobs if _is_skill_file(blob.path, inside)][:_MAX_SKILLS]
        chosen += [blob for blob in blobs if blob.path in wanted]
        lacking = git.missing_blobs(folder, commit, how)
        git.fetch_blobs(folder, [blob.oid for blob in chosen if blob.oid in lacking], how, None)
        with git.open_blob_reader(folder, how) as read:
            contents = {blob.path: b"".join(read(blob.oid, _MAX_SKILL_BYTES * 16)) for blob in chosen}
    skills = tuple(
        read_listed(path, data) for path, data in sorted(contents.items()) if path.lower().endswith("skill.md")
    )
    return RepositoryListing(commit, skills, {path: contents[path] for path in wanted if path in contents})


def _is_skill_file(path: str, inside: str) -> bool:
    return (
        path.startswith(inside)
        and path.rpartition("/")[2].lower() == "skill.md"
        and path[len(inside) :].count("/") <= _MAX_DEPTH
    )


def read_listed(path: str, data: bytes) -> ListedSkill:
    """What a SKILL.md says of itself; the name of its folder if it can't be read."""
    folder = path.rpartition("/")[0]
    name = folder.rpartition("/")[2]
    origin = Origin("user", 1, "registry", "", DIALECTS["standard"])
    size = len(data)
    read = parse(Found(origin, name, path, (0, 0, 0, size), data[:_MAX_SKILL_BYTES], True), DIALECTS)
    if not isinstance(read, Skill):
        return ListedSkill(folder, name, "")
    return ListedSkill(folder, read.name, read.description)


def list_folder(folder: str) -> Iterator[ListedSkill]:
    """The skills of a folder on this machine."""
    pending = [""]
    found = 0
    while pending and found < _MAX_SKILLS:
        inside = pending.pop(0)
        listed = paths.list_names(f"{folder}/{inside}" if inside else folder)
        skill_file = next((name for name in listed.files if name.lower() == "skill.md"), "")
        if skill_file:
            found += 1
            relative = f"{inside}/{skill_file}" if inside else skill_file
            yield read_listed(relative, trees.read_first_bytes(f"{folder}/{relative}", _MAX_SKILL_BYTES))
        elif inside.count("/") < _MAX_DEPTH:
            pending += [f"{inside}/{name}".lstrip("/") for name in listed.folders if name[0] != "."]


def choose_listed(skills: Sequence[ListedSkill], name: str, where: str) -> ListedSkill:
    """The skill of that name, folder or path; the first of two is never a guess."""
    for matching in (
        [skill for skill in skills if skill.path == name.strip("/")],
        [skill for skill in skills if skill.path.rpartition("/")[2] == name],
        [skill for skill in skills if skill.name == name],
    ):
        if len(matching) > 1:
            paths_text = ", ".join(skill.path for skill in matching[:5])
            raise BadRequest(f"{where} has several skills called `{name}`", f"pass the path of one: {paths_text}")
        if matching:
            return matching[0]
    from difflib import get_close_matches

    near = get_close_matches(name, [skill.name for skill in skills], 1)
    hint = f"did you mean `{near[0]}`?" if near else "available: " + ", ".join(skill.name for skill in skills[:20])
    raise BadRequest(f"{where} has no skill `{name}`", hint)


def rank_listed(registry: str, skills: Sequence[ListedSkill], words: str, limit: int) -> list[RegistryHit]:
    """The skills that contain the words, those with most of them first; a word of the name counts twice."""
    wanted = {word.lower() for word in _word(words)}
    scored = []
    for skill in skills:
        name, text = skill.name.lower(), skill.description.lower()
        score = sum(2 * (word in name) + (word in text) for word in wanted)
        if score:
            scored.append((-score, skill.name, skill))
    return [RegistryHit(registry, skill.name, skill.description) for _, _, skill in sorted(scored)[:limit]]

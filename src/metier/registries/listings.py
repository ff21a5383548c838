"""Registries that are a list of skills: a repository (a tap), a folder, a site with a well-known index."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin

from ..host import http, paths
from ..types.errors import BadRequest, HostError
from ..types.installed import SourceReference
from .protocol import HeldSkill, RegistryAccess, RegistryAddress, RegistryHit, RegistryVerdict, ResolvedSource
from .reference import parse_reference
from .repository_listing import ListedSkill, choose_listed, list_folder, list_repository, rank_listed

_MAX_INDEX_BYTES = 4_194_304
_INDEX_PATH = "/.well-known/agent-skills/index.json"


def repository_reference(at: RegistryAddress, access: RegistryAccess, version: str = "") -> SourceReference:
    """The repository that an address names: `owner/repo`, a URL of git, or a path."""
    local = paths.absolute_path(at.url, access.cwd, access.home) if paths.can_be_path(at.url) else ""
    kind = "repository" if local and paths.exists(local) and at.url.startswith(("/", "./", "../", "~/")) else ""
    reference = parse_reference(at.url, kind, insecure=access.insecure)  # type: ignore[arg-type]
    if reference.kind not in ("github", "git"):
        raise BadRequest(f"`{at.url}` is not a repository", f"set the `url` of the registry `{at.name}`")
    inside = "/".join(filter(None, (reference.path, at.path.strip("/"))))
    return replace(reference, path=inside, ref=version or reference.ref)


class TapRegistry:
    """A repository of skills, as hermes and Homebrew call it: a tap."""

    kind = "tap"

    def __init__(self, at: RegistryAddress, access: RegistryAccess) -> None:
        self.name, self.address = at.name, at.url
        self.at, self.access = at, access

    def search(self, words: str, limit: int) -> list[RegistryHit]:
        listing = list_repository(repository_reference(self.at, self.access), self.access)
        return rank_listed(self.name, listing.skills, words, limit)

    def resolve(self, name: str, version: str) -> ResolvedSource:
        reference = repository_reference(self.at, self.access, version)
        listing = list_repository(reference, self.access)
        listed = choose_listed(listing.skills, name, self.name)
        folder = listed.path.rpartition("/")[2] or name
        inner = replace(reference, path=listed.path, repo=folder)
        return ResolvedSource(
            self.name, name, version or listing.commit, inner, folder, commit=listing.commit, private=True
        )

    def verdicts(self, held: Sequence[HeldSkill]) -> list[RegistryVerdict]:
        """A tap judges nothing, but what it no longer has was taken out of it."""
        listing = list_repository(repository_reference(self.at, self.access), self.access)
        return [_still_listed(skill, listing.skills) for skill in held]


def _still_listed(held: HeldSkill, skills: Sequence[ListedSkill]) -> RegistryVerdict:
    try:
        choose_listed(skills, held.name, "it")
    except BadRequest:
        return RegistryVerdict(held, "withdrawn", ("it is no longer offered",))
    return RegistryVerdict(held, "unknown", ("it gives no verdicts",))


class FolderRegistry:
    """A folder of skills, such as one on a share."""

    kind = "folder"

    def __init__(self, at: RegistryAddress, access: RegistryAccess) -> None:
        self.name, self.address = at.name, at.url
        self.folder = paths.absolute_path(at.url, access.cwd, access.home)

    def _skills(self) -> list[ListedSkill]:
        if not paths.is_folder(self.folder):
            raise HostError(f"{self.folder} is not there", f"check the `url` of the registry `{self.name}`")
        return list(list_folder(self.folder))

    def search(self, words: str, limit: int) -> list[RegistryHit]:
        return rank_listed(self.name, self._skills(), words, limit)

    def resolve(self, name: str, version: str) -> ResolvedSource:
        if version:
            raise BadRequest(f"{self.name} is a folder: it has no versions", f"write {self.name}:{name}")
        listed = choose_listed(self._skills(), name, self.name)
        path = f"{self.folder}/{listed.path}" if listed.path else self.folder
        reference = SourceReference("folder", f"{self.name}:{name}", path, repo=name)
        return ResolvedSource(self.name, name, "", reference, listed.path.rpartition("/")[2] or name)

    def verdicts(self, held: Sequence[HeldSkill]) -> list[RegistryVerdict]:
        skills = self._skills()
        return [_still_listed(skill, skills) for skill in held]


class SiteRegistry:
    """A site that publishes its skills in `/.well-known/agent-skills`."""

    kind = "site"

    def __init__(self, at: RegistryAddress, access: RegistryAccess) -> None:
        self.name, self.address = at.name, at.url
        self.at, self.access = at, access

    def _skills(self) -> list[ListedSkill]:
        url = self.at.url if self.at.url.endswith(".json") else urljoin(self.at.url, _INDEX_PATH)
        access = self.access
        limits = http.FetchLimits(access.insecure, self.at.named, _MAX_INDEX_BYTES, access.seconds, env=access.env)
        where, data = http.fetch_document(url, limits)
        try:
            tree: Any = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise HostError(f"{where} is not JSON: {error}", f"check the `url` of `{self.name}`") from error
        entries = tree.get("skills") if isinstance(tree, dict) else None
        return [
            ListedSkill(str(entry["name"]), str(entry["name"]), str(entry.get("description", "")))
            for entry in (entries if isinstance(entries, list) else [])
            if isinstance(entry, dict) and isinstance(entry.get("name"), str)
        ]

    def search(self, words: str, limit: int) -> list[RegistryHit]:
        return rank_listed(self.name, self._skills(), words, limit)

    def resolve(self, name: str, version: str) -> ResolvedSource:
        if version:
            raise BadRequest(f"{self.name} is a site: it has no versions", f"write {self.name}:{name}")
        choose_listed(self._skills(), name, self.name)
        # The index itself promises a digest for each entry, and fetching one checks it.
        reference = SourceReference("index", f"{self.name}:{name}", self.at.url, name, repo=name)
        return ResolvedSource(self.name, name, "", reference, name, private=self.at.named)

    def verdicts(self, held: Sequence[HeldSkill]) -> list[RegistryVerdict]:
        skills = self._skills()
        return [_still_listed(skill, skills) for skill in held]

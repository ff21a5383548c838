"""Claude marketplaces: a `marketplace.json` that lists plugins, at a URL, in a repository or in a folder.

A plugin lies in the marketplace itself or in a repository that it names.  What a marketplace names was not named by
the person: such a repository must be at a public https address, and a `sha` is the commit that is fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..host import http, paths, trees
from ..types.errors import BadRequest, HostError
from ..types.installed import SourceReference
from .json_api import table_at, tables_in, text_at
from .listings import repository_reference
from .protocol import HeldSkill, RegistryAccess, RegistryAddress, RegistryHit, RegistryVerdict, ResolvedSource
from .reference import parse_github, parse_reference
from .repository_listing import ListedSkill, choose_listed, list_repository, rank_listed

FILE = ".claude-plugin/marketplace.json"
_MAX_BYTES = 4_194_304
_commit = re.compile(r"[0-9a-f]{40}").fullmatch


class _Marketplace(NamedTuple):
    """A marketplace file, and where the plugins lie that it names by a path."""

    tree: Mapping[str, Any]
    reference: SourceReference | None
    commit: str = ""


class MarketplaceRegistry:
    """A marketplace of Claude plugins."""

    kind = "marketplace"

    def __init__(self, at: RegistryAddress, access: RegistryAccess) -> None:
        self.name, self.address = at.name, at.url
        self.at, self.access = at, access

    def search(self, words: str, limit: int) -> list[RegistryHit]:
        plugins = tables_in(self._open().tree, "plugins")
        listed = [
            ListedSkill(text_at(plugin, "name"), text_at(plugin, "name"), text_at(plugin, "description"))
            for plugin in plugins
            if text_at(plugin, "name")
        ]
        return rank_listed(self.name, listed, words, limit)

    def resolve(self, name: str, version: str) -> ResolvedSource:
        # A commit may be one of the marketplace, or of the repository that a plugin of it lies in.
        pinned = version if _commit(version) else ""
        market = self._open("" if pinned else version)
        plugin = self._choose(market, name)
        if pinned and isinstance(plugin.get("source"), str):
            market = self._open(pinned)
            plugin = self._choose(market, name)
        reference, commit = self._plugin_source(market, name, plugin, pinned)
        skills = plugin.get("skills")
        listed = [skills] if isinstance(skills, str) else skills if isinstance(skills, list) else []
        return ResolvedSource(
            self.name,
            name,
            # A declared `version` is often not raised with the content, so the commit says which one it is.
            version or commit or text_at(plugin, "version"),
            reference,
            name,
            commit=commit,
            keep=tuple(self._inner_path(name, str(path)) for path in listed),
            private=market.reference is not None and reference.url == market.reference.url,
            requires=tuple(self._dependencies(plugin)),
        )

    def verdicts(self, held: Sequence[HeldSkill]) -> list[RegistryVerdict]:
        offered = {text_at(plugin, "name") for plugin in tables_in(self._open().tree, "plugins")}
        return [
            RegistryVerdict(skill, "unknown", ("it gives no verdicts",))
            if skill.name in offered
            else RegistryVerdict(skill, "withdrawn", ("it is no longer offered",))
            for skill in held
        ]

    def _choose(self, market: _Marketplace, name: str) -> Mapping[str, Any]:
        plugins = {text_at(plugin, "name"): plugin for plugin in tables_in(market.tree, "plugins")}
        return plugins[choose_listed([ListedSkill(label, label, "") for label in plugins], name, self.name).name]

    def _dependencies(self, plugin: Mapping[str, Any]) -> list[str]:
        """The plugins that a plugin needs: of the same marketplace, unless an entry names another one."""
        found = []
        entries = plugin.get("dependencies")
        for entry in entries if isinstance(entries, list) else ():
            name = entry if isinstance(entry, str) else text_at(entry, "name") if isinstance(entry, dict) else ""
            market = text_at(entry, "marketplace") if isinstance(entry, dict) else ""
            name, at, other = name.partition("@")
            if name:
                found.append(f"{market or other or self.name}:{name}" if not at or other else name)
        return found

    def _open(self, version: str = "") -> _Marketplace:
        at, access = self.at, self.access
        if at.url.startswith(("https://", "http://")) and at.url.partition("?")[0].endswith(".json"):
            limits = http.FetchLimits(access.insecure, at.named, _MAX_BYTES, access.seconds, env=access.env)
            _, data = http.fetch_document(at.url, limits)
            return _Marketplace(self._parse(data), None)
        local = paths.absolute_path(at.url, access.cwd, access.home) if at.url.startswith(("/", ".", "~")) else ""
        if local and not paths.exists(f"{local}/.git") and paths.is_folder(local):
            return self._open_folder(local)
        reference = repository_reference(at, access, version)
        listing = list_repository(reference, access, (FILE,))
        if FILE not in listing.files:
            raise HostError(f"{at.url} has no {FILE}", f"check the `url` of the registry `{self.name}`")
        return _Marketplace(self._parse(listing.files[FILE]), reference, listing.commit)

    def _open_folder(self, local: str) -> _Marketplace:
        file = local if local.endswith(".json") else f"{local}/{FILE}"
        if not paths.is_file(file):
            raise HostError(f"{file} is not there", f"check the `url` of the registry `{self.name}`")
        return _Marketplace(
            self._parse(trees.read_first_bytes(file, _MAX_BYTES)), SourceReference("folder", local, local)
        )

    def _parse(self, data: bytes) -> Mapping[str, Any]:
        try:
            tree = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise HostError(f"the marketplace `{self.name}` is not JSON: {error}", f"check {self.at.url}") from error
        if not isinstance(tree, dict) or not isinstance(tree.get("plugins"), list):
            raise HostError(f"`{self.name}` is not a marketplace: it lists no plugins", f"check {self.at.url}")
        return tree

    def _plugin_source(
        self, market: _Marketplace, name: str, plugin: Mapping[str, Any], pinned: str
    ) -> tuple[SourceReference, str]:
        """Where a plugin lies, and the commit if it is in a repository."""
        source = plugin.get("source")
        if isinstance(source, str):
            if market.reference is None:
                raise BadRequest(
                    f"`{name}` lies beside a marketplace that is only a file", "use the address of its repository"
                )
            above = text_at(table_at(market.tree, "metadata"), "pluginRoot")
            inside = self._inner_path(name, f"{above}/{source}" if above else source)
            base = market.reference
            if base.kind == "folder":
                return SourceReference("folder", base.spec, f"{base.url}/{inside}".rstrip("/"), repo=name), ""
            path = "/".join(filter(None, (base.path, inside)))
            return SourceReference(base.kind, base.spec, base.url, path, market.commit, repo=name), market.commit
        if not isinstance(source, dict):
            raise BadRequest(f"`{name}` has no source in {self.name}", "tell the owner of the marketplace")
        return self._named_source(name, {**source, "sha": pinned or text_at(source, "sha")})

    def _named_source(self, name: str, source: Mapping[str, Any]) -> tuple[SourceReference, str]:
        kind, ref, sha = text_at(source, "source"), text_at(source, "ref"), text_at(source, "sha").lower()
        if kind == "github":
            reference = parse_github(text_at(source, "repo"))
        elif kind in ("url", "git-subdir", "git") and text_at(source, "url").startswith("https://"):
            reference = parse_reference(text_at(source, "url"))
        else:
            raise BadRequest(
                f"`{name}` comes from `{kind or 'nowhere'}`, which metier does not fetch",
                "only GitHub and https repositories are fetched",
            )
        if reference.kind not in ("github", "git"):
            raise BadRequest(f"the source of `{name}` is not a repository", "tell the owner of the marketplace")
        if sha and not _commit(sha):
            raise BadRequest(f"the `sha` of `{name}` is not a commit", "tell the owner of the marketplace")
        path = self._inner_path(name, text_at(source, "path"))
        wanted = sha or ref or reference.ref
        if wanted.startswith("-") or not re.fullmatch(r"[\w.+/=@-]*", wanted) or ".." in wanted:
            raise BadRequest(f"the `ref` of `{name}` is not a branch, tag or commit", "nothing was fetched")
        return (
            SourceReference(reference.kind, reference.spec, reference.url, path, wanted, reference.owner, name),
            sha,
        )

    def _inner_path(self, name: str, path: str) -> str:
        """A path inside the plugin or the marketplace: one that leaves it is refused."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if path.startswith("/") or any(part == ".." or part.startswith("-") or "\\" in part for part in parts):
            raise BadRequest(f"`{path[:80]}` of `{name}` leaves the marketplace", "nothing was fetched")
        return "/".join(parts)

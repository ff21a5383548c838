"""ClawHub: skills by `owner/slug`, in versions, each file with its digest, and verdicts of its scanners.

A version is resolved in three questions: what the skill is (and whether it is blocked), how its newest version is
installed, and which files a version has.  Every file of the archive must then have the digest that was promised for
it.  Nothing is reported back: not what was installed, and not by whom.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from ..host.http import same_origin
from ..types.errors import BadRequest, HostError, Refused
from ..types.installed import SourceReference
from ..types.problem import Finding
from .json_api import NotOffered, ask_registry, table_at, tables_in, text_at
from .protocol import HeldSkill, RegistryAccess, RegistryAddress, RegistryHit, RegistryVerdict, ResolvedSource

_API = "/api/v1"
_VERDICTS_AT_ONCE = 100
"""More in one question are refused by the server."""
_handle = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}").fullmatch
_version = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}").fullmatch
_sha256 = re.compile(r"[0-9a-f]{64}").fullmatch
_commit = re.compile(r"[0-9a-f]{40}").fullmatch
_WITHDRAWN_CODES = frozenset({"version_not_found", "skill_not_found", "version_deleted", "not_found"})
_META = frozenset({"_meta.json"})
"""Written into each archive by the server, and not a file of the skill."""


class ClawHubRegistry:
    """ClawHub, or another server that speaks its API."""

    kind = "clawhub"

    def __init__(self, at: RegistryAddress, access: RegistryAccess) -> None:
        self.name, self.address = at.name, at.url
        self.at, self.access = at, access

    def search(self, words: str, limit: int) -> list[RegistryHit]:
        tree = self._ask("/search", {"q": words, "limit": str(limit), "nonSuspiciousOnly": "true"})
        hits = []
        for result in tables_in(tree, "results")[:limit]:
            owner, slug = text_at(result, "ownerHandle") or text_at(result, "owner", "handle"), text_at(result, "slug")
            if _handle(slug) and (not owner or _handle(owner.lower())):
                name = f"{owner.lower()}/{slug}" if owner else slug
                summary = text_at(result, "summary") or text_at(result, "displayName")
                hits.append(RegistryHit(self.name, name, summary, text_at(result, "version")))
        return hits

    def resolve(self, name: str, version: str) -> ResolvedSource:
        owner, slug = self._split_name(name)
        path, scope = f"/skills/{quote(slug)}", {"ownerHandle": owner}
        skill = self._ask(path, scope)
        notes = self._judge(name, table_at(skill, "moderation"))
        # Without an owner the server chooses one; the lock names it, so that it stays the same one.
        found_owner = text_at(skill, "owner", "handle").lower()
        if not owner and _handle(found_owner):
            owner, scope = found_owner, {"ownerHandle": found_owner}
        full_name = f"{owner}/{slug}" if owner else slug
        if not version:
            install = self._ask_install(path, scope)
            if install.get("installKind") == "github":
                return replace(self._github_source(full_name, slug, table_at(install, "github")), notes=notes)
            version = text_at(install, "archive", "version") or text_at(skill, "latestVersion", "version")
        if not _version(version):
            raise BadRequest(f"{self.name} has no version of `{full_name}`", "pass one: NAME@VERSION")
        held = table_at(self._ask(f"{path}/versions/{quote(version)}", scope), "version")
        self._refuse_malicious(full_name, version, text_at(held, "security", "status"))
        base = self.at.url.rstrip("/") + _API
        query = urlencode({"slug": slug, "version": version, **({"ownerHandle": owner} if owner else {})})
        reference = SourceReference("archive", f"{self.name}:{full_name}", f"{base}/download?{query}", repo=slug)
        files = self._promised(full_name, version, tables_in(held, "files", 5_000))
        return ResolvedSource(
            self.name,
            full_name,
            version,
            reference,
            slug,
            files=files,
            unlisted=_META,
            private=self.at.named,
            notes=notes,
        )

    def verdicts(self, held: Sequence[HeldSkill]) -> list[RegistryVerdict]:
        verdicts: list[RegistryVerdict] = []
        for begin in range(0, len(held), _VERDICTS_AT_ONCE):
            group = held[begin : begin + _VERDICTS_AT_ONCE]
            items = [self._verdict_item(skill) for skill in group]
            answer = ask_registry(self.at, f"{_API}/skills/-/security-verdicts", {}, self.access, {"items": items})
            by_key = {self._verdict_key(item): item for item in tables_in(answer, "items")}
            verdicts += [self._read_verdict(skill, by_key) for skill in group]
        return verdicts

    def _ask(self, path: str, query: Mapping[str, str]) -> Mapping[str, Any]:
        return ask_registry(self.at, _API + path, query, self.access)

    def _ask_install(self, path: str, scope: Mapping[str, str]) -> Mapping[str, Any]:
        try:
            return self._ask(path + "/install", scope)
        except NotOffered:
            return {}  # an older server: its newest version is in what it says of the skill

    def _split_name(self, name: str) -> tuple[str, str]:
        owner, slash, slug = name.removeprefix("@").lower().rpartition("/")
        if not _handle(slug) or (slash and not _handle(owner)):
            raise BadRequest(f"`{name}` is not a skill of {self.name}", f"write {self.name}:owner/slug[@version]")
        return owner, slug

    def _judge(self, name: str, moderation: Mapping[str, Any]) -> tuple[Finding, ...]:
        if moderation.get("isMalwareBlocked") is True:
            raise Refused(f"{self.name} blocked `{name}` as malware", "nothing was placed")
        if moderation.get("isSuspicious") is True:
            why = text_at(moderation, "summary") or text_at(moderation, "verdict") or "no reason given"
            return (Finding("registry-suspicious", 0, (self.name, why[:300]), fatal=True),)
        return ()

    def _refuse_malicious(self, name: str, version: str, status: str) -> None:
        if status == "malicious":
            raise Refused(f"{self.name} found `{name}` {version} malicious", "nothing was placed")

    def _promised(self, name: str, version: str, listed: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        files = {text_at(file, "path"): text_at(file, "sha256").lower() for file in listed}
        if not files or not all(path and _sha256(digest) for path, digest in files.items()):
            raise HostError(
                f"{self.name} promises no digests for `{name}` {version}", "nothing was placed; tell the registry"
            )
        return files

    def _github_source(self, name: str, slug: str, github: Mapping[str, Any]) -> ResolvedSource:
        repo, path, commit = (text_at(github, key) for key in ("repo", "path", "commit"))
        owner, _, repository = repo.partition("/")
        parts = [part for part in path.strip("/").split("/") if part not in ("", ".")]
        safe = all(re.fullmatch(r"[\w.+=,][\w.+=,-]*", part) and part != ".." for part in (owner, repository, *parts))
        if not safe or not _commit(commit):
            raise HostError(f"{self.name} gave no commit for `{name}`", "nothing was placed")
        reference = replace(self.at.repository(owner, repository), path="/".join(parts), ref=commit)
        return ResolvedSource(
            self.name, name, commit, reference, slug, commit=commit, private=bool(self.at.git) and self.at.named
        )

    def _verdict_item(self, held: HeldSkill) -> dict[str, str]:
        owner, _, slug = held.name.rpartition("/")
        return {"slug": slug, "version": held.version, **({"ownerHandle": owner} if owner else {})}

    def _verdict_key(self, item: Mapping[str, Any]) -> tuple[str, str, str]:
        owner = text_at(item, "requestedOwnerHandle")
        return owner, text_at(item, "requestedSlug"), text_at(item, "requestedVersion")

    def _read_verdict(
        self, held: HeldSkill, answers: Mapping[tuple[str, str, str], Mapping[str, Any]]
    ) -> RegistryVerdict:
        owner, _, slug = held.name.rpartition("/")
        item = answers.get((owner, slug, held.version))
        if item is None:
            return RegistryVerdict(held, "unknown", ("the registry did not answer for it",))
        reasons = item.get("reasons")
        why = tuple(str(reason)[:200] for reason in reasons[:10]) if isinstance(reasons, list) else ()
        url = text_at(item, "securityAuditUrl")
        shown = url if same_origin(url, self.at.url) else ""
        if item.get("ok") is True and item.get("decision") == "pass":
            return RegistryVerdict(held, "passed", why, shown)
        gone = text_at(item, "error", "code") in _WITHDRAWN_CODES
        # A version that comes from a repository has a commit in place of a number, and no verdict of its own.
        if gone and held.commit:
            return RegistryVerdict(held, "unknown", ("it has no verdict for a commit",))
        return RegistryVerdict(held, "withdrawn" if gone else "failed", why, shown)

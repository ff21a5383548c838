"""skills.sh: a search over GitHub repositories; `owner/repo/skill` is one commit of one of them.

Only the search is asked, and with nothing but the words.  Its downloads and audits were refused: a repository's own
commit can be locked, and the audit address collects what people install.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..types.errors import BadRequest
from .json_api import ask_registry, tables_in, text_at
from .protocol import HeldSkill, RegistryAccess, RegistryAddress, RegistryHit, RegistryVerdict, ResolvedSource
from .repository_listing import choose_listed, list_repository

_owner = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*").fullmatch
_part = re.compile(r"[\w.][\w.-]*").fullmatch


class SkillsShRegistry:
    """skills.sh, or another server that speaks its search."""

    kind = "skills.sh"

    def __init__(self, at: RegistryAddress, access: RegistryAccess) -> None:
        self.name, self.address = at.name, at.url
        self.at, self.access = at, access

    def search(self, words: str, limit: int) -> list[RegistryHit]:
        tree = ask_registry(self.at, "/api/search", {"q": words, "limit": str(limit)}, self.access)
        hits = []
        for result in tables_in(tree, "skills")[:limit]:
            source, name = text_at(result, "source"), text_at(result, "name") or text_at(result, "skillId")
            installs = result.get("installs")
            full_name = f"{source}/{name}"
            if _is_name(full_name):
                count = installs if isinstance(installs, int) and installs > 0 else 0
                hits.append(RegistryHit(self.name, full_name, text_at(result, "description"), installs=count))
        return hits

    def resolve(self, name: str, version: str) -> ResolvedSource:
        if not _is_name(name):
            raise BadRequest(f"`{name}` is not a skill of {self.name}", f"write {self.name}:owner/repo/skill[@ref]")
        owner, repo, skill = name.split("/")
        reference = replace(self.at.repository(owner, repo), ref=version)
        listing = list_repository(reference, self.access)
        listed = choose_listed(listing.skills, skill, f"{owner}/{repo}")
        return ResolvedSource(
            self.name,
            name,
            version or listing.commit,
            replace(reference, path=listed.path, repo=skill),
            listed.path.rpartition("/")[2] or skill,
            commit=listing.commit,
            private=bool(self.at.git) and self.at.named,
        )

    def verdicts(self, held: Sequence[HeldSkill]) -> list[RegistryVerdict]:
        """Nothing is asked: the service that judges also counts."""
        return [RegistryVerdict(skill, "unknown", ("it gives no verdicts",)) for skill in held]


def _is_name(name: str) -> bool:
    owner, *rest = name.split("/")
    return (
        len(rest) == 2
        and _owner(owner) is not None
        and all(_part(part) is not None and part not in (".", "..") for part in rest)
    )

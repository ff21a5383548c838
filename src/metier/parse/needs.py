"""What a skill asks of the machine, wherever its author wrote it down."""

from __future__ import annotations

from ..types.dialect import Authoring
from ..types.skill import NOTHING_REQUIRED, Requirements, needs_block
from ..types.tree import Raw, Tree

_TELLING = frozenset(
    {
        "requires", "platforms", "os", "always", "primaryEnv", "skillKey", "requiresBinaries", "requiresEnv",
        "metier", "openclaw", "clawdbot", "moltbot", "clawdis",
    }
)  # fmt: skip


def may_require(tree: dict[str, Raw]) -> bool:
    """A quick no for the many skills that ask for nothing."""
    metadata = tree.get("metadata")
    return "config" in tree or (isinstance(metadata, dict) and not _TELLING.isdisjoint(metadata))


def requirements_of(extra: Tree, authoring: Authoring) -> Requirements:
    block = needs_block(extra, authoring)
    asks = block.branch("requires")
    found = Requirements(
        platforms=asks.words("platforms") or block.words("platforms") or block.words("os") or asks.words("os"),
        binaries=asks.words("bins") or block.words("requiresBinaries"),
        any_binary=asks.words("anyBins"),
        env=asks.words("env") or block.words("requiresEnv"),
        config=extra.words("config", "requiresConfig") + asks.words("config"),
        always=block.text("always").lower() in ("true", "yes", "on", "1"),
        primary_env=block.text("primaryEnv").strip(),
        key=block.text("skillKey").strip(),
    )
    return NOTHING_REQUIRED if found == NOTHING_REQUIRED else found

"""What a skill asks of the machine, wherever its author wrote it down."""

from __future__ import annotations

from ..types.dialect import Authoring
from ..types.skill import NOTHING_REQUIRED, Requirements
from ..types.tree import Raw

TELLING = frozenset(
    {
        "requires", "platforms", "os", "always", "primaryEnv", "skillKey", "requiresBinaries", "requiresEnv",
        "metier", "openclaw", "clawdbot", "moltbot", "clawdis",
    }
)  # fmt: skip
"""Keys under `metadata` that may ask for something."""
_NONE: dict[str, Raw] = {}


def may_require(tree: dict[str, Raw]) -> bool:
    """A quick no for the many skills that ask for nothing."""
    metadata = tree.get("metadata")
    return "config" in tree or (isinstance(metadata, dict) and not TELLING.isdisjoint(metadata))


def requirements_of(tree: dict[str, Raw], authoring: Authoring) -> Requirements:
    block = _block(tree.get("metadata"), authoring)
    asks = _map(block.get("requires"))
    found = Requirements(
        _words(asks.get("platforms"))
        or _words(block.get("platforms"))
        or _words(block.get("os"))
        or _words(asks.get("os")),
        _words(asks.get("bins")) or _words(block.get("requiresBinaries")),
        _words(asks.get("anyBins")),
        _words(asks.get("env")) or _words(block.get("requiresEnv")),
        _words(_map(tree.get("config")).get("requiresConfig")) + _words(asks.get("config")),
        _text(block.get("always")).lower() in ("true", "yes", "on", "1"),
        _text(block.get("primaryEnv")),
        _text(block.get("skillKey")),
    )
    return NOTHING_REQUIRED if found == NOTHING_REQUIRED else found


def _block(metadata: Raw | None, authoring: Authoring) -> dict[str, Raw]:
    if not isinstance(metadata, dict):
        return _NONE
    for key in authoring.requires_at:
        if not key:
            return metadata
        inner = metadata.get(key)
        if isinstance(inner, dict):
            return inner
    return _NONE


def _map(raw: Raw | None) -> dict[str, Raw]:
    return raw if isinstance(raw, dict) else _NONE


def _text(raw: Raw | None) -> str:
    return raw.strip() if isinstance(raw, str) else ""


def _words(raw: Raw | None) -> tuple[str, ...]:
    """A list of texts; a lone text is a list of one."""
    if isinstance(raw, list):
        return tuple([item for item in raw if isinstance(item, str) and item.strip()])
    return (raw,) if isinstance(raw, str) and raw.strip() else ()

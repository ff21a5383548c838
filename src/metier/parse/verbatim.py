"""Frontmatter as its author wrote it, with the types that YAML 1.2 gives to what stands without quotes."""

from __future__ import annotations

import math
import re
from typing import Any

from . import events
from .fences import cut

_CORE: tuple[tuple[re.Pattern[str], Any], ...] = (
    (re.compile(r"(?:null|Null|NULL|~|)"), lambda text: None),
    (re.compile(r"(?:true|True|TRUE|false|False|FALSE)"), lambda text: text.lower() == "true"),
    (re.compile(r"[-+]?[0-9]{1,4000}"), int),
    (re.compile(r"0o[0-7]{1,4000}"), lambda text: int(text[2:], 8)),
    (re.compile(r"0x[0-9a-fA-F]{1,4000}"), lambda text: int(text[2:], 16)),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"), float),
)


def verbatim(text: str) -> dict[str, Any] | None:
    """The frontmatter as JSON has it; None where there is none, or YAML and JSON can't say it alike."""
    block = cut(text).block
    if block is None:
        return None
    try:
        reading = events.read(block)  # no anchors, no tags, bounded in depth and length
    except events.BadYaml:
        return None
    if reading.kind or reading.twice:
        return None
    import yaml

    read: dict[str, Any] = _value(yaml.compose(block, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
    return read


def _value(node: Any) -> Any:
    if isinstance(node.value, str):
        return node.value if node.style else _plain(node.value)
    if node.id == "sequence":
        return [_value(item) for item in node.value]
    return {key.value: _value(item) for key, item in node.value}


def _plain(text: str) -> Any:
    for pattern, typed in _CORE:
        if pattern.fullmatch(text):
            value = typed(text)
            return text if isinstance(value, float) and not math.isfinite(value) else value
    return text

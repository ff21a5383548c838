"""JSON and JSON5 text, read as a tree of text: YAML's flow style understands all of it but the comments."""

from __future__ import annotations

import re

from ..types.tree import Raw
from . import events

_comment = re.compile(r"(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|//[^\n]*|/\*.*?\*/", re.DOTALL)


def read(text: str) -> dict[str, Raw] | None:
    bare = _comment.sub(lambda found: found[1] or " ", text).strip()
    if not bare.startswith("{"):
        return None
    try:
        reading = events.read(bare)
    except events.BadYaml:
        return None
    return None if reading.kind else reading.tree

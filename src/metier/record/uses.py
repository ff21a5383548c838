"""How often skills were used, as the newest runs have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from json import loads

from ..host import lines
from .journal import folder_of, ids

RUNS = 200
"""So many are looked at: what was used long ago is no habit any more."""
_MARK = '"event":"activated"'


def uses(state: str, among: Collection[str]) -> dict[str, int]:
    """By path, for these skills.  Lines of other events are not even parsed."""
    found: Counter[str] = Counter()
    for name in ids(state)[-RUNS:]:
        for line in lines.read(f"{folder_of(state)}/{name}.jsonl"):
            if _MARK in line:
                try:
                    path = loads(line).get("path")
                except (ValueError, AttributeError):
                    continue
                if isinstance(path, str) and path in among:
                    found[path] += 1
    return dict(found)

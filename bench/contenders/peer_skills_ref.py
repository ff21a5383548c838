"""skills-ref: `to_prompt`, one folder at a time: given all, it raises at the first skill it cannot read."""

from __future__ import annotations

from pathlib import Path

from contender import run
from skills_ref import to_prompt
from skills_ref.errors import SkillError


def discover(root: str) -> tuple[int, str, object]:
    """The prompt block of every skill that it reads."""
    blocks = []
    for folder in sorted(Path(root).iterdir()):
        try:
            blocks.append(to_prompt([folder]))
        except SkillError:
            continue
    return len(blocks), "\n".join(blocks), blocks


run(discover)

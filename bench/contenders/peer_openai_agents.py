"""openai-agents: the instructions of its sandbox capability `Skills`, from a lazy local source."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from agents.sandbox import Manifest
from agents.sandbox.capabilities.skills import LocalDirLazySkillSource, Skills
from agents.sandbox.entries import LocalDir
from contender import run

LOOP = asyncio.new_event_loop()


def discover(root: str) -> tuple[int, str, object]:
    """The text that a sandbox agent is given.  The source must lie under the working folder."""
    os.chdir(root)
    skills = Skills(lazy_from=LocalDirLazySkillSource(source=LocalDir(src=Path(root))))
    text = LOOP.run_until_complete(skills.instructions(Manifest())) or ""
    return text.count(" (file: "), text, skills


run(discover)

"""pydantic-ai-harness: `Skills.load`, as at the start of every run, and lines such as pydantic-ai writes."""

from __future__ import annotations

import asyncio

from contender import run
from pydantic_ai.workspaces import LocalWorkspaceBackend
from pydantic_ai_harness.skills import Skills

LOOP = asyncio.new_event_loop()


def discover(root: str) -> tuple[int, str, object]:
    """One line for every skill that it reads."""
    catalog = LOOP.run_until_complete(Skills(root).load(LocalWorkspaceBackend(root)))
    text = "\n".join(f"- {skill.name}: {skill.description}" for skill in catalog.skills)
    return len(catalog.skills), text, catalog


run(discover)

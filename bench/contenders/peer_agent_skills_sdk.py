"""agent-skills-sdk: `discover_metadata`.  It has no catalog, so names and descriptions are joined for it."""

from __future__ import annotations

from agent_skills_sdk import AgentSkillsClient
from contender import run


def discover(root: str) -> tuple[int, str, object]:
    """The metadata of every skill that it reads."""
    client = AgentSkillsClient(skill_paths=[root], auto_discover=False)
    found = client.discover_metadata()
    return len(found), "\n".join(f"- {skill.name}: {skill.description}" for skill in found), found


run(discover)

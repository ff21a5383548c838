"""strands-agents: `Skill.from_directory` and the XML that its plugin `AgentSkills` adds to a system prompt.

The plugin writes that text only inside an agent's turn; asking for it directly spares it the turn.
"""

from __future__ import annotations

import logging

from contender import run
from strands.vended_plugins.skills import AgentSkills, Skill

logging.disable(logging.WARNING)


def discover(root: str) -> tuple[int, str, object]:
    """The XML block of every skill that it reads."""
    skills = Skill.from_directory(root)
    plugin = AgentSkills(skills=list(skills))
    return len(skills), plugin._generate_skills_xml(), plugin


run(discover)

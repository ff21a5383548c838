"""deepagents: `SkillsMiddleware`, loaded as at the start of a run, and the system message that it writes."""

from __future__ import annotations

import logging
from typing import Any

from contender import run
from deepagents.backends.filesystem import FilesystemBackend
from deepagents.middleware.skills import SkillsMiddleware
from langchain.agents.middleware.types import ModelRequest

logging.disable(logging.WARNING)
NOTHING: Any = None


def discover(root: str) -> tuple[int, str, object]:
    """The system message with every skill that it reads."""
    middleware: Any = SkillsMiddleware(backend=FilesystemBackend(root_dir=root), sources=["/"])
    state = middleware.before_agent({"messages": []}, NOTHING, NOTHING)
    request = middleware.modify_request(ModelRequest(model=NOTHING, messages=[], state=state))
    return len(state["skills_metadata"]), request.system_prompt, state


run(discover)

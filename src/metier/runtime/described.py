"""The agents that files describe; what only lists them needs nothing of acting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..host import paths
from ..sources.trusted import AGENTS

if TYPE_CHECKING:
    from ..types.agent import AgentFile
    from .library import Library

_OWN = (".claude/agents",)
"""Where a person keeps them, in the home; beside metier's own folder."""


def agent_files(library: Library) -> Mapping[str, AgentFile]:
    """Every agent that is described somewhere, by its name; a project's only as they were trusted."""
    from .configuring import agents_trusted, trusted_record

    place = library.place
    folders = [f"{place.state}/agents", *(f"{place.home}/{one}" for one in _OWN)]
    if agents_trusted(place, trusted_record(place)):
        folders = [f"{place.project}/{one}" for one in AGENTS] + folders
    found: dict[str, AgentFile] = {}
    for folder in folders:
        if not paths.is_folder(folder):
            continue
        for name in paths.list_names(folder).files:
            if name.endswith(".md") and name not in ("README.md", "AGENTS.md"):
                from ..parse.agent import agent_of  # most people describe none

                text = paths.read_text_file(f"{folder}/{name}")
                made = agent_of(text or "", f"{folder}/{name}")
                if made is not None:
                    found.setdefault(made.name, made)
    return found

"""The tools a model reaches skills with; each is made for a desk, which is what it needs of a library."""

from __future__ import annotations

from collections.abc import Sequence

from ...types.dialect import ToolName
from ...types.tool import Tool
from .desk import Desk, Page
from .files import read, skill_read_file
from .scripts import skill_run_script
from .skills import run_skill, skill_search, skill_use

MAKERS = {
    "skill_use": skill_use,
    "skill_read_file": skill_read_file,
    "skill_run_script": skill_run_script,
    "run_skill": run_skill,
    "skill_search": skill_search,
    "read": read,
}


def tools_of(desk: Desk, names: Sequence[ToolName]) -> tuple[Tool, ...]:
    """The tools of those names, for one desk."""
    return tuple(MAKERS[name](desk) for name in names)


__all__ = ["Desk", "Page", "tools_of"]

"""Whether there is a lock beside a skill's root: one look, so that whoever installed nothing pays nothing."""

from __future__ import annotations

from ..host import paths
from ..types.place import Place
from ..types.skill import Skill


def locks_of(skill: Skill, place: Place) -> tuple[str, ...]:
    """The roots around a skill that have a lock."""
    root, plugins = skill.origin.path, f"{place.state}/plugins"
    around = (root, plugins) if paths.is_inside(root, plugins) else (root,)
    return tuple(one for one in around if paths.exists(f"{one}-lock.json"))

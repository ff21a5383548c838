"""Whether there is a lock beside a root: one look, so that whoever installed nothing pays nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..host import paths
from ..types.place import Place, Root
from ..types.skill import Skill

if TYPE_CHECKING:
    from .installed import Locked


def locks(roots: Sequence[Root], place: Place) -> Locked | None:
    """What the locks beside the roots say; nothing is read where there is none."""
    around = [root.origin.path for root in roots]
    if not any(map(_has_lock, (*around, _plugins(place)))):
        return None
    from .installed import grounds, locked

    return locked(grounds(around, place))


def locks_of(skill: Skill, place: Place) -> tuple[str, ...]:
    """The roots around a skill that have a lock."""
    root, plugins = skill.origin.path, _plugins(place)
    around = (root, plugins) if paths.is_inside(root, plugins) else (root,)
    return tuple(filter(_has_lock, around))


def _has_lock(root: str) -> bool:
    return paths.exists(f"{root}-lock.json")


def _plugins(place: Place) -> str:
    return f"{place.state}/plugins"

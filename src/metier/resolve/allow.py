"""An agent's list of skills: absent, empty, or those it names."""

from __future__ import annotations

from dataclasses import dataclass

from ..types.skill import Skill


@dataclass(frozen=True)
class Allowed:
    """None is no list at all, and so everything; an empty list is nothing."""

    names: tuple[str, ...] | None = None

    @property
    def everything(self) -> bool:
        return self.names is None

    def has(self, skill: Skill) -> bool:
        return self.names is None or skill.name in self.names or skill.id in self.names or skill.qualified in self.names

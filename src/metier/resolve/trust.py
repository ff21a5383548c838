"""Trust in a project: given by a person, kept outside the project, bound to its path and to what it can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..types.problem import Mark
from ..types.skill import Skill


@dataclass(frozen=True)
class Capabilities:
    """What a skill can do beyond being read: commands in its body, files that run, what it asks for."""

    runs: frozenset[str] = frozenset()
    """One digest for each command, script and grant."""

    def widens(self, before: Capabilities) -> bool:
        return not self.runs <= before.runs


@dataclass(frozen=True)
class Trusted:
    """What was there when a person said yes."""

    skills: Mapping[str, Capabilities] = field(default_factory=dict)
    """By the path of the skill's folder within the project."""
    configuration: str = ""
    """The digest of the project's configuration."""
    agents: str = ""
    """The digest of its agent files."""
    whole: bool = True
    """The project was trusted, not only skills of it that the user wrote."""


def untrusted(
    skills: Iterable[tuple[Skill, str, Capabilities]], record: Trusted | None, project: str
) -> dict[str, Mark]:
    """The project's skills that may not be used, and why.  Prose may change; what runs may only shrink."""
    marks: dict[str, Mark] = {}
    for skill, place, now in skills:
        if record is None or place not in record.skills:
            marks[skill.path] = Mark("untrusted", 0, (project,))
        elif now.widens(record.skills[place]):
            marks[skill.path] = Mark("changed-since-trust", 0, (project, "what it runs or is granted"))
    return marks

"""Where metier runs: the working folder, the project, the home, and a root to search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .dialect import LinkPolicy
from .skill import Origin


@dataclass(frozen=True)
class Place:
    cwd: str
    project: str
    """The nearest folder upwards that holds `.git`, or the working folder itself."""
    home: str
    state: str
    """Where metier keeps its own files: `~/.metier`, or METIER_HOME."""
    env: Mapping[str, str] = field(repr=False, compare=False)
    platform: str
    profile: str = ""

    @property
    def ancestors(self) -> tuple[str, ...]:
        """The working folder and its parents up to the project's root, nearest first."""
        folders = [self.cwd]
        while folders[-1] != self.project and folders[-1] != "/":
            folders.append(folders[-1].rpartition("/")[0] or "/")
        return tuple(folders)


class SkillRoot(NamedTuple):
    """A folder to look for skills in."""

    origin: Origin
    depth: int = 6
    links: LinkPolicy = "contain"
    nested: bool = False
    itself: bool = False
    skip: frozenset[str] = frozenset()
    named: bool = False
    """The user named this root: that it is missing is worth saying."""
    base: str = ""
    """The project that the root must lie in, links on the way to it included."""

"""Where metier runs: the working folder, the project, the home, and a root to search."""

from __future__ import annotations

from collections.abc import Mapping

from ..light_typing import NamedTuple
from .dialect import LinkPolicy
from .skill import Origin


class Place(NamedTuple):
    cwd: str
    project: str
    """The nearest folder upwards that holds `.git`, or the working folder itself."""
    home: str
    state: str
    """Where metier keeps its own files: `~/.metier`, or METIER_HOME."""
    env: Mapping[str, str]
    platform: str
    profile: str = ""

    def __repr__(self) -> str:
        """Without the environment: it holds secrets."""
        return f"Place({self.cwd!r}, project={self.project!r}, state={self.state!r}, profile={self.profile!r})"

    # Without the environment: variables that no one reads must not make two places differ.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self._without_env() == other._without_env()

    # A tuple has its own `!=`, which would compare the environment.
    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._without_env())

    def _without_env(self) -> tuple[str, ...]:
        return (self.cwd, self.project, self.home, self.state, self.platform, self.profile)

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
    """The user named this root: report it if it is missing."""
    base: str = ""
    """The project that the root must lie in, links on the way to it included."""
    companions: bool = False
    """What lies beside a SKILL.md for Codex counts."""

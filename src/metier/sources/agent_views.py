"""What other agents would see: the skills in the folders that each of them looks in, and which hides which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..dialects.coding_agents import CODING_AGENTS, CodingAgent, own_folder, user_roots
from ..host import paths
from ..types.place import Place


class SeenSkill(NamedTuple):
    """A skill as an agent would find it."""

    name: str
    """The name of its folder."""
    root: str
    real: str
    """Where its folder really is: skills that are linked into several roots have one."""
    shadowed_by: str = ""
    """The root of the skill that is used instead."""


class AgentView(NamedTuple):
    """One agent, and what it would see from here."""

    agent: CodingAgent
    here: bool
    """It is on this machine, or the project has a folder of its own for it."""
    roots: tuple[str, ...]
    """The folders it looks in, in order of precedence."""
    skills: tuple[SeenSkill, ...]

    @property
    def used(self) -> tuple[SeenSkill, ...]:
        return tuple(skill for skill in self.skills if not skill.shadowed_by)


def view_agents(place: Place, agents: Mapping[str, CodingAgent] = CODING_AGENTS) -> Iterator[AgentView]:
    """What every known agent would see in a place.  Only names are read, nothing is opened."""
    listed: dict[str, list[str]] = {}
    for agent in agents.values():
        roots = agent_roots(agent, place)
        own_project = [path for path in agent.project if path.split("/")[0] not in (".agents", "skills", ".github")]
        here = paths.is_folder(own_folder(agent, place.home, place.env)) or any(
            paths.is_folder(f"{place.project}/{path}") for path in own_project
        )
        yield AgentView(agent, here, roots, tuple(_seen_skills(roots, listed)))


def agent_roots(agent: CodingAgent, place: Place) -> tuple[str, ...]:
    in_project = tuple(f"{place.project.rstrip('/')}/{path}" for path in agent.project)
    users = user_roots(agent, place.home, place.env)
    return tuple(dict.fromkeys((*users, *in_project) if agent.user_first else (*in_project, *users)))


def _seen_skills(roots: tuple[str, ...], listed: dict[str, list[str]]) -> Iterator[SeenSkill]:
    winners: dict[str, SeenSkill] = {}
    for root in roots:
        if root not in listed:  # many agents share a folder
            listed[root] = paths.folders_with_skill(root) if paths.is_folder(root) else []
        for name in listed[root]:
            skill = SeenSkill(name, root, paths.real_path(f"{root}/{name}"))
            winner = winners.setdefault(name, skill)
            # The same folder by another way hides nothing.
            yield skill if winner.real == skill.real else skill._replace(shadowed_by=winner.root)

"""metier: the Agent Skills runtime for Python.

import metier

library = metier.open(".")
for verdict in library.verdicts:
    print(verdict.skill.name, verdict.eligible)
print(library.catalog().text)
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # the real one lives in `typing`, which takes longer to import than a skill to find
if TYPE_CHECKING:
    from .agent.agent import Agent as Agent
    from .agent.permissions import Permission as Permission
    from .agent.session import Session as Session
    from .library.library import Library as Library
    from .library.open import open as open
    from .library.snapshot import Snapshot as Snapshot
    from .library.watch import Change as Change
    from .record.trace import Trace as Trace
    from .types.agent import TurnBounds as TurnBounds
    from .types.catalog import Catalog as Catalog
    from .types.catalog import CatalogEntry as CatalogEntry
    from .types.catalog import CommandMatch as CommandMatch
    from .types.catalog import LeftOut as LeftOut
    from .types.catalog import SlashCommand as SlashCommand
    from .types.catalog import UsageHabits as UsageHabits
    from .types.dialect import Dialect as Dialect
    from .types.errors import BadRequest as BadRequest
    from .types.errors import Changed as Changed
    from .types.errors import HostError as HostError
    from .types.errors import MetierError as MetierError
    from .types.errors import MissingExtra as MissingExtra
    from .types.errors import ModelError as ModelError
    from .types.errors import NoModel as NoModel
    from .types.errors import OutsideSkill as OutsideSkill
    from .types.errors import Refused as Refused
    from .types.errors import SkillError as SkillError
    from .types.errors import UnknownSkill as UnknownSkill
    from .types.errors import Unloadable as Unloadable
    from .types.event import Activated as Activated
    from .types.event import Asked as Asked
    from .types.event import Ended as Ended
    from .types.event import Replied as Replied
    from .types.event import Used as Used
    from .types.event import Waited as Waited
    from .types.event import Wrote as Wrote
    from .types.problem import Problem as Problem
    from .types.search import SearchHit as SearchHit
    from .types.skill import BrokenSkill as BrokenSkill
    from .types.skill import Origin as Origin
    from .types.skill import Skill as Skill
    from .types.skill import SkillBody as SkillBody
    from .types.verdict import RequirementCheck as RequirementCheck
    from .types.verdict import Verdict as Verdict

_HOMES = {
    "Agent": "agent.agent",
    "Permission": "agent.permissions",
    "Session": "agent.session",
    "Library": "library.library",
    "open": "library.open",
    "Snapshot": "library.snapshot",
    "Change": "library.watch",
    "Trace": "record.trace",
    "TurnBounds": "types.agent",
    "Catalog": "types.catalog",
    "CatalogEntry": "types.catalog",
    "CommandMatch": "types.catalog",
    "LeftOut": "types.catalog",
    "SearchHit": "types.search",
    "SlashCommand": "types.catalog",
    "UsageHabits": "types.catalog",
    "Dialect": "types.dialect",
    "BadRequest": "types.errors",
    "Changed": "types.errors",
    "HostError": "types.errors",
    "MetierError": "types.errors",
    "MissingExtra": "types.errors",
    "ModelError": "types.errors",
    "NoModel": "types.errors",
    "OutsideSkill": "types.errors",
    "Refused": "types.errors",
    "SkillError": "types.errors",
    "UnknownSkill": "types.errors",
    "Unloadable": "types.errors",
    "Activated": "types.event",
    "Asked": "types.event",
    "Ended": "types.event",
    "Replied": "types.event",
    "Used": "types.event",
    "Waited": "types.event",
    "Wrote": "types.event",
    "Problem": "types.problem",
    "BrokenSkill": "types.skill",
    "Origin": "types.skill",
    "Skill": "types.skill",
    "SkillBody": "types.skill",
    "RequirementCheck": "types.verdict",
    "Verdict": "types.verdict",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    """Names are fetched when they are used, so that importing metier costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'metier' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

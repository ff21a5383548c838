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
    from .runtime import Library as Library
    from .runtime import Snapshot as Snapshot
    from .runtime import open as open
    from .runtime.watching import Change as Change
    from .types.catalog import Catalog as Catalog
    from .types.catalog import Command as Command
    from .types.catalog import Entry as Entry
    from .types.catalog import Habits as Habits
    from .types.catalog import LeftOut as LeftOut
    from .types.catalog import Match as Match
    from .types.dialect import Dialect as Dialect
    from .types.errors import BadRequest as BadRequest
    from .types.errors import Changed as Changed
    from .types.errors import HostError as HostError
    from .types.errors import MetierError as MetierError
    from .types.errors import MissingExtra as MissingExtra
    from .types.errors import OutsideSkill as OutsideSkill
    from .types.errors import Refused as Refused
    from .types.errors import SkillError as SkillError
    from .types.errors import UnknownSkill as UnknownSkill
    from .types.errors import Unloadable as Unloadable
    from .types.problem import Problem as Problem
    from .types.search import Hit as Hit
    from .types.skill import Body as Body
    from .types.skill import Broken as Broken
    from .types.skill import Origin as Origin
    from .types.skill import Skill as Skill
    from .types.verdict import Check as Check
    from .types.verdict import Verdict as Verdict

_HOMES = {
    "Unloadable": "types.errors",
    "UnknownSkill": "types.errors",
    "SkillError": "types.errors",
    "Refused": "types.errors",
    "OutsideSkill": "types.errors",
    "MissingExtra": "types.errors",
    "HostError": "types.errors",
    "Changed": "types.errors",
    "BadRequest": "types.errors",
    "Change": "runtime.watching",
    "Match": "types.catalog",
    "LeftOut": "types.catalog",
    "Habits": "types.catalog",
    "Hit": "types.search",
    "Check": "types.verdict",
    "open": "runtime",
    "Library": "runtime",
    "Snapshot": "runtime",
    "Catalog": "types.catalog",
    "Command": "types.catalog",
    "Entry": "types.catalog",
    "Dialect": "types.dialect",
    "MetierError": "types.errors",
    "Problem": "types.problem",
    "Body": "types.skill",
    "Broken": "types.skill",
    "Origin": "types.skill",
    "Skill": "types.skill",
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

"""3. resolve: Skills + Facts -> Verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..types.problem import Mark
from ..types.settings import Settings
from ..types.skill import NOTHING_REQUIRED, Skill
from ..types.verdict import Facts, Verdict
from .allow import Allowed
from .eligibility import judge
from .hints import TOOLS

new = tuple.__new__
"""Verdicts are tuples, and come by the ten thousand: this makes one in half the time."""

__all__ = ["Allowed", "Terms", "asked", "resolve"]


@dataclass(frozen=True)
class Terms:
    """What decides beside the facts: the settings, the agent's list, what is bundled, what is not trusted."""

    settings: Settings = field(default_factory=Settings)
    allowed: Allowed = field(default_factory=Allowed)
    bundled: frozenset[str] = frozenset()
    """Paths of skills that came with metier."""
    untrusted: Mapping[str, Mark] = field(default_factory=dict)
    """Paths of skills that may not be used yet, and why."""
    same: Callable[[Skill, Skill], bool] = lambda one, other: False
    """Whether two skills of one name are the same bytes."""


def resolve(skills: Sequence[Skill], facts: Facts, terms: Terms) -> tuple[Verdict, ...]:
    """Decide about every skill, in order of precedence; each one that may not be used says why."""
    winners: dict[str, Skill] = {}
    verdicts: list[Verdict] = []
    plain = not terms.settings.mentions_skills and terms.allowed.everything
    origin, by_folder = None, False
    for skill in skills:
        if skill.origin is not origin:
            origin = skill.origin
            by_folder = origin.dialect.authoring.identity == "directory"
        marks: tuple[Mark, ...] = ()
        if not plain or skill.requires is not NOTHING_REQUIRED or not skill.enabled:
            marks = _standing(skill, facts, terms)
        if terms.untrusted and skill.path in terms.untrusted:
            verdicts.append(Verdict(skill, (*marks, terms.untrusted[skill.path])))
            continue
        identity = skill.identity if origin.namespace else skill.id if by_folder else skill.name
        winner = winners.setdefault(identity, skill)
        if winner is skill:
            verdicts.append(new(Verdict, (skill, marks, None)))
        elif not terms.same(winner, skill):
            shadow = Mark("shadowed", 0, (winner.path, skill.qualified))
            verdicts.append(Verdict(skill, (*marks, shadow), winner))
    return tuple(verdicts)


def _standing(skill: Skill, facts: Facts, terms: Terms) -> tuple[Mark, ...]:
    marks = judge(skill, facts, terms.settings, skill.path in terms.bundled)
    return marks if terms.allowed.has(skill) else (*marks, Mark("not-allowed", 0, (skill.name,)))


def asked(skills: Iterable[Skill]) -> tuple[set[str], set[str]]:
    """The binaries and the variables that facts are wanted about."""
    binaries: set[str] = set()
    names: set[str] = set()
    for skill in [skill for skill in skills if skill.requires is not NOTHING_REQUIRED]:
        needs = skill.requires
        binaries.update(needs.binaries, needs.any_binary)
        names.update(needs.env)
        for recipe in skill.install:
            binaries.update(recipe.binaries, TOOLS.get(recipe.kind, ()))
    return binaries, names

"""3. resolve: Skills + Facts -> Verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import is_

from ..types.problem import Mark
from ..types.settings import Settings
from ..types.skill import NOTHING_REQUIRED, Skill, reading
from ..types.verdict import Facts, Verdict
from .allow import Allowed
from .eligibility import judge

new = tuple.__new__
"""Verdicts are tuples, and come by the ten thousand: this makes one in half the time."""

_name, _origin, _requires, _enabled = map(reading, ("name", "origin", "requires", "enabled"))

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
    plain = not terms.settings.mentions_skills and terms.allowed.everything
    if plain and not terms.untrusted and _all_apart(skills):
        verdicts = list(map(new, repeat(Verdict), zip(skills, repeat(()), repeat(None))))
        asking = [at for at, needs in enumerate(map(_requires, skills)) if needs is not NOTHING_REQUIRED]
        off = [at for at, enabled in enumerate(map(_enabled, skills)) if not enabled]
        for at in (*asking, *off):
            verdicts[at] = Verdict(skills[at], _standing(skills[at], facts, terms))
        return tuple(verdicts)
    return _one_by_one(skills, facts, terms, plain)


def _all_apart(skills: Sequence[Skill]) -> bool:
    """Whether no two skills have one name, so that nothing can shadow anything."""
    if not skills:
        return True
    first = skills[0].origin
    by_name = not first.namespace and first.dialect.authoring.identity == "name"
    if by_name and all(map(is_, map(_origin, skills), repeat(first))):
        return len(set(map(_name, skills))) == len(skills)
    return len({skill.identity for skill in skills}) == len(skills)


def _one_by_one(skills: Sequence[Skill], facts: Facts, terms: Terms, plain: bool) -> tuple[Verdict, ...]:
    winners: dict[str, Skill] = {}
    verdicts: list[Verdict] = []
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
        elif precedence(skill) < precedence(winner):
            return resolve(sorted(skills, key=precedence), facts, terms)  # they came in another order
        elif not terms.same(winner, skill):
            called = skill.qualified if skill.qualified != winner.qualified else skill.id
            shadow = Mark("shadowed", 0, (winner.path, called))
            verdicts.append(Verdict(skill, (*marks, shadow), winner))
    return tuple(verdicts)


def precedence(skill: Skill) -> tuple[int, list[str]]:
    """What decides who shadows whom, and nothing else does: the rank of the root, then the order of its folders."""
    return -skill.origin.rank, skill.directory.split("/")


def _standing(skill: Skill, facts: Facts, terms: Terms) -> tuple[Mark, ...]:
    marks = judge(skill, facts, terms.settings, skill.path in terms.bundled)
    return marks if terms.allowed.has(skill) else (*marks, Mark("not-allowed", 0, (skill.name,)))


def asked(skills: Iterable[Skill]) -> tuple[set[str], set[str]]:
    """The binaries and the variables that facts are wanted about."""
    binaries: set[str] = set()
    names: set[str] = set()
    for needs in [needs for needs in map(_requires, skills) if needs is not NOTHING_REQUIRED]:
        binaries.update(needs.binaries, needs.any_binary)
        names.update(needs.env)
    return binaries, names

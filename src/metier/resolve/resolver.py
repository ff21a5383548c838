"""Decide about every skill: may it run here, is it trusted and allowed, and does another one shadow it.

Skills come in order of precedence, so one pass with a table of winners decides shadowing.  Most libraries have ten
thousand plain skills with distinct names and no configuration: those take a path that looks at nothing but the few
skills that ask for something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from operator import is_

from ..light_typing import NamedTuple
from ..types.problem import Finding
from ..types.settings import Settings
from ..types.skill import NOTHING_REQUIRED, Skill, field_getter
from ..types.verdict import Facts, Verdict
from .eligibility import check_eligibility


class AllowedSkills(NamedTuple):
    """An agent's list of skills: None is no list, and so everything; an empty list allows nothing."""

    names: tuple[str, ...] | None = None

    @property
    def everything(self) -> bool:
        return self.names is None

    def has(self, skill: Skill) -> bool:
        return self.names is None or skill.name in self.names or skill.id in self.names or skill.qualified in self.names


new = tuple.__new__
"""Makes a verdict in half the time its constructor takes; there are ten thousand of them."""

_name, _origin, _requires, _enabled = map(field_getter, ("name", "origin", "requires", "enabled"))


class ResolvePolicy(NamedTuple):
    """What decides, other than the facts: the settings, the agent's list, what is bundled, what is not trusted."""

    settings: Settings = Settings()
    allowed: AllowedSkills = AllowedSkills()
    bundled: frozenset[str] = frozenset()
    """Paths of skills that came with metier."""
    untrusted: Mapping[str, Finding] = {}
    """Paths of skills that may not be used yet, and why."""
    same: Callable[[Skill, Skill], bool] = lambda first, second: False
    """Whether two skills of one name are the same bytes."""


def resolve(skills: Sequence[Skill], facts: Facts, terms: ResolvePolicy) -> tuple[Verdict, ...]:
    """Decide about every skill, in order of precedence; each one that may not be used says why."""
    plain = not terms.settings.mentions_skills and terms.allowed.everything
    if plain and not terms.untrusted and _all_distinct(skills):
        verdicts = list(map(new, repeat(Verdict), zip(skills, repeat(()), repeat(None))))
        # Everything else is eligible by construction; only these can fail a check.
        asking = [at for at, needs in enumerate(map(_requires, skills)) if needs is not NOTHING_REQUIRED]
        off = [at for at, enabled in enumerate(map(_enabled, skills)) if not enabled]
        for at in (*asking, *off):
            verdicts[at] = Verdict(skills[at], _judge_skill(skills[at], facts, terms))
        return tuple(verdicts)
    return _resolve_in_order(skills, facts, terms, plain)


def _all_distinct(skills: Sequence[Skill]) -> bool:
    """Whether no two skills have one name, so that nothing can shadow anything."""
    if not skills:
        return True
    first = skills[0].origin
    by_name = not first.namespace and first.dialect.authoring.identity == "name"
    if by_name and all(map(is_, map(_origin, skills), repeat(first))):
        return len(set(map(_name, skills))) == len(skills)
    return len({skill.identity for skill in skills}) == len(skills)


def _resolve_in_order(skills: Sequence[Skill], facts: Facts, terms: ResolvePolicy, plain: bool) -> tuple[Verdict, ...]:
    winners = _choose_winners(skills, terms.untrusted)
    if winners is None:  # the caller's order was another one
        return _resolve_in_order(sorted(skills, key=precedence_key), facts, terms, plain)
    verdicts: list[Verdict] = []
    origin, by_folder = None, False
    for skill in skills:
        if skill.origin is not origin:
            origin = skill.origin
            by_folder = origin.dialect.authoring.identity == "directory"
        findings: tuple[Finding, ...] = ()
        if not plain or skill.requires is not NOTHING_REQUIRED or not skill.enabled:
            findings = _judge_skill(skill, facts, terms)
        # A skill that is not trusted shadows nothing: a cloned project must not replace the user's own skill.
        if terms.untrusted and skill.path in terms.untrusted:
            verdicts.append(Verdict(skill, (*findings, terms.untrusted[skill.path])))
            continue
        identity = skill.identity if origin.namespace else skill.id if by_folder else skill.name
        winner = winners.get(identity, skill)
        if winner is skill:
            verdicts.append(new(Verdict, (skill, findings, None)))
        elif not terms.same(winner, skill):  # a copy of the same bytes is left out without a word
            called = skill.qualified if skill.qualified != winner.qualified else skill.id
            shadow = Finding("shadowed", 0, (winner.path, called))
            verdicts.append(Verdict(skill, (*findings, shadow), winner))
    return tuple(verdicts)


def _choose_winners(skills: Sequence[Skill], untrusted: Mapping[str, Finding]) -> dict[str, Skill] | None:
    """For each name, the skill that it means; None if the skills are not in order of precedence."""
    first: dict[str, Skill] = {}
    winners: dict[str, Skill] = {}
    for skill in skills:
        if skill.path in untrusted or first.setdefault(skill.identity, skill) is skill:
            continue
        if precedence_key(skill) < precedence_key(first[skill.identity]):
            return None
        winner = winners.get(skill.identity, first[skill.identity])
        # In one root any folder can claim any name; the folder that is called so has the better claim.
        if winner.origin.rank == skill.origin.rank and winner.id != winner.name and skill.id == skill.name:
            winners[skill.identity] = skill
    return {**first, **winners}


def precedence_key(skill: Skill) -> tuple[int, list[str]]:
    """The order of skills: the rank of the root, then the order of its folders."""
    return -skill.origin.rank, skill.directory.split("/")


def _judge_skill(skill: Skill, facts: Facts, terms: ResolvePolicy) -> tuple[Finding, ...]:
    findings = check_eligibility(
        skill, facts, terms.settings, skill.path in terms.bundled or skill.origin.source == "bundled"
    )
    return findings if terms.allowed.has(skill) else (*findings, Finding("not-allowed", 0, (skill.name,)))


def required_facts(skills: Iterable[Skill]) -> tuple[set[str], set[str]]:
    """The binaries and the variables that facts are needed about."""
    binaries: set[str] = set()
    names: set[str] = set()
    for needs in [needs for needs in map(_requires, skills) if needs is not NOTHING_REQUIRED]:
        binaries.update(needs.binaries, needs.any_binary)
        names.update(needs.env)
    return binaries, names

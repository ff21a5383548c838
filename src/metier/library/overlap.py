"""How a new or changed skill competes with the others for a model's choice.

A prompt counts as stolen if its owner ranks first for it now and would not with the newcomer's card in the index.
Comparing descriptions alone would miss that: two texts can differ and still answer the same prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..catalog.cards import demands_use, is_stuffed
from ..host import paths
from ..parse.card import TRIGGER_FILES, parse_triggers, quoted_triggers
from ..types.errors import HostError
from ..types.problem import Finding
from ..types.skill import Skill

if TYPE_CHECKING:
    from .library import Library

_MAX_NEIGHBORS = 8
_MAX_PROMPTS = 8
_MAX_NAMED = 3
"""Prompts that one finding quotes."""


class StolenPrompt(NamedTuple):
    """A prompt that would go to the newcomer instead of its owner."""

    owner: Skill
    prompt: str


def selection_findings(skill: Skill, library: Library | None = None) -> tuple[Finding, ...]:
    """Findings about a skill's description, on its own and compared with the skills of a library."""
    findings = []
    if is_stuffed(skill.description):
        why = "it asks to be used for every request" if demands_use(skill.description) else "it is a list of keywords"
        findings.append(Finding("stuffed-description", 0, (why,)))
    if library is None:
        return tuple(findings)
    near = neighbor_skills(library, skill)
    stolen: dict[str, list[str]] = {}
    for theft in find_stolen_prompts(library, skill, near):
        stolen.setdefault(theft.owner.name, []).append(theft.prompt)
    for owner, prompts in stolen.items():
        quoted = "; ".join(f"“{prompt}”" for prompt in prompts[:_MAX_NAMED])
        findings.append(Finding("trigger-interference", 0, (owner, quoted)))
    return (*findings, *_overlap_findings(skill, near))


def _overlap_findings(skill: Skill, near: Sequence[Skill]) -> Iterator[Finding]:
    """The skills that a model may confuse it with because the descriptions are nearly the same."""
    if not near:
        return
    from ..catalog.similarity import find_lookalikes  # only where there is something to compare with

    descriptions = [(neighbor.name, neighbor.description) for neighbor in near]
    overlaps = (
        finding
        for finding in find_lookalikes(skill.name, skill.description, descriptions)
        if finding.code == "trigger-overlap"
    )
    yield from (Finding(finding.code, 0, finding.details) for finding in overlaps)


def neighbor_skills(library: Library, skill: Skill, most: int = _MAX_NEIGHBORS) -> tuple[Skill, ...]:
    """The other skills that a search for this skill's own words finds."""
    skills = (hit.skill for hit in library.search(f"{skill.name} {skill.description}", limit=most + 1))
    return tuple(other for other in skills if other.path != skill.path and other.identity != skill.identity)


def find_stolen_prompts(
    library: Library, newcomer: Skill, near: Sequence[Skill], more: Mapping[str, Sequence[str]] | None = None
) -> Iterator[StolenPrompt]:
    """Trigger prompts of neighbouring skills for which the newcomer would be ranked first instead.

    `more` are further prompts of theirs, by path.
    """
    from ..catalog.cards import make_card  # only needed for one new skill at a time
    from .search import LexicalEngine

    engine = library.finder.engines[0]
    if not isinstance(engine, LexicalEngine):
        return
    mine = make_card(newcomer.name, newcomer.description)
    for owner in near:
        for prompt in dict.fromkeys((*trigger_prompts(owner), *(more or {}).get(owner.path, ()))):
            if engine.loses(prompt, owner.path, newcomer.path, mine):
                yield StolenPrompt(owner, prompt)


def trigger_prompts(skill: Skill) -> tuple[str, ...]:
    """What its author tests it with, or the phrases its description quotes."""
    for name in TRIGGER_FILES:
        try:
            text = paths.read_text_file(f"{skill.directory}/{name}")
        except HostError:
            continue
        if text is not None and (prompts := parse_triggers(text)):
            return prompts[:_MAX_PROMPTS]
    return quoted_triggers(skill.description)[:_MAX_PROMPTS]

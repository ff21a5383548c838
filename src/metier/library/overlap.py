"""What a new or changed skill does to the choice among the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..catalog.cards import demands_use, is_stuffed
from ..host import paths
from ..parse.card import TRIGGER_FILES, parse_triggers, quoted_triggers
from ..types.errors import HostError
from ..types.problem import Finding
from ..types.skill import Skill

if TYPE_CHECKING:
    from .library import Library

_MOST_NEIGHBORS = 8
_MOST_PROMPTS = 8
_MOST_NAMED = 3
"""Prompts that a finding names."""


class StolenPrompt(NamedTuple):
    """A prompt that would go to the newcomer instead of its owner."""

    owner: Skill
    prompt: str


def selection_findings(skill: Skill, library: Library | None = None) -> tuple[Finding, ...]:
    """What there is to say about a skill's description, on its own and beside the skills of a library."""
    marks = []
    if is_stuffed(skill.description):
        why = "it asks to be used whatever is wanted" if demands_use(skill.description) else "it is a list of keywords"
        marks.append(Finding("stuffed-description", 0, (why,)))
    if library is None:
        return tuple(marks)
    near = neighbor_skills(library, skill)
    stolen: dict[str, list[str]] = {}
    for theft in find_stolen_prompts(library, skill, near):
        stolen.setdefault(theft.owner.name, []).append(theft.prompt)
    for owner, prompts in stolen.items():
        quoted = "; ".join(f"“{prompt}”" for prompt in prompts[:_MOST_NAMED])
        marks.append(Finding("trigger-interference", 0, (owner, quoted)))
    return (*marks, *_overlap_findings(skill, near))


def _overlap_findings(skill: Skill, near: Sequence[Skill]) -> Iterator[Finding]:
    """The skills that a model may mistake it for, because they say nearly the same; none steals from its equal."""
    if not near:
        return
    from ..catalog.similarity import find_lookalikes  # only where there is something to hold it against

    descriptions = [(neighbor.name, neighbor.description) for neighbor in near]
    overlaps = (
        mark for mark in find_lookalikes(skill.name, skill.description, descriptions) if mark.code == "trigger-overlap"
    )
    yield from (Finding(mark.code, 0, mark.details) for mark in overlaps)


def neighbor_skills(library: Library, skill: Skill) -> tuple[Skill, ...]:
    """The other skills that are found by what a skill says of itself."""
    skills = (hit.skill for hit in library.search(f"{skill.name} {skill.description}", limit=_MOST_NEIGHBORS + 1))
    return tuple(other for other in skills if other.path != skill.path and other.identity != skill.identity)


def find_stolen_prompts(library: Library, newcomer: Skill, near: Sequence[Skill]) -> Iterator[StolenPrompt]:
    """The trigger prompts of its neighbours that a skill would be chosen for before them."""
    from ..catalog.cards import make_card  # only one new skill is held against the others
    from .search import LexicalEngine

    engine = library.finder.engines[0]
    if not isinstance(engine, LexicalEngine):
        return
    mine = make_card(newcomer.name, newcomer.description)
    for owner in near:
        for prompt in trigger_prompts(owner):
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
            return prompts[:_MOST_PROMPTS]
    return quoted_triggers(skill.description)[:_MOST_PROMPTS]

"""What a new or changed skill does to the choice among the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..catalog.stuffing import demands, is_stuffed
from ..host import paths
from ..parse.triggers import FILES, triggers_in, triggers_said
from ..types.errors import HostError
from ..types.problem import Mark
from ..types.skill import Skill

if TYPE_CHECKING:
    from .library import Library

_NEIGHBOURS = 8
_PROMPTS = 8
_NAMED = 3
"""Prompts that a finding names."""


class Theft(NamedTuple):
    """A prompt that would go to the newcomer instead of its owner."""

    owner: Skill
    prompt: str


def selection_marks(skill: Skill, library: Library | None = None) -> tuple[Mark, ...]:
    """What there is to say about a skill's description, on its own and beside the skills of a library."""
    marks = []
    if is_stuffed(skill.description):
        why = "it asks to be used whatever is wanted" if demands(skill.description) else "it is a list of keywords"
        marks.append(Mark("stuffed-description", 0, (why,)))
    if library is None:
        return tuple(marks)
    near = neighbours(library, skill)
    stolen: dict[str, list[str]] = {}
    for theft in thefts(library, skill, near):
        stolen.setdefault(theft.owner.name, []).append(theft.prompt)
    for owner, prompts in stolen.items():
        said = "; ".join(f"“{prompt}”" for prompt in prompts[:_NAMED])
        marks.append(Mark("trigger-interference", 0, (owner, said)))
    return (*marks, *_overlaps(skill, near))


def _overlaps(skill: Skill, near: Sequence[Skill]) -> Iterator[Mark]:
    """The skills that a model may mistake it for, because they say nearly the same; none steals from its equal."""
    if not near:
        return
    from ..install.similar import alike  # only where there is something to hold it against

    said = [(one.name, one.description) for one in near]
    found = (mark for mark in alike(skill.name, skill.description, said) if mark.code == "trigger-overlap")
    yield from (Mark(mark.code, 0, mark.details) for mark in found)


def neighbours(library: Library, skill: Skill) -> tuple[Skill, ...]:
    """The other skills that are found by what a skill says of itself."""
    found = (hit.skill for hit in library.search(f"{skill.name} {skill.description}", limit=_NEIGHBOURS + 1))
    return tuple(one for one in found if one.path != skill.path and one.identity != skill.identity)


def thefts(library: Library, newcomer: Skill, near: Sequence[Skill]) -> Iterator[Theft]:
    """The trigger prompts of its neighbours that a skill would be chosen for before them."""
    from ..catalog.cards import card  # only one new skill is held against the others
    from .searching import Lexical

    engine = library.finder.engines[0]
    if not isinstance(engine, Lexical):
        return
    mine = card(newcomer.name, newcomer.description)
    for owner in near:
        for prompt in prompts_of(owner):
            if engine.loses(prompt, owner.path, newcomer.path, mine):
                yield Theft(owner, prompt)


def prompts_of(skill: Skill) -> tuple[str, ...]:
    """What its author tests it with, or the phrases its description quotes."""
    for name in FILES:
        try:
            text = paths.read_text_file(f"{skill.directory}/{name}")
        except HostError:
            continue
        if text is not None and (found := triggers_in(text)):
            return found[:_PROMPTS]
    return triggers_said(skill.description)[:_PROMPTS]

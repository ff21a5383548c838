"""What a library's searches go through: its engines, and the skills their answers stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from ..catalog.fuse import fused, ranks
from ..catalog.pick import picked
from ..types.catalog import Command
from ..types.errors import BadRequest
from ..types.problem import Problem
from ..types.search import Audience, Engine, Hit
from ..types.verdict import Verdict
from .searching import Plain, lexical, stored

if TYPE_CHECKING:
    from .library import Library

_WEIGHTS = {"lexical": 2.0}
"""In a fusion; every other engine has 1."""
_DEEPER = 50
"""How much further down each engine is asked than is wanted: some answers may not be shown."""


@dataclass(frozen=True)
class Finder:
    """The engines, asked together, over the skills of one library."""

    verdicts: Mapping[str, Verdict]
    """By the path of the skill's file."""
    engines: tuple[Engine, ...]
    beside: tuple[Engine, ...] = ()
    """Engines that no answer comes from: they are only compared with the others."""
    fault: Problem | None = None
    """Why the index could not be used: the engines then work without it, and take longer."""

    def search(self, query: str, limit: int = 10, audience: Audience = "model") -> tuple[Hit, ...]:
        if limit < 0:
            raise BadRequest("a limit can't be less than nothing", "give a number from 0 up")
        if audience not in get_args(Audience):
            raise BadRequest(f"`{audience}` is nobody who searches", "one of: " + ", ".join(get_args(Audience)))
        found = {engine.name: engine.rank(query, limit + _DEEPER) for engine in self.engines}
        best = next(iter(found.values())) if len(found) == 1 else fused(found, _WEIGHTS)
        placed = ranks(found)
        hits: list[Hit] = []
        for one in best:
            verdict = self.verdicts.get(one.path)
            if len(hits) >= limit:
                break
            if verdict is not None and (audience == "person" or may_see(verdict)):
                skill = verdict.skill
                hits.append(Hit(skill, len(hits) + 1, one.score, one.clear, one.matched, placed[one.path]))
        return tuple(hits)

    def shadow(self, query: str, most: int = 50) -> dict[str, tuple[str, ...]]:
        """What every engine alone would show, those of the fusion and those that run beside it: paths, best first."""
        every = (*self.engines, *self.beside)
        return {engine.name: tuple(one.path for one in engine.rank(query, most)) for engine in every}


def may_see(verdict: Verdict) -> bool:
    """Whether the model's catalog may list it."""
    skill = verdict.skill
    hides = skill.origin.dialect.authoring.user_invocable_hides
    return verdict.usable and skill.model_may_invoke and (skill.user_may_invoke or not hides)


def finder_of(library: Library, patience: float | None = None) -> Finder:
    """The engines of a library: words always, meaning too where the configuration asks for it."""
    verdicts = {verdict.skill.path: verdict for verdict in library.verdicts}
    words, fault = stored(library) if patience is None else stored(library, patience)
    if words is None:
        words = lexical(library)
    engines: tuple[Engine, ...] = (words,)
    if library.settings.dense:
        from ..host.encoder import encoder
        from .dense import PATIENCE, dense

        engines = (words, dense(library, words, encoder(), PATIENCE if patience is None else patience))
    return Finder(verdicts, engines, (Plain(words),), fault)


def nearest(library: Library, name: str) -> tuple[str, ...]:
    """Names that are spelled almost so; then, where there is an index, of skills that the words are about."""
    from difflib import get_close_matches

    known = dict.fromkeys([*(skill.name for skill in library.skills), *(broken.id for broken in library.broken)])
    folded = {one.lower(): one for one in known}
    close = [folded[one] for one in get_close_matches(name.lower(), folded, 3, 0.6)]
    if not close and library.database is not None:
        words = name.replace("-", " ").replace("_", " ")
        close = [hit.skill.name for hit in library.search(words, limit=3, audience="person") if hit.clear]
    return tuple(dict.fromkeys(close))


def pick(library: Library, typed: str, limit: int) -> tuple[Command, ...]:
    """Commands for what a person has typed so far: by their letters first, then by what their skills are for."""
    table = library.commands()
    words = typed.removeprefix("/")
    about = [hit.skill.path for hit in library.search(words, limit=limit, audience="person")] if " " in words else []
    return picked(table, words, about)[:limit]

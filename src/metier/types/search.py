"""Search: what ranks skills for a request, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..light_typing import Literal, NamedTuple, Protocol, TypeAlias
from .skill import Skill

Audience: TypeAlias = Literal["model", "person"]
"""Who searches: a model finds what its catalog may list, a person everything that loads."""


class SearchCard(NamedTuple):
    """A skill as terms: what the index keeps of it.  Blanks part terms, bars part phrases."""

    name: str
    description: str
    more: str = ""
    """Headings, bold text and code spans of its body, each term once."""
    stuffed: bool = False
    """It names more things than it can be for: it counts for less."""


class MatchedTerm(NamedTuple):
    """A term of the request, what it weighs, and which fields of a skill have it."""

    term: str
    weight: float
    fields: tuple[str, ...] = ()


class RankedSkill(NamedTuple):
    """One answer of an engine: a skill by the path of its file, the best first."""

    path: str
    score: float
    clear: bool = False
    """Whether the skill clearly applies, and is not only the nearest there is."""
    matched: tuple[MatchedTerm, ...] = ()


class SearchEngine(Protocol):
    """A way to rank skills for a request."""

    @property
    def name(self) -> str: ...

    def rank(self, request: str, most: int) -> Sequence[RankedSkill]: ...


class SearchHit(NamedTuple):
    """A skill that a search found."""

    skill: Skill
    rank: int
    """1 is the best."""
    score: float
    clear: bool
    """Whether it clearly applies, and is not only the nearest there is."""
    matched: tuple[MatchedTerm, ...] = ()
    """The terms of the request, and where the skill has them."""
    ranks: Mapping[str, int] = {}
    """Its rank in each engine that was asked."""


class TextEncoder(Protocol):
    """What turns texts into vectors and compares them."""

    def encode(self, text: str) -> bytes: ...

    def nearest(self, text: str, vectors: Sequence[bytes]) -> Sequence[float]: ...

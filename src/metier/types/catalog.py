"""What a model is told of, what did not fit, and what a person may type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeAlias

from .problem import Problem
from .skill import Skill
from .text import estimate_tokens


class CatalogEntry(NamedTuple):
    """One skill as the model sees it."""

    name: str
    description: str
    location: str
    """The path of its SKILL.md, as the listing writes it."""
    hint: str = ""
    """What its arguments look like."""
    skill: Skill | None = None
    """The skill itself, for what only some listings show."""


class LeftOut(NamedTuple):
    """A skill that is usable and not in the listing."""

    name: str
    reason: Literal["limit-listed", "limit-characters", "hidden-from-model", "merged"]
    location: str


@dataclass(frozen=True)
class UsageHabits:
    """What is known of a person's use of skills, frozen when a conversation begins."""

    pinned: tuple[str, ...] = ()
    """Names that always stand in the stable block, in this order."""
    used: Mapping[str, int] = field(default_factory=dict)
    """How often each skill was used, by the path of its file."""
    seed: str = ""
    """The conversation: it decides which skill that was never used gets a chance to be seen."""


@dataclass(frozen=True)
class Catalog:
    """The listing for a system prompt."""

    entries: tuple[CatalogEntry, ...]
    left_out: tuple[LeftOut, ...]
    text: str
    """What goes into the prompt; empty where there is nothing to list.  No request changes a byte of it."""
    suggested: tuple[CatalogEntry, ...] = ()
    """What is shown for this request, best first, where the whole did not fit."""
    ranked: str = ""
    """The same as text for the end of the conversation, and how many more there are; never for its beginning."""
    problems: tuple[Problem, ...] = ()
    """Why nothing could be ranked although something was left out."""

    @property
    def characters(self) -> int:
        return len(self.text)

    @property
    def tokens(self) -> int:
        """An estimate of what the listing costs."""
        return estimate_tokens(self.text)


@dataclass(frozen=True)
class SlashCommand:
    """A slash command: what is typed, and the skill it stands for."""

    name: str
    """Without the slash."""
    skill: Skill | None
    description: str
    hint: str = ""
    """What its arguments look like."""
    aliases: tuple[str, ...] = ()
    """Other spellings that call it."""
    scheduled: str = ""
    """The path of the scheduler skill, for `/sched-…`."""


class CommandMatch(NamedTuple):
    """What a line of input asks for."""

    name: str | None
    """The skill's own name; None when the line is no command."""
    arguments: str
    user_message: str
    """What is left to say to the model."""
    at: int | None = None
    """Which of the commands it is."""


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

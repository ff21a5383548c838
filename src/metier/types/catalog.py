"""The listing for a model, what was left out of it, and the slash commands for a person."""

from __future__ import annotations

from collections.abc import Mapping

from ..light_typing import Literal, NamedTuple
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


class UsageHabits(NamedTuple):
    """Which skills a person pins and uses, frozen when a conversation begins."""

    pinned: tuple[str, ...] = ()
    """Skills that are always listed, in this order."""
    used: Mapping[str, int] = {}
    """How often each skill was used, by the path of its file."""
    seed: str = ""
    """The conversation's id: it decides which of the skills that were never used is listed."""


class Catalog(NamedTuple):
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


class SlashCommand(NamedTuple):
    """A slash command and the skill it calls."""

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
    """The text for the model, without the command."""
    at: int | None = None
    """Which of the commands it is."""

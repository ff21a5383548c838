"""What a model is told of, what did not fit, and what a person may type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from .skill import Skill
from .text import tokens_of


class Entry(NamedTuple):
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
    reason: Literal["limit-listed", "limit-characters", "hidden-from-model"]
    location: str


@dataclass(frozen=True)
class Catalog:
    """The listing for a system prompt."""

    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...]
    text: str
    """What goes into the prompt; empty where there is nothing to list."""

    @property
    def characters(self) -> int:
        return len(self.text)

    @property
    def tokens(self) -> int:
        """An estimate of what the listing costs."""
        return tokens_of(self.text)


@dataclass(frozen=True)
class Command:
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


class Match(NamedTuple):
    """What a line of input asks for."""

    name: str | None
    """The skill's own name; None when the line is no command."""
    arguments: str
    user_message: str
    """What is left to say to the model."""
    at: int | None = None
    """Which of the commands it is."""

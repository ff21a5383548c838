"""A call of a skill, the text a model gets, and every substitution in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from .skill import Skill
from .text import estimate_tokens

InvokedBy: TypeAlias = Literal["user", "model", "schedule"]
SubstitutionKind: TypeAlias = Literal["argument", "variable", "path", "command", "escape", "appended", "removed"]
MessageTag: TypeAlias = Literal["", "change", "place", "restored", "suggested", "summary"]


@dataclass(frozen=True)
class Call:
    """A request: run this skill with these arguments."""

    name: str
    """What was asked for: the command or the skill's name, as it was typed."""
    arguments: str | tuple[str, ...] = ""
    """As they were typed; or ready words, from a program."""
    by: InvokedBy = "user"
    cwd: str = ""
    """The agent's working folder."""

    @property
    def typed(self) -> str:
        """The arguments on one line, as a person would have typed them."""
        if isinstance(self.arguments, str):
            return self.arguments.strip()
        # Imported here: skills are listed far more often than called.
        from shlex import join

        return join(self.arguments)


class Substitution(NamedTuple):
    """One substitution: a part of the author's text, and what replaced it."""

    kind: SubstitutionKind
    source: str
    value: str
    at: int
    """Where the value begins in the rendered text."""
    note: str = ""
    """How a command ended, when it did not end well."""


@dataclass(frozen=True)
class Activation:
    """A skill rendered for a model."""

    skill: Skill
    call: Call
    text: str
    """The body, rendered: the same bytes in every delivery that carries it."""
    inserts: tuple[Substitution, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Of the rendered text, as `sha256:…`."""
        from hashlib import sha256

        # Rendered text may contain lone surrogates, which plain UTF-8 refuses.
        return "sha256:" + sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def tokens(self) -> int:
        """An estimate of what the text costs."""
        return estimate_tokens(self.text)


@dataclass(frozen=True)
class ToolCall:
    """A tool, called by name."""

    id: str
    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    fault: str = ""
    """Why what the model sent can't be read as arguments."""


@dataclass(frozen=True)
class Message:
    """One entry of a conversation, independent of any provider."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    call: ToolCall | None = None
    """The call that an assistant's message makes."""
    answers: str = ""
    """The id of the call that a tool's message answers."""
    skill: str = ""
    """The skill whose instructions it carries."""
    failed: bool = False
    """Whether the tool failed."""
    tag: MessageTag = ""
    """Why metier added it; empty for a message that someone wrote."""
    raw: str = field(default="", repr=False)
    """An assistant's message in the form its service expects back, if that is more than text and calls."""

"""A request for a skill, what the model will be told, and every substitution that made it."""

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
        from shlex import join

        return join(self.arguments)


class Substitution(NamedTuple):
    """One substitution: what stood in the author's text, and what stands there now."""

    kind: SubstitutionKind
    source: str
    value: str
    at: int
    """Where the value begins in the rendered text."""
    note: str = ""
    """How a command ended, when it did not end well."""


@dataclass(frozen=True)
class Activation:
    """What the model will be told."""

    skill: Skill
    call: Call
    text: str
    """The body, rendered: the same bytes in every delivery that carries it."""
    inserts: tuple[Substitution, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Of the rendered text, as `sha256:…`."""
        from hashlib import sha256

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
    """One entry of a conversation, in no provider's form."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    call: ToolCall | None = None
    """The call that an assistant's message makes."""
    answers: str = ""
    """The id of the call that a tool's message answers."""
    skill: str = ""
    """The skill whose instructions it carries."""
    failed: bool = False
    """The tool that it is from could not do it."""
    tag: MessageTag = ""
    """What put it there, where nobody said it."""
    raw: str = field(default="", repr=False)
    """An assistant's message as its model's service wants it back, where that is more than text and calls."""

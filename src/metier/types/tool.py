"""A tool that a model may call: its name, its parameters, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .activation import Message, ToolCall
from .event import Activated, Reason, Steps


@dataclass(frozen=True)
class Parameter:
    name: str
    description: str
    required: bool = True
    kind: str = "string"
    """As JSON Schema names it."""

    @property
    def schema(self) -> dict[str, object]:
        items: dict[str, object] = {"items": {"type": "string"}} if self.kind == "array" else {}
        return {"type": self.kind, "description": self.description, **items}


@dataclass(frozen=True)
class Answer:
    """What a tool gives back."""

    text: str
    error: bool = False
    """It refused, or could not do it."""
    messages: tuple[Message, ...] = ()
    """What follows it in the conversation."""
    note: str = ""
    """For the person, not the model: how a program was kept apart, say."""
    status: int | None = None
    """The exit status of a program that it ran."""
    activated: Activated | None = None
    """The skill that this made part of the conversation."""
    skill: str = ""
    """The skill whose program or file it was about."""
    reason: Reason = ""
    """Why it went wrong, for a program to read; where nobody says it, `failed`."""


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    parameters: tuple[Parameter, ...]
    call: Callable[[Mapping[str, object]], Answer]
    """Takes the arguments by name.  Never raises for anything a model can get wrong."""
    steps: Callable[[ToolCall], Steps[Answer]] | None = None
    """In place of `call`, for a tool that takes a while and has things happen on the way."""
    form: Mapping[str, object] | None = None
    """The parameters as JSON Schema, where they are somebody else's."""

    @property
    def schema(self) -> dict[str, object]:
        """The parameters as JSON Schema."""
        if self.form is not None:
            return dict(self.form)
        return {
            "type": "object",
            "properties": {one.name: one.schema for one in self.parameters},
            "required": [one.name for one in self.parameters if one.required],
            "additionalProperties": False,
        }

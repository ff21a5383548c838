"""A tool that a model may call: its name, its parameters, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .activation import Message


@dataclass(frozen=True)
class Parameter:
    name: str
    description: str
    required: bool = True
    kind: str = "string"
    """As JSON Schema names it."""


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


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    parameters: tuple[Parameter, ...]
    call: Callable[[Mapping[str, object]], Answer]
    """Takes the arguments by name.  Never raises for anything a model can get wrong."""

    @property
    def schema(self) -> dict[str, object]:
        """The parameters as JSON Schema."""
        return {
            "type": "object",
            "properties": {one.name: {"type": one.kind, "description": one.description} for one in self.parameters},
            "required": [one.name for one in self.parameters if one.required],
            "additionalProperties": False,
        }

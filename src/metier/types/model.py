"""What is asked of a model, and what it gives back; no provider's form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from .activation import Message, ToolCall
from .event import Steps
from .tool import Tool
from .usage import NOTHING_USED, Usage


@dataclass(frozen=True)
class Request:
    """All that a model is given: the order on the wire is tools, system, messages."""

    system: str
    tools: tuple[Tool, ...]
    messages: tuple[Message, ...]
    run: str = ""
    """The conversation, for a service that routes by it."""


Finish: TypeAlias = Literal["stop", "length", "tools", "filter"]


@dataclass(frozen=True)
class Reply:
    messages: tuple[Message, ...]
    usage: Usage = NOTHING_USED
    finish: Finish = "stop"

    @property
    def text(self) -> str:
        return "".join(message.text for message in self.messages)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(message.call for message in self.messages if message.call is not None)


class Stop(Protocol):
    """A wish to end: `threading.Event` is one."""

    def is_set(self) -> bool: ...


class Model(Protocol):
    @property
    def name(self) -> str:
        """What it is called on screens and in journals."""

    @property
    def window(self) -> int:
        """How many tokens it can be given."""

    def reply(self, request: Request, stop: Stop) -> Steps[Reply]:
        """Ask.  Yields `Wrote` and `Retried`; a service that fails is a `ModelError`, a stop an `Interrupted`."""

    def wire(self, request: Request) -> str:
        """The exact request that would be sent, as JSON."""

"""Tools, requests and replies, independent of any provider; and the model services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from .activation import Message, ToolCall
from .event import NOTHING_USED, Activated, EventSteps, FailureReason, Usage
from .sandbox import FailureCause

# --- Tools ---


@dataclass(frozen=True)
class ToolParameter:
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
    """The result of a tool."""

    text: str
    error: bool = False
    """Whether it refused or failed."""
    messages: tuple[Message, ...] = ()
    """What follows it in the conversation."""
    note: str = ""
    """For the person, not the model, such as how a program was sandboxed."""
    status: int | None = None
    """The exit status of a program that it ran."""
    activated: Activated | None = None
    """The skill that this made part of the conversation."""
    skill: str = ""
    """The skill whose program or file it was about."""
    reason: FailureReason = ""
    """Why it failed, for a program to read."""
    cause: FailureCause = ""
    """What of the machine made its program fail, if it is known."""


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    parameters: tuple[ToolParameter, ...]
    call: Callable[[Mapping[str, object]], Answer]
    """Takes the arguments by name.  Never raises for anything a model can get wrong."""
    steps: Callable[[ToolCall], EventSteps[Answer]] | None = None
    """In place of `call`, for a tool that yields events while it runs."""
    form: Mapping[str, object] | None = None
    """The parameters as JSON Schema, for a tool of an MCP server."""

    @property
    def schema(self) -> dict[str, object]:
        """The parameters as JSON Schema."""
        if self.form is not None:
            return dict(self.form)
        return {
            "type": "object",
            "properties": {parameter.name: parameter.schema for parameter in self.parameters},
            "required": [parameter.name for parameter in self.parameters if parameter.required],
            "additionalProperties": False,
        }


# --- Requests and replies ---


@dataclass(frozen=True)
class ReplyRequest:
    """All that a model is given: the order on the wire is tools, system, messages."""

    system: str
    tools: tuple[Tool, ...]
    messages: tuple[Message, ...]
    run: str = ""
    """The conversation, for a service that routes by it."""


FinishReason: TypeAlias = Literal["stop", "length", "tools", "filter"]


@dataclass(frozen=True)
class Reply:
    messages: tuple[Message, ...]
    usage: Usage = NOTHING_USED
    finish: FinishReason = "stop"

    @property
    def text(self) -> str:
        return "".join(message.text for message in self.messages)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(message.call for message in self.messages if message.call is not None)


class StopFlag(Protocol):
    """A request to stop, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


class Model(Protocol):
    @property
    def name(self) -> str:
        """Its name in output and journals."""

    @property
    def window(self) -> int:
        """The size of its context window in tokens."""

    def reply(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        """Get a reply. Yields `Wrote`, `Waited` and `Retried`; raises `ModelError` if the service fails."""

    def wire(self, request: ReplyRequest) -> str:
        """The exact request that would be sent, as JSON."""


class OpenedModel(Model, Protocol):
    """A model that somebody opened by its name, and closes when done with it."""

    def close(self) -> None:
        """Close its connections and stop its threads; a later request opens them again."""


# --- Services ---

WireProtocol: TypeAlias = Literal["openai", "openai-responses", "anthropic", "google"]
"""The API that a service implements."""


@dataclass(frozen=True)
class ModelService:
    """A provider, as data."""

    name: str
    wire: WireProtocol
    keys: tuple[str, ...] = ()
    """Variables that may hold the key, first one first; none if no key is needed."""
    url: str = ""
    extra: str = "agent"
    """The extra it needs."""
    window: int = 128_000


# Where models of one service differ, the window is a low guess: too low compacts early, too high makes requests fail.
MODEL_SERVICES = {
    service.name: service
    for service in (
        ModelService("anthropic", "anthropic", ("ANTHROPIC_API_KEY",), extra="anthropic", window=200_000),
        ModelService("openai", "openai", ("OPENAI_API_KEY",)),
        ModelService("openai-responses", "openai-responses", ("OPENAI_API_KEY",)),
        ModelService("google", "google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), extra="google", window=1_000_000),
        ModelService("ollama", "openai", (), "http://localhost:11434/v1", window=32_000),
        ModelService("llamacpp", "openai", (), "http://localhost:8080/v1", window=32_000),
        ModelService("compatible", "openai", ("OPENAI_API_KEY",), window=32_000),
    )
}
"""Providers by name. `compatible` is any OpenAI-compatible service; it needs a `url`."""


@dataclass(frozen=True)
class ModelAddress:
    """One model of one service, with all that a request needs."""

    service: ModelService
    model: str
    url: str = ""
    key: str = field(default="", repr=False)
    window: int = 0
    prices: tuple[float, float] | None = None
    """US dollars for a million tokens sent, and received."""
    most: int | None = None
    """Tokens of one reply."""
    patience: float = 1.0
    """Seconds before the first retry; doubled each time."""
    retries: int = 3
    connect: float = 10.0
    """Seconds to reach the service."""
    first: float = 300.0
    """Seconds to the first sign of a reply: reading a long request, or thinking, takes a service minutes."""
    between: float = 120.0
    """Seconds between two signs of it."""
    label: str = ""
    """What the user calls it."""
    variable: str = ""
    """The variable that holds the key."""

    @property
    def name(self) -> str:
        return self.label or f"{self.service.name}:{self.model}"

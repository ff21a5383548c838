"""Where a model is asked: which service, by which name, with which key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Wire: TypeAlias = Literal["openai", "openai-responses", "anthropic", "google"]
"""How a service is spoken to."""


@dataclass(frozen=True)
class Service:
    """A provider, as data."""

    name: str
    wire: Wire
    keys: tuple[str, ...] = ()
    """Variables that may hold the key, the first that is set counts; none where no key is needed."""
    url: str = ""
    extra: str = "agent"
    """What has to be installed for it."""
    window: int = 128_000


SERVICES = {
    one.name: one
    for one in (
        Service("anthropic", "anthropic", ("ANTHROPIC_API_KEY",), extra="anthropic", window=200_000),
        Service("openai", "openai", ("OPENAI_API_KEY",)),
        Service("openai-responses", "openai-responses", ("OPENAI_API_KEY",)),
        Service("google", "google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), extra="google", window=1_000_000),
        Service("ollama", "openai", (), "http://localhost:11434/v1", window=32_000),
        Service("llamacpp", "openai", (), "http://localhost:8080/v1", window=32_000),
        Service("compatible", "openai", ("OPENAI_API_KEY",), window=32_000),
    )
}
"""Providers by name.  `compatible` is any service that speaks as OpenAI's does; it needs a `url`."""


@dataclass(frozen=True)
class Address:
    """One model of one service, ready to be asked."""

    service: Service
    model: str
    url: str = ""
    key: str = field(default="", repr=False)
    window: int = 0
    prices: tuple[float, float] | None = None
    """US dollars for a million tokens sent, and received."""
    most: int | None = None
    """Tokens of one reply."""
    patience: float = 1.0
    """How long it is waited before the first of the retries, in seconds; then twice as long each time."""
    retries: int = 3
    label: str = ""
    """What the user calls it."""
    variable: str = ""
    """The variable that holds the key."""

    @property
    def name(self) -> str:
        return self.label or f"{self.service.name}:{self.model}"

"""What a model's replies cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """What replies cost."""

    requests: int = 0
    input: int = 0
    """Tokens sent, those from a cache included."""
    output: int = 0
    cached: int = 0
    """Tokens that the service still had from before."""
    cost: float | None = None
    """In US dollars, where the price is known."""

    def __add__(self, other: Usage) -> Usage:
        known = [one.cost for one in (self, other) if one.cost is not None]
        return Usage(
            self.requests + other.requests,
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            sum(known) if known else None,
        )

    @property
    def tokens(self) -> int:
        return self.input + self.output


NOTHING_USED = Usage()

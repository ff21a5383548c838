"""An agent as its file describes it: instructions, skills, tools and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

N = TypeVar("N", int, float)

IMPROVER = "improver"
"""The agent that writes fixes. Failures of its own runs never start another improvement."""


@dataclass(frozen=True)
class TurnBounds:
    """The limits of one turn; None is no limit."""

    # Enough for long tasks; it ends a model that goes in circles before it gets expensive.
    turns: int | None = 50
    """Requests to the model."""
    tokens: int | None = None
    """Sent and received together."""
    seconds: float | None = None
    cost: float | None = None
    """US dollars, where the price is known."""

    def within(self, other: TurnBounds) -> TurnBounds:
        """The smaller of both limits, field by field."""
        return TurnBounds(
            _smaller_bound(self.turns, other.turns),
            _smaller_bound(self.tokens, other.tokens),
            _smaller_bound(self.seconds, other.seconds),
            _smaller_bound(self.cost, other.cost),
        )


def _smaller_bound(first: N | None, second: N | None) -> N | None:
    return second if first is None else first if second is None else min(first, second)


@dataclass(frozen=True)
class UnattendedRun:
    """An agent runs unattended: it asks and schedules nothing, and its programs require a sandbox."""

    folders: tuple[str, ...] = ()
    """What it may read outside its working folder."""
    network: bool = False
    schedule: str = ""
    """The id of the schedule that started it, if one did."""


@dataclass(frozen=True)
class AgentFile:
    """An agent, as a Markdown file with frontmatter defines it."""

    name: str
    description: str = ""
    skills: tuple[str, ...] | None = None
    """The skills it may use: None if the file has no list, `()` for none."""
    model: str = ""
    tools: tuple[str, ...] | None = None
    """The tools it may call; None is all of them."""
    bounds: TurnBounds = field(default_factory=TurnBounds)
    instructions: str = ""
    path: str = ""
    faults: tuple[str, ...] = ()
    """What in the file has no effect, one sentence each."""

"""An agent as its file describes it: who it is, what it may use, and how far it may go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

N = TypeVar("N", int, float)

IMPROVER = "improver"
"""The agent that improves.  What goes wrong in its own runs is no skill's fault: improving never leads to improving."""


@dataclass(frozen=True)
class TurnBounds:
    """How far one turn may go; None is no bound."""

    turns: int | None = 50
    """Requests to the model."""
    tokens: int | None = None
    """Sent and received together."""
    seconds: float | None = None
    cost: float | None = None
    """US dollars, where the price is known."""

    def within(self, other: TurnBounds) -> TurnBounds:
        """The narrower of both, each for itself."""
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
    """The schedule that it works for, if it does for one."""


@dataclass(frozen=True)
class AgentFile:
    """What a Markdown file with frontmatter says of an agent."""

    name: str
    description: str = ""
    skills: tuple[str, ...] | None = None
    """None is no list, and `()` is none at all."""
    model: str = ""
    tools: tuple[str, ...] | None = None
    """The tools it may call; None is all of them."""
    bounds: TurnBounds = field(default_factory=TurnBounds)
    instructions: str = ""
    path: str = ""
    faults: tuple[str, ...] = ()
    """What in the file has no effect, one sentence each."""

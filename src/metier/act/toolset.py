"""A set of tools, and the one way to call them; policies wrap it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from ..host.stopping import until
from ..types.activation import Message, ToolCall
from ..types.errors import MetierError
from ..types.event import EXIT_CODES, Ended, Outcome, Steps
from ..types.tool import Answer, Tool
from ..types.usage import Usage

Calling: TypeAlias = Callable[[ToolCall], Steps[Answer]]


class Ending(Exception):
    """Something ends the turn: a budget, a stop, a refusal.  The loop turns it into its last event."""

    def __init__(self, outcome: Outcome, text: str = "", reason: str = "", hint: str = "", code: int = 0) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.text, self.reason, self.hint, self.code = text, reason or outcome, hint, code

    def event(self, usage: Usage, seconds: float, messages: tuple[Message, ...] = ()) -> Ended:
        code = self.code or EXIT_CODES[self.outcome]
        return Ended(self.outcome, self.text, self.reason, self.hint, usage, seconds, code, messages)


def failure(error: MetierError) -> Ending:
    """A failure as the ending that it is for a turn."""
    return Ending("failed", error.message, error.reason, error.hint, error.exit_code)


@dataclass(frozen=True)
class Toolset:
    tools: tuple[Tool, ...]
    """What the model is shown: the same bytes for the whole conversation."""
    call: Calling


def toolset(tools: Sequence[Tool], stopped: Callable[[], bool] = lambda: False) -> Toolset:
    """Tools by name, with nothing in between; what they run ends when it is not wanted any more."""
    table = {tool.name: tool for tool in tools}

    def call(wanted: ToolCall) -> Steps[Answer]:
        tool = table.get(wanted.name)
        if tool is None:
            near = get_close_matches(wanted.name, table, 1, 0.5)
            offer = f"Did you mean {near[0]}?" if near else "There are: " + ", ".join(table)
            return Answer(f"There is no tool called {wanted.name}. {offer}", error=True, reason="unknown-tool")
        if wanted.fault:
            told = f"The arguments of {wanted.name} can't be read: {wanted.fault}. Send one JSON object."
            return Answer(told, error=True, reason="bad-arguments")
        if tool.steps is not None:
            return (yield from tool.steps(wanted))
        with until(stopped):
            return tool.call(wanted.arguments)

    return Toolset(tuple(tools), call)

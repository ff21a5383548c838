"""A model that replays a script, for tests without a provider."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from ..agent.loop import TurnEnding
from ..types.activation import Message, ToolCall
from ..types.errors import MetierError, ModelError
from ..types.event import EventSteps, Usage, Wrote
from ..types.model import Reply, ReplyRequest, StopFlag
from ..types.text import estimate_tokens

ScriptLine: TypeAlias = (
    str | ToolCall | MetierError | Sequence["str | ToolCall"] | Callable[[ReplyRequest], "ScriptLine"]
)
"""A text, a call, several of both, an error to raise, or a function that returns one of these for the request."""


class ScriptedModel:
    """A model that replies with its lines one after the other, and records its requests.

    A function in place of the lines answers any number of requests, of which only the last is kept: all requests of a
    long conversation are the square of its length.

    >>> model = ScriptedModel(["Hello."])
    >>> endless = ScriptedModel(lambda request: "Hello.")
    """

    def __init__(
        self,
        lines: Iterable[ScriptLine] | Callable[[ReplyRequest], ScriptLine] = (),
        name: str = "script",
        window: int = 200_000,
    ) -> None:
        self.answer = lines if callable(lines) else None
        self.lines = [] if callable(lines) else list(lines)
        self.name, self.window = name, window
        self.requests: list[ReplyRequest] = []
        self._counted: tuple[int, Message | None, int] = (0, None, 0)

    def reply(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        # Recorded first, so that a test can look at the request that was one too many.
        self.requests = [request] if self.answer is not None else [*self.requests, request]
        if self.answer is None and not self.lines:
            raise ModelError("the script has no more lines", "add a line for each request")
        line = self.answer if self.answer is not None else self.lines.pop(0)
        while callable(line):
            line = line(request)
        if isinstance(line, MetierError):
            raise line
        parts = [line] if isinstance(line, str | ToolCall) else list(line)
        messages = []
        for part in parts:
            if isinstance(part, str):
                # In pieces, as a service streams: a stop between two of them interrupts the reply.
                for chunk in part.splitlines(keepends=True):
                    if stop.is_set():
                        raise TurnEnding("interrupted")
                    yield Wrote(chunk)
                messages.append(Message("assistant", part))
            else:
                messages.append(Message("assistant", call=part))
        sent = estimate_tokens(request.system) + self._count_tokens(request.messages)
        return Reply(tuple(messages), Usage(1, sent, sum(estimate_tokens(message.text) for message in messages)))

    def _count_tokens(self, messages: Sequence[Message]) -> int:
        """The tokens of all messages; where they only grew since the last request, the new ones are counted."""
        count, last, tokens = self._counted
        if not 0 < count <= len(messages) or messages[count - 1] is not last:
            count, tokens = 0, 0
        tokens += sum(estimate_tokens(message.text) for message in messages[count:])
        self._counted = (len(messages), messages[-1] if messages else None, tokens)
        return tokens

    def wire(self, request: ReplyRequest) -> str:
        from json import dumps

        return dumps({"system": request.system, "messages": [message.text for message in request.messages]})

"""A model that says what it is told to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from ..act.toolset import Ending
from ..types.activation import Message, ToolCall
from ..types.errors import MetierError, ModelError
from ..types.event import Steps, Wrote
from ..types.model import Reply, Request, Stop
from ..types.text import tokens_of
from ..types.usage import Usage

Line: TypeAlias = str | ToolCall | MetierError | Sequence["str | ToolCall"] | Callable[[Request], "Line"]
"""A text, a call, several of both, a failure, or whatever a function makes of the request."""


class Script:
    """A model that gives its lines one after the other, and keeps what it was asked.

    >>> model = Script(["Hello."])
    """

    def __init__(self, lines: Iterable[Line] = (), name: str = "script", window: int = 200_000) -> None:
        self.lines = list(lines)
        self.name, self.window = name, window
        self.requests: list[Request] = []

    def reply(self, request: Request, stop: Stop) -> Steps[Reply]:
        self.requests.append(request)
        if not self.lines:
            raise ModelError("the script has no more lines", "give it as many as it will be asked for")
        line = self.lines.pop(0)
        while callable(line):
            line = line(request)
        if isinstance(line, MetierError):
            raise line
        parts = [line] if isinstance(line, str | ToolCall) else list(line)
        messages = []
        for part in parts:
            if isinstance(part, str):
                for word in part.splitlines(keepends=True):
                    if stop.is_set():
                        raise Ending("interrupted")
                    yield Wrote(word)
                messages.append(Message("assistant", part))
            else:
                messages.append(Message("assistant", call=part))
        sent = tokens_of(request.system) + sum(tokens_of(one.text) for one in request.messages)
        return Reply(tuple(messages), Usage(1, sent, sum(tokens_of(one.text) for one in messages)))

    def wire(self, request: Request) -> str:
        from json import dumps

        return dumps({"system": request.system, "messages": [one.text for one in request.messages]})

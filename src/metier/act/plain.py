"""A model that is not there: it can show what it would be asked, and nothing more."""

from __future__ import annotations

from json import dumps

from ..types.activation import Message
from ..types.errors import NoModel
from ..types.event import Steps
from ..types.model import Reply, Request, Stop


class Unset:
    name, window = "none", 128_000

    def reply(self, request: Request, stop: Stop) -> Steps[Reply]:
        yield from ()
        raise NoModel("there is no model to ask", "name one with --model")

    def wire(self, request: Request) -> str:
        tools = [{"name": one.name, "description": one.description, "parameters": one.schema} for one in request.tools]
        told = {"system": request.system, "tools": tools, "messages": [_plain(one) for one in request.messages]}
        return dumps(told, ensure_ascii=False, indent=2)


def _plain(message: Message) -> dict[str, object]:
    plain: dict[str, object] = {"role": message.role, "text": message.text}
    if message.call is not None:
        plain |= {"calls": message.call.name, "arguments": dict(message.call.arguments), "id": message.call.id}
    return plain | ({"answers": message.answers} if message.answers else {})

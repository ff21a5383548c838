"""The tools in the forms that the SDKs of Anthropic and OpenAI take, and the answer to a call that comes back."""

from __future__ import annotations

from collections.abc import Mapping
from json import loads
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from ..types.errors import BadRequest
from ..types.tool import Answer, Tool
from .library import Library

Provider: TypeAlias = Literal["anthropic", "openai", "openai-responses"]


class Asked(NamedTuple):
    """A call as a provider sends it."""

    provider: Provider
    id: str
    name: str
    arguments: object
    """A mapping; or JSON text that should hold one."""


def tools_for(library: Library, provider: Provider) -> list[dict[str, Any]]:
    """What the parameter `tools` of a request takes."""
    if provider not in get_args(Provider):
        raise BadRequest(f"`{provider}` is not a provider", "one of: " + ", ".join(get_args(Provider)))
    return [_tool(tool, provider) for tool in library.tools()]


def _tool(tool: Tool, provider: Provider) -> dict[str, Any]:
    named: dict[str, Any] = {"name": tool.name, "description": tool.description}
    match provider:
        case "anthropic":
            return {**named, "input_schema": tool.schema}
        case "openai":
            return {"type": "function", "function": {**named, "parameters": tool.schema}}
        case "openai-responses":
            return {"type": "function", **named, "parameters": tool.schema, "strict": False}


def handle(library: Library, call: object) -> dict[str, Any] | None:
    """Do what a call asks, and give the answer in its provider's form; None for a tool that is not metier's.

    `call` is what the SDK gave: an object or a dictionary, of Anthropic's messages, OpenAI's chat or its responses.
    """
    asked = read_call(call)
    tool = next((one for one in library.tools() if one.name == asked.name), None)
    if tool is None:
        return None
    arguments = _arguments(asked.arguments)
    if arguments is None:
        return _reply(asked, Answer("The arguments must be a JSON object. Send them again.", error=True))
    return _reply(asked, tool.call(arguments))


def read_call(call: object) -> Asked:
    """A call of any of the three kinds."""
    kind = _of(call, "type")
    inner = _of(call, "function")
    if kind == "tool_use":
        return Asked("anthropic", str(_of(call, "id")), str(_of(call, "name")), _of(call, "input"))
    if kind == "function_call":
        return Asked("openai-responses", str(_of(call, "call_id")), str(_of(call, "name")), _of(call, "arguments"))
    if inner is not None:
        return Asked("openai", str(_of(call, "id")), str(_of(inner, "name")), _of(inner, "arguments"))
    raise BadRequest(
        f"a {type(call).__name__} is not a tool call",
        "pass one `tool_use` block, one entry of `message.tool_calls`, or one `function_call` item",
    )


def _of(thing: object, key: str) -> object:
    return thing.get(key) if isinstance(thing, Mapping) else getattr(thing, key, None)


def _arguments(given: object) -> Mapping[str, object] | None:
    if isinstance(given, str):
        try:
            given = loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            return None
    return given if isinstance(given, Mapping) else None


def texts_of(answer: Answer) -> list[str]:
    """An answer with the messages that follow it, for where nothing can follow a tool's answer."""
    return [answer.text, *(message.text for message in answer.messages)]


def _reply(asked: Asked, answer: Answer) -> dict[str, Any]:
    text = "\n\n".join(texts_of(answer))
    match asked.provider:
        case "anthropic":
            return {"type": "tool_result", "tool_use_id": asked.id, "content": text, "is_error": answer.error}
        case "openai":
            return {"role": "tool", "tool_call_id": asked.id, "content": text}
        case "openai-responses":
            return {"type": "function_call_output", "call_id": asked.id, "output": text}

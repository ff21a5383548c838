"""The tools in the formats of Anthropic's and OpenAI's SDKs, and the answers to their calls.

No SDK is imported: a call is read by its fields, so objects and plain dictionaries of any SDK version work.
"""

from __future__ import annotations

from collections.abc import Mapping
from json import loads
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from ..types.errors import BadRequest
from ..types.model import Answer, Tool

if TYPE_CHECKING:
    from .library import Library

Provider: TypeAlias = Literal["anthropic", "openai", "openai-responses"]


class ProviderCall(NamedTuple):
    """A call as a provider sends it."""

    provider: Provider
    id: str
    name: str
    arguments: object
    """A mapping, or JSON text of one."""


def tools_for(library: Library, provider: Provider) -> list[dict[str, Any]]:
    """The value for the parameter `tools` of a request."""
    if provider not in get_args(Provider):
        raise BadRequest(f"`{provider}` is not a provider", "one of: " + ", ".join(get_args(Provider)))
    return [_tool_schema(tool, provider) for tool in library.tools()]


def _tool_schema(tool: Tool, provider: Provider) -> dict[str, Any]:
    named: dict[str, Any] = {"name": tool.name, "description": tool.description}
    match provider:
        case "anthropic":
            return {**named, "input_schema": tool.schema}
        case "openai":
            return {"type": "function", "function": {**named, "parameters": tool.schema}}
        case "openai-responses":
            # Not strict: strict schemas allow no optional parameters.
            return {"type": "function", **named, "parameters": tool.schema, "strict": False}


def handle_call(library: Library, call: object) -> dict[str, Any] | None:
    """Run a tool call and answer in its provider's format; None for a tool that is not metier's.

    `call` is what the SDK returned: an object or a dictionary, of Anthropic's messages, OpenAI's chat or its responses.
    """
    request = read_call(call)
    tool = next((candidate for candidate in library.tools() if candidate.name == request.name), None)
    if tool is None:
        return None
    arguments = _parse_arguments(request.arguments)
    if arguments is None:
        return _render_answer(request, Answer("The arguments must be a JSON object. Send them again.", error=True))
    return _render_answer(request, tool.call(arguments))


def read_call(call: object) -> ProviderCall:
    """Read a call of any of the three providers."""
    kind = _read_field(call, "type")
    inner = _read_field(call, "function")
    if kind == "tool_use":
        return ProviderCall(
            "anthropic", str(_read_field(call, "id")), str(_read_field(call, "name")), _read_field(call, "input")
        )
    if kind == "function_call":
        return ProviderCall(
            "openai-responses",
            str(_read_field(call, "call_id")),
            str(_read_field(call, "name")),
            _read_field(call, "arguments"),
        )
    if inner is not None:
        return ProviderCall(
            "openai", str(_read_field(call, "id")), str(_read_field(inner, "name")), _read_field(inner, "arguments")
        )
    raise BadRequest(
        f"a {type(call).__name__} is not a tool call",
        "pass one `tool_use` block, one entry of `message.tool_calls`, or one `function_call` item",
    )


def _read_field(source: object, key: str) -> object:
    return source.get(key) if isinstance(source, Mapping) else getattr(source, key, None)


def _parse_arguments(raw: object) -> Mapping[str, object] | None:
    if isinstance(raw, str):
        try:
            # OpenAI sends an empty string for a call without arguments.
            raw = loads(raw) if raw.strip() else {}
        except (ValueError, RecursionError):
            return None
    return raw if isinstance(raw, Mapping) else None


def answer_texts(answer: Answer) -> list[str]:
    """An answer and the messages that follow it, for hosts where nothing can follow a tool's answer."""
    return [answer.text, *(message.text for message in answer.messages)]


def _render_answer(request: ProviderCall, answer: Answer) -> dict[str, Any]:
    text = "\n\n".join(answer_texts(answer))
    match request.provider:
        case "anthropic":
            return {"type": "tool_result", "tool_use_id": request.id, "content": text, "is_error": answer.error}
        case "openai":
            return {"role": "tool", "tool_call_id": request.id, "content": text}
        case "openai-responses":
            return {"type": "function_call_output", "call_id": request.id, "output": text}

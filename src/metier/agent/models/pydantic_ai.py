"""The door to pydantic-ai: it speaks to every service, and nothing of it is seen outside this file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from json import dumps, loads
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

from ...host.facts import monotonic, sleep
from ...types.activation import Message, ToolCall
from ...types.errors import MissingExtra, ModelError
from ...types.event import EventSteps, Retried, Usage, Wrote
from ...types.model import FinishReason, ModelAddress, Reply, ReplyRequest, StopFlag
from ..loop import TurnEnding

_POLL_SECONDS = 0.1
_LONGEST_WAIT = 60.0
_FINISH_REASONS: dict[str, FinishReason] = {"length": "length", "content_filter": "filter", "tool_call": "tools"}


class ProviderModel:
    """A model of some service.  Nothing is imported and nothing is opened before it is asked."""

    def __init__(self, address: ModelAddress) -> None:
        self.address = address
        self.name = address.name
        self.window = address.window or address.service.window
        self._model: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def reply(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        attempt = 1
        while True:
            try:
                return (yield from self._once(request, stop))
            except ModelError as error:
                wait = _retry_delay(error, attempt, self.address)
                if wait is None:
                    raise
                again = Retried(error.reason, wait, attempt)
            yield again
            _sleep_or_stop(wait, stop)
            attempt += 1

    def _once(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        """Ask once.  The service is listened to elsewhere, so that a stop is heard while it says nothing."""
        pieces: SimpleQueue[Any] = SimpleQueue()
        loop = self._running()
        model = self._opened()
        future = asyncio.run_coroutine_threadsafe(_stream_reply(model, request, self.address, pieces), loop)
        try:
            while True:
                if stop.is_set():
                    raise TurnEnding("interrupted")
                try:
                    piece = pieces.get(timeout=_POLL_SECONDS)
                except Empty:
                    continue
                if isinstance(piece, Wrote):
                    yield piece
                elif isinstance(piece, ModelError):
                    raise piece
                else:
                    return _read_reply(piece, self.address)
        finally:
            future.cancel()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            ready = Event()
            self._loop = asyncio.new_event_loop()
            Thread(target=_run_event_loop, args=(self._loop, ready), name=f"ask {self.name}", daemon=True).start()
            ready.wait()
        return self._loop

    def _opened(self) -> Any:
        if self._model is None:
            self._model = _open_model(self.address)
        return self._model

    def close(self) -> None:
        """Let go of the connection."""
        if self._loop is not None:
            loop, self._loop, self._model = self._loop, None, None
            loop.call_soon_threadsafe(loop.stop)

    def wire(self, request: ReplyRequest) -> str:
        """The body that would go out, caught before it does."""
        caught: list[bytes] = []
        model = _open_model(self.address, caught)
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(_stream_reply(model, request, self.address, SimpleQueue()))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
        if not caught:
            raise ModelError("there is no request to show", "send it", "bad-request")
        return dumps(loads(caught[0]), ensure_ascii=False, indent=2)


def _run_event_loop(loop: asyncio.AbstractEventLoop, ready: Event) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(ready.set)
    loop.run_forever()
    loop.run_until_complete(_cancel_tasks())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


async def _cancel_tasks() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _retry_delay(error: ModelError, attempt: int, address: ModelAddress) -> float | None:
    """How long to wait before asking again; None where that would not help."""
    if error.reason not in ("rate-limited", "overloaded", "provider-down", "connection", "bad-reply"):
        return None
    if attempt > address.retries:
        return None
    retry_after: float | None = getattr(error, "after", None)
    wait = address.patience * 2.0 ** (attempt - 1) if retry_after is None else retry_after
    return wait if wait <= _LONGEST_WAIT else None


def _sleep_or_stop(seconds: float, stop: StopFlag) -> None:
    until = monotonic() + seconds
    while (remaining := until - monotonic()) > 0:
        if stop.is_set():
            raise TurnEnding("interrupted")
        sleep(min(remaining, _POLL_SECONDS))


async def _stream_reply(model: Any, request: ReplyRequest, address: ModelAddress, pieces: SimpleQueue[Any]) -> None:
    """Put everything the service says into a queue; what goes wrong, too."""
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta, ThinkingPartDelta

    parameters, settings = _request_parameters(request), _model_settings(address, request)
    try:
        messages = list(_library_messages(request))
        async with model_request_stream(
            model, messages, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            async for event in stream:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart) and event.part.content:
                    pieces.put(Wrote(event.part.content))
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    pieces.put(Wrote(event.delta.content_delta))
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, ThinkingPartDelta):
                    pieces.put(Wrote(event.delta.content_delta or "", thinking=True))
            pieces.put(_require_finish(stream.response if hasattr(stream, "response") else stream.get(), address))
    except asyncio.CancelledError:
        raise
    except _library_errors() as error:
        pieces.put(_model_error(error, address))


def _require_finish(response: Any, address: ModelAddress) -> Any:
    """A reply that says how it ended; a stream that just stops is no reply."""
    if response.finish_reason is None:
        return ModelError(f"{address.name} broke off in the middle of a reply", "try again", "connection")
    return response


def _library_errors() -> tuple[type[BaseException], ...]:
    """What the services' own libraries raise."""
    from httpx2 import HTTPError, InvalidURL, StreamError
    from openai import OpenAIError
    from pydantic import ValidationError
    from pydantic_ai.exceptions import AgentRunError, UserError

    errors = [AgentRunError, UserError, HTTPError, InvalidURL, StreamError, OpenAIError, ValidationError]
    return (*errors, ValueError, KeyError, TypeError, AttributeError, OSError, AssertionError)


def _model_error(error: BaseException, address: ModelAddress) -> ModelError:
    """What went wrong, in words and as a reason."""
    from pydantic_ai import exceptions as theirs

    text = " ".join(_error_text(error).split())[:300] or type(error).__name__
    where = f"{address.name} at {address.url}" if address.url else address.name
    kinds: list[tuple[type[BaseException], str, str, str]] = [
        (theirs.ModelAuthenticationError, "bad-key", "does not take the key", _key_hint(address)),
        (theirs.ModelQuotaExceededError, "out-of-credit", "has no credit left", "top it up, or use another model"),
        (theirs.ModelRateLimitError, "rate-limited", "is asked too often", "wait a little, then try again"),
        (theirs.ModelOverloadedError, "overloaded", "has too much to do", "try again later"),
        (theirs.ModelContextWindowExceededError, "too-long", "can't take a conversation this long", "start another"),
        (theirs.ModelNotFoundError, "unknown-model", "has no such model", "check the model's name"),
        (theirs.ModelRequestRejectedError, "rejected", "does not take the request", "see what it says"),
        (theirs.ModelConnectionError, "connection", "can't be reached", "check the network and the address"),
        (theirs.ModelUnavailableError, "provider-down", "is down", "try again later"),
        (theirs.ModelServerError, "provider-down", "failed", "try again later"),
        (theirs.ContentFilterError, "content-filter", "would not answer", "say it in other words"),
        (theirs.UserError, "bad-request", "can't be asked that", "check the model's configuration"),
    ]
    for kind, reason, problem, hint in kinds:
        if isinstance(error, kind):
            return _build_error(f"{where} {problem}: {text}", hint, reason, error)
    if isinstance(error, OSError):
        return _build_error(
            f"{where} can't be reached: {text}", "check the network and the address", "connection", error
        )
    return _build_error(f"{where} sent something that can't be read: {text}", "try again", "bad-reply", error)


def _error_text(error: BaseException) -> str:
    """What the service itself said, where it said something."""
    body = getattr(error, "body", None)
    for _ in range(2):
        if isinstance(body, dict):
            body = body.get("error") or body.get("message")
    return body if isinstance(body, str) and body else str(getattr(error, "message", "") or error)


def _key_hint(address: ModelAddress) -> str:
    return f"check the key in {address.variable}" if address.variable else "check the key"


def _build_error(message: str, hint: str, reason: str, error: BaseException) -> ModelError:
    failure = ModelError(message, hint, reason)
    failure.after = getattr(error, "retry_after", None)
    failure.__cause__ = error
    return failure


def _request_parameters(request: ReplyRequest) -> Any:
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema, strict=False)
        for tool in request.tools
    ]
    parts = [InstructionPart(content=request.system)] if request.system else None
    return ModelRequestParameters(function_tools=tools, instruction_parts=parts)


def _model_settings(address: ModelAddress, request: ReplyRequest) -> Any:
    """No retries of the library's own: ours are seen."""
    settings: dict[str, Any] = {"max_retries": 0, "timeout": 600.0}
    if address.most:
        settings["max_tokens"] = address.most
    if address.service.wire == "anthropic":
        settings.setdefault("max_tokens", 16_000)
        settings |= {"anthropic_cache_instructions": True, "anthropic_cache_tool_definitions": True}
        settings["anthropic_cache"] = True
    return settings


def _library_messages(request: ReplyRequest) -> Iterator[Any]:
    """The conversation in the library's form: what one side says in a row is one message."""
    from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart

    names = {message.call.id: message.call.name for message in request.messages if message.call}
    for from_model, group in _group_by_role(request.messages):
        if from_model:
            yield _model_response(group)
            continue
        parts: list[Any] = []
        for message in group:
            if message.role == "tool":
                outcome: Any = "failed" if message.failed else "success"
                name = names.get(message.answers, "tool")
                parts.append(ToolReturnPart(name, message.text, tool_call_id=message.answers, outcome=outcome))
            else:
                parts.append(UserPromptPart(message.text))
        yield ModelRequest(parts=parts, instructions=request.system or None)


def _group_by_role(messages: Sequence[Message]) -> Iterator[tuple[bool, list[Message]]]:
    group: list[Message] = []
    for message in messages:
        if group and (group[0].role == "assistant") != (message.role == "assistant"):
            yield group[0].role == "assistant", group
            group = []
        group.append(message)
    if group:
        yield group[0].role == "assistant", group


def _model_response(group: Sequence[Message]) -> Any:
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart

    if group[0].raw:
        return ModelMessagesTypeAdapter.validate_json(group[0].raw)[0]
    parts: list[Any] = []
    for message in group:
        if message.text:
            parts.append(TextPart(message.text))
        if message.call is not None:
            parts.append(ToolCallPart(message.call.name, dict(message.call.arguments), tool_call_id=message.call.id))
    return ModelResponse(parts=parts)


def _read_reply(response: Any, address: ModelAddress) -> Reply:
    from pydantic_ai.messages import ModelMessagesTypeAdapter, TextPart, ToolCallPart

    messages: list[Message] = []
    plain = True
    for part in response.parts:
        if isinstance(part, TextPart):
            messages += [Message("assistant", part.content)] if part.content else []
        elif isinstance(part, ToolCallPart):
            messages.append(Message("assistant", call=_tool_call(part)))
        else:
            plain = False
    if not plain and messages:
        raw = ModelMessagesTypeAdapter.dump_json([response]).decode()
        first = messages[0]
        messages[0] = Message(first.role, first.text, first.call, raw=raw)
    return Reply(
        tuple(messages), _read_usage(response, address), _FINISH_REASONS.get(response.finish_reason or "", "stop")
    )


def _tool_call(part: Any) -> ToolCall:
    try:
        arguments = part.args_as_dict(raise_if_invalid=True)
    except (ValueError, TypeError, AssertionError) as error:
        return ToolCall(part.tool_call_id, part.tool_name, {}, " ".join(str(error).split())[:200] or "no JSON object")
    return ToolCall(part.tool_call_id, part.tool_name, arguments)


def _read_usage(response: Any, address: ModelAddress) -> Usage:
    used = response.usage
    cost: float | None = None
    if address.prices is not None:
        cost = (used.input_tokens * address.prices[0] + used.output_tokens * address.prices[1]) / 1e6
    else:
        try:
            cost = float(response.cost().total_price)
        except (LookupError, AssertionError, ValueError, AttributeError, TypeError):
            cost = None
    return Usage(1, used.input_tokens, used.output_tokens, used.cache_read_tokens, cost)


def _open_model(address: ModelAddress, caught: list[bytes] | None = None) -> Any:
    """The library's model for an address; with `caught`, what it would send goes there and nowhere else."""
    try:
        import httpx2

        client = _http_client(caught)
        match address.service.wire:
            case "anthropic":
                from pydantic_ai.models.anthropic import AnthropicModel
                from pydantic_ai.providers.anthropic import AnthropicProvider

                provider = AnthropicProvider(api_key=address.key, base_url=address.url or None, http_client=client)
                return AnthropicModel(address.model, provider=provider)
            case "google":
                from pydantic_ai.models.google import GoogleModel
                from pydantic_ai.providers.google import GoogleProvider

                options: Any = {"base_url": address.url} if address.url else {}
                return GoogleModel(
                    address.model, provider=GoogleProvider(api_key=address.key, http_client=client, **options)
                )
            case "openai" | "openai-responses":
                from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
                from pydantic_ai.providers.openai import OpenAIProvider

                model_class = OpenAIChatModel if address.service.wire == "openai" else OpenAIResponsesModel
                url, key = address.url or None, address.key or "none"
                profile: Any = {"openai_chat_streaming_requires_finish_reason": True}
                return model_class(
                    address.model, provider=OpenAIProvider(url, key, http_client=client), profile=profile
                )
    except ImportError as error:
        raise MissingExtra(f"the provider {address.service.name}", address.service.extra) from error
    raise AssertionError(httpx2)


def _http_client(caught: list[bytes] | None) -> Any:
    import httpx2

    if caught is None:
        return httpx2.AsyncClient(timeout=httpx2.Timeout(600.0, connect=10.0), follow_redirects=False)

    def catch(request: Any) -> Any:
        caught.append(request.content)
        raise httpx2.ConnectError("not sent")

    return httpx2.AsyncClient(transport=httpx2.MockTransport(catch))

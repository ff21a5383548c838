"""Hosted models through pydantic-ai; no other module imports it.

pydantic-ai is asynchronous, and a turn of metier is a plain generator that must notice a stop while the service is
silent.  So each model has an event loop in a daemon thread; the request runs there and puts what arrives into a queue,
which the generator polls.  Running the loop in the caller's thread was refused: a generator that is abandoned halfway
would leave it suspended inside a connection.

Errors cross from that thread as values (`_settle`): requests are built and replies are read on the caller's side, so
that a defect of ours stays an exception, and only what happens inside the libraries becomes a `ModelError`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import cached_property, lru_cache
from json import dumps, loads
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, NamedTuple

from ...host.facts import monotonic, sleep
from ...types.activation import Message, ToolCall
from ...types.errors import MissingExtra, ModelError
from ...types.event import EventSteps, Retried, Usage, Waited, Wrote
from ...types.model import FinishReason, ModelAddress, Reply, ReplyRequest, StopFlag
from ..loop import TurnEnding

_POLL_SECONDS = 0.1
"""How often a stop is looked for while the service is silent."""
_LONGEST_WAIT = 60.0
"""A service that asks for a longer pause than this is reported, not waited for."""
_WAIT_SECONDS = 5.0
"""How often a wait is told of."""
_ALIVE = object()
"""A sign of a reply that is no text, such as a part of a call."""
_CLOSE_TIMEOUT = 5.0
_FINISH_REASONS: dict[str, FinishReason] = {"length": "length", "content_filter": "filter", "tool_call": "tools"}


class ProviderModel:
    """A model of a hosted service.  Nothing is imported or opened before the first request."""

    def __init__(self, address: ModelAddress) -> None:
        self.address = address
        self.name = address.name
        self.window = address.window or address.service.window
        self._model: Any = None
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def reply(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        """Send a request, again where that may help, and yield the reply as it is written."""
        attempt = 1
        while True:
            try:
                return (yield from self._request_once(request, stop))
            except ModelError as error:
                wait = _retry_delay(error, attempt, self.address)
                if wait is None:
                    raise
                retried = Retried(error.reason, wait, attempt)
            yield retried
            _sleep_or_stop(wait, stop)
            attempt += 1

    def _request_once(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        pieces: SimpleQueue[Any] = SimpleQueue()
        model = self._opened()
        prepared, loop = _prepare_request(request, self.address), self._running()
        future = asyncio.run_coroutine_threadsafe(_fill_queue(model, prepared, pieces), loop)
        silence = _Silence(self.address)
        try:
            while True:
                if stop.is_set():
                    raise TurnEnding("interrupted")
                try:
                    piece = pieces.get(timeout=_POLL_SECONDS)
                except Empty:
                    if future.cancelled():  # `close` was called from another thread
                        raise TurnEnding("interrupted") from None
                    if (waited := silence.check()) is not None:
                        yield waited
                    continue
                silence.heard()
                if piece is _ALIVE:
                    continue
                if isinstance(piece, Wrote):
                    yield piece
                elif isinstance(piece, BaseException):
                    raise _model_error(piece, self.address) from piece
                else:
                    return _read_reply(piece, self.address)
        finally:
            future.cancel()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            ready = Event()
            self._loop = asyncio.new_event_loop()
            arguments = (self._loop, ready, self._client)
            self._thread = Thread(target=_run_event_loop, args=arguments, name=f"ask {self.name}", daemon=True)
            self._thread.start()
            ready.wait()
        return self._loop

    def _opened(self) -> Any:
        if self._model is None:
            self._model, self._client = _open_model(self.address, lambda: _http_client(self.address))
        return self._model

    def close(self) -> None:
        """Close the connections, and wait for the thread to end; a later request opens them again."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = self._model = self._client = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            # Waited for, or a caller that opens many would have many at once; a service that hangs delays nobody long.
            thread.join(_CLOSE_TIMEOUT)

    def wire(self, request: ReplyRequest) -> str:
        """The body of the request as it would be sent; a transport that keeps it takes the network's place."""
        bodies: list[bytes] = []
        model, client = _open_model(self.address, lambda: _recording_client(bodies))
        prepared = _prepare_request(request, self.address)
        loop = asyncio.new_event_loop()
        try:
            # The transport fails once it has the body, so an error is the expected outcome here.
            outcome = loop.run_until_complete(_settle(_stream_reply(model, prepared, SimpleQueue())))
        finally:
            _close_event_loop(loop, client)
        if not bodies:
            error = ModelError(f"{self.name} built no request", "check the model's configuration", "bad-request")
            raise error from outcome if isinstance(outcome, BaseException) else None
        return dumps(loads(bodies[0]), ensure_ascii=False, indent=2)


class _Silence:
    """How long a service has said nothing."""

    def __init__(self, address: ModelAddress) -> None:
        self.address, self.since, self.begun, self.told = address, monotonic(), False, 0

    def heard(self) -> None:
        self.since, self.begun, self.told = monotonic(), True, 0

    def check(self) -> Waited | None:
        """The wait to tell of, each time it is due; raises once the limit is reached."""
        seconds = monotonic() - self.since
        limit = self.address.between if self.begun else self.address.first
        if seconds >= limit:
            what = "stopped in the middle of a reply" if self.begun else "did not begin to reply"
            key = "between_seconds" if self.begun else "first_seconds"
            raise ModelError(
                f"{_where(self.address)} {what} for {limit:g} s",
                f"try again, or raise `{key}` under [models.NAME]",
                "timed-out",
            )
        if seconds < (self.told + 1) * _WAIT_SECONDS:
            return None
        self.told += 1
        return Waited(seconds, limit, self.begun)


# --- The event loop and its thread ---


def _run_event_loop(loop: asyncio.AbstractEventLoop, ready: Event, client: Any) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(ready.set)
    try:
        loop.run_forever()
    finally:
        _close_event_loop(loop, client)


def _close_event_loop(loop: asyncio.AbstractEventLoop, client: Any) -> None:
    """Close all that a loop had open: requests, connections, the threads that looked up names, and its own files."""
    try:
        loop.run_until_complete(_cancel_tasks())
        loop.run_until_complete(_settle(client.aclose()))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


async def _cancel_tasks() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _retry_delay(error: ModelError, attempt: int, address: ModelAddress) -> float | None:
    """Seconds to wait before the next attempt; None where another one would not help."""
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


class _PreparedRequest(NamedTuple):
    """A request in pydantic-ai's own types."""

    messages: list[Any]
    parameters: Any
    settings: Any


def _prepare_request(request: ReplyRequest, address: ModelAddress) -> _PreparedRequest:
    return _PreparedRequest(
        list(_library_messages(request)), _request_parameters(request), _model_settings(address, request)
    )


async def _fill_queue(model: Any, prepared: _PreparedRequest, pieces: SimpleQueue[Any]) -> None:
    """Put the text as it arrives into a queue, and last of all the response or the error that ended it."""
    pieces.put(await _settle(_stream_reply(model, prepared, pieces)))


async def _settle(request: Coroutine[Any, Any, Any]) -> Any:
    """The result of a request, or the exception that ended it, as a value.

    This is a bulkhead, on purpose without a list of exception types.  The SDKs below pydantic-ai do not validate
    streamed events, so a malformed one surfaces inside them as AttributeError, TypeError or AssertionError.  Only
    library code runs in here, and whatever it raises means the same to the caller: this reply can't be had.
    """
    outcomes = await asyncio.gather(request, return_exceptions=True)
    return outcomes[0]


async def _stream_reply(model: Any, prepared: _PreparedRequest, pieces: SimpleQueue[Any]) -> Any:
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta, ThinkingPartDelta

    async with model_request_stream(
        model,
        prepared.messages,
        model_settings=prepared.settings,
        model_request_parameters=prepared.parameters,
    ) as stream:
        async for event in stream:
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart) and event.part.content:
                pieces.put(Wrote(event.part.content))
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                pieces.put(Wrote(event.delta.content_delta))
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, ThinkingPartDelta):
                pieces.put(Wrote(event.delta.content_delta or "", thinking=True))
            else:
                pieces.put(_ALIVE)
        return stream.response if hasattr(stream, "response") else stream.get()


# --- Errors ---


def _model_error(error: BaseException, address: ModelAddress) -> ModelError:
    """What the libraries raised, as a sentence and a reason."""
    from pydantic_ai import exceptions as theirs

    text = " ".join(_error_text(error).split())[:300] or type(error).__name__
    where = _where(address)
    # The first match counts, so a subclass stands above its base.
    kinds: list[tuple[type[BaseException], str, str, str]] = [
        (theirs.ModelAuthenticationError, "bad-key", "rejected the API key", _key_hint(address)),
        (theirs.ModelQuotaExceededError, "out-of-credit", "has no credit left", "add credit, or use another model"),
        (theirs.ModelRateLimitError, "rate-limited", "is rate-limiting requests", "wait a moment, then try again"),
        (theirs.ModelOverloadedError, "overloaded", "is overloaded", "try again later"),
        (theirs.ModelContextWindowExceededError, "too-long", "can't take a conversation this long", "start a new one"),
        (theirs.ModelNotFoundError, "unknown-model", "has no such model", "check the model's name"),
        (theirs.ModelRequestRejectedError, "rejected", "rejected the request", "check the model's configuration"),
        (theirs.ModelConnectionError, "connection", "can't be reached", "check the network and the address"),
        (theirs.ModelUnavailableError, "provider-down", "is unavailable", "try again later"),
        (theirs.ModelServerError, "provider-down", "failed", "try again later"),
        (theirs.ContentFilterError, "content-filter", "refused to answer", "rephrase the request"),
        (theirs.UserError, "bad-request", "can't take this request", "check the model's configuration"),
        (OSError, "connection", "can't be reached", "check the network and the address"),
    ]
    if isinstance(error, theirs.ModelRequestRejectedError) and _is_overflow(text):
        return _build_error(
            f"{where} can't take a conversation this long: {text}", "start a new one", "too-long", error
        )
    for kind, reason, problem, hint in kinds:
        if isinstance(error, kind):
            return _build_error(f"{where} {problem}: {text}", hint, reason, error)
    return _build_error(f"{where} sent a malformed reply: {text}", "try again", "bad-reply", error)


def _where(address: ModelAddress) -> str:
    return f"{address.name} at {address.url}" if address.url else address.name


_is_overflow = re.compile(
    r"(?:maximum|exceeds?|exceeded|available|model'?s?)\W+(?:\w+\W+){0,4}context|context (?:length|window|size)"
    r"|prompt is too long|input is too long|too many (?:input )?tokens",
    re.IGNORECASE,
).search
"""Services answer a conversation that is too long with a plain rejection, each in words of its own."""


def _error_text(error: BaseException) -> str:
    """The service's own message where its answer holds one."""
    body = getattr(error, "body", None)
    for _ in range(2):  # {"error": {"message": …}}, {"error": …} and {"message": …} are all in use
        if isinstance(body, dict):
            body = body.get("error") or body.get("message")
    return body if isinstance(body, str) and body else str(getattr(error, "message", "") or error)


def _key_hint(address: ModelAddress) -> str:
    return f"check the key in {address.variable}" if address.variable else "check the key"


def _build_error(message: str, hint: str, reason: str, error: BaseException) -> ModelError:
    failure = ModelError(message, hint, reason)
    failure.after = getattr(error, "retry_after", None)
    return failure


# --- Requests in pydantic-ai's types ---


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
    # The library's own retries would be invisible: `ProviderModel.reply` retries and says so.
    settings: dict[str, Any] = {"max_retries": 0, "timeout": _http_timeout(address)}
    if address.most:
        settings["max_tokens"] = address.most
    if address.service.wire == "anthropic":
        settings.setdefault("max_tokens", 16_000)  # Anthropic's API requires a number
        settings |= {"anthropic_cache_instructions": True, "anthropic_cache_tool_definitions": True}
        settings["anthropic_cache"] = True
    return settings


def _library_messages(request: ReplyRequest) -> Iterator[Any]:
    """The conversation in the library's types: consecutive messages of one side become one message."""
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

    if group[0].raw:  # signed thinking must go back byte for byte, or the service rejects it
        try:
            return ModelMessagesTypeAdapter.validate_json(group[0].raw)[0]
        except ValueError:
            pass  # kept by another version of the library: the plain parts below say the same without the thinking
    parts: list[Any] = []
    for message in group:
        if message.text:
            parts.append(TextPart(message.text))
        if message.call is not None:
            parts.append(ToolCallPart(message.call.name, dict(message.call.arguments), tool_call_id=message.call.id))
    return ModelResponse(parts=parts)


# --- Replies from pydantic-ai's types ---


def _read_reply(response: Any, address: ModelAddress) -> Reply:
    from pydantic_ai.messages import ModelMessagesTypeAdapter, TextPart, ToolCallPart

    if response.finish_reason is None:  # a stream that just stops was cut, even where the text looks complete
        raise ModelError(f"{address.name} closed the connection in the middle of a reply", "try again", "connection")
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
    """A call; arguments that are no JSON object are a fault that the model is told about."""
    from pydantic_core import from_json

    arguments = part.args or {}
    try:
        parsed = from_json(arguments) if isinstance(arguments, str) else arguments
    except ValueError as error:
        return ToolCall(part.tool_call_id, part.tool_name, {}, " ".join(str(error).split())[:200])
    if not isinstance(parsed, dict):
        return ToolCall(part.tool_call_id, part.tool_name, {}, "not a JSON object")
    return ToolCall(part.tool_call_id, part.tool_name, parsed)


def _read_usage(response: Any, address: ModelAddress) -> Usage:
    used = response.usage
    cost: float | None = None
    if address.prices is not None:
        cost = (used.input_tokens * address.prices[0] + used.output_tokens * address.prices[1]) / 1e6
    elif isinstance(response.model_name, str) and response.model_name:  # as the service sent it: anything
        try:
            cost = float(response.cost().total_price)
        except (LookupError, ValueError):  # no known price, or a response without usage
            cost = None
    return Usage(1, used.input_tokens, used.output_tokens, used.cache_read_tokens, cost)


# --- Opening a model ---


def _open_model(address: ModelAddress, make_client: Callable[[], Any]) -> tuple[Any, Any]:
    """The library's model for an address, and the HTTP client it uses, which the caller closes."""
    try:
        client = make_client()
        match address.service.wire:
            case "anthropic":
                from pydantic_ai.models.anthropic import AnthropicModel
                from pydantic_ai.providers.anthropic import AnthropicProvider

                provider = AnthropicProvider(api_key=address.key, base_url=address.url or None, http_client=client)
                return AnthropicModel(address.model, provider=provider), client
            case "google":
                from pydantic_ai.models.google import GoogleModel
                from pydantic_ai.providers.google import GoogleProvider

                options: Any = {"base_url": address.url} if address.url else {}
                google = GoogleProvider(api_key=address.key, http_client=client, **options)
                return GoogleModel(address.model, provider=google), client
            case "openai" | "openai-responses":
                from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
                from pydantic_ai.providers.openai import OpenAIProvider

                model_class = OpenAIChatModel if address.service.wire == "openai" else OpenAIResponsesModel
                url, key = address.url or None, address.key or "none"
                profile: Any = {"openai_chat_streaming_requires_finish_reason": True}
                sdk = openai_client_class()(base_url=url, api_key=key, http_client=client)
                openai = OpenAIProvider(openai_client=sdk)
                return model_class(address.model, provider=openai, profile=profile), client
    except ImportError as error:
        raise MissingExtra(f"the model provider {address.service.name}", address.service.extra) from error
    raise AssertionError(address.service.wire)


def _http_timeout(address: ModelAddress) -> Any:
    """The transport's limits, a little above our own, which are told in words."""
    import httpx2

    return httpx2.Timeout(max(address.first, address.between) + 30, connect=address.connect)


def _http_client(address: ModelAddress) -> Any:
    import httpx2

    # No redirects: they would carry the key to another host.
    return httpx2.AsyncClient(timeout=_http_timeout(address), follow_redirects=False, verify=_tls_context())


@lru_cache(1)
def _tls_context() -> Any:
    """The certificates to trust.  Reading them is most of what opening a model costs, so it is done once."""
    import httpx2

    return httpx2.create_ssl_context()


def _recording_client(bodies: list[bytes]) -> Any:
    """A client that puts the bodies of requests into a list and sends nothing."""
    import httpx2

    def keep_body(request: Any) -> Any:
        bodies.append(request.content)
        raise httpx2.ConnectError("not sent")

    return httpx2.AsyncClient(transport=httpx2.MockTransport(keep_body))


@lru_cache(1)
def openai_client_class() -> Any:
    """OpenAI's client, changed so that it sends messages as they are.

    The SDK rewrites every message against its type declarations, although those of pydantic-ai need no rewriting.  That
    took 170 µs for each message of the conversation in every request: a quarter of a second at 1,400 messages.  What is
    passed as `extra_body` is sent as it is, and replaces the field of the same name.
    """
    from openai import AsyncOpenAI
    from openai.resources.chat import AsyncChat, AsyncCompletions
    from openai.resources.responses import AsyncResponses

    class PlainCompletions(AsyncCompletions):
        async def create(self, *, messages: Any, extra_body: Any = None, **options: Any) -> Any:
            return await super().create(messages=[], extra_body={**(extra_body or {}), "messages": messages}, **options)

    class PlainChat(AsyncChat):
        @cached_property
        def completions(self) -> AsyncCompletions:
            return PlainCompletions(self._client)

    class PlainResponses(AsyncResponses):
        async def create(self, *, input: Any, extra_body: Any = None, **options: Any) -> Any:  # type: ignore[override]
            return await super().create(input=[], extra_body={**(extra_body or {}), "input": input}, **options)

    class PlainOpenAI(AsyncOpenAI):  # copies, which the SDK makes for single requests, are of the same class
        @cached_property
        def chat(self) -> AsyncChat:
            return PlainChat(self)

        @cached_property
        def responses(self) -> AsyncResponses:
            return PlainResponses(self)

    return PlainOpenAI

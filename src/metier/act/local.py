"""The door to xllamacpp: a model that runs here, in this process, with no key and no network."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue
from threading import Thread
from typing import Any

from ..host.clock import random_word
from ..host.place import cores
from ..types.activation import Message
from ..types.errors import MissingExtra, ModelError
from ..types.event import Steps, Wrote
from ..types.model import Reply, Request, Stop
from ..types.usage import NOTHING_USED, Usage
from .guide import Question, View, call_for, question, repeats, script_said, told
from .toolset import Ending

WINDOW = 8_192
_LONGEST = 220
"""Tokens of an answer: a model this small has said all it can by then."""


class LocalModel:
    """A GGUF file.  It is loaded when it is first asked."""

    def __init__(self, name: str, path: str, view: View) -> None:
        self.name, self.window = f"local:{name}", WINDOW
        self.path, self.view = path, view
        self._server: Any = None

    def reply(self, request: Request, stop: Stop) -> Steps[Reply]:
        """One step of a guided turn: a choice, which becomes a call, or the answer."""
        used = NOTHING_USED
        asked = question(request, self.view)
        while asked.choices:
            said, cost = yield from self._ask(request, asked, stop)
            used += cost
            call = call_for(asked, said, request, self.view)
            if call is not None:
                return Reply((Message("assistant", call=call),), used, "tools")
            if asked.kind == "script":
                asked = Question("answer", "Answer the task in a few sentences.", {})
            else:
                asked = question(request, self.view, chosen=True)
        text, cost = yield from self._ask(request, asked, stop)
        if said := script_said(request):
            yield Wrote(said)
        return Reply((Message("assistant", (text.strip() or "[nothing]") + said),), used + cost)

    def _ask(self, request: Request, asked: Question, stop: Stop) -> Steps[tuple[str, Usage]]:
        """Ask the model one thing.  Pieces of an answer are shown; choices are not."""
        server = self._opened()
        body = self.body(request, asked)
        text, used = "", NOTHING_USED
        for piece in _pieces(server, body, stop):
            if isinstance(piece, Exception):
                raise ModelError(f"{self.name} failed: {piece}", "start again, or use another model", "provider-down")
            if isinstance(piece, Usage):
                used = piece
                continue
            text += piece
            if not asked.choices:
                yield Wrote(piece)
        return text, used if used.requests else Usage(1)

    def body(self, request: Request, asked: Question) -> dict[str, object]:
        """What the server is sent: the conversation, the same from request to request, and then the question."""
        messages = told(request, self.view)
        if len(messages) > 2 or asked.choices:
            messages.append({"role": "user", "content": asked.text})
        body: dict[str, object] = {
            "messages": messages, "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.0,
            "max_tokens": 120 if asked.choices else _LONGEST, "cache_prompt": True, "repeat_penalty": 1.15,
        }  # fmt: skip
        if asked.schema is not None:
            body["repeat_penalty"] = 1.0
            body["response_format"] = {"type": "json_schema", "json_schema": {"schema": asked.schema}}
        return body

    def wire(self, request: Request) -> str:
        from json import dumps

        return dumps(self.body(request, question(request, self.view)), ensure_ascii=False, indent=2)

    def _opened(self) -> Any:
        if self._server is None:
            self._server = _open(self.path)
        return self._server

    def close(self) -> None:
        self._server = None


def _open(path: str) -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise MissingExtra("a model that runs here", "local") from error
    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.n_ctx, parameters.n_parallel = WINDOW, 1
    # On few cores, threads that wait for each other cost more than they bring.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = max(1, min(4, cores() // 2))
    parameters.warmup, parameters.verbosity = False, -1
    parameters.api_keys = [random_word(16)]  # nobody else on this machine is meant to use its port
    try:
        return xllamacpp.Server(parameters)
    except (RuntimeError, ValueError, OSError) as error:
        raise ModelError(f"{path} can't be loaded: {error}", "is it a GGUF file?", "bad-model") from error


def _pieces(server: Any, body: dict[str, object], stop: Stop) -> Iterator[str | Usage | Exception]:
    """What the server says, as it says it; a stop, and going round in circles, ends it."""
    heard: SimpleQueue[str | Usage | Exception | None] = SimpleQueue()
    said: list[str] = []

    def listen(chunk: dict[str, Any]) -> bool:
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            heard.put(Usage(1, usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0), cached))
        for choice in chunk.get("choices") or ():
            text = (choice.get("delta") or {}).get("content")
            if text:
                said.append(text)
                heard.put(text)
        return stop.is_set() or repeats("".join(said))

    def ask() -> None:
        try:
            server.handle_chat_completions(body, listen)
        except (RuntimeError, ValueError, TypeError, OSError) as error:
            heard.put(error)
        heard.put(None)

    asking = Thread(target=ask, name="ask the local model", daemon=True)
    asking.start()
    while (piece := heard.get()) is not None:
        yield piece
    asking.join()
    if stop.is_set():
        raise Ending("interrupted")

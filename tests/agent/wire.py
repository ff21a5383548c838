"""A server that speaks as OpenAI's and Anthropic's do: it checks what it is asked and replays what it is told to say."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Spoken = Literal["openai", "anthropic"]


@dataclass(frozen=True)
class Says:
    """A reply: text, then calls of tools; the text comes in pieces."""

    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any]]] = ()
    cached: int = 0
    finish: str = ""
    """Why it ends, in the words of the service."""


@dataclass(frozen=True)
class Fails:
    """Something goes wrong instead: a status, a stream that breaks off, one that makes no sense."""

    how: Literal["status", "drop", "malformed", "wrong-shape", "silence"] = "status"
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Wire:
    """What is left to say, and what was asked."""

    lines: list[Says | Fails | Callable[[], Says]]
    """A function is called when its turn comes, and has seen what was asked."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """What was wrong with what it was asked."""
    calls: int = 0
    url: str = ""
    hold: threading.Event = field(default_factory=threading.Event)
    answer: Callable[[dict[str, Any]], Says | Fails] | None = None
    """Answers any number of requests in place of the lines; what was asked is then not kept."""


@contextlib.contextmanager
def speaking(lines: Sequence[Says | Fails] | Callable[[dict[str, Any]], Says | Fails]) -> Iterator[Wire]:
    wire = Wire([], answer=lines) if callable(lines) else Wire(list(lines))

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            spoken: Spoken = "anthropic" if self.path.endswith("/messages") else "openai"
            asked = json.loads(body)
            wire.faults += list(CHECKS[spoken](asked))
            if wire.answer is not None:
                line: Says | Fails | Callable[[], Says] = wire.answer(asked)
            else:
                wire.bodies.append(body)
                wire.requests.append(asked)
                wire.keys.append(self.headers.get("x-api-key") or self.headers.get("authorization") or "")
                line = wire.lines.pop(0) if wire.lines else Fails(status=418)
            if callable(line):
                line = line()
            if isinstance(line, Fails) and line.how == "status":
                self._whole(line)
            else:
                self._stream(line, spoken)

        def _whole(self, line: Fails) -> None:
            text = json.dumps({"error": {"message": "made to fail", "type": "made"}}).encode()
            self.send_response(line.status)
            for name, value in {**line.headers, "content-type": "application/json"}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _stream(self, line: Says | Fails, spoken: Spoken) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            says = line if isinstance(line, Says) else Says("Well, let me")
            pieces = list(STREAMS[spoken](says, wire))
            if isinstance(line, Fails):
                pieces = pieces[: len(pieces) // 2]
                if line.how == "malformed":
                    pieces.append("data: {this is no JSON\n\n")
                if line.how == "wrong-shape":
                    pieces = [WRONG_SHAPES[spoken]]
            for piece in pieces:
                self.wfile.write(piece.encode())
                self.wfile.flush()
            if isinstance(line, Fails) and line.how == "silence":
                wire.hold.wait(30)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    wire.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield wire
    finally:
        wire.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()


WRONG_SHAPES: dict[Spoken, str] = {
    "openai": 'data: {"id": "c", "model": [], "choices": 3}\n\n',
    "anthropic": 'event: ping\ndata: {"type": "ping"}\n\n',
}
"""JSON that the services' own SDKs take for an event, and then stumble over."""


def _pieces(text: str) -> list[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def _openai(says: Says, wire: Wire) -> Iterator[str]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        made = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        return f"data: {json.dumps(made)}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(says.text):
        yield chunk({"content": piece})
    for number, (name, arguments) in enumerate(says.calls):
        wire.calls += 1
        call = {"index": number, "id": f"call_{wire.calls}", "type": "function"}
        yield chunk({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})
        for piece in _pieces(json.dumps(arguments)):
            yield chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    yield chunk({}, says.finish or ("tool_calls" if says.calls else "stop"))
    used = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    used |= {"prompt_tokens_details": {"cached_tokens": says.cached}}  # type: ignore[dict-item]
    last = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": used}
    yield f"data: {json.dumps(last)}\n\n"
    yield "data: [DONE]\n\n"


def _anthropic(says: Says, wire: Wire) -> Iterator[str]:
    def event(kind: str, **more: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"

    used = {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": says.cached}
    start: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    yield event("message_start", message={**start, "stop_sequence": None, "usage": used})
    number = 0
    if says.text:
        yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for piece in _pieces(says.text):
            yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        yield event("content_block_stop", index=0)
        number = 1
    for name, arguments in says.calls:
        wire.calls += 1
        block = {"type": "tool_use", "id": f"toolu_{wire.calls}", "name": name, "input": {}}
        yield event("content_block_start", index=number, content_block=block)
        for piece in _pieces(json.dumps(arguments)):
            yield event("content_block_delta", index=number, delta={"type": "input_json_delta", "partial_json": piece})
        yield event("content_block_stop", index=number)
        number += 1
    reason = says.finish or ("tool_use" if says.calls else "end_turn")
    yield event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 10})
    yield event("message_stop")


def _check_openai(asked: dict[str, Any]) -> Iterator[str]:
    messages = asked["messages"]
    if [one["role"] for one in messages].count("system") != 1 or messages[0]["role"] != "system":
        yield "the system prompt is not first, or not alone"
    names = [one["function"]["name"] for one in asked.get("tools", [])]
    if len(set(names)) != len(names):
        yield "two tools have one name"
    open_calls: list[str] = []
    for one in messages:
        if one["role"] == "tool":
            if one["tool_call_id"] not in open_calls:
                yield f"an answer without its call: {one['tool_call_id']}"
            else:
                open_calls.remove(one["tool_call_id"])
        elif open_calls:
            yield f"calls without their answers: {open_calls}"
            open_calls = []
        open_calls += [call["id"] for call in one.get("tool_calls") or []]
        for call in one.get("tool_calls") or []:
            json.loads(call["function"]["arguments"])
    if open_calls:
        yield f"calls without their answers: {open_calls}"


def _check_anthropic(asked: dict[str, Any]) -> Iterator[str]:
    messages = asked["messages"]
    if messages[0]["role"] != "user":
        yield "the user is not first"
    if "system" not in asked:
        yield "there is no system prompt"
    open_calls: set[str] = set()
    for one in messages:
        content = one["content"] if isinstance(one["content"], list) else [{"type": "text", "text": one["content"]}]
        answers = {block["tool_use_id"] for block in content if block["type"] == "tool_result"}
        if answers != open_calls:
            yield f"calls {open_calls} are answered by {answers}"
        if any(block["type"] == "text" and not block["text"].strip() for block in content):
            yield "an empty text"
        open_calls = {block["id"] for block in content if block["type"] == "tool_use"}


CHECKS = {"openai": _check_openai, "anthropic": _check_anthropic}
STREAMS = {"openai": _openai, "anthropic": _anthropic}

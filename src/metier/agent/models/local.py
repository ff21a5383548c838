"""Guiding a small model: it is asked one narrow question at a time, and can only answer with what there is.

A model of some hundred million parameters can't be trusted with a list of tools.  The ranker finds the few skills
that fit; the model chooses among them, then a script, then its arguments, each from a list; then it writes the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from json import loads
from queue import SimpleQueue
from threading import Thread
from typing import Any, Literal

from ...host.facts import random_hex, usable_cores
from ...types.activation import Message, ToolCall
from ...types.errors import MissingExtra, ModelError
from ...types.event import NOTHING_USED, EventSteps, Usage, Wrote
from ...types.model import Reply, ReplyRequest, StopFlag
from ...types.text import shorten_text
from ..loop import TurnEnding

NONE = "none"
_MOST_SKILLS = 3
_MOST_WORDS = 8
_MOST_SHOWN = 2_000
"""Characters of one message that a small model is shown."""
_words = re.compile(r"\"([^\"]+)\"|'([^']+)'|`([^`]+)`|(\S+)")


@dataclass(frozen=True)
class GuideView:
    """What a guide must know of the skills."""

    fitting: Callable[[str], Sequence[tuple[str, str]]]
    """The skills that fit a task best: name and description, the best first."""
    scripts: Callable[[str], Sequence[str]]
    location: Callable[[str], str]
    files: Callable[[str], str]
    """The absolute path of a word that names a file here; empty otherwise."""


@dataclass(frozen=True)
class GuideQuestion:
    """What a small model is asked next."""

    kind: Literal["skill", "script", "answer"]
    text: str
    choices: Mapping[str, tuple[str, ...]]
    """What each part of the answer may be."""
    skill: str = ""

    @property
    def schema(self) -> dict[str, object] | None:
        if not self.choices:
            return None
        return {
            "type": "object",
            "properties": {name: {"enum": list(values)} for name, values in self.choices.items()},
            "required": list(self.choices),
            "additionalProperties": False,
        }


def next_question(request: ReplyRequest, view: GuideView, chosen: bool = False) -> GuideQuestion:
    """The next question of a turn; `chosen` when the one about skills was answered with none."""
    turn = this_turn(request.messages)
    called = [message.call.name for message in turn if message.call]
    tools = {tool.name for tool in request.tools}
    skill = next((message.skill for message in reversed(turn) if message.skill), "")
    task = task_of(turn)
    if not skill and not chosen and not called and tools & {"skill_use", "run_skill", "read"}:
        fitting = list(view.fitting(task))[:_MOST_SKILLS]
        if fitting:
            listed = "\n".join(f"- {name}: {shorten_text(description, 200)}" for name, description in fitting)
            names = (*(name for name, _ in fitting), NONE)
            return GuideQuestion(
                "skill",
                f"Which skill fits the task best?\n{listed}\n- {NONE}: no skill fits\nTask: {task}",
                {"skill": names},
            )
    if skill and "skill_run_script" in tools and "skill_run_script" not in called:
        scripts = tuple(view.scripts(skill))
        if scripts:
            text = f"Task: {task}\nWhich script of the skill does it, and with which arguments?"
            return GuideQuestion(
                "script", text, {"script": (*scripts, NONE), "arguments": arguments_for(task, view)}, skill
            )
    return GuideQuestion("answer", f"Say in two sentences what came of this task: {task}", {})


def this_turn(messages: Sequence[Message]) -> list[Message]:
    """What was said and done since the user last spoke."""
    start = 0
    for at, message in enumerate(messages):
        before = messages[at - 1] if at else None
        if (
            message.role == "user"
            and not message.tag
            and (not message.skill or before is None or before.role == "assistant")
        ):
            start = at
    return list(messages[start:])


def task_of(turn: Sequence[Message]) -> str:
    return shorten_text(" ".join(turn[0].text.split()), 600) if turn else ""


def arguments_for(task: str, view: GuideView) -> tuple[str, ...]:
    """What a script may be given: files that the task names, what it quotes, its numbers; or nothing."""
    arguments: list[str] = []
    files = False
    for quoted in _words.finditer(task):
        word = next(part for part in quoted.groups() if part is not None).strip(".,;:!?()")
        path = view.files(word)
        if path:
            files = True
            arguments.append(path)
        elif quoted[4] is None or any(character.isdigit() for character in word):
            arguments.append(word)
    plain = [_quote_word(word) for word in dict.fromkeys(arguments)][:_MOST_WORDS]
    every = " ".join(plain)
    nothing = () if files else ("",)
    return tuple(dict.fromkeys((*([every] if len(plain) > 1 else []), *plain, *nothing)))


def _quote_word(word: str) -> str:
    from shlex import quote

    return quote(word)


def call_for(question: GuideQuestion, answer: str, request: ReplyRequest, view: GuideView) -> ToolCall | None:
    """The call that an answer comes to; None where it comes to none."""
    try:
        chosen = loads(answer)
    except ValueError:
        return None
    tools = {tool.name for tool in request.tools}
    if question.kind == "skill":
        name = chosen.get("skill", NONE) if isinstance(chosen, dict) else NONE
        if name == NONE or name not in question.choices["skill"]:
            return None
        return activation_call(name, tools, view, task_of(this_turn(request.messages)))
    if (
        question.kind == "script"
        and isinstance(chosen, dict)
        and chosen.get("script") in question.choices["script"][:-1]
    ):
        arguments = {
            "skill_name": question.skill,
            "script_name": chosen["script"],
            "script_args": chosen.get("arguments", ""),
        }
        return ToolCall("local-script", "skill_run_script", arguments)
    return None


def activation_call(name: str, tools: set[str], view: GuideView, task: str) -> ToolCall:
    """The call that loads a skill, by the tool that there is for it."""
    if "skill_use" in tools:
        return ToolCall("local-skill", "skill_use", {"skill_name": name, "arguments": task})
    if "run_skill" in tools:
        return ToolCall("local-skill", "run_skill", {"skill": name})
    return ToolCall("local-skill", "read", {"path": view.location(name)})


SYSTEM_PROMPT = (
    "You are a small model that helps with one task at a time. Answer in a few plain sentences, only with what is said"
    " here. Do not invent anything."
)


def chat_messages(request: ReplyRequest, view: GuideView) -> list[dict[str, str]]:
    """The conversation for a model that knows no tools: short, in plain words, and only growing at its end.

    What a skill with scripts says is for whoever chooses among them: here a list does that.
    """
    chat = [{"role": "system", "content": SYSTEM_PROMPT}]
    called = {message.call.id: message.call.name for message in request.messages if message.call}
    for message in request.messages:
        text = shorten_text(message.text, _MOST_SHOWN)
        if message.skill and view.scripts(message.skill):
            text = f"[The skill {message.skill} is active.]"
        if message.call is not None or (message.answers and called.get(message.answers) == "skill_use"):
            continue  # what it sees, it imitates
        if message.role == "tool":
            chat.append({"role": "user", "content": text if message.skill else f"This came out of it:\n{text}"})
        else:
            chat.append({"role": message.role, "content": text})
    return chat


def script_output(request: ReplyRequest) -> str:
    """What a script of this turn wrote, word for word: a small model is not to be trusted with figures."""
    turn = this_turn(request.messages)
    scripts = {
        message.call.id: str(message.call.arguments.get("script_name", ""))
        for message in turn
        if message.call and message.call.name == "skill_run_script"
    }
    for message in reversed(turn):
        if message.role == "tool" and message.answers in scripts:
            return f"\n\nWhat {scripts[message.answers]} said, word for word:\n\n{shorten_text(message.text, 4_000)}"
    return ""


def is_repeating(text: str) -> bool:
    """Whether a text has begun to go round in circles: three like lines, or three like ends."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) >= 3 and lines[-1] == lines[-2] == lines[-3]:
        return True
    return any(len(text) >= 3 * size and text.endswith(text[-size:] * 3) for size in range(8, 121))


WINDOW = 8_192
_MOST_TOKENS = 220
"""Tokens of an answer: a model this small has said all it can by then."""


class LocalModel:
    """A GGUF file.  It is loaded when it is first asked."""

    def __init__(self, name: str, path: str, view: GuideView) -> None:
        self.name, self.window = f"local:{name}", WINDOW
        self.path, self.view = path, view
        self._server: Any = None

    def reply(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        """One step of a guided turn: a choice, which becomes a call, or the answer."""
        used = NOTHING_USED
        question = next_question(request, self.view)
        while question.choices:
            answer, cost = yield from self._ask(request, question, stop)
            used += cost
            call = call_for(question, answer, request, self.view)
            if call is not None:
                return Reply((Message("assistant", call=call),), used, "tools")
            if question.kind == "script":
                question = GuideQuestion("answer", "Answer the task in a few sentences.", {})
            else:
                question = next_question(request, self.view, chosen=True)
        text, cost = yield from self._ask(request, question, stop)
        if script_text := script_output(request):
            yield Wrote(script_text)
        return Reply((Message("assistant", (text.strip() or "[nothing]") + script_text),), used + cost)

    def _ask(self, request: ReplyRequest, question: GuideQuestion, stop: StopFlag) -> EventSteps[tuple[str, Usage]]:
        """Ask the model one thing.  Pieces of an answer are shown; choices are not."""
        server = self._opened()
        body = self.body(request, question)
        text, used = "", NOTHING_USED
        for piece in _stream_pieces(server, body, stop):
            if isinstance(piece, Exception):
                raise ModelError(f"{self.name} failed: {piece}", "start again, or use another model", "provider-down")
            if isinstance(piece, Usage):
                used = piece
                continue
            text += piece
            if not question.choices:
                yield Wrote(piece)
        return text, used if used.requests else Usage(1)

    def body(self, request: ReplyRequest, question: GuideQuestion) -> dict[str, object]:
        """What the server is sent: the conversation, the same from request to request, and then the question."""
        messages = chat_messages(request, self.view)
        if len(messages) > 2 or question.choices:
            messages.append({"role": "user", "content": question.text})
        body: dict[str, object] = {
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0.0,
            "max_tokens": 120 if question.choices else _MOST_TOKENS,
            "cache_prompt": True,
            "repeat_penalty": 1.15,
        }
        if question.schema is not None:
            body["repeat_penalty"] = 1.0
            body["response_format"] = {"type": "json_schema", "json_schema": {"schema": question.schema}}
        return body

    def wire(self, request: ReplyRequest) -> str:
        from json import dumps

        return dumps(self.body(request, next_question(request, self.view)), ensure_ascii=False, indent=2)

    def _opened(self) -> Any:
        if self._server is None:
            self._server = _open_server(self.path)
        return self._server

    def close(self) -> None:
        self._server = None


def _open_server(path: str) -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise MissingExtra("a local model", "local") from error
    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.n_ctx, parameters.n_parallel = WINDOW, 1
    # On few cores, threads that wait for each other cost more than they bring.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = max(1, min(4, usable_cores() // 2))
    parameters.warmup, parameters.verbosity = False, -1
    parameters.api_keys = [random_hex(16)]  # nobody else on this machine is meant to use its port
    try:
        return xllamacpp.Server(parameters)
    except (RuntimeError, ValueError, OSError) as error:
        raise ModelError(f"{path} can't be loaded: {error}", "is it a GGUF file?", "bad-model") from error


def _stream_pieces(server: Any, body: dict[str, object], stop: StopFlag) -> Iterator[str | Usage | Exception]:
    """What the server says, as it says it; a stop, and going round in circles, ends it."""
    heard: SimpleQueue[str | Usage | Exception | None] = SimpleQueue()
    texts: list[str] = []

    def listen(chunk: dict[str, Any]) -> bool:
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            heard.put(Usage(1, usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0), cached))
        for choice in chunk.get("choices") or ():
            text = (choice.get("delta") or {}).get("content")
            if text:
                texts.append(text)
                heard.put(text)
        return stop.is_set() or is_repeating("".join(texts))

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
        raise TurnEnding("interrupted")

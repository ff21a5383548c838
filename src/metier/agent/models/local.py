"""Small local models, guided: one narrow question at a time, answered from a list.

A model of some hundred million parameters can't handle a list of tools.  So the search finds the few skills that
match; the model picks one, then a script, then its arguments, each through a JSON schema that allows only what exists;
then it writes the answer.  What a script printed is appended verbatim, because such a model garbles figures.
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

# --- The questions of a guided turn ---

NONE = "none"
_MOST_SKILLS = 3
_MOST_WORDS = 8
_MOST_SHOWN = 2_000
"""Characters of one message that a small model is shown."""
_words = re.compile(r"\"([^\"]+)\"|'([^']+)'|`([^`]+)`|(\S+)")


@dataclass(frozen=True)
class GuideView:
    """What the guide needs to know about the skills."""

    fitting: Callable[[str], Sequence[tuple[str, str]]]
    """The skills that match a task best: name and description, the best first."""
    scripts: Callable[[str], Sequence[str]]
    location: Callable[[str], str]
    files: Callable[[str], str]
    """The absolute path of a word that names a file of the project; empty otherwise."""


@dataclass(frozen=True)
class GuideQuestion:
    """A question for a small model."""

    kind: Literal["skill", "script", "answer"]
    text: str
    choices: Mapping[str, tuple[str, ...]]
    """The allowed values of each part of the answer."""
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
    """The next question of a turn; `chosen` where the model already said that no skill matches."""
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
    """The messages since the user's last one."""
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
    """The arguments to choose from: files that the task names, quoted text, numbers, or none."""
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
    """The tool call for an answer; None where it selects nothing."""
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
    """The call that loads a skill, by the tool that this dialect has for it."""
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
    """The conversation for a model without tools: short, plain, and growing only at its end, for the prompt cache.

    The instructions of a skill with scripts are left out: the guide's lists take their place.
    """
    chat = [{"role": "system", "content": SYSTEM_PROMPT}]
    called = {message.call.id: message.call.name for message in request.messages if message.call}
    for message in request.messages:
        text = shorten_text(message.text, _MOST_SHOWN)
        if message.skill and view.scripts(message.skill):
            text = f"[The skill {message.skill} is active.]"
        if message.call is not None or (message.answers and called.get(message.answers) == "skill_use"):
            continue  # it would imitate the syntax of a call in its answer
        if message.role == "tool":
            chat.append({"role": "user", "content": text if message.skill else f"This came out of it:\n{text}"})
        else:
            chat.append({"role": message.role, "content": text})
    return chat


def script_output(request: ReplyRequest) -> str:
    """The output of this turn's script, verbatim."""
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
    """Whether a text has begun to repeat itself: three equal lines, or three equal endings."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) >= 3 and lines[-1] == lines[-2] == lines[-3]:
        return True
    return any(len(text) >= 3 * size and text.endswith(text[-size:] * 3) for size in range(8, 121))


# --- The model ---

WINDOW = 8_192
_MOST_TOKENS = 220
"""Tokens of an answer: beyond that, a model this small repeats itself."""


class LocalModel:
    """A GGUF file, loaded with the first request."""

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
        """Ask one question.  The text of an answer is yielded as it is written; choices are not."""
        server = self._opened()
        body = self.body(request, question)
        text, used = "", NOTHING_USED
        for piece in _stream_pieces(server, body, stop):
            if isinstance(piece, Exception):
                raise ModelError(f"{self.name} failed: {piece}", "try again, or use another model", "provider-down")
            if isinstance(piece, Usage):
                used = piece
                continue
            text += piece
            if not question.choices:
                yield Wrote(piece)
        return text, used if used.requests else Usage(1)

    def body(self, request: ReplyRequest, question: GuideQuestion) -> dict[str, object]:
        """The request: the conversation, the same prefix every time, and then the question."""
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
    # With few cores, more threads only wait for each other.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = max(1, min(4, usable_cores() // 2))
    parameters.warmup, parameters.verbosity = False, -1
    parameters.api_keys = [random_hex(16)]  # keeps other users of this machine off its port
    try:
        return xllamacpp.Server(parameters)
    except (RuntimeError, ValueError, OSError) as error:
        raise ModelError(f"can't load {path}: {error}", "check that it is a GGUF file", "bad-model") from error


def _stream_pieces(server: Any, body: dict[str, object], stop: StopFlag) -> Iterator[str | Usage | Exception]:
    """The reply as it is written; a stop, or text that repeats itself, ends it."""
    pieces: SimpleQueue[str | Usage | Exception | None] = SimpleQueue()
    texts: list[str] = []

    def listen(chunk: dict[str, Any]) -> bool:
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            pieces.put(Usage(1, usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0), cached))
        for choice in chunk.get("choices") or ():
            text = (choice.get("delta") or {}).get("content")
            if text:
                texts.append(text)
                pieces.put(text)
        return stop.is_set() or is_repeating("".join(texts))

    def ask() -> None:
        try:
            server.handle_chat_completions(body, listen)
        except (RuntimeError, ValueError, TypeError, OSError) as error:
            pieces.put(error)
        pieces.put(None)

    asking = Thread(target=ask, name="ask the local model", daemon=True)
    asking.start()
    while (piece := pieces.get()) is not None:
        yield piece
    asking.join()
    if stop.is_set():
        raise TurnEnding("interrupted")

"""Guiding a small model: it is asked one narrow question at a time, and can only answer with what there is.

A model of some hundred million parameters can't be trusted with a list of tools.  The ranker finds the few skills
that fit; the model chooses among them, then a script, then its arguments, each from a list; then it writes the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json import loads
from typing import Literal

from ..types.activation import Message, ToolCall
from ..types.model import Request
from ..types.text import shortened

NONE = "none"
_MOST_SKILLS = 3
_MOST_WORDS = 8
_MOST_SHOWN = 2_000
"""Characters of one message that a small model is shown."""
_words = re.compile(r"\"([^\"]+)\"|'([^']+)'|`([^`]+)`|(\S+)")


@dataclass(frozen=True)
class View:
    """What a guide must know of the skills."""

    fitting: Callable[[str], Sequence[tuple[str, str]]]
    """The skills that fit a task best: name and description, the best first."""
    scripts: Callable[[str], Sequence[str]]
    location: Callable[[str], str]
    files: Callable[[str], str]
    """The absolute path of a word that names a file here; empty otherwise."""


@dataclass(frozen=True)
class Question:
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


def question(request: Request, view: View, chosen: bool = False) -> Question:
    """The next question of a turn; `chosen` when the one about skills was answered with none."""
    turn = this_turn(request.messages)
    called = [one.call.name for one in turn if one.call]
    tools = {tool.name for tool in request.tools}
    skill = next((one.skill for one in reversed(turn) if one.skill), "")
    task = task_of(turn)
    if not skill and not chosen and not called and tools & {"skill_use", "run_skill", "read"}:
        fitting = list(view.fitting(task))[:_MOST_SKILLS]
        if fitting:
            listed = "\n".join(f"- {name}: {shortened(told, 200)}" for name, told in fitting)
            names = (*(name for name, _ in fitting), NONE)
            return Question(
                "skill",
                f"Which skill fits the task best?\n{listed}\n- {NONE}: no skill fits\nTask: {task}",
                {"skill": names},
            )
    if skill and "skill_run_script" in tools and "skill_run_script" not in called:
        scripts = tuple(view.scripts(skill))
        if scripts:
            text = f"Task: {task}\nWhich script of the skill does it, and with which arguments?"
            return Question("script", text, {"script": (*scripts, NONE), "arguments": arguments_for(task, view)}, skill)
    return Question("answer", f"Say in two sentences what came of this task: {task}", {})


def this_turn(messages: Sequence[Message]) -> list[Message]:
    """What was said and done since the user last spoke."""
    start = 0
    for at, one in enumerate(messages):
        before = messages[at - 1] if at else None
        if one.role == "user" and not one.tag and (not one.skill or before is None or before.role == "assistant"):
            start = at
    return list(messages[start:])


def task_of(turn: Sequence[Message]) -> str:
    return shortened(" ".join(turn[0].text.split()), 600) if turn else ""


def arguments_for(task: str, view: View) -> tuple[str, ...]:
    """What a script may be given: files that the task names, what it quotes, its numbers; or nothing."""
    found: list[str] = []
    files = False
    for quoted in _words.finditer(task):
        word = next(part for part in quoted.groups() if part is not None).strip(".,;:!?()")
        path = view.files(word)
        if path:
            files = True
            found.append(path)
        elif quoted[4] is None or any(character.isdigit() for character in word):
            found.append(word)
    plain = [_quoted(word) for word in dict.fromkeys(found)][:_MOST_WORDS]
    every = " ".join(plain)
    nothing = () if files else ("",)
    return tuple(dict.fromkeys((*([every] if len(plain) > 1 else []), *plain, *nothing)))


def _quoted(word: str) -> str:
    from shlex import quote

    return quote(word)


def call_for(asked: Question, answer: str, request: Request, view: View) -> ToolCall | None:
    """The call that an answer comes to; None where it comes to none."""
    try:
        said = loads(answer)
    except ValueError:
        return None
    tools = {tool.name for tool in request.tools}
    if asked.kind == "skill":
        name = said.get("skill", NONE) if isinstance(said, dict) else NONE
        if name == NONE or name not in asked.choices["skill"]:
            return None
        return activating(name, tools, view, task_of(this_turn(request.messages)))
    if asked.kind == "script" and isinstance(said, dict) and said.get("script") in asked.choices["script"][:-1]:
        given = {"skill_name": asked.skill, "script_name": said["script"], "script_args": said.get("arguments", "")}
        return ToolCall("local-script", "skill_run_script", given)
    return None


def activating(name: str, tools: set[str], view: View, task: str) -> ToolCall:
    """The call that loads a skill, by the tool that there is for it."""
    if "skill_use" in tools:
        return ToolCall("local-skill", "skill_use", {"skill_name": name, "arguments": task})
    if "run_skill" in tools:
        return ToolCall("local-skill", "run_skill", {"skill": name})
    return ToolCall("local-skill", "read", {"path": view.location(name)})


SYSTEM = (
    "You are a small model that helps with one task at a time. Answer in a few plain sentences, only with what is said"
    " here. Do not invent anything."
)


def told(request: Request, view: View) -> list[dict[str, str]]:
    """The conversation for a model that knows no tools: short, in plain words, and only growing at its end.

    What a skill with scripts says is for whoever chooses among them: here a list does that.
    """
    found = [{"role": "system", "content": SYSTEM}]
    called = {one.call.id: one.call.name for one in request.messages if one.call}
    for one in request.messages:
        text = shortened(one.text, _MOST_SHOWN)
        if one.skill and view.scripts(one.skill):
            text = f"[The skill {one.skill} is active.]"
        if one.call is not None or (one.answers and called.get(one.answers) == "skill_use"):
            continue  # what it sees, it imitates
        if one.role == "tool":
            found.append({"role": "user", "content": text if one.skill else f"This came out of it:\n{text}"})
        else:
            found.append({"role": one.role, "content": text})
    return found


def script_said(request: Request) -> str:
    """What a script of this turn wrote, word for word: a small model is not to be trusted with figures."""
    turn = this_turn(request.messages)
    ran = {
        one.call.id: str(one.call.arguments.get("script_name", ""))
        for one in turn
        if one.call and one.call.name == "skill_run_script"
    }
    for one in reversed(turn):
        if one.role == "tool" and one.answers in ran:
            return f"\n\nWhat {ran[one.answers]} said, word for word:\n\n{shortened(one.text, 4_000)}"
    return ""


def repeats(text: str) -> bool:
    """Whether a text has begun to go round in circles: three like lines, or three like ends."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) >= 3 and lines[-1] == lines[-2] == lines[-3]:
        return True
    return any(len(text) >= 3 * size and text.endswith(text[-size:] * 3) for size in range(8, 121))

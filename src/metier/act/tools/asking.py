"""The tool that asks the user."""

from __future__ import annotations

from collections.abc import Callable

from ...types.activation import ToolCall
from ...types.event import Asked, Steps
from ...types.text import seen
from ...types.tool import Answer, Parameter, Tool

Ask = Callable[[Asked], Steps[str | None]]


def ask_user(ask: Ask) -> Tool:
    def steps(call: ToolCall) -> Steps[Answer]:
        question = _question(call)
        if not question:
            return Answer("question is required", error=True, reason="bad-request")
        choices = call.arguments.get("choices")
        offered = tuple(seen(str(one)) for one in choices) if isinstance(choices, list | tuple) else ()
        answer = yield from ask(Asked(call.id, "question", "ask_user", question, call.arguments, offered))
        if answer is None:
            told = "Nobody is there to answer. Decide by what you know, or say what is missing and stop."
            return Answer(told, error=True, reason="refused")
        return Answer(answer)

    return Tool(
        "ask_user",
        "Ask the user a question, and wait for the answer. Only for what you can't find out or decide yourself.",
        (
            Parameter("question", "The question, in one or two sentences."),
            Parameter("choices", "Answers to choose from, if there are only a few.", required=False, kind="array"),
        ),
        lambda arguments: Answer("Nobody is there to answer.", error=True),
        steps,
    )


def _question(call: ToolCall) -> str:
    """The question; some agents send a list of them."""
    given = call.arguments.get("question")
    several = call.arguments.get("questions")
    if given is None and isinstance(several, list | tuple) and several:
        parts = [one.get("question", "") if isinstance(one, dict) else one for one in several]
        return seen("\n".join(str(part) for part in parts if part)).strip()
    return seen(str(given or "")).strip()

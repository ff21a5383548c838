"""The tools that ask the user, and that show and roll back the history of skills."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...library.skill_tools import ToolArguments, guard_errors, number_argument, text_argument
from ...types.activation import ToolCall
from ...types.errors import BadRequest
from ...types.event import Asked, EventSteps
from ...types.model import Answer, Tool, ToolParameter
from ...types.text import visible_text

AskPerson = Callable[[Asked], EventSteps[str | None]]


def ask_user(ask: AskPerson) -> Tool:
    def steps(call: ToolCall) -> EventSteps[Answer]:
        question = _question_text(call)
        if not question:
            return Answer("question is required", error=True, reason="bad-request")
        choices = call.arguments.get("choices")
        offered = tuple(visible_text(str(choice)) for choice in choices) if isinstance(choices, list | tuple) else ()
        answer = yield from ask(Asked(call.id, "question", "ask_user", question, call.arguments, offered))
        if answer is None:
            text = "This session is not interactive. Decide by what you know, or say what is missing and stop."
            return Answer(text, error=True, reason="refused")
        return Answer(answer)

    return Tool(
        "ask_user",
        "Ask the user a question, and wait for the answer. Only for what you can't find out or decide yourself.",
        (
            ToolParameter("question", "The question, in one or two sentences."),
            ToolParameter("choices", "Answers to choose from, if there are only a few.", required=False, kind="array"),
        ),
        lambda arguments: Answer("This session is not interactive.", error=True),
        steps,
    )


def _question_text(call: ToolCall) -> str:
    """The question; skills written for other agents send a list of questions."""
    question = call.arguments.get("question")
    questions = call.arguments.get("questions")
    if question is None and isinstance(questions, list | tuple) and questions:
        parts = [item.get("question", "") if isinstance(item, dict) else item for item in questions]
        return visible_text("\n".join(str(part) for part in parts if part)).strip()
    return visible_text(str(question or "")).strip()


_MOST = 50
_TAG = ToolParameter("tag", "What to look at: `skills`.")


def git_log(log: Callable[[int], Sequence[str]]) -> Tool:
    """The tool `git_log`; `log` lists the newest changes, a line each."""

    def call(arguments: ToolArguments) -> Answer:
        _check_tag(arguments)
        lines = log(max(1, min(number_argument(arguments, "limit", 20), _MOST)))
        return Answer("\n".join(lines) or "no commits yet")

    return Tool(
        "git_log",
        "Show the history of skills, the newest change first. Use it to find a commit for git_rollback.",
        (
            _TAG,
            ToolParameter("limit", f"How many commits, 1 to {_MOST}; 20 otherwise.", required=False, kind="integer"),
        ),
        guard_errors(call),
    )


def git_rollback(rollback: Callable[[str, str], Sequence[str]]) -> Tool:
    """The tool `git_rollback`; `rollback` takes a commit and a skill, or "" for all, and returns what it changed."""

    def call(arguments: ToolArguments) -> Answer:
        _check_tag(arguments)
        commit = text_argument(arguments, "commit", "").strip()
        if not commit:
            raise BadRequest("commit is required", "call git_log to find one")
        changed = rollback(commit, text_argument(arguments, "name", "").strip())
        if not changed:
            return Answer(f"skills are already what they were at {commit}")
        return Answer(f"rolled back skills to {commit}: {', '.join(changed)}")

    return Tool(
        "git_rollback",
        "Make skills what they were at a commit, to take back an unwanted change. Nothing is lost: this is a commit "
        "too. Call git_log first to find the commit.",
        (
            _TAG,
            ToolParameter("commit", "The commit to go back to, from git_log, such as `a1b2c3d` or `HEAD~1`."),
            ToolParameter("name", "Only this skill; all that changed since otherwise.", required=False),
        ),
        guard_errors(call),
    )


def _check_tag(arguments: ToolArguments) -> None:
    tag = text_argument(arguments, "tag", "")
    if tag != "skills":
        raise BadRequest(f"tag must be 'skills', got \"{tag}\"", "pass tag as `skills`")

"""The tools by which an agent looks back at what skills were, and takes a change back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...types.errors import BadRequest
from ...types.tool import Answer, Parameter, Tool
from .desk import Arguments, guarded, number_of, text_of

_MOST = 50
_TAG = Parameter("tag", "What to look at: `skills`.")


def git_log(log: Callable[[int], Sequence[str]]) -> Tool:
    """Given what lists the newest changes, a line each."""

    def call(arguments: Arguments) -> Answer:
        _check(arguments)
        lines = log(max(1, min(number_of(arguments, "limit", 20), _MOST)))
        return Answer("\n".join(lines) or "no commits yet")

    return Tool(
        "git_log",
        "Show the history of skills, the newest change first. Use it to find a commit for git_rollback.",
        (
            _TAG,
            Parameter("limit", f"How many commits, 1 to {_MOST}; 20 otherwise.", required=False, kind="integer"),
        ),
        guarded(call),
    )


def git_rollback(back: Callable[[str, str], Sequence[str]]) -> Tool:
    """Given what takes a commit, and a skill or none for all, and names the skills that it changed."""

    def call(arguments: Arguments) -> Answer:
        _check(arguments)
        commit = text_of(arguments, "commit", "").strip()
        if not commit:
            raise BadRequest("commit is required", "call git_log to find one")
        changed = back(commit, text_of(arguments, "name", "").strip())
        if not changed:
            return Answer(f"skills are already what they were at {commit}")
        return Answer(f"rolled back skills to {commit}: {', '.join(changed)}")

    return Tool(
        "git_rollback",
        "Make skills what they were at a commit, to take back an unwanted change. Nothing is lost: this is a commit "
        "too. Call git_log first to find the commit.",
        (
            _TAG,
            Parameter("commit", "The commit to go back to, from git_log, such as `a1b2c3d` or `HEAD~1`."),
            Parameter("name", "Only this skill; all that changed since otherwise.", required=False),
        ),
        guarded(call),
    )


def _check(arguments: Arguments) -> None:
    tag = text_of(arguments, "tag", "")
    if tag != "skills":
        raise BadRequest(f"tag must be 'skills', got \"{tag}\"", "pass tag as `skills`")

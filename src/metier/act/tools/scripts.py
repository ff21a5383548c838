"""The tool that runs a script of a skill."""

from __future__ import annotations

import posixpath
import shlex
from dataclasses import replace

from ...types.errors import BadRequest, NoFile, Refused
from ...types.event import Reason
from ...types.running import SCRIPTS, Ran
from ...types.skill import Skill
from ...types.text import seen
from ...types.tool import Answer, Parameter, Tool
from .desk import Arguments, Desk, guarded, text_of, words_or_text

SECONDS = 30
_MOST_BYTES = 100_000
"""Of all arguments together."""


def skill_run_script(desk: Desk) -> Tool:
    def call(arguments: Arguments) -> Answer:
        skill = desk.skill(text_of(arguments, "skill_name").strip())
        script = script_of(desk, skill, text_of(arguments, "script_name"))
        argv = words_of(words_or_text(arguments, "script_args"))
        return replace(answer(script, desk.run(skill, script, argv)), skill=skill.name)

    return Tool(
        "skill_run_script",
        "Execute a script from a skill's scripts/ directory.",
        (
            Parameter("skill_name", "Name of the skill."),
            Parameter("script_name", "Script filename in scripts/."),
            Parameter("script_args", "Arguments to pass to the script, as on a command line.", required=False),
        ),
        guarded(call),
    )


def script_of(desk: Desk, skill: Skill, name: str) -> str:
    """The script a model means, by its path in `scripts/`; every other path is refused."""
    available = desk.scripts(skill)
    if available is None:
        raise BadRequest(f"Skill '{skill.name}' has no scripts/ directory", "its instructions say how to go on")
    place = posixpath.normpath(f"scripts/{name}")
    if not name or name.startswith(("/", "~")) or "\\" in name or not f"{place}/".startswith("scripts/"):
        raise _outside(name)
    asked, name = name, place.removeprefix("scripts").lstrip("/")
    if name not in available and name.startswith("scripts/") and name.removeprefix("scripts/") in available:
        name = name.removeprefix("scripts/")
    if name not in available:
        match desk.lies(skill, name):
            case "elsewhere":
                raise _outside(asked)
            case "folder":
                raise BadRequest(f"Not a file: '{asked}' is a folder")
        raise NoFile(f"Script not found: '{asked}'. Available: {', '.join(available) or 'none'}")
    if not name.endswith(SCRIPTS):
        raise BadRequest(f"'{name}' is of a type that can't be run. Supported: {', '.join(SCRIPTS)}")
    return name


def _outside(name: str) -> Refused:
    return Refused(f"Access denied: '{name}' is outside scripts/ directory")


def words_of(arguments: str | tuple[str, ...]) -> tuple[str, ...]:
    """Arguments as a shell would split them, with nothing of a shell about them."""
    try:
        words = tuple(shlex.split(arguments) if isinstance(arguments, str) else arguments)
    except ValueError as error:
        raise BadRequest(f"script_args can't be split: {error}", "balance the quotes") from error
    if any("\0" in word for word in words):
        raise BadRequest("script_args holds a NUL character", "leave it out")
    if sum(len(word.encode("utf-8", "surrogateescape")) + 1 for word in words) > _MOST_BYTES:
        raise BadRequest(f"script_args has more than {_MOST_BYTES:,} bytes", "put long input into a file")
    return words


def answer(script: str, ran: Ran) -> Answer:
    """What a script wrote, with its errors and its exit status."""
    parts = [seen(ran.stdout)]
    if stderr := seen(ran.stderr).strip("\n"):
        parts.append(f"[stderr]\n{stderr}")
    output = "\n".join(part.rstrip("\n") for part in parts if part.strip())
    if ran.timed_out:
        told = f"Script timed out after {SECONDS}s: {script}"
        return Answer(f"{told}\n{output}".strip(), error=True, note=ran.note, reason="timeout")
    if ran.status is None:
        why = ran.note or "it could not be started"
        return Answer(f"Cannot execute '{script}': {why}", error=True, note=ran.note, reason="machine")
    if ran.status:
        output += f"\n[exit code: {ran.status}]"
    reason: Reason = "exit-status" if ran.status else ""
    return Answer(output.strip() or "[no output]", note=ran.note, status=ran.status, reason=reason)

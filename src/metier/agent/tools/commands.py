"""The tools that run a program in the working folder: `run_command`, and `search_files` by grep."""

from __future__ import annotations

from collections.abc import Callable

from ...host import fs, paths
from ...library.skill_tools import ToolArguments, guard_errors, number_argument, script_answer, text_argument
from ...types.activation import ToolCall
from ...types.errors import BadRequest, Refused
from ...types.model import Answer, Tool, ToolParameter
from ...types.sandbox import ProcessResult
from ...types.text import visible_text
from ..permissions import PRIVATE_FILES, PRIVATE_FOLDERS, is_private, path_argument
from ..shell_rules import command_text
from .workspace import Workspace

SECONDS = 120
LONGEST_SECONDS = 600
_MOST_LINES = 200

ProgramRunner = Callable[[tuple[str, ...], float], ProcessResult]
"""Runs a program in the working folder, in a sandbox, for at most so many seconds."""


def run_command(run: ProgramRunner) -> Tool:
    def call(arguments: ToolArguments) -> Answer:
        command = command_text(arguments.get("command")) or text_argument(arguments, "command")
        if not command.strip():
            raise BadRequest("command is empty", "pass the command to run")
        seconds = min(number_argument(arguments, "seconds", SECONDS) or SECONDS, LONGEST_SECONDS)
        result = run(("bash", "--noprofile", "--norc", "-c", command), float(seconds))
        if result.timed_out:
            text = f"Timed out after {seconds}s.\n{visible_text(result.stdout)}".strip()
            return Answer(text, error=True, note=result.note, reason="timeout", cause="timeout")
        return script_answer("the command", result)

    return Tool(
        "run_command",
        "Run a shell command in the working folder. It is kept apart from the rest of the machine and has no network.",
        (
            ToolParameter("command", "The command, as it is typed in a shell."),
            ToolParameter("seconds", f"How long it may take; {SECONDS} where it is left out.", False, "integer"),
        ),
        guard_errors(call),
    )


def _any_case_pattern(name: str) -> str:
    """A glob that matches a name in any case: `grep --exclude` has no option for that."""
    return "".join(
        f"[{character.lower()}{character.upper()}]" if character.isalpha() else character for character in name
    )


def search_files(agent_workspace: Workspace, run: ProgramRunner) -> Tool:
    """Searches by grep: its time is linear, where Python's `re` could be made to run forever by a pattern."""

    def call(arguments: ToolArguments) -> Answer:
        pattern, (base, path) = text_argument(arguments, "pattern"), agent_workspace.at(arguments, ".")
        only = text_argument(arguments, "glob", "")
        skipped = [f"--exclude-dir={name}" for name in sorted(fs.IGNORED_FOLDERS)]
        tool_call = ToolCall("", "search_files", arguments)
        if not is_private(agent_workspace.spot(path_argument(tool_call)), tool_call):
            skipped += [f"--exclude={_any_case_pattern(name)}" for name in PRIVATE_FILES]
            skipped += [f"--exclude-dir={_any_case_pattern(name)}" for name in PRIVATE_FOLDERS]
        where = base if path == "." else f"{base}/{path}"
        if not paths.is_inside(paths.real_path(where), paths.real_path(base)):
            raise Refused(f"Access denied: '{path}' is a link that leads elsewhere")
        included = [f"--include={only}"] if only else []  # first, as the last match wins: it must not undo an exclusion
        argv = ("grep", "-rnIE", *included, *skipped, "-e", pattern, "--", where)
        result = run(argv, 20.0)
        if result.status == 1:
            return Answer("[nothing]")
        if result.status != 0:
            text = visible_text(result.stderr or result.note or "it took too long").strip()
            return Answer(text, error=True, note=result.note, reason="bad-request" if result.status else "machine")
        lines = visible_text(result.stdout).replace(f"{base}/", "").splitlines()
        remaining = len(lines) - _MOST_LINES
        return Answer(
            "\n".join(line[:500] for line in lines[:_MOST_LINES])
            + (f"\n[and {remaining} more]" if remaining > 0 else "")
        )

    return Tool(
        "search_files",
        "Search the text of files for a regular expression.",
        (
            ToolParameter("pattern", "An extended regular expression."),
            ToolParameter("path", "Where to look; the working folder where it is left out.", required=False),
            ToolParameter("glob", "Only files whose names match, such as *.py.", required=False),
        ),
        guard_errors(call),
    )

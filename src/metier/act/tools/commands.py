"""The tools that run a program in the working folder: any command, and a search."""

from __future__ import annotations

from collections.abc import Callable

from ...host import paths, workspace
from ...types.activation import ToolCall
from ...types.errors import BadRequest, Refused
from ...types.running import Ran
from ...types.text import seen
from ...types.tool import Answer, Parameter, Tool
from ..commandline import text_of_command
from ..permission import PRIVATE_FILES, PRIVATE_FOLDERS, is_private, path_of
from .desk import Arguments, guarded, number_of, text_of
from .scripts import answer
from .workspace import Ground

SECONDS = 120
LONGEST = 600
_MOST_LINES = 200

Run = Callable[[tuple[str, ...], float], Ran]
"""Runs a program in the working folder, inside its boundary."""


def run_command(run: Run) -> Tool:
    def call(arguments: Arguments) -> Answer:
        command = text_of_command(arguments.get("command")) or text_of(arguments, "command")
        if not command.strip():
            raise BadRequest("command is empty", "pass the command to run")
        seconds = min(number_of(arguments, "seconds", SECONDS) or SECONDS, LONGEST)
        ran = run(("bash", "--noprofile", "--norc", "-c", command), float(seconds))
        if ran.timed_out:
            told = f"Timed out after {seconds}s.\n{seen(ran.stdout)}".strip()
            return Answer(told, error=True, note=ran.note, reason="timeout")
        return answer("the command", ran)

    return Tool(
        "run_command",
        "Run a shell command in the working folder. It is kept apart from the rest of the machine and has no network.",
        (
            Parameter("command", "The command, as it is typed in a shell."),
            Parameter("seconds", f"How long it may take; {SECONDS} where it is left out.", False, "integer"),
        ),
        guarded(call),
    )


def _any_case(name: str) -> str:
    """A pattern for a name in capitals too: grep has no other word for it."""
    return "".join(f"[{one.lower()}{one.upper()}]" if one.isalpha() else one for one in name)


def search_files(ground: Ground, run: Run) -> Tool:
    """By grep, because its time does not depend on how a pattern is written."""

    def call(arguments: Arguments) -> Answer:
        pattern, (base, path) = text_of(arguments, "pattern"), ground.at(arguments, ".")
        only = text_of(arguments, "glob", "")
        skipped = [f"--exclude-dir={name}" for name in sorted(workspace.PASSED_OVER)]
        asked = ToolCall("", "search_files", arguments)
        if not is_private(ground.spot(path_of(asked)), asked):
            skipped += [f"--exclude={_any_case(name)}" for name in PRIVATE_FILES]
            skipped += [f"--exclude-dir={_any_case(name)}" for name in PRIVATE_FOLDERS]
        where = base if path == "." else f"{base}/{path}"
        if not paths.is_inside(paths.real_path(where), paths.real_path(base)):
            raise Refused(f"Access denied: '{path}' is a link that leads elsewhere")
        included = [f"--include={only}"] if only else []  # first: of two that speak of a file, the last one counts
        words = ("grep", "-rnIE", *included, *skipped, "-e", pattern, "--", where)
        ran = run(words, 20.0)
        if ran.status == 1:
            return Answer("[nothing]")
        if ran.status != 0:
            told = seen(ran.stderr or ran.note or "it took too long").strip()
            return Answer(told, error=True, note=ran.note, reason="bad-request" if ran.status else "machine")
        lines = seen(ran.stdout).replace(f"{base}/", "").splitlines()
        left = len(lines) - _MOST_LINES
        return Answer(
            "\n".join(line[:500] for line in lines[:_MOST_LINES]) + (f"\n[and {left} more]" if left > 0 else "")
        )

    return Tool(
        "search_files",
        "Search the text of files for a regular expression.",
        (
            Parameter("pattern", "An extended regular expression."),
            Parameter("path", "Where to look; the working folder where it is left out.", required=False),
            Parameter("glob", "Only files whose names match, such as *.py.", required=False),
        ),
        guarded(call),
    )

"""The entry point of the command line: run a command, and turn every failure into a message and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from errno import ENOSPC

from ...types.errors import MetierError
from .commands import READ_ONLY, Argument, ReadOnlyCommand, load_command, parse_options, parse_words
from .options import GLOBAL_OPTIONS, complete_skill, invoke, make_context, skill_names

# 70 is EX_SOFTWARE of sysexits.h; 130 and 141 are what a shell reports for SIGINT and SIGPIPE.
EXIT_INTERNAL_ERROR = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def main() -> int:
    """The `metier` program."""
    if kind := os.environ.get("_METIER_COMPLETE"):
        code = _complete(kind)
        # A shell waits at every press of Tab: without taking the interpreter apart the answer is there sooner.
        os._exit(code)
    return run(sys.argv[1:])


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code. No traceback reaches a person."""
    if sys.stdout is None or sys.stderr is None:
        _open_missing_streams()
    # A character that the locale can't encode is printed as an escape; it must not end a command halfway.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    target = os.environ.get("METIER_LOG")
    try:
        code = _run_logged(arguments, target) if target else _run_command(arguments)
        sys.stdout.flush()
    except OSError as error:
        return _report_unwritable(error)
    return code


def _run_logged(arguments: list[str], target: str) -> int:
    """Run the command, with two lines in the log; its words are left out, because they may be a request."""
    from ... import __version__
    from ...host.facts import monotonic
    from ...record.run_log import write_log
    from .commands import COMMANDS

    name = next((word for word in arguments if word in COMMANDS), "")
    write_log(target, "command", {"command": name, "version": __version__, "pid": os.getpid()})
    began, code = monotonic(), EXIT_INTERNAL_ERROR
    try:
        code = _run_command(arguments)
    finally:
        about = {"command": name, "exit": code, "seconds": round(monotonic() - began, 3), "pid": os.getpid()}
        write_log(target, "command-ended", about)
    return code


def _run_command(arguments: list[str]) -> int:
    # Not from the parser, which may be what fails. Words after `--` belong to the skill.
    as_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
    try:
        # The program is short and mostly imports: there is no garbage worth collecting.
        gc.disable()
        try:
            code = _run_read_only(arguments)
        finally:
            gc.enable()
        if code is None:
            from .group import run_click

            code = run_click(arguments)
        return code
    except MetierError as error:
        return _report_error(error.message, error.hint, error.exit_code, as_json)
    except KeyboardInterrupt:
        return _report_error("interrupted", "", EXIT_INTERRUPTED)
    # Both are for `run`, which meets them also when it flushes: a closed pipe here, a full disk below.
    except BrokenPipeError:
        raise
    except Exception as error:  # bulkhead: whatever went wrong, a person gets a sentence
        if os.environ.get("METIER_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno == ENOSPC:
            raise
        return _report_error(
            f"internal error: {type(error).__name__}: {error}",
            "please report this; METIER_DEBUG=1 shows the traceback",
            EXIT_INTERNAL_ERROR,
        )


def _run_read_only(arguments: list[str]) -> int | None:
    """Run a read-only command without importing click; None if click has to parse it."""
    parsed = parse_options(GLOBAL_OPTIONS, arguments, interspersed=False)
    if parsed is None:
        return None
    values, words = parsed
    if not words or words[0] not in READ_ONLY:
        return None
    command = load_command(words[0])
    if not isinstance(command, ReadOnlyCommand):
        return None
    parameters = parse_words(command.parameters, words[1:])
    if parameters is None:
        return None
    return invoke(command, make_context(values), parameters)


# --- Completion ---


def _complete(kind: str) -> int:
    """Answer a shell that completes a line."""
    gc.disable()
    try:
        names = _complete_name() if kind == "bash_complete" else None
        if names is None:
            from .group import complete

            return complete()
        # The form that click's script for bash reads: a type, and the value.
        sys.stdout.write("".join(f"plain,{name}\n" for name in names))
        sys.stdout.flush()
    except (MetierError, OSError):  # a shell that completes a line has no place for an error
        return 1
    return 0


def _complete_name() -> list[str] | None:
    """Complete a skill's name after a read-only command without importing click; None if click has to answer."""
    line, position = os.environ.get("COMP_WORDS", ""), os.environ.get("COMP_CWORD", "")
    # Splitting a quoted line takes a shell's rules: left to click.
    if set(line) & set("'\"\\") or not position.isdigit():
        return None
    words = line.split()
    before, prefix = words[1 : int(position)], "".join(words[int(position) :][:1])
    parsed = parse_options(GLOBAL_OPTIONS, before, interspersed=False)
    if parsed is None or not parsed[1] or parsed[1][0] not in READ_ONLY or prefix.startswith("-"):
        return None
    command = load_command(parsed[1][0])
    inner = parse_options(command.parameters, parsed[1][1:]) if isinstance(command, ReadOnlyCommand) else None
    if inner is None or not isinstance(command, ReadOnlyCommand):
        return None
    arguments = [parameter for parameter in command.parameters if isinstance(parameter, Argument)]
    following = arguments[len(inner[1]) :]
    if not following or following[0].complete is not skill_names:
        return None
    return complete_skill(make_context(parsed[0]), prefix)


# --- Errors ---


def _report_unwritable(error: OSError) -> int:
    """Standard output can't be written: a closed pipe is not an error, a full disk is."""
    # Otherwise the interpreter fails once more when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, BrokenPipeError):
        return EXIT_BROKEN_PIPE
    return _report_error(f"can't write the output: {error.strerror}", "", 5)


def _open_missing_streams() -> None:
    """Replace a closed standard output or error, so that printing does not fail."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # for the whole run
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _report_error(message: str, hint: str, code: int, as_json: bool = False) -> int:
    """Print an error on standard error, as JSON for a program that asked for JSON."""
    from .output import printable, warn

    if as_json:
        from json import dumps

        warn(dumps({"error": printable(message), "hint": printable(hint), "code": code}))
        return code
    warn(f"error: {printable(message)}")
    if hint:
        warn(f"hint: {printable(hint)}")
    return code

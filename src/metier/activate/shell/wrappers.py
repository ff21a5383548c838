"""Finds the program that a command really runs, after everything that runs another.

`sudo -u x nice -n 5 env A=1 python3 run.py` runs python.  Every check asks for the effective words, so that no prefix
hides a program.  A prefix whose options are not all known is refused: one that takes a value would shift the place of
the program by one, and the check would judge the wrong word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from .programs import (
    CODE_RUNNERS,
    FIND_PROGRAMS,
    GIT_TAKES,
    PACKAGE_RUNNERS,
    PLAIN_PROGRAMS,
    PROJECT_RUNNERS,
    RESERVED_WORDS,
    WRAPPERS,
    base_program,
    program_name,
)
from .words import SCRIPT_HINT, UNKNOWN, ShellWord, UnreadableCommand, is_assignment

_RUNNER_FLAGS = frozenset({"--", "-y", "--yes", "-q", "--quiet", "--frozen", "--locked", "--no-sync"}) | {
    "--no-project",
    "--isolated",
    "--offline",
    "--no-install",
    "--script",
    "--prefer-offline",
}
_RUNNER_TAKES = frozenset({"--with", "--python", "-p", "--package", "--extra", "--group", "--from"})
_WRAPPER_FLAGS = frozenset(
    {"--null", "--no-run-if-empty", "--foreground", "--preserve-status", "--ignore-environment", "--"}
)
_EXEC_OPTIONS = ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch")


def effective_words(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """The words from the real program on, without assignments, reserved words and programs that run another."""
    # `command -v name` only looks a name up and runs nothing, so it is a program of its own.
    place = 0
    while place < len(words):
        name = program_name(words[place])
        if name in RESERVED_WORDS or is_assignment(words[place].text):
            place += 1
        elif name == "command" and len(words) > place + 1 and words[place + 1].text in ("-v", "-V"):
            break
        elif name in PACKAGE_RUNNERS or (
            name in PROJECT_RUNNERS and words[place + 1 : place + 2] and words[place + 1].text == PROJECT_RUNNERS[name]
        ):
            words, place = words[_after_flags(words, place + 1 + (name in PROJECT_RUNNERS), name) :], 0
        elif name in WRAPPERS:
            after = _after_options(words, place + 1, name)
            words = _fill_xargs(words[:after], words[after:]) if name == "xargs" else words[after:]
            place = 0
        else:
            break
    return words[place:]


def _after_options(words: Sequence[ShellWord], place: int, wrapper: str) -> int:
    """The place after a wrapper's options, its assignments and, for `timeout` and the like, its own operand."""
    operands = 1 if wrapper in ("timeout", "chrt", "taskset") else 0
    while place < len(words):
        word, text = words[place], words[place].text
        option = text.startswith("-") and text != "-"
        if is_assignment(text) and wrapper in ("env", "sudo", "doas"):
            place += 1
            continue
        if not option and not operands:
            break
        # `env -S` splits a word into a command line of its own.
        if word.tainted or (text.startswith(("-S", "--split-string")) and wrapper == "env"):
            raise UnreadableCommand(f"an argument is among the options of `{wrapper}`")
        if text.startswith("--") and "=" not in text and text not in _WRAPPER_FLAGS:
            raise UnreadableCommand(f"it is not clear what `{wrapper} {text}` runs; write the value as `{text}=…`")
        operands -= not option
        place += 2 if option and len(text) == 2 and text[1] in WRAPPERS[wrapper] else 1
        if place <= len(words) and words[place - 1].tainted:
            raise UnreadableCommand(f"an argument is among the options of `{wrapper}`")
    return place


def _after_flags(words: Sequence[ShellWord], place: int, starter: str) -> int:
    """The place after the options of a program that runs another by its name."""
    while place < len(words) and words[place].text.startswith("-") and words[place].text != "-":
        text = words[place].text
        if text not in _RUNNER_FLAGS | _RUNNER_TAKES or any(word.tainted for word in words[place : place + 2]):
            raise UnreadableCommand(
                f"it is not clear what `{starter} {text}` runs; name the program right after `{starter}`"
            )
        place += 2 if text in _RUNNER_TAKES else 1
    return place


def _fill_xargs(before: Sequence[ShellWord], words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """What `xargs` runs, with its input in place of the marks, or at the end."""
    texts = [word.text for word in before]
    marks = [text[2:] for text in texts if text.startswith("-I") and text != "-I"]
    marks += [after for text, after in pairwise(texts) if text == "-I"]
    if any(text.startswith(("-i", "--replace")) for text in texts):
        marks.append("{}")
    for mark in filter(None, marks):
        words = [word._replace(text=word.text.replace(mark, UNKNOWN)) for word in words]
    # Without a mark, the input becomes any number of words at the end; without a command, `echo` runs.
    return words if marks else [*(words or [ShellWord("echo")]), ShellWord(UNKNOWN, (), True)]


def program_places(words: Sequence[ShellWord]) -> Iterator[int]:
    """The places where a command may name a program: the first, and any after a program that may run another."""
    yield 0
    name = program_name(words[0])
    # These run none of their words, or are checked as a whole.
    if name in PLAIN_PROGRAMS or base_program(name) in CODE_RUNNERS or "/" in words[0].text:
        return
    for place, word in enumerate(words[1:], 1):
        if base_program(program_name(word)) in CODE_RUNNERS:
            yield place


def executed_commands(words: Sequence[ShellWord], file: str = UNKNOWN) -> Iterator[Sequence[ShellWord]]:
    """The commands that `find` and the like run for each file."""
    if program_name(words[0]) not in FIND_PROGRAMS:
        return
    for place, word in enumerate(words):
        if word.text not in _EXEC_OPTIONS:
            continue
        inner = []
        for follows in words[place + 1 :]:
            if follows.text in (";", "+"):
                break
            inner.append(follows._replace(text=follows.text.replace("{}", file)))
        inner_words = effective_words(inner)
        if not inner_words or inner_words[0].tainted:
            raise UnreadableCommand(f"`{word.text}` would run an argument")
        yield inner_words


def git_command(words: Sequence[ShellWord]) -> str:
    """The subcommand of `git`; an argument must not be it."""
    option = ""
    for word in words[1:]:
        if option or (word.text.startswith("-") and not word.leads):
            if word.tainted:
                raise UnreadableCommand(
                    "an argument would choose the folder or the settings of `git`, and those may run programs; "
                    f"let a script of the skill do it, {SCRIPT_HINT}"
                )
            option = word.text if not option and word.text in GIT_TAKES else ""
            continue
        if word.tainted:
            raise UnreadableCommand("an argument would choose what `git` does")
        return word.text
    return ""

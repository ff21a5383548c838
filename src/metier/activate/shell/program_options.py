"""Options: a value that begins with `-` chooses what a program does, and some options run another program.

There are two dangers.  An argument may follow an option that names a program (`tar -I $1`), which is refused
even if a person typed it; or it may be an option itself, which only a person may type, unless the author wrote `--`
before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .operands import is_script
from .programs import (
    ABBREVIATING_PROGRAMS,
    DATA_PROGRAMS,
    FIND_PROGRAMS,
    GIT_OPTION_RUNS,
    INTERPRETERS,
    NO_OPTION_PROGRAMS,
    READ_ONLY_PROGRAMS,
    RUNNING_OPTIONS,
    RUNS_BY_OPTION,
    SHELLS,
    base_program,
    program_name,
)
from .words import ENVIRON, HOLE, UNKNOWN, ParsedCommand, ShellWord, UnreadableCommand
from .wrappers import executed_commands, git_command

_SHORT_OPTIONS = {
    "tar": "IF",
    "rsync": "e",
    "sed": "efs",
    "gsed": "efs",
    "wget": "e",
    "man": "PHC",
    "scp": "So",
    "sftp": "SoDb",
    "zip": "T",
    "git clone": "cu",
    "git rebase": "x",
    "git difftool": "x",
    "git grep": "O",
    "git archive": "",
}
"""Short options that run something, by program."""
_LONG_OPTIONS = {
    "split": ("filter",),
    "sed": ("file",),
    "wget": ("execute", "config"),
    "tar": ("checkpoint-action",),
    "man": ("html", "preprocessor", "config-file"),
    "curl": ("engine", "config"),
}
"""Long options that do, in one program only."""
_FIND_ACTION = re.compile(r"--?(?:exec|execdir|ok|okdir|fprint\w*|fls|delete)")
_NO_DOUBLE_DASH = (FIND_PROGRAMS - {"fd", "fdfind"}) | {"env"}
"""Programs in which `--` does not end the options."""


def check_options(words: Sequence[ShellWord], parsed: ParsedCommand, by_user: bool) -> None:
    """Refuse an argument that is an option, unless a person typed it or the author wrote `--` before it.

    What the shell expands (a pipe, `$(…)`, a variable that is no plain copy of an argument) may begin with `-` too.
    """
    if not any(word.tainted for word in words):
        return
    name = program_name(words[0])
    program = f"git {git_command(words)}" if name == "git" else name
    for place, word in enumerate(words[1:], 1):
        if word.text == "--" and name not in _NO_DOUBLE_DASH:
            break
        if not word.tainted:
            continue
        # The value of an option that runs something, in the next word or in the same.
        if option_runs_program(words[place - 1].text, program) or (
            not word.leads and option_runs_program(word.text, program)
        ):
            raise UnreadableCommand(f"`{program} {words[place - 1].text.lstrip(HOLE)}` would run an argument")
        if not word.leads or name in NO_OPTION_PROGRAMS:
            continue
        if _is_unsure(word) and not _is_harmless(words[0], program, parsed.functions, by_user):
            ends = "" if name in _NO_DOUBLE_DASH else "; write `--` before it"
            raise UnreadableCommand(f"what the shell expands may begin with `-` and be an option of `{program}`{ends}")
        options = [text for value in word.holes for text in (value.whole, *value.words) if text.startswith("-")]
        if any(option_runs_program(option, program) for option in options) or (options and name in ("make", "gmake")):
            raise UnreadableCommand(f"an argument is an option that makes `{program}` run something")
        if options and not by_user:
            raise UnreadableCommand("an argument begins with `-` and would be an option; write `--` before it")
    # `find` passes paths that begin with its first operand or `./`, so they are no options themselves.
    for inner in executed_commands(words, "./"):
        check_options(inner, parsed, by_user)


def _is_unsure(word: ShellWord) -> bool:
    """Whether the beginning of a word is not known."""
    if UNKNOWN not in word.text:
        return False
    # An empty argument lets what follows it come first.
    first = word.text.lstrip(ENVIRON)[:1]
    return word.loose or first != HOLE or not all(hole.whole for hole in word.holes)


def _is_harmless(first: ShellWord, program: str, functions: Sequence[str], by_user: bool) -> bool:
    """Whether no option of a program does harm; if a person typed the argument, whether none runs anything."""
    name = program_name(first)
    if name in READ_ONLY_PROGRAMS or first.text in functions:
        return True
    if not by_user or name in RUNS_BY_OPTION:
        return False
    if name == "git":
        return program.partition(" ")[2] not in GIT_OPTION_RUNS
    return name in DATA_PROGRAMS or name == "gh" or is_script(first) or base_program(name) in SHELLS | INTERPRETERS


def option_runs_program(text: str, program: str) -> bool:
    """Whether an option makes a program run something."""
    if not text.startswith("-"):
        return False
    name = program.partition(" ")[0]
    if name in ("find", "gfind", "bfs", "fd", "fdfind"):
        return bool(_FIND_ACTION.match(text)) or (name in ("fd", "fdfind") and text[:2] in ("-x", "-X"))
    if text.startswith("--"):
        option_name = text[2:].partition("=")[0]
        known_options = (*RUNNING_OPTIONS, *_LONG_OPTIONS.get(name, ()))
        return option_name in known_options or (
            name in ABBREVIATING_PROGRAMS
            and len(option_name) > 2
            and any(option.startswith(option_name) for option in known_options)
        )
    # Short options may be bundled, and any letter may be one of them.
    return any(letter in text[1:] for letter in _SHORT_OPTIONS.get(program, _SHORT_OPTIONS.get(name, "")))

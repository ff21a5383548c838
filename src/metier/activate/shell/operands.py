"""Which programs may be given an argument at all, and what of their words it may be.

Known programs that treat their operands as data may have any argument.  Tools that run the project's code (builds,
tests, package scripts) may have one after the subcommands where it is data; a person who typed it may also choose what
is tested.  A script of the skill may have anything: it is the author's code, and gets arguments as arguments.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import pairwise

from .inline_code import check_code
from .programs import (
    BUILD_COMMANDS,
    CHECKERS,
    DATA_PROGRAMS,
    GIT_COMMANDS,
    INTERPRETERS,
    SHELLS,
    TYPED_COMMANDS,
    base_program,
    program_name,
)
from .words import ENVIRON, SCRIPT_HINT, UNKNOWN, ShellWord, UnreadableCommand
from .wrappers import executed_commands, git_command

_FETCH_COMMANDS = frozenset({"install", "i", "add", "dlx", "create", "init", "ci", "update", "upgrade", "get"})
_DATA_OPTIONS = {"pytest": ("-k", "-m"), "go": ("-run", "-bench")}
"""Options whose value may be an argument, in programs whose operands choose code."""
_VALUE_OPTIONS = ("-n", "--namespace", "--context", "-R", "--repo")
_STEERING_OPTION = re.compile(
    r"-C|-[KH]|--?[\w-]*(?:config|prefix|dir|root|path|exec|wrapper|shell|plugin|script|options|cwd|file|host|template)"
)
"""Options whose value leads a program to settings or code elsewhere."""
# A path below these is a program of the system, not a script of the author's.
_SYSTEM = re.compile(r"/+(?:usr/+(?:local/+)?|opt/+homebrew/+|snap/+)?(?:s?bin|lib(?:32|64|exec)?)/")
_SCRIPT = re.compile(r".+\.(?:py|sh|bash|js|mjs|cjs|ts|rb|pl|php)")
_PATTERN = re.compile(r"[*?{}]|\[.")
# Installed tools: a submodule of one is no module of the author's.
_MODULES = frozenset(
    {"pip", "pytest", "coverage", "nox", "tox", "poetry", "uv", "pipx", "invoke", "IPython", "ipykernel"}
)
_OPTION_FILES = {"tar": re.compile(r"-?[a-zA-Z]*T|--(?:files|fi)"), "curl": re.compile(r"-[a-zA-Z]*K|--config")}
"""Options that make a program read more options."""


def check_program_name(first: ShellWord) -> None:
    """The program's name must be written out: the environment, a pattern or braces may name a shell."""
    if ENVIRON in program_name(first):
        raise UnreadableCommand("the environment or another command would choose the program; write its name")
    if first.text not in ("[", "[[", "{") and _PATTERN.search(first.text):
        raise UnreadableCommand("a pattern or braces would choose the program; write its name")


def is_script(word: ShellWord) -> bool:
    """Whether a program is a file of the skill or the project: named by a path, and not by one of the system's."""
    text = word.text
    if "/" not in text:
        return bool(_SCRIPT.fullmatch(text))
    # `a/../../bin/sh` would be a script by its start and a shell by its end.
    return not _SYSTEM.match(text) and ".." not in text.split("/")[1:]


def check_known(words: Sequence[ShellWord], functions: Sequence[str], by_user: bool = False) -> None:
    """Refuse a program that gets an argument, unless it is known to treat it as data."""
    name = program_name(words[0])
    base = base_program(name)
    if base in SHELLS or name in ("source", ".") or (by_user and _is_typed_command(name, words)):
        return
    if base in INTERPRETERS:
        # The operands of an interpreter are its script's; only code in words can turn them into something else.
        check_code(base, words)
        _check_module(base, words, by_user)
        subcommand = next((word for word in words[1:] if not word.text.startswith("-")), None)
        if base in ("bun", "deno") and subcommand and subcommand.text != "run" and not is_script(subcommand):
            raise _unknown_program(f"{base} {subcommand.text}")
    elif name in ("make", "gmake"):
        _check_make(words)
    elif name == "git":
        if (command := git_command(words)) not in GIT_COMMANDS and (command or any(word.tainted for word in words)):
            raise _unknown_program(f"git {command}".rstrip())
    elif name in BUILD_COMMANDS or name in _DATA_OPTIONS:
        _check_build(name, words)
    elif name in _OPTION_FILES and any(_OPTION_FILES[name].match(word.text) for word in words[1:]):
        raise UnreadableCommand(f"`{name}` would read options or settings that may hold an argument")
    elif name not in DATA_PROGRAMS and not is_script(words[0]) and words[0].text not in functions:
        raise _unknown_program(name)
    for inner in executed_commands(words):
        check_program_name(inner[0])
        check_known(inner, functions, by_user)


def _is_typed_command(name: str, words: Sequence[ShellWord]) -> bool:
    """Whether a program runs code of the project, and its arguments are whole and steer it nowhere else."""
    subcommand = next((word.text for word in words[1:] if not word.text.startswith("-")), "")
    if name not in CHECKERS and subcommand not in TYPED_COMMANDS.get(name, ()):
        return False
    steered = any(
        word.tainted and (_STEERING_OPTION.match(before.text) or _STEERING_OPTION.match(word.text))
        for before, word in pairwise(words)
    )
    return not steered and not any(UNKNOWN in word.text for word in words)


def _unknown_program(name: str) -> UnreadableCommand:
    program, _, subcommand = name.partition(" ")
    why = "is not known to take an argument as plain data"
    if subcommand in _FETCH_COMMANDS:
        why = "would fetch code that an argument names"
    elif program in CHECKERS or subcommand in TYPED_COMMANDS.get(program, ()):
        why = "runs code of the project, which only an argument typed by a person may choose"
    return UnreadableCommand(f"`{name}` {why}; let a script of the skill run it, {SCRIPT_HINT}")


def _check_make(words: Sequence[ShellWord]) -> None:
    for before, word in pairwise(words):
        if UNKNOWN in word.text:
            raise UnreadableCommand(
                "`make` may run what the shell expands; pass the argument itself, or write the value out"
            )
        option = before.text.startswith("-") and before.text != "--"
        if word.tainted and (option or word.text.startswith("-")):
            raise UnreadableCommand("an argument would choose what `make` reads; only a target may be an argument")
        if (
            word.text in ("-", "-f-")
            or (word.text.startswith("-") and word.text.endswith("=-"))
            or _is_device_path(word.text)
        ):
            raise UnreadableCommand("`make` may read an argument as its rules")


def _is_device_path(text: str) -> bool:
    return bool(re.search(r"/+(?:dev|proc)/", text))


def _check_module(base: str, words: Sequence[ShellWord], by_user: bool) -> None:
    """`python -m name`: the author's own module, or one that takes data."""
    if base not in ("python", "pypy"):
        return
    for place, word in enumerate(words[1:], 1):
        if not word.text.startswith("-"):
            return
        if re.fullmatch(r"-[A-Za-z]*m", word.text) and place + 1 < len(words):
            module_words = words[place + 1 :]
            top = module_words[0].text.partition(".")[0]
            is_own = "." in module_words[0].text and top not in sys.stdlib_module_names and top not in _MODULES
            if not is_own and any(argument.tainted for argument in module_words):
                check_known(module_words, (), by_user)
            return
        # After `-c` there is code, which `check_code` has seen.
        if word.text in ("-W", "-X") or "c" in word.text:
            return


def _check_build(name: str, words: Sequence[ShellWord]) -> None:
    """Tools that run the project's code: an argument may be data of a known subcommand, and choose nothing."""
    subcommands: list[str] = []
    for before, word in pairwise(words):
        if word.tainted or word.text == "--":
            break
        if not word.text.startswith("-") and before.text not in _VALUE_OPTIONS:
            subcommands.append(word.text)
    # `npm run NAME`: the script must be named by the author, not by the argument.
    scripted = name in ("npm", "pnpm", "yarn") and subcommands[:1] in (["run"], ["run-script"])
    is_known = (
        bool(subcommands) and subcommands[0] in BUILD_COMMANDS.get(name, ()) and not (scripted and len(subcommands) < 2)
    )
    is_known = is_known or (name == "go" and subcommands[:1] == ["run"] and len(subcommands) > 1)
    is_known = is_known or (
        name == "docker"
        and subcommands[:1] == ["compose"]
        and subcommands[1:2] in (["logs"], ["ps"], ["top"], ["images"])
    )
    for before, word in pairwise(words):
        if word.text == "--" and is_known:
            return
        if not word.tainted or before.text in _DATA_OPTIONS.get(name, ()):
            continue
        if not is_known:
            raise _unknown_program(" ".join([name, *subcommands[:1]]))
        if name != "gh" and (_STEERING_OPTION.match(before.text) or _STEERING_OPTION.match(word.text)):
            raise UnreadableCommand(f"an argument would choose what `{name}` reads or runs")
    if not is_known and name not in _DATA_OPTIONS:
        raise _unknown_program(" ".join([name, *subcommands[:1]]))

"""Refuses commands in which an argument could become code, a program, an option or a file that runs.

`rewrite` has made sure that a value stays inside its word; this makes sure that no program reads that word as more than
data.  Each simple command is judged by the program it really runs (`wrappers`).  A program that nothing is known about
is refused when it gets an argument (`operands`): a list of dangerous programs would never be complete.  The checks go
from the shell outwards: arithmetic, assignments, the program, its options, its code, its operands, and at last the
files and folders that several commands share (`places`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .inline_code import code_letters, stands_alone
from .operands import check_known, check_program_name
from .places import check_places
from .program_options import check_options
from .programs import (
    DECLARATIONS,
    FORBIDDEN_PROGRAMS,
    GIT_RUNS,
    INTERPRETERS,
    NAME_BUILTINS,
    SHELLS,
    STEERING_VARIABLE,
    STREAM_EDITORS,
    base_program,
    program_name,
)
from .words import HOLE, UNKNOWN, ParsedCommand, ShellWord, SimpleCommand, UnreadableCommand, is_assignment
from .wrappers import effective_words, git_command, program_places

_TESTS = frozenset({"[", "test"})
_NUMERIC_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})
_BINARY_TESTS = frozenset({"=", "==", "!=", "-nt", "-ot", "-ef", "-a", "-o"}) | _NUMERIC_TESTS - {"-v", "-R"}
_LONG_CODE = (
    "--eval",
    "--exec",
    "--execute",
    "--command",
    "--expression",
    "--print",
    "--require",
    "--import",
    "--file",
)
_SUBCOMMANDS = {"deno": ("run", "eval"), "bun": ("run", "x")}
"""Subcommands before the script, in a few interpreters."""
# Nine digits fit every shell's integers; a plain value holds no character that any shell evaluates.
_number = re.compile("[0-9]{1,9}")
_unary = re.compile(r"-[a-zA-Z]")
_plain = re.compile(r"[\w. ,:/@+-]*")
_input_path = re.compile(r"-|(?:.*/)?/*(?:dev|proc)/.*")


def check_hazards(parsed: ParsedCommand, by_user: bool) -> None:
    """Raise `UnreadableCommand` if an argument could become code, a program or, unless a person typed it, an option."""
    # Without an argument, everything in the command is the author's.
    if not parsed.taken:
        return
    # Arithmetic evaluates names inside values: bash runs the command in `a[$(…)]`.  Plain values can't hold one.
    if not all(map(_plain.fullmatch, parsed.env.values())) and (parsed.reckons or _does_arithmetic(parsed.commands)):
        raise UnreadableCommand("it evaluates arithmetic, and an argument is not a plain number or word")
    moved = tests = False  # `tests`: inside a `[[ … ]]` that operators split into several commands
    for command in parsed.commands:
        _check_settings(command.words)
        words = _with_numbers(effective_words(command.words))
        if not words:
            continue
        _check_program(words, parsed, moved)
        check_options(words, parsed, by_user)
        moved = moved or (program_name(words[0]) in ("cd", "pushd") and any(word.tainted for word in words))
        # An unknown program may run any of its words, so a shell or an interpreter among them is checked as one.
        for place in program_places(words):
            _check_words(words[place:], command, parsed)
        check_program_name(words[0])
        in_test, tests = tests, (tests or words[0].text == "[[") and words[-1].text != "]]"
        if not in_test and (any(word.tainted for word in words) or (parsed.pours and not command.fed)):
            check_known(words, parsed.functions, by_user)
    check_places(parsed)


def _check_settings(words: Sequence[ShellWord]) -> None:
    """An argument may be the value of a variable, but not of one that decides what runs."""
    for word in words:
        name = word.text.partition("=")[0].removesuffix("+")
        if word.tainted and is_assignment(word.text) and STEERING_VARIABLE.fullmatch(name):
            raise UnreadableCommand(f"an argument would be the value of `{name}`, which decides what runs")


def _with_numbers(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """The words of a command; in code for sed and awk, an argument that is a number counts as the author's."""
    if not words or base_program(program_name(words[0])) not in STREAM_EDITORS:
        return words
    return [
        ShellWord(word.text.replace(HOLE, "1"))
        if word.text.strip(HOLE) and word.holes and all(map(_number.fullmatch, (hole.whole for hole in word.holes)))
        else word
        for word in words
    ]


def program_names(commands: Sequence[SimpleCommand]) -> Iterator[tuple[str, ...]]:
    """The program of each simple command, with its first operand."""
    for command in commands:
        try:
            words = effective_words(command.words)
        except UnreadableCommand:
            words = ()
        plain = [word for word in words[1:] if not word.text.startswith("-")]
        yield tuple(program_name(word) for word in (*words[:1], *plain[:1]))


def _does_arithmetic(commands: Sequence[SimpleCommand]) -> bool:
    """Whether a shell may evaluate a value as a number or a name, and so run what is in its brackets."""
    texts = {word.text for command in commands for word in command.words}
    # `[[ $x -eq 1 ]]` evaluates `$x`; which words belong to the test is not told apart here.
    if "[[" in texts and texts & _NUMERIC_TESTS:
        return True
    for command in commands:
        words = effective_words(command.words)
        name = program_name(words[0]) if words else ""
        options = "".join(word.text for word in words[1:] if word.text[:1] in ("-", "+"))
        # `declare -i`, `-a`, `-A` and `-n` make later assignments evaluate their values.
        if name == "let" or (name in DECLARATIONS and set(options) & set("aAin")):
            return True
        if name in _TESTS and any(word.tainted for word in words) and not _is_plain_test(words):
            return True
    return False


def _is_plain_test(words: Sequence[ShellWord]) -> bool:
    """Whether a test has a form that no argument changes: one value, or one or two with the author's operator."""
    inside = list(words[1:])
    if inside and inside[-1].text == "]":
        inside.pop()
    if inside and inside[0].text == "!":
        del inside[0]
    if any(word.loose for word in inside):
        return False
    if len(inside) == 2:
        return bool(_unary.fullmatch(inside[0].text)) and inside[0].text not in _NUMERIC_TESTS
    return len(inside) == 1 or (len(inside) == 3 and inside[1].text in _BINARY_TESTS)


def _check_program(words: Sequence[ShellWord], parsed: ParsedCommand, moved: bool) -> None:
    """The program must be the author's, and no file that an argument was written to or has led to."""
    first = words[0]
    name = program_name(first)
    if first.text in ("for", "select"):
        _check_set_names(words[1:2])
        if any(word.text == "do" for word in words):
            raise UnreadableCommand("the start of the loop is not clear; write `in …;` before `do`")
        return
    if first.tainted:
        raise UnreadableCommand("an argument would choose the program to run")
    if name in FORBIDDEN_PROGRAMS:
        raise UnreadableCommand(f"`{name}` reads its arguments as commands")
    if first.text in parsed.written or (moved and "/" in first.text and not first.text.startswith("/")):
        raise UnreadableCommand("the program to run may hold an argument")


def _check_words(words: Sequence[ShellWord], command: SimpleCommand, parsed: ParsedCommand) -> None:
    """Check what one program does with its words."""
    name = program_name(words[0])
    if base_program(name) in SHELLS or name in ("source", "."):
        _check_shell(words, command, parsed)
    elif base_program(name) in INTERPRETERS:
        _check_reader(base_program(name), words, command, parsed)
    elif name in FORBIDDEN_PROGRAMS:
        raise UnreadableCommand(f"`{name}` reads its arguments as commands")
    if name in NAME_BUILTINS or name == "printf":
        _check_names(name, words[1:])
    if name in ("read", "getopts", "printf"):
        _check_set_names(
            words[1:] if name != "printf" else words[1:3] if words[1:2] and words[1].text[:2] == "-v" else ()
        )
    # make expands `$(shell …)` in variables and targets.
    if name in ("make", "gmake") and not all(map(_plain.fullmatch, parsed.env.values())):
        raise UnreadableCommand(f"`{name}` may run an argument")
    if not any(word.tainted for word in words):
        return
    # tar's first word may be options without a dash.
    if name == "tar" and (len(words) < 2 or words[1].tainted):
        raise UnreadableCommand("an argument would choose what `tar` does")
    if name == "git":
        _check_git(words)


def _check_git(words: Sequence[ShellWord]) -> None:
    command = git_command(words)
    # `git config --get` only reads.
    asks = command == "config" and any(word.text.startswith("--get") for word in words)
    if command in ("", *GIT_RUNS) and not asks:
        raise UnreadableCommand(f"`git {command}` may run an argument")


def _check_shell(words: Sequence[ShellWord], command: SimpleCommand, parsed: ParsedCommand) -> None:
    """A shell may run a script that the author names, with arguments; no code, and no file that holds an argument."""
    name = words[0].text
    skip = False  # the value of `-o`
    for word in words[1:]:
        if skip:
            skip = False
            continue
        if word.text[:1] in ("-", "+") and len(word.text) > 1 and not word.tainted:
            short = word.text[1:2] != "-"
            if short and "c" in word.text:
                raise UnreadableCommand(f"`{name} -c` reads its arguments as commands")
            # `-s` reads commands from the input, and `-c` from a word.
            if short and "s" in word.text:
                break
            skip = word.text[-1] in "oO" and short
            continue
        if word.tainted or word.text in parsed.written:
            raise UnreadableCommand("an argument would choose the program to run")
        if not _input_path.fullmatch(word.text):
            return
        break
    if parsed.pours and not command.fed:
        raise UnreadableCommand(f"`{name}` may read an argument as commands")


def _check_names(name: str, words: Sequence[ShellWord]) -> None:
    """The names that a builtin takes must be the author's."""
    for place, word in enumerate(words):
        if not word.tainted:
            continue
        before = words[place - 1].text if place else ""
        if name == "printf":
            named = before == "-v" or (not place and _may_be_option(word))
        else:
            start = word.text.partition("=")[0]
            named = HOLE in start or UNKNOWN in start or word.loose
        # The value of an option of `read` is no name.
        prompted = name == "read" and before in ("-p", "-t", "-n", "-d", "-u") and not word.loose
        if named and not prompted:
            raise UnreadableCommand(f"`{name}` would read an argument as the name of a variable")


def _check_set_names(words: Sequence[ShellWord]) -> None:
    """Input may not be read into a variable that decides what runs."""
    for word in words:
        name = re.sub("^-[a-z]", "", word.text)
        if STEERING_VARIABLE.fullmatch(name):
            raise UnreadableCommand(f"an argument would be the value of `{name}`, which decides what runs")


def _may_be_option(word: ShellWord) -> bool:
    if not word.leads:
        return False
    return UNKNOWN in word.text or any(
        text.startswith("-") for hole in word.holes for text in (hole.whole, *hole.words)
    )


def _check_reader(base: str, words: Sequence[ShellWord], command: SimpleCommand, parsed: ParsedCommand) -> None:
    """Code must be the author's; after it, arguments belong to that code.

    Where it is not sure whether an option takes a value, the word after it may be that value or the program; then both
    must be the author's.
    """
    name, program, option = words[0].text, False, ""
    touched = any(word.tainted for word in words)
    if base == "perl" and touched and any(mark in value for value in parsed.env.values() for mark in "|<>"):
        raise UnreadableCommand("`perl` may run a file name that has a `|`")
    for place, word in enumerate(words[1:], 1):
        if word.text == "--":
            option = ""
            continue
        coded = _takes_code(option, base)
        if word.text.startswith("-") and len(word.text) > 1 and not word.leads:
            if word.tainted and not (base.endswith("awk") and word.text.startswith("-v")):
                raise UnreadableCommand(f"an argument would be part of a program for `{name}`")
            option = word.text
            continue
        if word.tainted and not (base.endswith("awk") and option == "-v"):
            if coded or not program:
                raise UnreadableCommand(f"an argument would be the program that `{name}` runs")
            if (option or base in ("perl", "sed", "gsed")) and _may_be_option(word) and words[place - 1].text != "--":
                raise UnreadableCommand(f"an argument would be an option of `{name}`")
        if _input_path.fullmatch(word.text) and (coded or not program) and parsed.pours and not command.fed:
            raise UnreadableCommand(f"`{name}` may read an argument as its program")
        if not program and word.text in parsed.written:
            raise UnreadableCommand("the program to run may hold an argument")
        sure = not option or coded or stands_alone(option, base)
        sure = sure or (base not in STREAM_EDITORS and ("/" in word.text or "." in word.text))
        sure = sure and not (base.endswith("awk") and option == "-v") and word.text not in _SUBCOMMANDS.get(base, ())
        program = program or sure
        if program and not coded and base not in ("sed", "gsed"):
            return
        if program and base in ("python", "pypy"):
            return
        option = ""
    if not program and parsed.pours and not command.fed:
        raise UnreadableCommand(f"`{name}` may read an argument as its program")


def _takes_code(option: str, base: str) -> bool:
    """Whether an option is followed by code, or by the name of a program."""
    if option.startswith("--"):
        return option in _LONG_CODE
    return any(letter in option for letter in code_letters(base))

"""The places where an argument would be read as code, or would choose what runs: there it is refused.

An argument may come back out of a variable, a function or another command, so where one is taken at all, what only
the shell will know is looked at like an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .known import check_known, check_name
from .lexicon import HOLE, SETTING, UNKNOWN, Read, Simple, Unreadable, Word
from .options import check_options
from .places import check_places
from .programs import (
    NEVER,
    READERS,
    SHELLS,
    base_of,
    check_settings,
    code_letters,
    effective,
    git_command,
    name_of,
    stands_alone,
    starts,
)

_NAMES = frozenset(
    {"read", "unset", "declare", "typeset", "local", "export", "readonly", "getopts", "let", "printf", "wait"}
)
"""Builtins that take the name of a variable, and run what stands between its brackets."""
_DECLARES = frozenset({"declare", "typeset", "local", "export", "readonly"})
_TESTS = frozenset({"[", "test"})
_ORDERS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})
_BETWEEN = frozenset({"=", "==", "!=", "-nt", "-ot", "-ef", "-a", "-o"}) | _ORDERS - {"-v", "-R"}
_CODE_FIRST = frozenset({"awk", "gawk", "mawk", "nawk", "sed", "gsed"})
_GIT_RUNS = frozenset({"bisect", "submodule", "filter-branch", "filter-repo", "difftool", "mergetool", "config"})
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
_ORDERS_OF = {"deno": ("run", "eval"), "bun": ("run", "x")}
"""Words before the program, in a few of them."""
_number = re.compile("[0-9]{1,9}")
_unary = re.compile(r"-[a-zA-Z]")
_plain = re.compile(r"[\w. ,:/@+-]*")
_input = re.compile(r"-|(?:.*/)?/*(?:dev|proc)/.*")


def check(found: Read, by_user: bool) -> None:
    """Raise `Unreadable` if an argument could become code, a program, or (when no person typed it) an option."""
    if not found.taken:
        return
    if not all(map(_plain.fullmatch, found.env.values())) and (found.reckons or _reckons(found.commands)):
        raise Unreadable("it reckons, and an argument is no plain number or word")
    moved = tests = False
    for command in found.commands:
        check_settings(command.words)
        words = _with_numbers(effective(command.words))
        if not words:
            continue
        _check_program(words, found, moved)
        check_options(words, found, by_user)
        moved = moved or (name_of(words[0]) in ("cd", "pushd") and any(word.tainted for word in words))
        for place in starts(words):
            _check_words(words[place:], command, found)
        check_name(words[0])
        begun, tests = tests, (tests or words[0].text == "[[") and words[-1].text != "]]"
        if not begun and (any(word.tainted for word in words) or (found.pours and not command.fed)):
            check_known(words, found.functions, by_user)
    check_places(found)


def _with_numbers(words: Sequence[Word]) -> Sequence[Word]:
    """The words of a command; in the author's code for sed and awk, an argument that is a number is one."""
    if not words or base_of(name_of(words[0])) not in _CODE_FIRST:
        return words
    return [
        Word(word.text.replace(HOLE, "1"))
        if word.text.strip(HOLE) and word.holes and all(map(_number.fullmatch, (hole.whole for hole in word.holes)))
        else word
        for word in words
    ]


def names_of(found: Sequence[Simple]) -> Iterator[tuple[str, ...]]:
    """What each simple command runs, with the word after it."""
    for command in found:
        try:
            words = effective(command.words)
        except Unreadable:
            words = ()
        plain = [word for word in words[1:] if not word.text.startswith("-")]
        yield tuple(name_of(word) for word in (*words[:1], *plain[:1]))


def _reckons(commands: Sequence[Simple]) -> bool:
    """Whether a shell may take a value for a sum or a name, which it does by running what stands in brackets."""
    texts = {word.text for command in commands for word in command.words}
    if "[[" in texts and texts & _ORDERS:
        return True
    for command in commands:
        words = effective(command.words)
        name = name_of(words[0]) if words else ""
        options = "".join(word.text for word in words[1:] if word.text[:1] in ("-", "+"))
        if name == "let" or (name in _DECLARES and set(options) & set("aAin")):
            return True
        if name in _TESTS and any(word.tainted for word in words) and not _is_plain_test(words):
            return True
    return False


def _is_plain_test(words: Sequence[Word]) -> bool:
    """Whether a test is of a form that no argument changes: one value, or one or two with the author's operator."""
    inside = list(words[1:])
    if inside and inside[-1].text == "]":
        inside.pop()
    if inside and inside[0].text == "!":
        del inside[0]
    if any(word.loose for word in inside):
        return False
    if len(inside) == 2:
        return bool(_unary.fullmatch(inside[0].text)) and inside[0].text not in _ORDERS
    return len(inside) == 1 or (len(inside) == 3 and inside[1].text in _BETWEEN)


def _check_program(words: Sequence[Word], found: Read, moved: bool) -> None:
    """The program must be the author's, and not one that an argument has been written into or has led to."""
    first = words[0]
    name = name_of(first)
    if first.text in ("for", "select"):
        _check_set(words[1:2])
        if any(word.text == "do" for word in words):
            raise Unreadable("it can't be told where the loop begins; write `in …;` before `do`")
        return
    if first.tainted:
        raise Unreadable("an argument would choose the program to run")
    if name in NEVER:
        raise Unreadable(f"`{name}` reads what it is given as commands")
    if first.text in found.written or (moved and "/" in first.text and not first.text.startswith("/")):
        raise Unreadable("an argument may be in the program to run")


def _check_words(words: Sequence[Word], command: Simple, found: Read) -> None:
    """What one program does with its words."""
    name = name_of(words[0])
    if base_of(name) in SHELLS or name in ("source", "."):
        _check_shell(words, command, found)
    elif base_of(name) in READERS:
        _check_reader(base_of(name), words, command, found)
    elif name in NEVER:
        raise Unreadable(f"`{name}` reads what it is given as commands")
    if name in _NAMES:
        _check_names(name, words[1:])
    if name in ("read", "getopts", "printf"):
        _check_set(words[1:] if name != "printf" else words[1:3] if words[1:2] and words[1].text[:2] == "-v" else ())
    if name in ("make", "gmake") and not all(map(_plain.fullmatch, found.env.values())):
        raise Unreadable(f"`{name}` may run what an argument says")
    if not any(word.tainted for word in words):
        return
    if name == "tar" and (len(words) < 2 or words[1].tainted):
        raise Unreadable("an argument would choose what `tar` does")
    if name == "git":
        _check_git(words)


def _check_git(words: Sequence[Word]) -> None:
    command = git_command(words)
    asks = command == "config" and any(word.text.startswith("--get") for word in words)
    if command in ("", *_GIT_RUNS) and not asks:
        raise Unreadable(f"`git {command}` may run what an argument says")


def _check_shell(words: Sequence[Word], command: Simple, found: Read) -> None:
    """A shell may run a script that the author names, with arguments; no code, and nothing that an argument is in."""
    name = words[0].text
    skip = False
    for word in words[1:]:
        if skip:
            skip = False
            continue
        if word.text[:1] in ("-", "+") and len(word.text) > 1 and not word.tainted:
            short = word.text[1:2] != "-"
            if short and "c" in word.text:
                raise Unreadable(f"`{name} -c` reads what it is given as commands")
            if short and "s" in word.text:
                break
            skip = word.text[-1] in "oO" and short
            continue
        if word.tainted or word.text in found.written:
            raise Unreadable("an argument would choose the program to run")
        if not _input.fullmatch(word.text):
            return
        break
    if found.pours and not command.fed:
        raise Unreadable(f"`{name}` may read an argument as commands")


def _check_names(name: str, words: Sequence[Word]) -> None:
    """A builtin that takes names gets them from the author."""
    for place, word in enumerate(words):
        if not word.tainted:
            continue
        before = words[place - 1].text if place else ""
        if name == "printf":
            named = before == "-v" or (not place and _may_be_option(word))
        else:
            start = word.text.partition("=")[0]
            named = HOLE in start or UNKNOWN in start or word.loose
        prompted = name == "read" and before in ("-p", "-t", "-n", "-d", "-u") and not word.loose
        if named and not prompted:
            raise Unreadable(f"`{name}` would take an argument for the name of a variable")


def _check_set(words: Sequence[Word]) -> None:
    """What may be an argument is put into no variable that decides what runs."""
    for word in words:
        name = re.sub("^-[a-z]", "", word.text)
        if SETTING.fullmatch(name):
            raise Unreadable(f"an argument would be the value of `{name}`, which decides what runs")


def _may_be_option(word: Word) -> bool:
    if not word.leads:
        return False
    return UNKNOWN in word.text or any(one.startswith("-") for hole in word.holes for one in (hole.whole, *hole.words))


def _check_reader(base: str, words: Sequence[Word], command: Simple, found: Read) -> None:
    """Code must be the author's own; behind it, arguments are the program's."""
    name, program, option = words[0].text, False, ""
    touched = any(word.tainted for word in words)
    if base == "perl" and touched and any(mark in value for value in found.env.values() for mark in "|<>"):
        raise Unreadable("`perl` may run a file name that holds `|`")
    for place, word in enumerate(words[1:], 1):
        if word.text == "--":
            option = ""
            continue
        coded = _takes_code(option, base)
        if word.text.startswith("-") and len(word.text) > 1 and not word.leads:
            if word.tainted and not (base.endswith("awk") and word.text.startswith("-v")):
                raise Unreadable(f"an argument would be part of a program for `{name}`")
            option = word.text
            continue
        if word.tainted and not (base.endswith("awk") and option == "-v"):
            if coded or not program:
                raise Unreadable(f"an argument would be the program that `{name}` runs")
            if (option or base in ("perl", "sed", "gsed")) and _may_be_option(word) and words[place - 1].text != "--":
                raise Unreadable(f"an argument would be an option of `{name}`")
        if _input.fullmatch(word.text) and (coded or not program) and found.pours and not command.fed:
            raise Unreadable(f"`{name}` may read an argument as its program")
        if not program and word.text in found.written:
            raise Unreadable("an argument may be in the program to run")
        sure = not option or coded or stands_alone(option, base)
        sure = sure or (base not in _CODE_FIRST and ("/" in word.text or "." in word.text))
        sure = sure and not (base.endswith("awk") and option == "-v") and word.text not in _ORDERS_OF.get(base, ())
        program = program or sure
        if program and not coded and base not in ("sed", "gsed"):
            return
        if program and base in ("python", "pypy"):
            return
        option = ""
    if not program and found.pours and not command.fed:
        raise Unreadable(f"`{name}` may read an argument as its program")


def _takes_code(option: str, base: str) -> bool:
    """Whether code, or the name of a program, stands behind an option."""
    if option.startswith("--"):
        return option in _LONG_CODE
    return any(letter in option for letter in code_letters(base))

"""The places where an argument would be read as code, or would choose what runs: there it is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .command import HOLE, UNKNOWN, Read, Simple, Unreadable, Value, Word

_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "busybox", "rbash"})
_READERS = frozenset(
    {
        "python", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "tclsh", "expect", "osascript",
        "pwsh", "powershell", "Rscript", "R", "julia", "scala", "groovy", "elixir", "erl", "ghci", "runghc", "jshell",
        "awk", "gawk", "mawk", "nawk", "sed", "gsed", "ed", "ex", "vi", "vim", "nvim", "emacs", "gdb", "lldb", "dc",
        "psql", "mysql", "mariadb", "sqlite3", "mongosh", "m4", "gnuplot", "octave",
    }
)  # fmt: skip
"""Programs that take code: in an option, as their first operand, or from a pipe."""
_CODE_FIRST = frozenset({"awk", "gawk", "mawk", "nawk", "sed", "gsed"})
_NEVER = frozenset(
    {
        "eval", "source", ".", "trap", "alias", "bind", "complete", "compgen", "enable", "fc", "hash", "mapfile",
        "readarray", "coproc", "ssh", "su", "runuser", "parallel", "watch", "script", "at", "batch", "crontab", "rsh",
        "tmux", "screen", "dtach", "systemd-run", "chroot", "nsenter", "flock",
    }
)  # fmt: skip
"""Programs that read what they are given as commands."""
_NAMES = frozenset({"read", "unset", "declare", "typeset", "local", "export", "readonly", "getopts", "let", "printf"})
"""Builtins that take the name of a variable, and run what stands between its brackets."""
_WRAPPERS = frozenset(
    {
        "env", "nohup", "time", "timeout", "nice", "ionice", "exec", "command", "builtin", "sudo", "doas", "stdbuf",
        "setsid", "xargs", "unshare", "strace", "ltrace", "chrt", "taskset", "setpriv", "busybox", "unbuffer",
    }
)  # fmt: skip
_RESERVED = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "esac", "function", "time"}
)
_LISTS = frozenset({"for", "select", "case", "in"})
_ORDERS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"})
_version = re.compile(r"[0-9.]+$")
_code_option = re.compile(r"-[A-Za-z]*[ceErRpxf]|--(?:eval|exec|execute|command|expression|print|run|script|code)\b.*")
_runs = re.compile(r"-(?:exec|execdir|ok|okdir)")
_numberlike = re.compile(r"[\w. ,:/@+-]*")


def check(found: Read, by_user: bool) -> None:
    """Raise `Unreadable` if an argument could become code, a program, or (when no person typed it) an option."""
    values = [value for command in found.commands for word in command.words for value in word.holes]
    if not found.env:
        return
    if found.reckons and not all(_numberlike.fullmatch(value.whole) for value in values):
        raise Unreadable("it reckons, and an argument is no plain number or word")
    for command in found.commands:
        _check(command, bool(values), by_user)


def names_of(found: Sequence[Simple]) -> Iterator[tuple[str, ...]]:
    """What each simple command runs, with the word after it."""
    for command in found:
        words = _effective(command.words)
        plain = [word for word in words[1:] if not word.text.startswith("-")]
        yield tuple(_name(word) for word in (*words[:1], *plain[:1]))


def _check(command: Simple, takes: bool, by_user: bool) -> None:
    words = _effective(command.words)
    if not words:
        return
    first = words[0]
    name = _name(first)
    if name in _LISTS:
        return
    if HOLE in first.text or (UNKNOWN in first.text and takes and not first.text.strip(UNKNOWN).startswith("/")):
        raise Unreadable("an argument would choose the program to run")
    if not by_user:
        _check_options(command.words)
    if not takes:
        return
    if name in _NEVER:
        raise Unreadable(f"`{name}` reads what it is given as commands")
    for place, word in enumerate(words):
        if _name(word) in _SHELLS:
            _check_shell(words[place:], command)
    if name in _NAMES:
        _check_names(name, words[1:])
    if name in ("[[", "[", "test") and any(word.holes for word in words):
        _check_test(name, words)
    if _base(name) in _READERS:
        _check_reader(_base(name), words, command)
    if name in ("make", "gmake", "git", "find", "tar", "rsync", "xargs") and any(word.holes for word in words):
        _check_own(name, words)


def _name(word: Word) -> str:
    return word.text.rpartition("/")[2] or word.text


def _base(name: str) -> str:
    """`python3.11` is python."""
    return _version.sub("", name).rstrip("-") or name


def _effective(words: Sequence[Word]) -> Sequence[Word]:
    """The words from the program on: assignments, reserved words and programs that run another come off."""
    place = 0
    while place < len(words):
        name = _name(words[place])
        if name in _RESERVED or _is_assignment(words[place]):
            place += 1
        elif name in _WRAPPERS and name != "command":
            place = _after_options(words, place + 1, name)
        elif name == "command" and not (len(words) > place + 1 and words[place + 1].text in ("-v", "-V")):
            place += 1
        else:
            break
    return words[place:]


def _after_options(words: Sequence[Word], place: int, wrapper: str) -> int:
    """Past a wrapper's options, assignments and, for `timeout` and its like, its own operand."""
    own = 1 if wrapper in ("timeout", "chrt", "taskset") else 0
    while place < len(words):
        text = words[place].text
        if not (text.startswith("-") or _is_assignment(words[place]) or own):
            break
        if words[place].holes and not _is_assignment(words[place]):
            raise Unreadable(f"an argument stands among the options of `{wrapper}`")
        own -= not text.startswith("-") and not _is_assignment(words[place])
        place += 1
    return place


def _is_assignment(word: Word) -> bool:
    name, equals, _ = word.text.partition("=")
    return bool(equals) and name.isascii() and name.removesuffix("+").isidentifier()


def _check_shell(words: Sequence[Word], command: Simple) -> None:
    """A shell may run a script that the author names, with arguments; no code, and nothing from a pipe."""
    for word in words[1:]:
        if word.text[:1] in ("-", "+") and word.text[:2] != "--" and "c" in word.text:
            raise Unreadable(f"`{words[0].text} -c` reads what it is given as commands")
        if word.text.startswith("-") and word.text not in ("-", "-s", "--") and not word.holes:
            continue
        if word.text == "--":
            continue
        if word.holes or UNKNOWN in word.text[:1] or word.text in ("-", "-s"):
            raise Unreadable("an argument would choose the program to run")
        return
    if not command.fed:
        raise Unreadable(f"`{words[0].text}` reads commands from a pipe")


def _check_names(name: str, words: Sequence[Word]) -> None:
    for place, word in enumerate(words):
        before = words[place - 1].text if place else ""
        if not word.holes or (name == "printf" and before != "-v"):
            continue
        if name == "printf" or HOLE in word.text.partition("=")[0]:
            raise Unreadable(f"`{name}` would take an argument for the name of a variable")


def _check_test(name: str, words: Sequence[Word]) -> None:
    orders = {word.text for word in words} & (_ORDERS if name == "[[" else {"-v"})
    odd = [value for word in words for value in word.holes if not _numberlike.fullmatch(value.whole)]
    if orders and odd:
        raise Unreadable(f"`{name} {sorted(orders)[0]}` may run what an argument says")


def _check_reader(name: str, words: Sequence[Word], command: Simple) -> None:
    """Code must be the author's own: in an option, as the first operand, or from a pipe."""
    code_next = False
    operands = 0
    for word in words[1:]:
        if code_next or (word.text.startswith("-") and _code_option.fullmatch(word.text.partition("=")[0])):
            if word.holes or (code_next and UNKNOWN in word.text):
                raise Unreadable(f"an argument would be part of a program for `{name}`")
            operands += code_next
            code_next = not code_next and "=" not in word.text
            continue
        if word.text.startswith("-") and word.text != "-":
            continue
        operands += 1
        known = not word.holes and not (name in _CODE_FIRST and UNKNOWN in word.text)
        if operands == 1 and not known:
            raise Unreadable(f"an argument would be the program that `{name}` runs")
        if word.text == "-" and command.piped and not command.fed:
            raise Unreadable(f"`{name}` reads its program from a pipe")
    if not operands and command.piped and not command.fed:
        raise Unreadable(f"`{name}` reads its program from a pipe")


def _check_own(name: str, words: Sequence[Word]) -> None:
    """Programs with ways of their own to run something."""
    for place, word in enumerate(words[1:], 1):
        before = words[place - 1].text
        if not word.holes:
            continue
        if name in ("make", "gmake") and not all(_numberlike.fullmatch(value.whole) for value in word.holes):
            raise Unreadable(f"`{name}` may run what an argument says")
        if before in ("-c", "--exec", "-x", "--upload-pack", "--config-env") and name == "git":
            raise Unreadable(f"an argument would configure `{name}`")
        if any(_runs.fullmatch(one.text) for one in words[1:place]) and name == "find" and _runs.fullmatch(before):
            raise Unreadable("an argument would choose the program to run")


def _check_options(words: Sequence[Word]) -> None:
    """A value that begins with `-` is an option; only a person may have typed one, or the author wrote `--`."""
    ended = False
    for word in words:
        if word.text == "--":
            ended = True
        elif word.leads and not ended and any(_is_option(value) for value in word.holes):
            raise Unreadable("an argument begins with `-` and would be an option; write `--` before it")


def _is_option(value: Value) -> bool:
    return any(word.startswith("-") for word in (value.whole, *value.words))

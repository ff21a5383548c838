"""What a line of input asks for: a command and its arguments, or nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..types.catalog import Match
from ..types.dialect import CommandForm, Matching
from .commands import command_names

_command = re.compile(r"/([^\s/]\S*)(?:\s+(.*))?", re.DOTALL).fullmatch
_BLANK = " \t\r\n"
_spellings = re.compile(r"[\s_-]+")


class Named(NamedTuple):
    """A command and the skill behind it."""

    command: str
    name: str
    directory: str


def named(pairs: Sequence[tuple[str, str]], form: CommandForm) -> list[Named]:
    """The commands of (name, directory) pairs, as a table of their own would have them."""
    return [Named(command, *pair) for command, pair in zip(command_names(pairs, form, ()), pairs, strict=True)]


def match(line: str, commands: Sequence[Named], matching: Matching) -> Match:
    """Find the command that a line calls.  `at` is its place among the commands; the name is the skill's own."""
    if matching == "tail":
        return _tail(line, commands)
    text = line.strip() if matching == "loose" else line.lstrip()
    found = _command(text)
    if found is None:
        return Match(None, "", line)
    word, arguments = found[1], found[2] or ""
    if matching == "exact":
        at = next((number for number, one in enumerate(commands) if one.command == word), None)
        return _matched(commands, at, arguments, line)
    if word.lower() == "skill" and arguments:
        called = arguments.split(None, 1)[0]
        at = _loose(called, commands)
        if at is not None:
            return _matched(commands, at, arguments[len(called) :].strip(), line)
    return _matched(commands, _loose(word, commands), arguments.strip(), line)


def _matched(commands: Sequence[Named], at: int | None, arguments: str, line: str) -> Match:
    return Match(None, "", line) if at is None else Match(commands[at].name, arguments, line, at)


def _loose(word: str, commands: Sequence[Named]) -> int | None:
    """By the command, then by the name, then with blanks, `_` and `-` taken alike; case does not matter."""
    low = word.lower()
    for number, one in enumerate(commands):
        if one.command == low:
            return number
    for number, one in enumerate(commands):
        if low in (one.name.lower(), one.directory.lower()):
            return number
    folded = _folded(low)
    for number, one in enumerate(commands):
        if folded in (_folded(one.name.lower()), _folded(one.directory.lower()), _folded(one.command)):
            return number
    return None


def _folded(text: str) -> str:
    return _spellings.sub("-", text)


def _tail(line: str, commands: Sequence[Named]) -> Match:
    """Agents that take the rest of the line as the user's message; without a rest, the command itself."""
    text = line.lstrip(_BLANK)
    if not text.startswith("/"):
        return Match(None, "", line)
    end = next((at for at, character in enumerate(text) if character in _BLANK), len(text))
    word, rest = text[1:end], text[end:].lstrip(_BLANK)
    at = next((number for number, one in enumerate(commands) if one.command == word), None)
    if at is None:
        return Match(None, "", line)
    return Match(commands[at].name, rest, rest or text, at)

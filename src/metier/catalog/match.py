"""What a line of input asks for: a command and its arguments, or nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..types.catalog import Match
from ..types.dialect import CommandForm, Matching
from .commands import command_names

_command = re.compile(r"/([^\s/]\S*)(?:\s+(.*))?", re.DOTALL).fullmatch
_BLANK = " \t\r\n"
_spellings = re.compile(r"[\s_-]+")


def match(line: str, pairs: Sequence[tuple[str, str]], form: CommandForm, matching: Matching) -> Match:
    """Find the skill that a line calls, among (name, directory) pairs.  The name found is the skill's own."""
    if matching == "tail":
        return _tail(line, pairs)
    text = line.strip() if matching == "loose" else line.lstrip()
    found = _command(text)
    if found is None:
        return Match(None, "", line)
    word, arguments = found[1], found[2] or ""
    if matching == "exact":
        names = dict(zip(command_names(pairs, form, ()), (name for name, _ in pairs), strict=True))
        name = names.get(word)
        return Match(name, arguments if name is not None else "", line)
    if word.lower() == "skill" and arguments:
        parts = arguments.split(None, 1)
        called, rest = parts[0], parts[1] if len(parts) > 1 else ""
        name = _loose(called, pairs, form)
        if name is not None:
            return Match(name, rest.strip(), line)
    name = _loose(word, pairs, form)
    return Match(name, arguments.strip() if name is not None else "", line)


def _loose(word: str, pairs: Sequence[tuple[str, str]], form: CommandForm) -> str | None:
    """By the command, then by the name, then with blanks, `_` and `-` taken alike; case does not matter."""
    low = word.lower()
    named = [(command, *pair) for command, pair in zip(command_names(pairs, form, ()), pairs, strict=True)]
    for command, name, _ in named:
        if command == low:
            return name
    for _, name, directory in named:
        if low in (name.lower(), directory.lower()):
            return name
    folded = _folded(low)
    for command, name, directory in named:
        if folded in (_folded(name.lower()), _folded(directory.lower()), _folded(command)):
            return name
    return None


def _folded(text: str) -> str:
    return _spellings.sub("-", text)


def _tail(line: str, pairs: Sequence[tuple[str, str]]) -> Match:
    """Agents that take the rest of the line as the user's message; without a rest, the command itself."""
    text = line.lstrip(_BLANK)
    if not text.startswith("/"):
        return Match(None, "", line)
    end = next((at for at, character in enumerate(text) if character in _BLANK), len(text))
    word, rest = text[1:end], text[end:].lstrip(_BLANK)
    if word not in {name for name, _ in pairs}:
        return Match(None, "", line)
    return Match(word, rest, rest or text)

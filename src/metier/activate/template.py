"""The author's text, split once into pieces; each piece is filled, and nothing that was filled in is read again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from ..types.dialect import Arguments
from .words import words_of


class Text(NamedTuple):
    """What the author wrote, to be kept as it is."""

    text: str


class Whole(NamedTuple):
    """All arguments."""

    source: str


class Word(NamedTuple):
    """One argument, by its place; 0 is the first."""

    at: int
    source: str


class Slice(NamedTuple):
    """The arguments from one on; all of them, or so many."""

    start: int
    length: int | None
    source: str


class Named(NamedTuple):
    """One argument, by the name the frontmatter gives it."""

    at: int
    source: str


class Variable(NamedTuple):
    name: str
    source: str


Piece: TypeAlias = Text | Whole | Word | Slice | Named | Variable


@dataclass(frozen=True)
class Given:
    """What fills the placeholders: the arguments as they came, the names declared for them, the variables."""

    arguments: str | tuple[str, ...] = ""
    names: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def pieces(text: str, arguments: Arguments | None, names: Sequence[str], variables: Sequence[str]) -> tuple[Piece, ...]:
    """Split a text at its placeholders, from left to right, once."""
    pattern = _pattern(arguments, tuple(names), tuple(variables))
    if pattern is None:
        return (Text(text),) if text else ()
    found: list[Piece] = []
    last = 0
    for match in pattern.finditer(text):
        if match.start() > last:
            found.append(Text(text[last : match.start()]))
        found.extend(_read(match, arguments, names))
        last = match.end()
    if last < len(text):
        found.append(Text(text[last:]))
    return tuple(found)


@lru_cache(maxsize=256)
def _pattern(arguments: Arguments | None, names: tuple[str, ...], variables: tuple[str, ...]) -> re.Pattern[str] | None:
    """One pattern for every form a dialect has; the longer form first where two begin alike."""
    forms = []
    if variables:
        forms.append(r"\$\{(?P<variable>" + "|".join(map(re.escape, sorted(variables, key=len, reverse=True))) + r")\}")
    own = []
    if arguments is not None:
        if arguments.slices:
            own.append(r"\$\{@:(?P<start>[0-9]+)(?::(?P<count>[0-9]+))?\}")
        if arguments.bracketed:
            own.append(r"\$ARGUMENTS\[(?P<bracket>[0-9]+)\]")
        own.append(r"(?P<whole>\$ARGUMENTS" + (r"|\$@" if arguments.slices else "") + ")")
        own.append(r"\$(?P<number>[0-9](?!\w))" if arguments.single_digit else r"\$(?P<number>[0-9]+)")
        if arguments.named and names:
            longest = sorted((name for name in names if name), key=len, reverse=True)
            own.append(r"\$(?P<name>" + "|".join(map(re.escape, longest)) + r")(?!\w)")
        escape = r"(?P<escape>(?<!\\)\\(?=\$))?" if arguments.escape else ""
        forms.append(escape + "(?:" + "|".join(own) + ")")
    return re.compile("|".join(forms)) if forms else None


def _read(match: re.Match[str], arguments: Arguments | None, names: Sequence[str]) -> list[Piece]:
    """The piece a match stands for; an escaped form is text, without its backslash."""
    source = match[0]
    parts = match.groupdict()
    if parts.get("escape"):
        return [Text(source[1:])]
    if parts.get("variable"):
        return [Variable(parts["variable"], source)]
    assert arguments is not None
    if parts.get("whole"):
        return [Whole(source)]
    if parts.get("start") is not None:
        count = parts.get("count")
        return [Slice(max(0, _number(parts["start"]) - 1), None if count is None else _number(count), source)]
    if parts.get("name") is not None:
        return [Named(list(names).index(parts["name"]), source)]
    number = parts.get("bracket") or parts.get("number") or "0"
    first = 0 if parts.get("bracket") is not None else arguments.first
    return [Word(_number(number) - first, source)]


def _number(digits: str) -> int:
    """A number that is at most absurd: more digits than any list has words."""
    return int(digits[-9:]) if len(digits.lstrip("0")) <= 9 else 999_999_999


def fill(found: Sequence[Piece], arguments: Arguments | None, given: Given) -> str:
    """The text with every placeholder replaced.  What is put in is never looked at again."""
    if arguments is None:
        words: tuple[str, ...] = ()
        whole = ""
    else:
        words = words_of(given.arguments, arguments.splitting)
        whole = whole_of(given.arguments, words, arguments)
    return "".join([value_of(piece, words, whole, arguments, given) for piece in found])


def whole_of(given: str | tuple[str, ...], words: Sequence[str], arguments: Arguments) -> str:
    if arguments.whole == "joined":
        return " ".join(words)
    return given if isinstance(given, str) else arguments.joint.join(given)


def value_of(piece: Piece, words: Sequence[str], whole: str, arguments: Arguments | None, given: Given) -> str:
    match piece:
        case Text(text):
            return text
        case Whole():
            return whole
        case Variable(name, source):
            return given.variables.get(name, source)
        case Slice(start, length, _):
            return " ".join(words[start:] if length is None else words[start : start + length])
        case Named(at, _):
            return words[at] if at < len(words) else ""
        case Word(at, source):
            if 0 <= at < len(words):
                return words[at]
            return source if arguments is not None and arguments.missing == "stays" else ""

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


class Escaped(NamedTuple):
    """A placeholder behind a backslash: it stands for itself."""

    source: str


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


class Rooted(NamedTuple):
    """A folder of the skill at the start of a path, which gets the skill's own folder in front."""

    folder: str
    source: str


Piece: TypeAlias = Text | Escaped | Whole | Word | Slice | Named | Variable | Rooted


class Forms(NamedTuple):
    """What counts as a placeholder in a body."""

    arguments: Arguments | None = None
    names: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    rooted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Given:
    """What fills the placeholders: the arguments as they came, the names declared for them, the variables."""

    arguments: str | tuple[str, ...] = ""
    names: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    """The skill's own."""


def pieces(text: str, forms: Forms) -> tuple[Piece, ...]:
    """Split a text at its placeholders, from left to right, once."""
    pattern = _pattern(forms)
    if pattern is None:
        return (Text(text),) if text else ()
    found: list[Piece] = []
    last = 0
    for match in pattern.finditer(text):
        if match.start() > last:
            found.append(Text(text[last : match.start()]))
        found.append(_read(match, forms))
        last = match.end()
    if last < len(text):
        found.append(Text(text[last:]))
    return tuple(found)


@lru_cache(maxsize=256)
def _pattern(wanted: Forms) -> re.Pattern[str] | None:
    """One pattern for every form a dialect has; the longer form first where two begin alike."""
    forms = []
    arguments = wanted.arguments
    if wanted.variables:
        longest = sorted(wanted.variables, key=len, reverse=True)
        forms.append(r"\$\{(?P<variable>" + "|".join(map(re.escape, longest)) + r")\}")
    if wanted.rooted:
        forms.append(r"(?<![A-Za-z0-9_./\\~$}@%+:-])(?P<rooted>" + "|".join(map(re.escape, wanted.rooted)) + ")(?=/)")
    own = []
    if arguments is not None:
        if arguments.slices:
            own.append(r"\$\{@:(?P<start>[0-9]+)(?::(?P<count>[0-9]+))?\}")
        if arguments.bracketed:
            own.append(r"\$ARGUMENTS\[(?P<bracket>[0-9]+)\]")
        own.append(r"(?P<whole>\$ARGUMENTS" + (r"|\$@" if arguments.slices else "") + ")")
        own.append(r"\$(?P<number>[0-9](?!\w))" if arguments.single_digit else r"\$(?P<number>[0-9]+)")
        if arguments.named and wanted.names:
            longest = sorted((name for name in wanted.names if name), key=len, reverse=True)
            own.append(r"\$(?P<name>" + "|".join(map(re.escape, longest)) + r")(?!\w)")
        escape = r"(?P<escape>(?<!\\)\\(?=\$))?" if arguments.escape else ""
        forms.append(escape + "(?:" + "|".join(own) + ")")
    return re.compile("|".join(forms)) if forms else None


def _read(match: re.Match[str], forms: Forms) -> Piece:
    """The piece a match stands for; an escaped form is text, without its backslash."""
    source = match[0]
    if source[0] == "\\":
        return Escaped(source)
    kind = match.lastgroup
    if kind == "variable":
        return Variable(match["variable"], source)
    if kind == "rooted":
        return Rooted(source, source)
    assert forms.arguments is not None
    if kind == "whole":
        return Whole(source)
    if kind in ("start", "count"):
        count = match["count"]
        return Slice(max(0, _number(match["start"]) - 1), None if count is None else _number(count), source)
    if kind == "name":
        return Named(forms.names.index(match["name"]), source)
    if kind == "bracket":
        return Word(_number(match["bracket"]), source)
    return Word(_number(match["number"]) - forms.arguments.first, source)


def _number(digits: str) -> int:
    """A number that is at most absurd: more digits than any list has words."""
    return int(digits[-9:]) if len(digits.lstrip("0")) <= 9 else 999_999_999


class Filling(NamedTuple):
    """What there is to fill a body with, worked out once."""

    words: tuple[str, ...]
    whole: str
    stays: bool
    """A word that is missing leaves its placeholder as it stands."""
    variables: Mapping[str, str]
    folder: str


def filling(given: Given, arguments: Arguments | None) -> Filling:
    if arguments is None:
        return Filling((), "", False, given.variables, given.folder)
    words = words_of(given.arguments, arguments.splitting)
    whole = " ".join(words) if arguments.whole == "joined" else given.arguments
    if not isinstance(whole, str):
        whole = arguments.joint.join(whole)
    return Filling(words, whole, arguments.missing == "stays", given.variables, given.folder)


def fill(found: Sequence[Piece], arguments: Arguments | None, given: Given) -> str:
    """The text with every placeholder replaced.  What is put in is never looked at again."""
    filled = filling(given, arguments)
    return "".join([piece.text if isinstance(piece, Text) else value_of(piece, filled) for piece in found])


def value_of(piece: Piece, filled: Filling) -> str:
    """What a piece becomes in the text."""
    match piece:
        case Text(text):
            return text
        case Escaped(source):
            return source[1:]
        case Whole():
            return filled.whole
        case Variable(name, source):
            return filled.variables.get(name, source)
        case Rooted(name, _):
            return f"{filled.folder}/{name}"
        case Slice():
            return " ".join(words_at(piece, filled))
        case Named(at, _):
            return filled.words[at] if at < len(filled.words) else ""
        case Word(at, source):
            if 0 <= at < len(filled.words):
                return filled.words[at]
            return source if filled.stays else ""


def words_at(piece: Slice, filled: Filling) -> tuple[str, ...]:
    words = filled.words[piece.start :]
    return words if piece.length is None else words[: piece.length]


def is_there(piece: Piece, filled: Filling) -> bool:
    """Whether there is a value for it at all: a word that was not given has none."""
    match piece:
        case Word(at, _) | Named(at, _):
            return 0 <= at < len(filled.words)
        case Variable(name, _):
            return name in filled.variables
        case Slice():
            return bool(words_at(piece, filled))
        case Whole():
            return bool(filled.whole)
        case _:
            return True

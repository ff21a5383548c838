"""The author's text, split once into pieces; each piece is filled, and nothing that was filled in is read again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from ..types.dialect import Arguments
from .words import words_of


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


Placeholder: TypeAlias = Escaped | Whole | Word | Slice | Named | Variable | Rooted
Piece: TypeAlias = str | Placeholder
"""What the author wrote, to be kept as it is, or something to put in its place."""


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
    if forms.rooted:
        return tuple(_rooted(text, forms.rooted))
    reader = _reader(forms)
    if reader is None or "$" not in text:
        return (text,) if text else ()
    pattern, known = reader
    escape = forms.arguments is not None and forms.arguments.escape
    found: list[Piece] = []
    last = 0
    for match in pattern.finditer(text):
        source = match[0]
        start, end = match.span()
        piece = known.get(source)
        if piece is None:
            piece = known[source] = _read(match, forms)
            if len(known) > _MOST_KNOWN:
                known.clear()
        if escape and start and text[start - 1] == "\\" and type(piece) is not Variable and _escaped(text, start):
            start -= 1
            piece = Escaped(text[start:end])
        if start > last:
            found.append(text[last:start])
        found.append(piece)
        last = end
    if last < len(text):
        found.append(text[last:])
    return tuple(found)


_MOST_KNOWN = 1_000


def _escaped(text: str, start: int) -> bool:
    """One backslash directly before makes a form literal; two do not."""
    return start < 2 or text[start - 2] != "\\"


def _rooted(text: str, folders: Sequence[str]) -> Iterator[Piece]:
    last = 0
    for match in _at_start_of_path(tuple(folders)).finditer(text):
        if match.start() > last:
            yield text[last : match.start()]
        yield Rooted(match[0], match[0])
        last = match.end()
    if last < len(text):
        yield text[last:]


@lru_cache(maxsize=16)
def _at_start_of_path(folders: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(r"(?<![A-Za-z0-9_./\\~$}@%+:-])(?:" + "|".join(map(re.escape, folders)) + ")(?=/)")


@lru_cache(maxsize=256)
def _reader(wanted: Forms) -> tuple[re.Pattern[str], dict[str, Placeholder]] | None:
    """One pattern for every form a dialect has, and what was read with it before.

    Every form begins with `$`, which makes the search quick; the longer form comes first where two begin alike.
    """
    forms = []
    arguments = wanted.arguments
    if wanted.variables:
        longest = sorted(wanted.variables, key=len, reverse=True)
        forms.append(r"\{(?P<variable>" + "|".join(map(re.escape, longest)) + r")\}")
    if arguments is not None:
        if arguments.slices:
            forms.append(r"\{@:(?P<start>[0-9]+)(?::(?P<count>[0-9]+))?\}")
        if arguments.bracketed:
            forms.append(r"ARGUMENTS\[(?P<bracket>[0-9]+)\]")
        forms.append(r"(?P<whole>ARGUMENTS" + (r"|@" if arguments.slices else "") + ")")
        forms.append(r"(?P<number>[0-9](?!\w))" if arguments.single_digit else r"(?P<number>[0-9]+)")
        if arguments.named and wanted.names:
            longest = sorted((name for name in wanted.names if name), key=len, reverse=True)
            forms.append(r"(?P<name>" + "|".join(map(re.escape, longest)) + r")(?!\w)")
    return (re.compile(r"\$(?:" + "|".join(forms) + ")"), {}) if forms else None


def _read(match: re.Match[str], forms: Forms) -> Placeholder:
    """The placeholder a match stands for."""
    source = match[0]
    kind = match.lastgroup
    if kind == "variable":
        return Variable(match["variable"], source)
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
    return "".join([piece if isinstance(piece, str) else value_of(piece, filled) for piece in found])


def value_of(piece: Placeholder, filled: Filling) -> str:
    """What a placeholder becomes in the text."""
    match piece:
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


def is_there(piece: Placeholder, filled: Filling) -> bool:
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

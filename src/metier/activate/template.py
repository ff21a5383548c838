"""Placeholders: splits a text at them, and fills them in.

A text becomes pieces, plain text and placeholders, in one pass from left to right.  Filling joins the pieces; nothing
that was filled in is searched again.  Refused: replacing one form of placeholder after the other in the whole text; an
argument that holds `$2` would then be replaced by the second argument.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from ..parse.markers import fenced_code
from ..types.dialect import ArgumentRules, ArgumentSplitting

# --- Arguments ---


def split_arguments(text: str, splitting: ArgumentSplitting) -> tuple[str, ...]:
    """The words of an argument string; in a dialect that does not split, the string is the only word."""
    if splitting == "quotes":
        return tuple(_split_quoted(text))
    if splitting == "blanks":
        return tuple(text.split())
    if splitting == "shell":
        return _split_shell(text)
    return (text,) if text else ()


def argument_words(arguments: str | Sequence[str], splitting: ArgumentSplitting) -> tuple[str, ...]:
    """The words of arguments from a program: a list is words already."""
    return split_arguments(arguments, splitting) if isinstance(arguments, str) else tuple(arguments)


def _split_quoted(text: str) -> list[str]:
    """Quotes group, also inside a word; a backslash is an ordinary character; an open quote runs to the end."""
    words: list[str] = []
    word: list[str] = []
    quote = ""
    for character in text:
        if quote:
            if character == quote:
                quote = ""
            else:
                word.append(character)
        elif character in "\"'":
            quote = character
        elif character.isspace():
            if word:
                words.append("".join(word))
                word = []
        else:
            word.append(character)
    if word:
        words.append("".join(word))
    return words


def _split_shell(text: str) -> tuple[str, ...]:
    """As a shell would; if the quotes don't balance, at white space, with the quotes kept."""
    try:
        return tuple(shlex.split(text, comments=False, posix=True))
    except ValueError:
        return tuple(text.split())


# --- Pieces ---


class EscapedPlaceholder(NamedTuple):
    """A placeholder after a backslash: it is plain text."""

    source: str


class AllArguments(NamedTuple):
    """All arguments."""

    source: str


class PositionalArgument(NamedTuple):
    """One argument by position; 0 is the first."""

    at: int
    source: str


class ArgumentSlice(NamedTuple):
    """The arguments from a position on; all of them, or so many."""

    start: int
    length: int | None
    source: str


class NamedArgument(NamedTuple):
    """One argument by the name from the frontmatter."""

    at: int
    source: str


class VariablePlaceholder(NamedTuple):
    """A variable of the dialect, such as the skill's folder."""

    name: str
    source: str


class RootedPath(NamedTuple):
    """A folder of the skill at the start of a path; the skill's folder is put before it."""

    folder: str
    source: str


Placeholder: TypeAlias = (
    EscapedPlaceholder
    | AllArguments
    | PositionalArgument
    | ArgumentSlice
    | NamedArgument
    | VariablePlaceholder
    | RootedPath
)
Piece: TypeAlias = str | Placeholder
"""Text to keep, or a placeholder."""


class PlaceholderForms(NamedTuple):
    """The forms of placeholders in a body."""

    arguments: ArgumentRules | None = None
    names: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    rooted: tuple[str, ...] = ()
    numbers: Literal["any", "alone", "escaped"] = "any"
    """Which `$N` is a placeholder: any, one that stands alone, or none; the last still drops a backslash."""


@dataclass(frozen=True)
class TemplateValues:
    """The values of placeholders: the arguments as given, their declared names, the variables."""

    arguments: str | tuple[str, ...] = ""
    names: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    """The skill's folder."""


# --- Splitting ---


def split_pieces(text: str, forms: PlaceholderForms) -> tuple[Piece, ...]:
    """Split a text at its placeholders, from left to right, once."""
    if forms.rooted:
        return tuple(_split_rooted(text, forms.rooted))
    reader = _placeholder_pattern(forms)
    if reader is None or "$" not in text:
        return (text,) if text else ()
    pattern, cached = reader
    escape = forms.arguments is not None and forms.arguments.escape
    parts: list[Piece] = []
    last = 0
    for match in pattern.finditer(text):
        source = match[0]
        start, end = match.span()
        # The source alone decides what a placeholder is; only the escape depends on its place.
        piece = cached.get(source)
        if piece is None:
            piece = cached[source] = _parse_placeholder(match, forms)
            if len(cached) > _MAX_CACHED:
                cached.clear()
        if (
            escape
            and start
            and text[start - 1] == "\\"
            and type(piece) is not VariablePlaceholder
            and _is_escaped(text, start)
        ):
            start -= 1
            piece = EscapedPlaceholder(text[start:end])
        if start > last:
            parts.append(text[last:start])
        parts.append(piece)
        last = end
    if last < len(text):
        parts.append(text[last:])
    return tuple(parts)


def split_text(text: str, forms: PlaceholderForms) -> tuple[Piece, ...]:
    """Split the text of a body, in which a dialect may want `$N` to stand alone and outside fenced code."""
    if forms.arguments is None or not forms.arguments.alone or "$" not in text:
        return split_pieces(text, forms)
    prose, code = forms._replace(numbers="alone"), forms._replace(numbers="escaped")
    pieces: list[Piece] = []
    last = 0
    for start, end in fenced_code(text):
        pieces += [*split_pieces(text[last:start], prose), *split_pieces(text[start:end], code)]
        last = end
    return (*pieces, *split_pieces(text[last:] if last else text, prose))


_MAX_CACHED = 1_000
"""Placeholders that are remembered for each set of forms; a body may hold any number."""


def _is_escaped(text: str, start: int) -> bool:
    """Whether exactly one backslash is before it; two are an escaped backslash."""
    return start < 2 or text[start - 2] != "\\"


def _split_rooted(text: str, folders: Sequence[str]) -> Iterator[Piece]:
    last = 0
    for match in _at_start_of_path(tuple(folders)).finditer(text):
        if match.start() > last:
            yield text[last : match.start()]
        yield RootedPath(match[0], match[0])
        last = match.end()
    if last < len(text):
        yield text[last:]


@lru_cache(maxsize=16)
def _at_start_of_path(folders: tuple[str, ...]) -> re.Pattern[str]:
    """The folders where a path begins: not inside a word, a longer path, a variable or a URL."""
    return re.compile(r"(?<![A-Za-z0-9_./\\~$}@%+:-])(?:" + "|".join(map(re.escape, folders)) + ")(?=/)")


@lru_cache(maxsize=256)
def _placeholder_pattern(placeholder_forms: PlaceholderForms) -> tuple[re.Pattern[str], dict[str, Placeholder]] | None:
    """One pattern for all forms of a dialect, and a cache of what was read with it.

    Every form begins with `$`, which makes the search fast; of two forms with the same start, the longer comes first.
    """
    forms = []
    arguments = placeholder_forms.arguments
    if placeholder_forms.variables:
        longest = sorted(placeholder_forms.variables, key=len, reverse=True)
        forms.append(r"\{(?P<variable>" + "|".join(map(re.escape, longest)) + r")\}")
    if arguments is not None:
        if arguments.slices:
            forms.append(r"\{@:(?P<start>[0-9]+)(?::(?P<count>[0-9]+))?\}")
        if arguments.bracketed:
            forms.append(r"ARGUMENTS\[(?P<bracket>[0-9]+)\]")
        forms.append(r"(?P<whole>ARGUMENTS" + (r"|@" if arguments.slices else "") + ")")
        number = r"[0-9](?!\w)" if arguments.single_digit else r"[0-9]+"
        forms.append(f"(?P<number>{_number_pattern(number, placeholder_forms.numbers)})")
        if arguments.named and placeholder_forms.names:
            longest = sorted((name for name in placeholder_forms.names if name), key=len, reverse=True)
            forms.append(r"(?P<name>" + "|".join(map(re.escape, longest)) + r")(?!\w)")
    return (re.compile(r"\$(?:" + "|".join(forms) + ")"), {}) if forms else None


# Around a `$N` that stands alone: white space, quotes, brackets, or the end of a sentence or a clause.
_ESCAPED_NUMBER = r"(?<=\\\$)(?<!\\\\\$)"
_BEFORE_ALONE = r"(?<![^\s\"'`(\[=:|*_]\$)"
_AFTER_ALONE = r"(?=\Z|[\s\"'`)\]|*_]|[.,;:!?](?![\w$]))"


def _number_pattern(number: str, which: Literal["any", "alone", "escaped"]) -> str:
    """The digits after a `$`.  After a single backslash they always count, so that the backslash is taken away."""
    if which == "any":
        return number
    escaped = _ESCAPED_NUMBER + number
    return escaped if which == "escaped" else f"{escaped}|{_BEFORE_ALONE}{number}(?![0-9]){_AFTER_ALONE}"


def _parse_placeholder(match: re.Match[str], forms: PlaceholderForms) -> Placeholder:
    """The placeholder of a match."""
    source = match[0]
    kind = match.lastgroup
    if kind == "variable":
        return VariablePlaceholder(match["variable"], source)
    assert forms.arguments is not None
    if kind == "whole":
        return AllArguments(source)
    if kind in ("start", "count"):
        count = match["count"]
        return ArgumentSlice(
            max(0, _bounded_number(match["start"]) - 1), None if count is None else _bounded_number(count), source
        )
    if kind == "name":
        return NamedArgument(forms.names.index(match["name"]), source)
    if kind == "bracket":
        return PositionalArgument(_bounded_number(match["bracket"]), source)
    return PositionalArgument(_bounded_number(match["number"]) - forms.arguments.first, source)


def _bounded_number(digits: str) -> int:
    """A number of at most nine digits: `int` refuses thousands of them, and no list has as many words."""
    return int(digits[-9:]) if len(digits.lstrip("0")) <= 9 else 999_999_999


# --- Filling ---


class PreparedValues(NamedTuple):
    """The values for a body, prepared once."""

    words: tuple[str, ...]
    whole: str
    stays: bool
    """The placeholder of a missing word stays as written."""
    variables: Mapping[str, str]
    folder: str


def prepare_values(values: TemplateValues, arguments: ArgumentRules | None) -> PreparedValues:
    if arguments is None:
        return PreparedValues((), "", False, values.variables, values.folder)
    words = argument_words(values.arguments, arguments.splitting)
    # Some dialects give back the arguments as typed, others the words joined by a blank.
    joined = " ".join(words) if arguments.whole == "joined" else values.arguments
    if not isinstance(joined, str):
        joined = arguments.joint.join(joined)
    return PreparedValues(words, joined, arguments.missing == "stays", values.variables, values.folder)


def fill_pieces(parts: Sequence[Piece], arguments: ArgumentRules | None, values: TemplateValues) -> str:
    """The text with every placeholder replaced."""
    filled = prepare_values(values, arguments)
    return "".join([piece if isinstance(piece, str) else placeholder_value(piece, filled) for piece in parts])


def placeholder_value(piece: Placeholder, filled: PreparedValues) -> str:
    """The text that replaces a placeholder."""
    match piece:
        case EscapedPlaceholder(source):
            return source[1:]
        case AllArguments():
            return filled.whole
        case VariablePlaceholder(name, source):
            return filled.variables.get(name, source)
        case RootedPath(name, _):
            return f"{filled.folder}/{name}"
        case ArgumentSlice():
            return " ".join(slice_words(piece, filled))
        case NamedArgument(at, _):
            return filled.words[at] if at < len(filled.words) else ""
        case PositionalArgument(at, source):
            if 0 <= at < len(filled.words):
                return filled.words[at]
            return source if filled.stays else ""


def slice_words(piece: ArgumentSlice, filled: PreparedValues) -> tuple[str, ...]:
    words = filled.words[piece.start :]
    return words if piece.length is None else words[: piece.length]


def has_value(piece: Placeholder, filled: PreparedValues) -> bool:
    """Whether there is a value: an argument that was not given has none."""
    match piece:
        case PositionalArgument(at, _) | NamedArgument(at, _):
            return 0 <= at < len(filled.words)
        case VariablePlaceholder(name, _):
            return name in filled.variables
        case ArgumentSlice():
            return bool(slice_words(piece, filled))
        case AllArguments():
            return bool(filled.whole)
        case _:
            return True

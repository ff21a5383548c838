"""Arguments as a person typed them, split into words the way the dialect splits them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ..types.dialect import Splitting


def split(text: str, how: Splitting) -> tuple[str, ...]:
    """The words of an argument string; a dialect that does not split has one word, the string itself."""
    if how == "quotes":
        return tuple(_quotes(text))
    if how == "blanks":
        return tuple(text.split())
    if how == "shell":
        return _shell(text)
    return (text,) if text else ()


def words_of(arguments: str | Sequence[str], how: Splitting) -> tuple[str, ...]:
    """The same for what a program hands over: a list is words already."""
    return split(arguments, how) if isinstance(arguments, str) else tuple(arguments)


def _quotes(text: str) -> list[str]:
    """Quotes group, also in mid-word; a backslash is a letter like any other; an open quote runs to the end."""
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


def _shell(text: str) -> tuple[str, ...]:
    """As a shell would; where the quotes do not balance, at white space, with the quotes kept."""
    try:
        return tuple(shlex.split(text, comments=False, posix=True))
    except ValueError:
        return tuple(text.split())

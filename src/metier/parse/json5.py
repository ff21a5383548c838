"""JSON and JSON5 text, read as a tree of text: scalars keep their source text, as everywhere."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..types.tree import Raw

DEEPEST = 64

_between = re.compile(r"(?:\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)+").match
_text = re.compile(r"\"((?:\\[\s\S]|[^\"\\\n])*)\"|'((?:\\[\s\S]|[^'\\\n])*)'").match
_word = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*").match
_scalar = re.compile(
    r"(?:true|false|null|[+-]?(?:Infinity|NaN|0[xX][0-9A-Fa-f]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))"
    r"(?![A-Za-z0-9_$.])"
).match
_escape = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(\r\n|[\s\S]))").sub
_metadata = re.compile(r"^metadata[ \t]*:", re.MULTILINE).search
_rest = re.compile(r"[ \t]*(?:#[^\n]*)?(?=\n|$)").match
_NAMED = {"n": "\n", "t": "\t", "b": "\b", "f": "\f", "r": "\r", "v": "\v", "0": "\0", "\n": "", "\r\n": ""}


class Lifted(NamedTuple):
    block: str
    """The block with an empty text in the metadata's place, every other line where it was."""
    metadata: dict[str, Raw]


class _NotJson(Exception):
    pass


def read(text: str) -> dict[str, Raw] | None:
    """The object that a text is, or None for anything else."""
    try:
        found, at = _object(text, _skip(text, 0), 1)
    except _NotJson:
        return None
    return found if _skip(text, at) == len(text) else None


def lift(block: str) -> Lifted | None:
    """Take metadata written as a JSON5 object, which need not be YAML, out of a block."""
    key = _metadata(block)
    if key is None:
        return None
    try:
        found, at = _object(block, _skip(block, key.end()), 1)
    except _NotJson:
        return None
    rest = _rest(block, at)
    if rest is None:
        return None
    empty = " ''" + "\n" * block.count("\n", key.end(), rest.end())
    return Lifted(block[: key.end()] + empty + block[rest.end() :], found)


def _skip(text: str, at: int) -> int:
    found = _between(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> tuple[Raw, int]:
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at, depth + 1)
    if first == "[":
        return _list(text, at, depth + 1)
    found = _text(text, at)
    if found:
        return _unescaped(found), found.end()
    found = _scalar(text, at)
    if found is None:
        raise _NotJson
    return found[0], found.end()


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Raw], int]:
    if text[at : at + 1] != "{" or depth > DEEPEST:
        raise _NotJson
    found: dict[str, Raw] = {}
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        quoted = _text(text, at)
        word = quoted or _word(text, at)
        if word is None:
            raise _NotJson
        key = _unescaped(quoted) if quoted else word[0]
        at = _skip(text, word.end())
        if text[at : at + 1] != ":":
            raise _NotJson
        found[key], at = _value(text, _skip(text, at + 1), depth)
        at = _after(text, at, "}")
    return found, at + 1


def _list(text: str, at: int, depth: int) -> tuple[list[Raw], int]:
    if depth > DEEPEST:
        raise _NotJson
    found: list[Raw] = []
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        item, at = _value(text, at, depth)
        found.append(item)
        at = _after(text, at, "]")
    return found, at + 1


def _after(text: str, at: int, end: str) -> int:
    """Past the comma that follows a member, or at the bracket that ends them."""
    at = _skip(text, at)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1)
    if text[at : at + 1] != end:
        raise _NotJson
    return at


def _unescaped(found: re.Match[str]) -> str:
    text = found[1] if found[1] is not None else found[2] or ""
    if "\\" not in text:
        return text
    plain = _escape(_one, text)
    # Characters beyond the first plane are written as two halves; a half alone is no character.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _one(found: re.Match[str]) -> str:
    digits = found[1] or found[2]
    return chr(int(digits, 16)) if digits else _NAMED.get(found[3], found[3])

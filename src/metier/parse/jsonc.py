"""JSON that people write: JSON5 metadata in frontmatter, and JSON files with comments that are edited in place.

Two readers, because they answer different questions.  The first gives the values of an object that need not be YAML
(OpenClaw's `metadata: { … }`).  The second gives where each value stands, so that one member of a client's settings
file can be changed while comments, order and layout of everything else stay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from json import dumps, loads
from typing import NamedTuple

from ..types.tree import RawValue

# --- JSON5 in frontmatter ---

MAX_JSON5_DEPTH = 64

_between = re.compile(r"(?:\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)+").match
_text = re.compile(r"\"((?:\\[\s\S]|[^\"\\\n])*)\"|'((?:\\[\s\S]|[^'\\\n])*)'").match
_word = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*").match
_scalar = re.compile(
    r"(?:true|false|null|[+-]?(?:Infinity|NaN|0[xX][0-9A-Fa-f]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))"
    r"(?![A-Za-z0-9_$.])"
).match
_escape = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(\r\n|[\s\S]))").sub
_metadata = re.compile(r"^metadata[ \t]*:", re.MULTILINE).search
_line_rest = re.compile(r"[ \t]*(?:#[^\n]*)?(?=\n|$)").match
_NAMED = {"n": "\n", "t": "\t", "b": "\b", "f": "\f", "r": "\r", "v": "\v", "0": "\0", "\n": "", "\r\n": ""}


class LiftedMetadata(NamedTuple):
    block: str
    """The block with an empty text in the metadata's place, every other line where it was."""
    metadata: dict[str, RawValue]


class _NotJson(Exception):
    pass


def read_json5(text: str) -> dict[str, RawValue] | None:
    """The object that a text is, or None for anything else."""
    try:
        tree, at = _read_object(text, _skip_blanks(text, 0), 1)
    except _NotJson:
        return None
    return tree if _skip_blanks(text, at) == len(text) else None


def lift_metadata(block: str) -> LiftedMetadata | None:
    """Take metadata written as a JSON5 object, which need not be YAML, out of a block."""
    key = _metadata(block)
    if key is None:
        return None
    try:
        metadata, at = _read_object(block, _skip_blanks(block, key.end()), 1)
    except _NotJson:
        return None
    line_end = _line_rest(block, at)
    if line_end is None:
        return None
    # As many lines as before, so that findings further down keep their lines.
    empty = " ''" + "\n" * block.count("\n", key.end(), line_end.end())
    return LiftedMetadata(block[: key.end()] + empty + block[line_end.end() :], metadata)


def _skip_blanks(text: str, at: int) -> int:
    match = _between(text, at)
    return match.end() if match else at


def _read_value(text: str, at: int, depth: int) -> tuple[RawValue, int]:
    first = text[at : at + 1]
    if first == "{":
        return _read_object(text, at, depth + 1)
    if first == "[":
        return _read_list(text, at, depth + 1)
    match = _text(text, at)
    if match:
        return _unescape_string(match), match.end()
    match = _scalar(text, at)
    if match is None:
        raise _NotJson
    return match[0], match.end()


def _read_object(text: str, at: int, depth: int) -> tuple[dict[str, RawValue], int]:
    if text[at : at + 1] != "{" or depth > MAX_JSON5_DEPTH:
        raise _NotJson
    members: dict[str, RawValue] = {}
    at = _skip_blanks(text, at + 1)
    while text[at : at + 1] != "}":
        quoted = _text(text, at)
        key_match = quoted or _word(text, at)
        if key_match is None:
            raise _NotJson
        key = _unescape_string(quoted) if quoted else key_match[0]
        at = _skip_blanks(text, key_match.end())
        if text[at : at + 1] != ":":
            raise _NotJson
        members[key], at = _read_value(text, _skip_blanks(text, at + 1), depth)
        at = _skip_comma(text, at, "}")
    return members, at + 1


def _read_list(text: str, at: int, depth: int) -> tuple[list[RawValue], int]:
    if depth > MAX_JSON5_DEPTH:
        raise _NotJson
    items: list[RawValue] = []
    at = _skip_blanks(text, at + 1)
    while text[at : at + 1] != "]":
        item, at = _read_value(text, at, depth)
        items.append(item)
        at = _skip_comma(text, at, "]")
    return items, at + 1


def _skip_comma(text: str, at: int, end: str) -> int:
    """Past the comma that follows a member, or at the bracket that ends them."""
    at = _skip_blanks(text, at)
    if text[at : at + 1] == ",":
        return _skip_blanks(text, at + 1)
    if text[at : at + 1] != end:
        raise _NotJson
    return at


def _unescape_string(match: re.Match[str]) -> str:
    text = match[1] if match[1] is not None else match[2] or ""
    if "\\" not in text:
        return text
    plain = _escape(_unescape_character, text)
    # Characters outside the basic plane are written as two surrogates; one alone is replaced.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unescape_character(match: re.Match[str]) -> str:
    digits = match[1] or match[2]
    return chr(int(digits, 16)) if digits else _NAMED.get(match[3], match[3])


# --- JSON with comments, edited in place ---

MAX_JSONC_DEPTH = 100
"""Deeper than any settings file, and far from Python's recursion limit."""


class BadJson(Exception):
    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class JsonNode(NamedTuple):
    """A value and where it stands; the members of an object, with where each key begins."""

    start: int
    end: int
    members: tuple[tuple[str, int, JsonNode], ...] | None = None
    """None for what is no object."""


def with_member(text: str, keys: Sequence[str], value: object) -> str:
    """The text with that value at a path of keys; objects on the way are made where they are missing."""
    source = text if text.strip() else "{}\n"
    node = _read_document(source)
    for at, key in enumerate(keys):
        if node.members is None:
            raise BadJson(f"{'.'.join(keys[:at]) or 'the file'} is not an object", _line_at(source, node.start))
        member = _member_of(node, key)
        if member is None:
            for inner in reversed(keys[at + 1 :]):
                value = {inner: value}
            return _insert_member(source, node, key, value)
        node = member
    return (
        source[: node.start]
        + _render_value(value, _indent_at(source, node.start), _indent_unit(source))
        + source[node.end :]
    )


def without_member(text: str, keys: Sequence[str]) -> str:
    """The text without what is at a path of keys, and the same text where there is nothing."""
    if not text.strip():
        return text
    node = _read_document(text)
    for key in keys[:-1]:
        member = _member_of(node, key)
        if member is None:
            return text
        node = member
    for at, (key, start, value) in enumerate(node.members or ()):
        if key != keys[-1]:
            continue
        members = node.members or ()
        # The comma goes too: the one before it, or the one after it where it is the first.
        if at:
            return text[: members[at - 1][2].end] + text[value.end :]
        if len(members) > 1:
            return text[:start] + text[members[1][1] :]
        return text[: node.start] + "{}" + text[node.end :]
    return text


def _member_of(node: JsonNode, key: str) -> JsonNode | None:
    return next((value for name, _, value in reversed(node.members or ()) if name == key), None)


def _insert_member(text: str, node: JsonNode, key: str, value: object) -> str:
    unit = _indent_unit(text)
    outer = _indent_at(text, node.start)
    if node.members:
        last = node.members[-1][2]
        inner = _indent_at(text, node.members[-1][1])
        line = f"{dumps(key, ensure_ascii=False)}: {_render_value(value, inner, unit)}"
        return f"{text[: last.end]},\n{inner}{line}{text[last.end :]}"
    inner = outer + unit
    line = f"{dumps(key, ensure_ascii=False)}: {_render_value(value, inner, unit)}"
    interior = text[node.start + 1 : node.end - 1].rstrip()
    return f"{text[: node.start]}{{\n{inner}{line}{interior}\n{outer}}}{text[node.end :]}"


def _render_value(value: object, indent: str, unit: str) -> str:
    return dumps(value, ensure_ascii=False, indent=unit).replace("\n", "\n" + indent)


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indent_unit(text: str) -> str:
    """What the file is indented with; two spaces where nothing is."""
    for line in text.split("\n"):
        blank = line[: len(line) - len(line.lstrip(" \t"))]
        if blank and line.strip()[:1] == '"':
            return blank
    return "  "


def _line_at(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _read_document(text: str) -> JsonNode:
    reader = _JsoncReader(text)
    node = reader.value(0)
    reader.skip()
    if reader.at < len(text):
        raise BadJson("unexpected text after the end of the document", _line_at(text, reader.at))
    return node


class _JsoncReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 1 if text[:1] == "\ufeff" else 0

    def skip(self) -> None:
        """Blanks and comments."""
        text = self.text
        while self.at < len(text):
            if text[self.at].isspace():
                self.at += 1
            elif text.startswith("//", self.at):
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif text.startswith("/*", self.at):
                end = text.find("*/", self.at + 2)
                if end < 0:
                    raise self.bad("unterminated comment")
                self.at = end + 2
            else:
                return

    def bad(self, reason: str) -> BadJson:
        return BadJson(reason, _line_at(self.text, self.at))

    def peek(self) -> str:
        self.skip()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> JsonNode:
        if depth > MAX_JSONC_DEPTH:
            raise self.bad(f"nested more than {MAX_JSONC_DEPTH} deep")
        match self.peek():
            case "{":
                return self.object(depth)
            case "[":
                return self.array(depth)
            case '"':
                start = self.at
                self.string()
                return JsonNode(start, self.at)
            case _:
                start = self.at
                while self.at < len(self.text) and (self.text[self.at].isalnum() or self.text[self.at] in "+-."):
                    self.at += 1
                if start == self.at:
                    raise self.bad("expected a value")
                return JsonNode(start, self.at)

    def string(self) -> str:
        start = self.at
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] not in '"\n':
            self.at += 2 if self.text[self.at] == "\\" else 1
        if self.text[self.at : self.at + 1] != '"':
            self.at = start
            raise self.bad("unterminated string")
        self.at += 1
        try:
            return str(loads(self.text[start : self.at]))
        except ValueError:
            raise self.bad("invalid string") from None

    def object(self, depth: int) -> JsonNode:
        start = self.at
        self.at += 1
        members = []
        while self.peek() != "}":
            if self.peek() != '"':
                raise self.bad("expected a key in double quotes")
            began = self.at
            key = self.string()
            if self.peek() != ":":
                raise self.bad("expected `:`")
            self.at += 1
            members.append((key, began, self.value(depth + 1)))
            if self.peek() == ",":
                self.at += 1
            elif self.peek() != "}":
                raise self.bad("expected `,`")
        self.at += 1
        return JsonNode(start, self.at, tuple(members))

    def array(self, depth: int) -> JsonNode:
        start = self.at
        self.at += 1
        while self.peek() != "]":
            self.value(depth + 1)
            if self.peek() == ",":
                self.at += 1
            elif self.peek() != "]":
                raise self.bad("expected `,`")
        self.at += 1
        return JsonNode(start, self.at)

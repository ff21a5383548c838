"""Change one member of a JSON file that people edit: comments, order and layout of everything else stay."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps, loads
from typing import NamedTuple

DEEPEST = 100


class BadJson(Exception):
    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class Node(NamedTuple):
    """A value and where it stands; the members of an object, with where each key begins."""

    start: int
    end: int
    members: tuple[tuple[str, int, Node], ...] | None = None
    """None for what is no object."""


def with_member(text: str, keys: Sequence[str], value: object) -> str:
    """The text with that value at a path of keys; objects on the way are made where they are missing."""
    source = text if text.strip() else "{}\n"
    node = _read(source)
    for at, key in enumerate(keys):
        if node.members is None:
            raise BadJson(f"{'.'.join(keys[:at]) or 'the file'} is not an object", _line(source, node.start))
        found = _of(node, key)
        if found is None:
            for inner in reversed(keys[at + 1 :]):
                value = {inner: value}
            return _inserted(source, node, key, value)
        node = found
    return source[: node.start] + _written(value, _indent(source, node.start), _unit(source)) + source[node.end :]


def without_member(text: str, keys: Sequence[str]) -> str:
    """The text without what is at a path of keys, and the same text where there is nothing."""
    if not text.strip():
        return text
    node = _read(text)
    for key in keys[:-1]:
        found = _of(node, key)
        if found is None:
            return text
        node = found
    for at, (key, start, value) in enumerate(node.members or ()):
        if key != keys[-1]:
            continue
        members = node.members or ()
        if at:
            return text[: members[at - 1][2].end] + text[value.end :]
        if len(members) > 1:
            return text[:start] + text[members[1][1] :]
        return text[: node.start] + "{}" + text[node.end :]
    return text


def _of(node: Node, key: str) -> Node | None:
    return next((value for name, _, value in reversed(node.members or ()) if name == key), None)


def _inserted(text: str, node: Node, key: str, value: object) -> str:
    unit = _unit(text)
    outer = _indent(text, node.start)
    if node.members:
        last = node.members[-1][2]
        inner = _indent(text, node.members[-1][1])
        line = f"{dumps(key, ensure_ascii=False)}: {_written(value, inner, unit)}"
        return f"{text[: last.end]},\n{inner}{line}{text[last.end :]}"
    inner = outer + unit
    line = f"{dumps(key, ensure_ascii=False)}: {_written(value, inner, unit)}"
    rest = text[node.start + 1 : node.end - 1].rstrip()
    return f"{text[: node.start]}{{\n{inner}{line}{rest}\n{outer}}}{text[node.end :]}"


def _written(value: object, indent: str, unit: str) -> str:
    return dumps(value, ensure_ascii=False, indent=unit).replace("\n", "\n" + indent)


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """What the file is indented with; two blanks where nothing is."""
    for line in text.split("\n"):
        blank = line[: len(line) - len(line.lstrip(" \t"))]
        if blank and line.strip()[:1] == '"':
            return blank
    return "  "


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _read(text: str) -> Node:
    reader = _Reader(text)
    node = reader.value(0)
    reader.skip()
    if reader.at < len(text):
        raise BadJson("there is more behind the end", _line(text, reader.at))
    return node


class _Reader:
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
                    raise self.bad("a comment has no end")
                self.at = end + 2
            else:
                return

    def bad(self, reason: str) -> BadJson:
        return BadJson(reason, _line(self.text, self.at))

    def peek(self) -> str:
        self.skip()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise self.bad(f"it is nested more than {DEEPEST} deep")
        match self.peek():
            case "{":
                return self.object(depth)
            case "[":
                return self.array(depth)
            case '"':
                start = self.at
                self.string()
                return Node(start, self.at)
            case _:
                start = self.at
                while self.at < len(self.text) and (self.text[self.at].isalnum() or self.text[self.at] in "+-."):
                    self.at += 1
                if start == self.at:
                    raise self.bad("a value is missing")
                return Node(start, self.at)

    def string(self) -> str:
        start = self.at
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] not in '"\n':
            self.at += 2 if self.text[self.at] == "\\" else 1
        if self.text[self.at : self.at + 1] != '"':
            self.at = start
            raise self.bad("a string has no end")
        self.at += 1
        try:
            return str(loads(self.text[start : self.at]))
        except ValueError:
            raise self.bad("a string can't be read") from None

    def object(self, depth: int) -> Node:
        start = self.at
        self.at += 1
        members = []
        while self.peek() != "}":
            if self.peek() != '"':
                raise self.bad("a name in double quotes is missing")
            began = self.at
            key = self.string()
            if self.peek() != ":":
                raise self.bad("a colon is missing")
            self.at += 1
            members.append((key, began, self.value(depth + 1)))
            if self.peek() == ",":
                self.at += 1
            elif self.peek() != "}":
                raise self.bad("a comma is missing")
        self.at += 1
        return Node(start, self.at, tuple(members))

    def array(self, depth: int) -> Node:
        start = self.at
        self.at += 1
        while self.peek() != "]":
            self.value(depth + 1)
            if self.peek() == ",":
                self.at += 1
            elif self.peek() != "]":
                raise self.bad("a comma is missing")
        self.at += 1
        return Node(start, self.at)

"""The plain reader: frontmatter of the common, simple kind, read line by line.

It gives exactly what the YAML reader gives, or None: anything it is not sure of is the YAML reader's.
"""

from __future__ import annotations

import re

from ..types.tree import Raw
from .events import LONGEST

_key = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,63}):(?: +|$)").match
_COMMON = frozenset(
    {
        "name",
        "description",
        "license",
        "version",
        "author",
        "allowed-tools",
        "metadata",
        "source",
        "risk",
        "tags",
    }
)
"""Keys that are known to be keys, so that most lines need no pattern."""
_SPECIAL = frozenset("!&*-?:,[]{}#|>@%`\"' ")
_IN_FLOW = re.compile(r"[\[\]{}\"'#&*!|>%@`?]|: |:,|:$").search
_SIMPLE_JSON = re.compile(r'(?:[{}\[\], ]|"[A-Za-z0-9_ ./+-]{0,200}"(?:: ?)?)+').fullmatch
_DEEPEST = 8
HINT = frozenset({"argument-hint", "argument_hint", "argumentHint"})
"""Keys whose value is its source text, also when it looks like a list."""


def read(block: str) -> dict[str, Raw] | None:
    if len(block) > LONGEST:
        return None
    tree = _one_line_each(block)
    return tree if tree is not None else _mapping(block.split("\n"), 0)


def _one_line_each(block: str) -> dict[str, Raw] | None:
    """The simplest frontmatter of all: nothing but `key: plain text`, a line for each."""
    if "#" in block and " #" in block:
        return None
    tree: dict[str, Raw] = {}
    lines = block.split("\n")
    for line in lines:
        key, _, value = line.partition(": ")
        if key not in _COMMON or not value or value[0] in _SPECIAL or not value.isprintable():
            return None
        if value[-1] in " :" or (":" in value and ": " in value):
            return None
        tree[key] = value
    return tree if len(tree) == len(lines) else None


def _mapping(lines: list[str], depth: int) -> dict[str, Raw] | None:
    found: dict[str, Raw] = {}
    count = len(lines)
    at = 0
    while at < count:
        line = lines[at]
        at += 1
        if not line or line[0] == "#":
            if line and not line.isprintable():
                return None
            continue
        key, separator, value = line.partition(": ")
        if key not in _COMMON or not separator:
            matched = _key(line)
            if matched is None:
                return None
            key, value = matched[1], line[matched.end() :]
        if key in found or not value.isprintable():
            return None
        value = value.strip(" ")
        if value and value[0] not in _SPECIAL:
            if ": " in value or " #" in value or value[-1] == ":":
                return None
            if at < count and lines[at][:1] == " ":
                stop = _end_of_indented(lines, at)
                folded = _continued(value, lines[at:stop])
                if folded is None:
                    return None
                value, at = folded, stop
            found[key] = value
            continue
        stop = _end_of_value(lines, at) if not value else _end_of_indented(lines, at)
        other = _other(key, value, lines[at:stop], depth)
        if other is None:
            return None
        found[key] = other
        at = stop
    return found


def _end_of_indented(lines: list[str], at: int) -> int:
    """The first line that is not part of an indented block; blank lines before it are left outside."""
    stop = at
    for number in range(at, len(lines)):
        line = lines[number]
        if line[:1] == " ":
            stop = number + 1
        elif line:
            break
    return stop


def _end_of_value(lines: list[str], at: int) -> int:
    if at < len(lines) and lines[at][:2] == "- ":
        stop = at
        while stop < len(lines) and lines[stop][:2] == "- ":
            stop += 1
        return stop
    return _end_of_indented(lines, at)


def _other(key: str, value: str, below: list[str], depth: int) -> Raw | None:
    """A value that is not plain text on one line."""
    if not value:
        if below and not depth and key in HINT:
            return None
        return _nested(below, depth) if below else ""
    if value in ("|", ">", "|-", ">-", "|+", ">+"):
        return _block_scalar(value[0], below)
    if below:
        return None
    first, last = value[0], value[-1]
    if len(value) > 1 and first == last and first in "\"'":
        inner = value[1:-1]
        return None if first in inner or "\\" in inner else inner
    if first == "[" and last == "]":
        inner = value[1:-1]
        items = _flow_list(inner)
        return value if items is not None and not depth and key in HINT else items
    if first == "{" and last == "}" and value.count("{") + value.count("[") <= _DEEPEST and _SIMPLE_JSON(value):
        return _json(value)
    return None


def _continued(value: str, below: list[str]) -> str | None:
    """A plain scalar that goes on over indented lines."""
    parts = [value]
    for line in below:
        part = line.strip(" ")
        if not part or part[0] in _SPECIAL or not line.isprintable():
            return None
        if ": " in part or " #" in part or part[-1] == ":":
            return None
        parts.append(part)
    return " ".join(parts)


def _flow_list(inner: str) -> list[Raw] | None:
    if _IN_FLOW(inner):
        return None
    if not inner.strip(" "):
        return []
    items = [item.strip(" ") for item in inner.split(",")]
    if any(not item or item[0] in _SPECIAL for item in items):
        return None
    return list(items)


def _json(value: str) -> Raw | None:
    """A one-line JSON object that holds nothing but plain texts."""
    import json  # not needed for most skills, and slow to start

    seen_twice = False

    def pairs(items: list[tuple[str, Raw]]) -> dict[str, Raw]:
        nonlocal seen_twice
        made = dict(items)
        seen_twice = seen_twice or len(made) != len(items)
        return made

    try:
        found: Raw = json.loads(value, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return None
    if seen_twice or not isinstance(found, dict):
        return None
    return found


def _block_scalar(style: str, below: list[str]) -> str | None:
    if not below:
        return ""
    first = below[0]
    indent = len(first) - len(first.lstrip(" "))
    if not indent or indent == len(first):
        return None
    lines = []
    for line in below:
        if not line:
            lines.append("")
            continue
        if line[:indent].strip(" ") or len(line) <= indent or not line.isprintable() or line[-1] == " ":
            return None
        lines.append(line[indent:])
    if style == "|":
        return "\n".join(lines)
    if any(not line or line[0] == " " for line in lines):
        return None
    return " ".join(lines)


def _nested(below: list[str], depth: int) -> Raw | None:
    if depth >= _DEEPEST:
        return None
    first = below[0]
    indent = len(first) - len(first.lstrip(" "))
    lines = []
    for line in below:
        if line[:indent].strip(" ") or len(line) <= indent or line[indent] == "#":
            return None
        lines.append(line[indent:])
    if lines[0][:2] == "- ":
        return _block_list(lines)
    return _mapping(lines, depth + 1)


def _block_list(lines: list[str]) -> list[Raw] | None:
    items: list[Raw] = []
    for line in lines:
        item = line[2:].strip(" ")
        if line[:2] != "- " or not item or item[0] in _SPECIAL or not line.isprintable():
            return None
        if ": " in item or " #" in item or item[-1] == ":":
            return None
        items.append(item)
    return items

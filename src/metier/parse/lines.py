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
SPECIAL = frozenset("!&*-?:,[]{}#|>@%`\"' ")
_IN_FLOW = re.compile(r"[\[\]{}\"'#&*!|>%@`?]|: |:,|:$").search
_JSON = re.compile(
    r'(?:[{}\[\], ]|"[^"\\]{0,200}":?|(?:true|false|null|-?[0-9]{1,30}(?:\.[0-9]{1,30})?)(?=[,}\] ]))+'
).fullmatch
_ESCAPED = re.compile(r'(?:[^"\\]|\\["\\])*').fullmatch
_DEEPEST = 8
HINT = frozenset({"argument-hint", "argument_hint", "argumentHint"})
"""Keys whose value is its source text, also when it looks like a list."""


def read(block: str) -> dict[str, Raw] | None:
    """The block as a tree, or None.  Most blocks are nothing but `key: plain text`, a line for each."""
    if len(block) > LONGEST:
        return None
    lines = block.split("\n")
    found: dict[str, Raw] = {}
    if "#" in block and " #" in block:
        return _mapping(lines, 0, 0, found)
    for number, line in enumerate(lines):
        key, _, value = line.partition(": ")
        if (
            key not in _COMMON
            or not value
            or value[0] in SPECIAL
            or value[-1] in " :"
            or (":" in value and ": " in value)
            or not value.isprintable()
            or key in found
        ):
            if not number:
                return _mapping(lines, 0, 0, found)
            found.popitem()  # the line before may go on in this one
            return _mapping(lines, 0, number - 1, found)
        found[key] = value
    return found


def _mapping(lines: list[str], depth: int, at: int, found: dict[str, Raw]) -> dict[str, Raw] | None:
    """The lines from one on, added to what was found before them."""
    count = len(lines)
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
        if value and value[0] not in SPECIAL:
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
        return _unquoted(first, value[1:-1])
    if first == "[" and last == "]":
        inner = value[1:-1]
        items = _flow_list(inner)
        return value if items is not None and not depth and key in HINT else items
    if (
        first == "{"
        and last == "}"
        and key not in HINT
        and value.count("{") + value.count("[") <= _DEEPEST
        and _JSON(value)
    ):
        return _json(value)
    return None


def _unquoted(quote: str, inner: str) -> str | None:
    """What stands between quotes, where nothing but the quotes themselves is escaped."""
    if quote == "'":
        if "'" not in inner:
            return inner
        return None if "'" in inner.replace("''", "") else inner.replace("''", "'")
    if "\\" not in inner:
        return None if '"' in inner else inner
    return inner.replace('\\"', '"').replace("\\\\", "\\") if _ESCAPED(inner) and "\\\\" not in inner else None


def _continued(value: str, below: list[str]) -> str | None:
    """A plain scalar that goes on over indented lines."""
    parts = [value]
    for line in below:
        part = line.strip(" ")
        if not part or part[0] in SPECIAL or not line.isprintable():
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
    if any(not item or item[0] in SPECIAL for item in items):
        return None
    return list(items)


def _json(value: str) -> Raw | None:
    """A JSON object on one line, its scalars as they are written."""
    import json  # not needed for most skills, and slow to start

    try:
        found = _texts(json.loads(value, object_pairs_hook=_distinct, parse_int=str, parse_float=str))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _distinct(items: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(items)
    if len(made) != len(items) or "<<" in made:
        raise ValueError("a key twice")
    return made


def _texts(found: object) -> Raw:
    if isinstance(found, dict):
        return {key: _texts(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_texts(item) for item in found]
    return found if isinstance(found, str) else "null" if found is None else "true" if found else "false"


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
    return _mapping(lines, depth + 1, 0, {})


def _block_list(lines: list[str]) -> list[Raw] | None:
    items: list[Raw] = []
    for line in lines:
        item = line[2:].strip(" ")
        if line[:2] != "- " or not item or item[0] in SPECIAL or not line.isprintable():
            return None
        if ": " in item or " #" in item or item[-1] == ":":
            return None
        items.append(item)
    return items

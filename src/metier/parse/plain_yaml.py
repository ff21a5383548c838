"""Frontmatter without a YAML library: the plain reader for the common case, and repairs for common mistakes.

The plain reader reads line by line what almost all skills hold: keys with plain, quoted or block text, flat lists,
nested maps.  It gives exactly what the YAML reader gives, or None: anything it is not sure of is left to YAML, whose
import alone takes longer than most lists of skills.

A repair quotes a value that YAML can't read and that can only have been meant as text (`description: Use when: …`).
Every repair is read back, and reported; nothing is guessed about keys that may hold lists or maps.
"""

from __future__ import annotations

import re

from ..light_typing import NamedTuple
from ..types.tree import RawValue
from . import frontmatter
from .frontmatter import LONGEST_BLOCK, BadYaml, FrontmatterReading

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
SPECIAL_CHARACTERS = frozenset("!&*-?:,[]{}#|>@%`\"' ")
_IN_FLOW = re.compile(r"[\[\]{}\"'#&*!|>%@`?]|: |:,|:$").search
_JSON = re.compile(
    r'(?:[{}\[\], ]|"[^"\\]{0,200}":?|(?:true|false|null|-?[0-9]{1,30}(?:\.[0-9]{1,30})?)(?=[,}\] ]))+'
).fullmatch
_ESCAPED = re.compile(r'(?:[^"\\]|\\["\\])*').fullmatch
_DEEPEST = 8
"""Levels of nesting that are read here; deeper ones are left to YAML."""
HINT_KEYS = frozenset({"argument-hint", "argument_hint", "argumentHint"})
"""Keys whose value is its source text, also when it looks like a list."""


def read_plain(block: str) -> dict[str, RawValue] | None:
    """The block as a tree, or None.  Most blocks are nothing but `key: plain text`, a line for each."""
    if len(block) > LONGEST_BLOCK:
        return None
    lines = block.split("\n")
    tree: dict[str, RawValue] = {}
    # A comment may begin anywhere after a space; the first loop below does not look for one.
    if "#" in block and " #" in block:
        return _read_mapping(lines, 0, 0, tree)
    for number, line in enumerate(lines):
        key, _, value = line.partition(": ")
        if (
            key not in _COMMON
            or not value
            or value[0] in SPECIAL_CHARACTERS
            or value[-1] in " :"
            or (":" in value and ": " in value)
            or not value.isprintable()
            or key in tree
        ):
            if not number:
                return _read_mapping(lines, 0, 0, tree)
            tree.popitem()  # the line before may continue in this one
            return _read_mapping(lines, 0, number - 1, tree)
        tree[key] = value
    return tree


def _read_mapping(lines: list[str], depth: int, at: int, tree: dict[str, RawValue]) -> dict[str, RawValue] | None:
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
        # A duplicate is YAML's to report, and a character that does not print may be one that YAML refuses.
        if key in tree or not value.isprintable():
            return None
        value = value.strip(" ")
        if value and value[0] not in SPECIAL_CHARACTERS:
            if ": " in value or " #" in value or value[-1] == ":":
                return None
            if at < count and lines[at][:1] == " ":
                stop = _end_of_indented(lines, at)
                folded = _fold_lines(value, lines[at:stop])
                if folded is None:
                    return None
                value, at = folded, stop
            tree[key] = value
            continue
        stop = _end_of_value(lines, at) if not value else _end_of_indented(lines, at)
        parsed = _read_value(key, value, lines[at:stop], depth)
        if parsed is None:
            return None
        tree[key] = parsed
        at = stop
    return tree


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


def _read_value(key: str, value: str, below: list[str], depth: int) -> RawValue | None:
    """A value that is not plain text on one line."""
    if not value:
        if below and not depth and key in HINT_KEYS:
            return None
        return _read_nested(below, depth) if below else ""
    # Only scalars whose end does not matter: all trailing line feeds are removed from a block anyway.
    if value in ("|", ">", "|-", ">-", "|+", ">+"):
        return _block_scalar(value[0], below)
    if below:
        return None
    first, last = value[0], value[-1]
    if len(value) > 1 and first == last and first in "\"'":
        return _unquote_text(first, value[1:-1])
    if first == "[" and last == "]":
        inner = value[1:-1]
        items = _flow_list(inner)
        return value if items is not None and not depth and key in HINT_KEYS else items
    if (
        first == "{"
        and last == "}"
        and key not in HINT_KEYS
        and value.count("{") + value.count("[") <= _DEEPEST
        and _JSON(value)
    ):
        return _read_json_object(value)
    return None


def _unquote_text(quote: str, inner: str) -> str | None:
    """What stands between quotes, where nothing but the quotes themselves is escaped."""
    if quote == "'":
        if "'" not in inner:
            return inner
        return None if "'" in inner.replace("''", "") else inner.replace("''", "'")
    if "\\" not in inner:
        return None if '"' in inner else inner
    return inner.replace('\\"', '"').replace("\\\\", "\\") if _ESCAPED(inner) and "\\\\" not in inner else None


def _fold_lines(value: str, below: list[str]) -> str | None:
    """A plain scalar that goes on over indented lines."""
    parts = [value]
    for line in below:
        part = line.strip(" ")
        if not part or part[0] in SPECIAL_CHARACTERS or not line.isprintable():
            return None
        if ": " in part or " #" in part or part[-1] == ":":
            return None
        parts.append(part)
    return " ".join(parts)


def _flow_list(inner: str) -> list[RawValue] | None:
    if _IN_FLOW(inner):
        return None
    if not inner.strip(" "):
        return []
    items = [item.strip(" ") for item in inner.split(",")]
    if any(not item or item[0] in SPECIAL_CHARACTERS for item in items):
        return None
    return list(items)


def _read_json_object(value: str) -> RawValue | None:
    """A JSON object on one line, its scalars as they are written."""
    import json  # not needed for most skills, and slow to start

    try:
        parsed = _scalars_as_text(
            json.loads(value, object_pairs_hook=_reject_duplicates, parse_int=str, parse_float=str)
        )
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _reject_duplicates(items: list[tuple[str, object]]) -> dict[str, object]:
    # JSON lets the last of two keys win; YAML reports the duplicate, so this is left to it.
    members = dict(items)
    if len(members) != len(items) or "<<" in members:
        raise ValueError("a key twice")
    return members


def _scalars_as_text(node: object) -> RawValue:
    if isinstance(node, dict):
        return {key: _scalars_as_text(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_scalars_as_text(item) for item in node]
    return node if isinstance(node, str) else "null" if node is None else "true" if node else "false"


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


def _read_nested(below: list[str], depth: int) -> RawValue | None:
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
    return _read_mapping(lines, depth + 1, 0, {})


def _block_list(lines: list[str]) -> list[RawValue] | None:
    items: list[RawValue] = []
    for line in lines:
        item = line[2:].strip(" ")
        if line[:2] != "- " or not item or item[0] in SPECIAL_CHARACTERS or not line.isprintable():
            return None
        if ": " in item or " #" in item or item[-1] == ":":
            return None
        items.append(item)
    return items


# --- Repairs ---

STRUCTURED_KEYS = frozenset(
    {
        "metadata",
        "config",
        "install",
        "hooks",
        "arguments",
        "allowed-tools",
        "allowed_tools",
        "allowedTools",
        "disallowed-tools",
        "paths",
        "tags",
        "requires",
    }
)
"""Keys that may hold lists or maps; they are not taken as plain text."""

PATTERN_KEYS = frozenset({"paths", "allowed-tools", "allowed_tools", "allowedTools", "disallowed-tools", "tags"})
"""Those of them that hold words: one that begins like `*.py` can't be a list or a map."""

PLAIN_TEXT_KEYS = frozenset(
    {
        "name",
        "description",
        "argument-hint",
        "argument_hint",
        "argumentHint",
        "license",
        "compatibility",
        "version",
        "homepage",
        "when_to_use",
        "when-to-use",
        "author",
        "model",
    }
)

_KNOWN_KEYS = PLAIN_TEXT_KEYS | STRUCTURED_KEYS

MOST_KEYS = 200
"""Each key is read by itself to find the faulty ones, so their number bounds the time; no author writes more."""

_loose_key = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:[ \t]+(\S.*)$").match


class RepairedBlock(NamedTuple):
    reading: FrontmatterReading
    what: tuple[tuple[str, int], ...]
    """Each thing that was repaired, and its line in the block."""


def repair_colons(block: str) -> RepairedBlock | None:
    """Repair only the most common mistake, `: ` in a plain value: no YAML reader accepts it, so YAML is not loaded."""
    lines = block.split("\n")
    repaired = []
    for number, line in enumerate(lines):
        key, _, value = line.partition(": ")
        if ": " not in value or key not in PLAIN_TEXT_KEYS or not value[0].isalnum():
            continue
        if number + 1 < len(lines) and lines[number + 1][:1] in (" ", "\t"):
            return None
        text = value.rstrip(" ")
        if " #" in text:
            return None
        lines[number] = key + ": '" + text.replace("'", "''") + "'"
        repaired.append((f"`{key}`, taken as plain text", number))
    tree = read_plain("\n".join(lines)) if repaired else None
    return RepairedBlock(FrontmatterReading(tree), tuple(repaired)) if tree else None


def repair_block(block: str, fault: BadYaml) -> RepairedBlock:
    """Read a block again with its faulty plain values quoted; raise the first fault if that does not help."""
    if len(block) > frontmatter.LONGEST_BLOCK:
        raise fault
    lines = block.split("\n")
    if sum(line[:1] not in ("", " ", "\t", "#") for line in lines) > MOST_KEYS:
        raise fault
    repaired: list[tuple[str, int]] = []
    untabbed = [_expand_tabs(line) for line in lines]
    if untabbed != lines:
        first = next(number for number, line in enumerate(lines) if line != untabbed[number])
        repaired.append(("tabs in the indentation, read as spaces", first))
        lines = untabbed
    at = 0
    while at < len(lines):
        stop = at + 1
        while stop < len(lines) and lines[stop][:1] == " ":
            stop += 1
        quoted = _quote_value(lines[at:stop])
        if quoted is not None:
            key, text = quoted
            lines[at:stop] = [text] + [""] * (stop - at - 1)
            repaired.append((f"`{key}`, taken as plain text", at))
        at = stop
    if not repaired:
        raise fault
    block = "\n".join(lines)
    tree = read_plain(block)
    if tree:
        return RepairedBlock(FrontmatterReading(tree), tuple(repaired))
    try:
        return RepairedBlock(frontmatter.read_yaml(block), tuple(repaired))
    except BadYaml:
        raise fault from None


def _expand_tabs(line: str) -> str:
    stripped = line.lstrip(" \t")
    lead = line[: len(line) - len(stripped)]
    return lead.replace("\t", "  ") + stripped if "\t" in lead else line


def _quote_value(lines: list[str]) -> tuple[str, str] | None:
    """The lines of one key as a quoted value, if they are at fault and were meant as plain text."""
    matched = _loose_key(lines[0])
    if matched is None:
        return None
    key, value = matched[1], matched[2].rstrip()
    if key in STRUCTURED_KEYS and not (key in PATTERN_KEYS and value[0] in "*@`%"):
        return None
    if value.startswith(("!!", "!<")):
        return None
    if read_plain("\n".join(lines)):
        return None
    try:
        frontmatter.read_yaml("\n".join(lines))
    except BadYaml as fault:
        if fault.forbidden and key not in PLAIN_TEXT_KEYS and key not in PATTERN_KEYS:
            return None
    else:
        return None
    if len(lines) > 1 and key not in PLAIN_TEXT_KEYS:
        return None
    if any((slipped := _loose_key(line.strip())) and slipped[1] in _KNOWN_KEYS for line in lines[1:]):
        return None  # a key indented by mistake is not part of the text above it
    text = " ".join([value, *(line.strip() for line in lines[1:] if line.strip())])
    return key, key + ": '" + text.replace("'", "''") + "'"

"""Frontmatter that does not parse: values that were meant as plain text are taken as such, and it is tried again."""

from __future__ import annotations

import re
from typing import NamedTuple

from . import events
from . import lines as plain
from .events import BadYaml, Reading

STRUCTURED = frozenset(
    {
        "metadata", "config", "install", "hooks", "arguments", "allowed-tools", "allowed_tools", "allowedTools",
        "disallowed-tools", "paths", "tags", "requires",
    }
)  # fmt: skip
"""Keys that may hold lists or maps; they are not taken as plain text."""

PATTERNS = frozenset({"paths", "allowed-tools", "allowed_tools", "allowedTools", "disallowed-tools", "tags"})
"""Those of them that hold words: one that begins like `*.py` can't be a list or a map."""

PLAIN = frozenset(
    {
        "name", "description", "argument-hint", "argument_hint", "argumentHint", "license", "compatibility",
        "version", "homepage", "when_to_use", "when-to-use", "author", "model",
    }
)  # fmt: skip

_KNOWN = PLAIN | STRUCTURED

MOST_KEYS = 200
"""Each key of a block is read by itself to find the faulty ones; no author writes more."""

_key = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:[ \t]+(\S.*)$").match


class Repaired(NamedTuple):
    reading: Reading
    what: tuple[tuple[str, int], ...]
    """Each thing that was mended, and its line in the block."""


def repair_colons(block: str) -> Repaired | None:
    """The commonest slip alone, `: ` in a plain value: no YAML reader takes that, so none need be asked."""
    lines = block.split("\n")
    mended = []
    for number, line in enumerate(lines):
        key, _, value = line.partition(": ")
        if ": " not in value or key not in PLAIN or not value[0].isalnum():
            continue
        if number + 1 < len(lines) and lines[number + 1][:1] in (" ", "\t"):
            return None
        text = value.rstrip(" ")
        if " #" in text:
            return None
        lines[number] = key + ": '" + text.replace("'", "''") + "'"
        mended.append((f"`{key}`, taken as plain text", number))
    tree = plain.read("\n".join(lines)) if mended else None
    return Repaired(Reading(tree), tuple(mended)) if tree else None


def repair(block: str, fault: BadYaml) -> Repaired:
    """Read a block again with its faulty plain values quoted; raise the first fault if that does not help."""
    if len(block) > events.LONGEST:
        raise fault
    lines = block.split("\n")
    if sum(line[:1] not in ("", " ", "\t", "#") for line in lines) > MOST_KEYS:
        raise fault
    mended: list[tuple[str, int]] = []
    untabbed = [_untab(line) for line in lines]
    if untabbed != lines:
        first = next(number for number, line in enumerate(lines) if line != untabbed[number])
        mended.append(("tabs in the indentation, read as spaces", first))
        lines = untabbed
    at = 0
    while at < len(lines):
        stop = at + 1
        while stop < len(lines) and lines[stop][:1] == " ":
            stop += 1
        quoted = _quoted(lines[at:stop])
        if quoted is not None:
            key, text = quoted
            lines[at:stop] = [text] + [""] * (stop - at - 1)
            mended.append((f"`{key}`, taken as plain text", at))
        at = stop
    if not mended:
        raise fault
    block = "\n".join(lines)
    tree = plain.read(block)
    if tree:
        return Repaired(Reading(tree), tuple(mended))
    try:
        return Repaired(events.read(block), tuple(mended))
    except BadYaml:
        raise fault from None


def _untab(line: str) -> str:
    stripped = line.lstrip(" \t")
    lead = line[: len(line) - len(stripped)]
    return lead.replace("\t", "  ") + stripped if "\t" in lead else line


def _quoted(lines: list[str]) -> tuple[str, str] | None:
    """The lines of one key as a quoted value, if they are at fault and were meant as plain text."""
    matched = _key(lines[0])
    if matched is None:
        return None
    key, value = matched[1], matched[2].rstrip()
    if key in STRUCTURED and not (key in PATTERNS and value[0] in "*@`%"):
        return None
    if value.startswith(("!!", "!<")):
        return None
    if plain.read("\n".join(lines)):
        return None
    try:
        events.read("\n".join(lines))
    except BadYaml as fault:
        if fault.forbidden and key not in PLAIN and key not in PATTERNS:
            return None
    else:
        return None
    if len(lines) > 1 and key not in PLAIN:
        return None
    if any((slipped := _key(line.strip())) and slipped[1] in _KNOWN for line in lines[1:]):
        return None  # a key that was indented by mistake is no part of the text above it
    text = " ".join([value, *(line.strip() for line in lines[1:] if line.strip())])
    return key, key + ": '" + text.replace("'", "''") + "'"

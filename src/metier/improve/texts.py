"""The text files of a skill: which they are, where the frontmatter ends, and what differs between two of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher, unified_diff
from hashlib import sha256
from typing import NamedTuple

PROSE = (".md", ".markdown", ".txt")
SKILL = "SKILL.md"
_head = re.compile(r"\A\ufeff?---[ \t]*\r?\n(?:.*?\r?\n)??---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


def parted(text: str) -> tuple[str, str]:
    """The frontmatter with its fences, and the body; both as they are, to the last byte."""
    found = _head.match(text)
    return (text[: found.end()], text[found.end() :]) if found else ("", text)


def body_of(path: str, text: str) -> str:
    """The part of a file that is prose."""
    return parted(text)[1] if path == SKILL else text


def proses(files: Mapping[str, str]) -> dict[str, str]:
    """The bodies of the files that are prose."""
    return {path: body_of(path, text) for path, text in files.items() if path.lower().endswith(PROSE)}


class Differing(NamedTuple):
    """What differs between two texts."""

    places: int
    """How many places were changed."""
    lines: int
    """Lines that are gone or new."""
    added: tuple[str, ...]


def differing(before: str, after: str) -> Differing:
    old, new = before.splitlines(), after.splitlines()
    matched = SequenceMatcher(None, old, new, autojunk=False)
    places = [code for code in matched.get_opcodes() if code[0] != "equal"]
    added = tuple(line for _, _, _, start, end in places for line in new[start:end])
    return Differing(len(places), sum(max(b - a, d - c) for _, a, b, c, d in places), added)


def patch_of(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The change as people read changes."""
    parts = []
    for path in sorted({*before, *after}):
        old, new = before.get(path, ""), after.get(path, "")
        if old != new:
            lines = unified_diff(old.splitlines(), new.splitlines(), f"a/{path}", f"b/{path}", lineterm="")
            parts.append("\n".join(lines))
    return "\n".join(parts)


def digest_of(texts: Mapping[str, str]) -> str:
    whole = "\0".join(f"{path}\0{text}" for path, text in sorted(texts.items()))
    return sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()

"""The text files of a skill: find and rename tools, paths and placeholders in prose, split frontmatter, compare.

Names are matched in prose without parsing Markdown: skills put them in backticks, in sentences, in lists and in code.
A name that is no word, such as `read_file`, is matched anywhere; one that is, such as `bash`, only where the text
around it marks it as a tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher, unified_diff
from functools import lru_cache
from typing import NamedTuple

from .typos import is_typo

# --- Tools ---

_VERBS = r"use|using|call|calling|invoke|invoking|run|with|via|through|by"
_OTHERWISE = r"(?!\s+(?:scripts?|shell|syntax|version|[0-9]))"
"""`use bash scripts` is about a language, not a tool."""


@lru_cache(maxsize=64)
def _tool_pattern(name: str) -> re.Pattern[str]:
    """Matches a name with `_` or inner capitals anywhere, and any other only where it is marked as a tool."""
    word = re.escape(name)
    if re.search(r"_|[a-z][A-Z]", name):
        return re.compile(rf"(?<![\w./-])({word})(?![\w/-])")
    return re.compile(
        rf"(?<=`)({word})(?=`|\()|(?<![\w./-])({word})(?=\(|\s+tool\b)|(?<=\btool )({word})\b(?!`)"
        rf"|(?i:\b(?:{_VERBS}) (?:the )?)({word})(?![\w/-]){_OTHERWISE}"
    )


def names_tool(text: str, name: str) -> bool:
    return bool(name) and _tool_pattern(name).search(text) is not None


def rename_tool(text: str, old: str, new: str) -> str:
    """Replace a name wherever it names the tool."""

    def put(match: re.Match[str]) -> str:
        group = match.lastindex or 0
        start, end = match.span(group)
        return match[0][: start - match.start()] + new + match[0][end - match.start() :]

    return _tool_pattern(old).sub(put, text)


# --- Paths ---


def _path_pattern(path: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-])(?<![\w}}]/)(?:\./)?({re.escape(path)})(?![\w-]|\.\w)")


def names_path(text: str, path: str) -> bool:
    """Whether a text names a path inside the skill, also with `./` or a variable for its folder in front."""
    return bool(path) and (
        _path_pattern(path).search(text) is not None or _rooted_path_pattern(path).search(text) is not None
    )


def _rooted_path_pattern(path: str) -> re.Pattern[str]:
    """The path after a variable for the skill's folder, as in `${SKILL}/scripts/x.py` or `$SKILL/scripts/x.py`."""
    return re.compile(rf"(?:\$\{{?\w+\}}?|\{{\w+\}})/({re.escape(path)})(?![\w-]|\.\w)")


def rename_path(text: str, old: str, new: str) -> str:
    for pattern in (_path_pattern(old), _rooted_path_pattern(old)):
        text = pattern.sub(lambda match: match[0][: -len(old)] + new, text)
    return text


# --- Placeholders ---

# Four letters or more: short names are too close to one another to guess.
_placeholder = re.compile(r"(?<!\\)\$\{?([A-Za-z_][A-Za-z0-9_]{3,})\}?")


def misspelled_placeholders(text: str, placeholders: frozenset[str]) -> dict[str, str]:
    """Unknown placeholders that can only be a known one, and that one; others may be variables of a shell."""
    corrections: dict[str, str] = {}
    for name in dict.fromkeys(match[1] for match in _placeholder.finditer(text)):
        if name not in placeholders:
            fitting = [known for known in placeholders if _same_case(name, known) and is_typo(name, known)]
            if len(fitting) == 1:
                corrections[name] = fitting[0]
    return corrections


def _same_case(first: str, second: str) -> bool:
    """`$PATH` and `$path` are two variables: names that differ in case alone are not compared."""
    return first.casefold() != second.casefold() and first.isupper() == second.isupper()


def rename_placeholder(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<!\\)(\$\{{?){re.escape(old)}\b", lambda match: match[1] + new, text)


# --- Files ---

PROSE_SUFFIXES = (".md", ".markdown", ".txt")
SKILL_FILE = "SKILL.md"
_head = re.compile(r"\A\ufeff?---[ \t]*\r?\n(?:.*?\r?\n)??---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


def split_frontmatter(text: str) -> tuple[str, str]:
    """The frontmatter with its fences, and the body; together they are the text, byte for byte."""
    match = _head.match(text)
    return (text[: match.end()], text[match.end() :]) if match else ("", text)


def prose_body(path: str, text: str) -> str:
    """The prose of a file: of `SKILL.md` the body."""
    return split_frontmatter(text)[1] if path == SKILL_FILE else text


def prose_bodies(files: Mapping[str, str]) -> dict[str, str]:
    """The prose of all prose files."""
    return {path: prose_body(path, text) for path, text in files.items() if path.lower().endswith(PROSE_SUFFIXES)}


class TextDifference(NamedTuple):
    """How two texts differ."""

    places: int
    """The number of separate changes."""
    lines: int
    """Lines removed or added."""
    added: tuple[str, ...]


def compare_texts(before: str, after: str) -> TextDifference:
    old, new = before.splitlines(), after.splitlines()
    # Without `autojunk`, which ignores frequent lines, such as blank ones, in long texts.
    matched = SequenceMatcher(None, old, new, autojunk=False)
    places = [code for code in matched.get_opcodes() if code[0] != "equal"]
    added = tuple(line for _, _, _, start, end in places for line in new[start:end])
    return TextDifference(len(places), sum(max(b - a, d - c) for _, a, b, c, d in places), added)


def render_patch(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The change as a unified diff."""
    parts = []
    for path in sorted({*before, *after}):
        old, new = before.get(path, ""), after.get(path, "")
        if old != new:
            lines = unified_diff(old.splitlines(), new.splitlines(), f"a/{path}", f"b/{path}", lineterm="")
            parts.append("\n".join(lines))
    return "\n".join(parts)

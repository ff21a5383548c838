"""Where a skill's text names a tool or a path: found so that it can be told, and put right, without reading meaning."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import lru_cache

_VERBS = r"use|using|call|calling|invoke|invoking|run|with|via|through|by"
_OTHERWISE = r"(?!\s+(?:scripts?|shell|syntax|version|[0-9]))"


@lru_cache(maxsize=64)
def _tool(name: str) -> re.Pattern[str]:
    """A name that no language has, wherever it stands; one that is a word, only where it is a tool's."""
    word = re.escape(name)
    if re.search(r"_|[a-z][A-Z]", name):
        return re.compile(rf"(?<![\w./-])({word})(?![\w/-])")
    return re.compile(
        rf"(?<=`)({word})(?=`|\()|(?<![\w./-])({word})(?=\(|\s+tool\b)|(?<=\btool )({word})\b(?!`)"
        rf"|(?i:\b(?:{_VERBS}) (?:the )?)({word})(?![\w/-]){_OTHERWISE}"
    )


def names_tool(text: str, name: str) -> bool:
    return bool(name) and _tool(name).search(text) is not None


def renamed_tool(text: str, old: str, new: str) -> str:
    """The text with a tool's name put right wherever it names the tool."""

    def put(found: re.Match[str]) -> str:
        group = found.lastindex or 0
        start, end = found.span(group)
        return found[0][: start - found.start()] + new + found[0][end - found.start() :]

    return _tool(old).sub(put, text)


def _path(path: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-])(?<![\w}}]/)(?:\./)?({re.escape(path)})(?![\w-]|\.\w)")


def names_path(text: str, path: str) -> bool:
    """Whether a path inside the skill is named, with `./` or the skill's folder in front or without."""
    return bool(path) and (_path(path).search(text) is not None or _rooted(path).search(text) is not None)


def _rooted(path: str) -> re.Pattern[str]:
    """Behind a variable for the skill's folder."""
    return re.compile(rf"(?<=\}}/)({re.escape(path)})(?![\w-]|\.\w)")


def renamed_path(text: str, old: str, new: str) -> str:
    for pattern in (_path(old), _rooted(old)):
        text = pattern.sub(lambda found: found[0][: -len(old)] + new, text)
    return text


def meant_path(path: str, there: frozenset[str]) -> str:
    """The one file that a path that is not there must mean: moved, spelled a little otherwise, of another ending."""
    name, stem = path.rpartition("/")[2], path.rpartition("/")[2].partition(".")[0]
    moved = [one for one in there if one.rpartition("/")[2] == name]
    ended = [one for one in there if one.rpartition("/")[2].partition(".")[0] == stem]
    for found in (moved, ended):
        if found:
            return found[0] if len(found) == 1 else ""
    near = get_close_matches(path, sorted(there), 2, 0.8)
    return near[0] if len(near) == 1 else ""


_placeholder = re.compile(r"(?<!\\)\$\{?([A-Za-z_][A-Za-z0-9_]{3,})\}?")


def slips(text: str, known: frozenset[str]) -> dict[str, str]:
    """Placeholders that nobody has, and the one that each must mean; names of the environment are none."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(one[1] for one in _placeholder.finditer(text)):
        if name in known:
            continue
        near = get_close_matches(name.upper(), sorted(one.upper() for one in known), 1, 0.82)
        meant = next((one for one in known if near and one.upper() == near[0]), "")
        if meant:
            found[name] = meant
    return found


def renamed_placeholder(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<!\\)(\$\{{?){re.escape(old)}\b", lambda found: found[1] + new, text)

"""`allowed-tools`: blanks and commas separate, but not inside round brackets."""

from __future__ import annotations

from collections.abc import Sequence


def allowed_tools(value: str | Sequence[str]) -> tuple[str, ...] | None:
    """The tools that a value names, or None when its brackets do not balance."""
    found: list[str] = []
    for text in [value] if isinstance(value, str) else value:
        names = _split(text)
        if names is None:
            return None
        found.extend(names)
    return tuple(found)


def _split(text: str) -> list[str] | None:
    if "(" not in text and ")" not in text:
        return text.replace(",", " ").split()
    names: list[str] = []
    depth = 0
    start = 0
    for at, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth < 0:
                return None
        elif not depth and (character == "," or character.isspace()):
            names.append(text[start:at])
            start = at + 1
    if depth:
        return None
    names.append(text[start:])
    return [name for name in names if name]

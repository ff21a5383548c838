"""Where the frontmatter ends: found by whole lines, in one pass."""

from __future__ import annotations

from typing import NamedTuple


class Cut(NamedTuple):
    """The text between the fences and the text after them; None where a fence is missing."""

    block: str | None
    body: str
    opened: bool
    indent: int = 0


def cut(text: str, indented: bool = False) -> Cut:
    """Split text, whose lines end in LF, at the first line that is `---` and the next one that is."""
    indent = 0
    if not text.startswith("---"):
        indent = len(text) - len(text.lstrip(" \t")) if indented else 0
        if not indent or not text.startswith("---", indent):
            return Cut(None, text, False)
    end_of_line = text.find("\n")
    first = text if end_of_line < 0 else text[:end_of_line]
    if first[indent + 3 :].strip(" \t"):
        return Cut(None, text, False)
    if end_of_line < 0:
        return Cut(None, text, True)
    fence = "\n" + first[:indent] + "---"
    at = end_of_line
    while True:
        at = text.find(fence, at)
        if at < 0:
            return Cut(None, text, True, indent)
        start = at + len(fence)
        stop = text.find("\n", start)
        if stop < 0:
            stop = len(text)
        if not text[start:stop].strip(" \t"):
            block = text[end_of_line + 1 : at] if at > end_of_line else ""
            body = text[stop + 1 :]
            return Cut(_dedent(block, indent), _dedent(body, indent), True, indent)
        at = start


def _dedent(text: str, indent: int) -> str:
    if not indent:
        return text
    return "\n".join(line[indent:] if not line[:indent].strip(" \t") else line for line in text.split("\n"))

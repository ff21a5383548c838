"""The routing card of a body: what stands out in it, which is what it is about."""

from __future__ import annotations

import re

from .fences import cut

LONGEST = 1_500
_fence = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL).sub
_heading = re.compile(r"^[ ]{0,3}#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE).findall
_strong = re.compile(r"\*\*([^*\n]{2,80})\*\*|__([^_\n]{2,80})__").findall
_code = re.compile(r"(?<!`)`([^`\n]{2,60})`(?!`)").findall


def routing_card(body: str) -> str:
    """Headings, then bold text, then code spans, each once, at most 1,500 characters."""
    text = _fence("", body[:100_000])
    strong = (one or other for one, other in _strong(text))
    found: list[str] = []
    room = LONGEST
    for piece in dict.fromkeys(map(str.strip, (*_heading(text), *strong, *_code(text)))):
        if len(piece) + 1 > room:
            break
        found.append(piece)
        room -= len(piece) + 1
    return "\n".join(found)


def card_of_file(data: bytes, indented: bool = False) -> str:
    """The routing card of a whole SKILL.md; its frontmatter is passed over unread."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return routing_card(cut(text, indented).body)

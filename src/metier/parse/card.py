"""What a skill is searched by, other than its name and description: its routing card and its trigger phrases.

The card is what an author made stand out in the body: headings, bold text, code spans.  The whole body was refused:
long skills would match everything, and the index would hold every body.
"""

from __future__ import annotations

import re
from json import loads

from .document import split_frontmatter

LONGEST_CARD = 1_500
_fence = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL).sub
_heading = re.compile(r"^[ ]{0,3}#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE).findall
_strong = re.compile(r"\*\*([^*\n]{2,80})\*\*|__([^_\n]{2,80})__").findall
_code = re.compile(r"(?<!`)`([^`\n]{2,60})`(?!`)").findall


def routing_card(body: str) -> str:
    """Headings, then bold text, then code spans, each once, at most 1,500 characters."""
    text = _fence("", body[:100_000])  # a body may be 256 KB; what it is about stands near the top
    strong = (starred or underscored for starred, underscored in _strong(text))
    pieces: list[str] = []
    room = LONGEST_CARD
    for piece in dict.fromkeys(map(str.strip, (*_heading(text), *strong, *_code(text)))):
        if len(piece) + 1 > room:
            break
        pieces.append(piece)
        room -= len(piece) + 1
    return "\n".join(pieces)


def card_of_file(data: bytes, indented: bool = False) -> str:
    """The routing card of a whole SKILL.md; its frontmatter is passed over unread."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return routing_card(split_frontmatter(text, indented).body)


TRIGGER_FILES = ("evals/triggers.json", "evals/trigger.json", "evals/evals.json")
_quoted = re.compile(r"[\"“]([^\"“”\n]{6,120})[\"”]|(?<!\w)'([^'\n]{6,80})'(?!\w)").findall
_MOST = 40


def parse_triggers(text: str) -> tuple[str, ...]:
    """The prompts of a trigger set, or of an `evals.json`; what is neither holds none."""
    try:
        document = loads(text)
    except (ValueError, RecursionError):
        return ()
    rows = document.get("evals") if isinstance(document, dict) else document
    prompts = []
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("should_trigger", True) is True:
            prompt = row.get("query", row.get("prompt"))
            prompts += [prompt] if isinstance(prompt, str) and prompt.strip() else []
    return tuple(prompts[:_MOST])


def quoted_triggers(description: str) -> tuple[str, ...]:
    """The phrases of two words or more that a description quotes."""
    phrases = (double_quoted or single_quoted for double_quoted, single_quoted in _quoted(description))
    return tuple(dict.fromkeys(phrase.strip(" ,.") for phrase in phrases if " " in phrase.strip()))[:_MOST]

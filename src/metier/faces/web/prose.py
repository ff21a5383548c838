"""Render the Markdown of skills and replies as HTML that can do nothing.

The text is hostile: raw HTML is shown as text, images are named and never loaded, and a link is only a link to the web.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape

from ...types.text import escaped_line

_web_address = re.compile(r"https?://[^\s\"'<>]+", re.IGNORECASE).fullmatch
_MOST_CHARACTERS = 20_000
"""Of a text that is rendered: a skill of the recommended length.  Brackets that lead nowhere cost a page its time."""
_MOST_CELLS = 10_000
"""Of the tables in a text: a short row is filled up to the width of its head, so a few bytes can become many cells."""


class _HarmlessRenderer(RendererHTML):
    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        # A remote image tells its server who reads the page, and when.
        token = tokens[idx]
        return f'<span class="image">[image: {escape(token.content or "no text")}]</span>'

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        address = str(tokens[idx].attrGet("href") or "")
        if not _web_address(address):
            return '<a class="inner">'
        return f'<a href="{escape(address)}" rel="noreferrer noopener nofollow" target="_blank">'

    def html_block(self, tokens: Sequence[Token], idx: int, *rest: Any) -> str:
        return f"<pre>{escape(tokens[idx].content)}</pre>"

    def html_inline(self, tokens: Sequence[Token], idx: int, *rest: Any) -> str:
        return str(escape(tokens[idx].content))


@cache
def _markdown(tables: bool) -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False, "maxNesting": 30})
    if tables:
        reader.enable("table")
    # `render` in a subclass is found by the names of tokens, as in the class above it.
    reader.renderer = _HarmlessRenderer()
    return reader


def render_prose(text: str) -> Markup:
    """Markdown as harmless HTML; headings go below those of the page."""
    seen = "\n".join(map(escaped_line, text.replace("\t", "    ").split("\n")))
    rest = ""
    if len(seen) > _MOST_CHARACTERS:
        # Between paragraphs, where there is such a place.
        end = seen.rfind("\n\n", 0, _MOST_CHARACTERS)
        end = end if end > 0 else _MOST_CHARACTERS
        seen, rest = seen[:end], seen[end:]
    lines = seen.split("\n")
    reader = _markdown(max(line.count("|") for line in lines) * len(lines) <= _MOST_CELLS)
    tokens = reader.parse(seen)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        # Nothing of ours: a class or a style would only be somebody's way to disguise text.
        if token.type == "fence":
            token.info = ""
    shown = Markup(reader.renderer.render(tokens, reader.options, {}))
    if rest:
        shown += Markup(
            '<p class="quiet">It is long: from here on it is shown as it is written.</p><pre>{}</pre>'
        ).format(rest)
    return shown

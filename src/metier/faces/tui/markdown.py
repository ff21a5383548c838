"""Markdown as rows of a terminal: prose wrapped to the width, code and tables as wide as they are.

Textual's own Markdown widget makes a widget of every paragraph, list item and cell, and lays all of them out again for
each piece of a reply: the cost of a streamed answer grew with the square of its length.  Here a block becomes rows of
styled text once, when the next block has begun; only the last block is read again as it grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from textual.content import Content
from textual.highlight import highlight

_CODE_STYLE = "on $boost"
_HEADINGS = {"h1": "bold underline $text-primary", "h2": "bold $text-primary", "h3": "bold italic $text-primary"}
_INLINE = {"strong": "bold", "em": "italic", "s": "strike", "link": "underline"}
_NARROWEST = 8
"""Columns that prose has at least, however deep it is nested."""
_parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])


class LogRow(NamedTuple):
    """One row of the log."""

    content: Content
    wide: bool = False
    """Whether it keeps its width and can be moved sideways, as code and tables do."""
    joined: bool = False
    """Whether it continues the row above: a wrapped line is copied as one."""


class MarkdownBlock(NamedTuple):
    """A block at the top level: its tokens, and its lines."""

    tokens: Sequence[Token]
    start: int
    end: int

    @property
    def kind(self) -> str:
        return self.tokens[0].type


BLANK = LogRow(Content(""))


def parse_blocks(text: str) -> list[MarkdownBlock]:
    """The blocks of a text in order."""
    blocks, opened = [], 0
    tokens = _parser.parse(text)
    for at, token in enumerate(tokens):
        if token.level == 0 and token.nesting >= 0:
            opened = at
        if token.level == 0 and token.nesting <= 0:
            start, end = tokens[opened].map or (0, 0)
            blocks.append(MarkdownBlock(tokens[opened : at + 1], start, end))
    return blocks


def render_markdown(text: str, width: int) -> list[LogRow]:
    """A whole text as rows, with a blank one between blocks."""
    rows: list[LogRow] = []
    for block in parse_blocks(text):
        rows += [BLANK] if rows else []
        rows += render_block(block.tokens, width, text.splitlines())
    return rows


def render_block(tokens: Sequence[Token], width: int, lines: Sequence[str], least: Sequence[int] = ()) -> list[LogRow]:
    """One block as rows; `least` are the least widths of a table's columns."""
    first, width = tokens[0], max(width, _NARROWEST)
    match first.type:
        case "heading_open":
            return _wrap_rows(_inline(tokens[1]).stylize(_HEADINGS.get(first.tag, "bold")), width)
        case "fence" | "code_block":
            return code_rows(first.content, first.info.split()[0] if first.info.split() else "", width)
        case "hr":
            return [LogRow(Content.styled("─" * width, "$text-disabled"))]
        case "bullet_list_open" | "ordered_list_open":
            return list(_list_rows(tokens, width, lines))
        case "blockquote_open":
            inner = _inner_rows(tokens[1:-1], width - 2, lines)
            return [row._replace(content=Content.styled("▌ ", "$text-primary") + row.content) for row in inner]
        case "table_open":
            return _table_rows(tokens, least)
        case "html_block":
            return _wrap_rows(Content(first.content.rstrip("\n")), width)
    return [row for token in tokens if token.type == "inline" for row in _wrap_rows(_inline(token), width)]


def _inner_rows(tokens: Sequence[Token], width: int, lines: Sequence[str]) -> list[LogRow]:
    """The blocks inside a quotation or an item."""
    rows: list[LogRow] = []
    level, opened, end_before = (tokens[0].level if tokens else 0), 0, 0
    for at, token in enumerate(tokens):
        if token.level == level and token.nesting >= 0:
            opened = at
        if token.level == level and token.nesting <= 0:
            start, end = tokens[opened].map or (0, 0)
            # A list right below its paragraph stays there; a blank line in the source is one here.
            if rows and start > end_before:
                rows.append(BLANK)
            rows += render_block(tokens[opened : at + 1], width, lines)
            end_before = end
    return rows


def _wrap_rows(content: Content, width: int) -> list[LogRow]:
    rows: list[LogRow] = []
    for line in content.split(allow_blank=True):
        rows += [LogRow(part, joined=at > 0) for at, part in enumerate(line.wrap(width))]
    return rows


# --- Inline text ---


def _inline(token: Token) -> Content:
    return _inline_content(token.content)


@lru_cache(4096)
def _inline_content(source: str) -> Content:
    """A line of prose with its emphasis; kept, because the cells of a growing table are drawn many times."""
    pieces: list[str | tuple[str, str]] = []
    styles: list[str] = []
    [inline] = _parser.parseInline(source)
    for token in inline.children or ():
        kind = token.type.rpartition("_")[0]
        if token.type == "link_open":
            styles.append(_INLINE["link"])
        elif token.type == "link_close":
            styles.pop()
        elif token.nesting == 1:
            styles.append(_INLINE.get(kind, ""))
        elif token.nesting == -1:
            styles.pop()
        elif token.type == "code_inline":
            pieces.append((token.content, " ".join((*styles, "$text-warning", _CODE_STYLE))))
        elif token.type in ("softbreak", "hardbreak"):
            pieces.append(" " if token.type == "softbreak" else "\n")
        else:
            pieces.append((token.content, " ".join(filter(None, styles))) if any(styles) else token.content)
        if token.type == "link_close":
            pieces += _link_target(inline.children or (), token)
    return Content.assemble(*pieces)


def _link_target(tokens: Sequence[Token], close: Token) -> Iterator[tuple[str, str]]:
    """The address of a link, behind its text: a text that names another place than it leads to should show."""
    at = next(place for place, token in enumerate(tokens) if token is close)
    opened = next(token for token in reversed(tokens[:at]) if token.type == "link_open" and token.level == close.level)
    target = str(opened.attrs.get("href", ""))
    text = "".join(token.content for token in tokens[tokens.index(opened) : at])
    if target and target != text:
        yield f" ({target})", "$text-muted"


# --- Code ---


def code_rows(code: str, language: str, width: int) -> list[LogRow]:
    """Code as it is: never wrapped, on a ground of its own."""
    code = code.rstrip("\n").expandtabs(4)
    content = highlight(code, language=language or "text", tab_size=4) if code else Content("")
    lines = content.split(allow_blank=True)
    most = max([width - 1, *(line.cell_length for line in lines)])
    return [
        LogRow(line.pad_left(1).pad_right(most - line.cell_length).stylize_before(_CODE_STYLE), True) for line in lines
    ]


# --- Lists ---


def _list_rows(tokens: Sequence[Token], width: int, lines: Sequence[str]) -> Iterator[LogRow]:
    first = tokens[0]
    number = int(first.attrs.get("start", 1)) if first.type == "ordered_list_open" else None
    last_number = (number or 0) + sum(
        token.type == "list_item_open" for token in tokens if token.level == first.level + 1
    )
    for place, item in enumerate(list_items(tokens)):
        bullet = "• " if number is None else f"{number + place}.".ljust(len(str(last_number)) + 2)
        start = item[0].map[0] if item[0].map else 0
        if place and start and start <= len(lines) and not lines[start - 1].strip():
            yield BLANK
        inner = _inner_rows(item[1:-1], width - len(bullet), lines) or [BLANK]
        for at, row in enumerate(inner):
            lead = Content.styled(bullet, "$text-primary") if not at else Content(" " * len(bullet))
            yield row._replace(content=lead + row.content)


def list_items(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    level, opened = tokens[0].level + 1, 0
    for at, token in enumerate(tokens):
        if token.type == "list_item_open" and token.level == level:
            opened = at
        elif token.type == "list_item_close" and token.level == level:
            yield tokens[opened : at + 1]


# --- Tables ---


def _table_rows(tokens: Sequence[Token], least: Sequence[int]) -> list[LogRow]:
    table: list[list[tuple[Content, str]]] = []
    for at, token in enumerate(tokens):
        if token.type == "tr_open":
            table.append([])
        elif token.type in ("th_open", "td_open"):
            cell = _inline(tokens[at + 1])
            align = str(token.attrs.get("style", "")).rpartition(":")[2]
            table[-1].append((cell.stylize("bold") if token.type == "th_open" else cell, align))
    widths = [
        max(column) for column in zip_longest(least, *([c.cell_length for c, _ in row] for row in table), fillvalue=0)
    ]
    rows = [LogRow(_table_line(row, widths), True) for row in table]
    rule = Content.styled("─┼─".join("─" * width for width in widths), "$text-disabled")
    return [*rows[:1], LogRow(rule, True), *rows[1:]]


def _table_line(row: Sequence[tuple[Content, str]], widths: Sequence[int]) -> Content:
    cells = []
    # A row may have fewer cells than the head.
    missing = [(Content(""), "")] * (len(widths) - len(row))
    for (cell, align), width in zip([*row, *missing], widths, strict=True):
        room = width - cell.cell_length
        left = room if align == "right" else room // 2 if align == "center" else 0
        cells.append(cell.pad(left, room - left))
    return Content.styled(" │ ", "$text-disabled").join(cells)


def column_widths(rows: Sequence[LogRow]) -> list[int]:
    """The widths of a table's columns, read from its rule."""
    return [len(part) for part in rows[1].content.plain.split("─┼─")] if len(rows) > 1 else []

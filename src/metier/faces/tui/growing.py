"""A reply while it is being written: what stands is drawn once, and only the block that grows is read again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .markdown import BLANK, LogRow, MarkdownBlock, code_rows, column_widths, list_items, parse_blocks, render_block

_REFERENCE = re.compile(r"^ {0,3}\[[^\]\n]+\]:", re.MULTILINE)
_CHUNK = 8
"""Lines that a growing block keeps open."""
_DIVISIBLE = ("fence", "table_open", "bullet_list_open", "ordered_list_open", "paragraph_open")


@dataclass
class OpenBlock:
    """A block of which a part stands already."""

    kind: str
    start: int
    """Where it begins, in characters."""
    row: int
    """Its first row."""
    head: str = ""
    """The lines that open it again for the part that follows."""
    least: list[int] = field(default_factory=list)
    """The widths of a table's columns so far."""


class GrowingReply:
    """The rows of a reply that grows.

    A block stands once another has begun behind it.  Long code, tables, lists and paragraphs would be read from their
    start for each piece, so they stand in part, a chunk at a time; all but bullets are drawn once more as a whole when
    they end, because a later line may change how earlier ones look.
    """

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.pieces: list[str] = []
        self.width = 0
        self._begin_again()

    def _begin_again(self) -> None:
        self.standing: list[LogRow] = []
        self.settled = 0
        """Characters whose rows stand."""
        self.open: OpenBlock | None = None
        self.doubtful = False
        self.redrawn = 0
        """The first row that the last reading has drawn again."""

    def write(self, piece: str) -> None:
        self.pieces.append(piece)

    def finish(self, width: int) -> list[LogRow]:
        """All rows, once the reply is whole."""
        self._gather(width)
        # The definition of a link may come last and change what is above it.
        if self.doubtful or _REFERENCE.search(self.text):
            self._begin_again()
        self._settle(final=True)
        return self.standing

    def tail(self, width: int) -> list[LogRow]:
        """The rows behind those that stand; more may stand after it."""
        self.redrawn = len(self.standing)
        self._gather(width)
        blocks, lines = self._settle()
        rows: list[LogRow] = []
        for at, block in enumerate(blocks):
            continued = not at and self.open is not None
            rows += [BLANK] if (rows or self.standing) and not continued else []
            rows += self._render(block, lines, continued)
        return rows

    def _gather(self, width: int) -> None:
        if self.pieces:
            self.text += "".join(self.pieces)
            self.pieces.clear()
        if width != self.width:
            self.width = width
            self._begin_again()

    def _settle(self, final: bool = False) -> tuple[list[MarkdownBlock], list[str]]:
        """Let stand what can not change any more; the blocks that can, and the lines they were read from."""
        blocks, lines = self._read()
        # A block has begun for good two whole lines on: its first line may be half, and a table is told by its second.
        whole = len(lines) - 3
        number = len(blocks) if final else sum(after.start <= whole for after in blocks[1:])
        for block in blocks[:number]:
            self._close(block, lines)
        if final:
            self.settled, self.open = len(self.text), None
            return [], lines
        if number:
            head = len(self.open.head) if self.open else 0
            self.settled += sum(len(line) + 1 for line in lines[: blocks[number].start]) - head
            self.open = None
            blocks = blocks[number:]
            # The next reading begins here; this one goes on with what it has.
            return blocks, lines
        if len(blocks) == 1 and len(lines) > 2 * _CHUNK and self._settle_part(blocks[0], lines):
            blocks, lines = self._read()
        return blocks, lines

    def _read(self) -> tuple[list[MarkdownBlock], list[str]]:
        text = (self.open.head if self.open else "") + self.text[self.settled :]
        return parse_blocks(text), text.split("\n")

    def _render(self, block: MarkdownBlock, lines: Sequence[str], continued: bool) -> list[LogRow]:
        least = self.open.least if continued and self.open else ()
        rows = render_block(block.tokens, self.width, lines, least)
        # The head of a table stands already.
        return rows[2:] if continued and block.kind == "table_open" else rows

    def _close(self, block: MarkdownBlock, lines: Sequence[str]) -> None:
        opened = self.open if block.start == 0 else None
        if opened is None:
            self.standing += [BLANK] if self.standing else []
            self.standing += self._render(block, lines, False)
        elif opened.kind != "bullet_list_open":
            # Drawn again as a whole: the part that stands was read without what followed.
            source = self.text[opened.start : self.settled] + "\n".join(lines[: block.end])[len(opened.head) :]
            del self.standing[opened.row :]
            self.redrawn = min(self.redrawn, opened.row)
            for whole in parse_blocks(source):
                self.standing += self._render(whole, source.split("\n"), False)
        else:
            self.standing += self._render(block, lines, True)

    def _settle_part(self, block: MarkdownBlock, lines: Sequence[str]) -> bool:
        """Let the first part of a long block stand; False where it has none."""
        first, until = block.start + {"fence": 1, "table_open": 2}.get(block.kind, 0), len(lines) - _CHUNK
        if block.kind.endswith("_list_open"):
            # Up to an item: what comes before it can not change any more.
            starts = [item[0].map[0] for item in list_items(block.tokens) if item[0].map]
            until = max((start for start in starts if start <= until), default=0)
        if until <= first or block.kind not in _DIVISIBLE:
            return False
        opened = self.open
        if opened is None:
            self.standing += [BLANK] if self.standing else []
            start = self.settled + sum(len(line) + 1 for line in lines[: block.start])
            opened = OpenBlock(block.kind, start, len(self.standing))
        self.standing += self._part_rows(block, lines[:until], opened)
        head = len(opened.head)
        opened.head = "".join(f"{line}\n" for line in lines[block.start : first])
        self.settled += sum(len(line) + 1 for line in lines[:until]) - head
        self.open = opened
        # A paragraph may be divided where its rest reads otherwise: the whole is read once more at the end.
        self.doubtful = self.doubtful or block.kind == "paragraph_open"
        return True

    def _part_rows(self, block: MarkdownBlock, lines: Sequence[str], opened: OpenBlock) -> list[LogRow]:
        if block.kind == "fence":
            language = (block.tokens[0].info.split() or [""])[0]
            return code_rows("\n".join(lines[block.start + 1 :]), language, self.width)
        rows: list[LogRow] = []
        for part in parse_blocks("\n".join(lines)):
            rows += render_block(part.tokens, self.width, lines, opened.least)
        if block.kind == "table_open":
            opened.least = column_widths(rows)
            return rows[2:] if self.open is opened else rows
        blank = [BLANK] if block.kind.endswith("_list_open") and not lines[-1].strip() else []
        return [*rows, *blank]

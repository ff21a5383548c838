"""Bytes become text, and text is split into frontmatter and body."""

from __future__ import annotations

from ..light_typing import NamedTuple
from ..types.problem import Finding


class ParseRefusal(Exception):
    """The file does not load; the findings say why, and the last one is fatal."""

    def __init__(self, findings: list[Finding], name: str = "") -> None:
        super().__init__(findings[-1].code)
        self.findings = findings
        self.name = name


def decode_text(head: bytes, entire_file: bool, findings: list[Finding]) -> str:
    """UTF-8 without a byte order mark, lines ended by LF.  Bad bytes raise `ParseRefusal`."""
    if head.isascii() and b"\0" not in head and b"\r" not in head:
        return head.decode("ascii")
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        # Only the first bytes may be here: a character cut in half at their end is not a fault of the file.
        if entire_file or error.start < len(head) - 3 or error.reason != "unexpected end of data":
            line = _line_at(head, error.start)
            raise ParseRefusal([*findings, Finding("not-utf8", line, (str(error.start),), fatal=True)]) from None
        text = head[: error.start].decode()
    if "\0" in text:
        line = _line_at(head, head.index(b"\0"))
        raise ParseRefusal([*findings, Finding("nul-byte", line, fatal=True)])
    if text[:1] == "\ufeff":
        findings.append(Finding("bom-stripped", 1))
        text = text[1:]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def _line_at(head: bytes, at: int) -> int:
    """The line that holds a byte; LF, CRLF and CR end lines."""
    before = head[:at]
    return before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n") + 1


class FrontmatterSplit(NamedTuple):
    """The text between the fences and the text after them; None where a fence is missing."""

    block: str | None
    body: str
    opened: bool
    indent: int = 0


def split_frontmatter(text: str, indented: bool = False, starred: bool = False) -> FrontmatterSplit:
    """Split text, whose lines end in LF, at the first line that is `---` and the next one that is.

    With `starred`, two lines `***` do as well.
    """
    indent = 0
    if starred and text.startswith("***"):
        text = _replace_stars(text)
    if not text.startswith("---"):
        indent = len(text) - len(text.lstrip(" \t")) if indented else 0
        if not indent or not text.startswith("---", indent):
            return FrontmatterSplit(None, text, False)
    end_of_line = text.find("\n")
    first = text if end_of_line < 0 else text[:end_of_line]
    if first[indent + 3 :].strip(" \t"):
        return FrontmatterSplit(None, text, False)
    if end_of_line < 0:
        return FrontmatterSplit(None, text, True)
    fence = "\n" + first[:indent] + "---"
    at = end_of_line
    while True:
        at = text.find(fence, at)
        if at < 0:
            return FrontmatterSplit(None, text, True, indent)
        start = at + len(fence)
        stop = text.find("\n", start)
        if stop < 0:
            stop = len(text)
        if not text[start:stop].strip(" \t"):
            block = text[end_of_line + 1 : at] if at > end_of_line else ""
            body = text[stop + 1 :]
            return FrontmatterSplit(_dedent_lines(block, indent), _dedent_lines(body, indent), True, indent)
        at = start


def _replace_stars(text: str) -> str:
    """The text with its first line and the next one like it as `---`, if both are `***`."""
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if line.rstrip(" \t") == "***"][:2]
    if len(fences) < 2 or fences[0]:
        return text  # one alone is a rule across the page
    for number in fences:
        lines[number] = "---"
    return "\n".join(lines)


def _dedent_lines(text: str, indent: int) -> str:
    if not indent:
        return text
    return "\n".join(line[indent:] if not line[:indent].strip(" \t") else line for line in text.split("\n"))

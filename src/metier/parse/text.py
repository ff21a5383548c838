"""Bytes as text."""

from __future__ import annotations

from ..types.problem import Mark


class Refusal(Exception):
    """The file does not load; the marks say why, the last one fatally."""

    def __init__(self, marks: list[Mark], name: str = "") -> None:
        super().__init__(marks[-1].code)
        self.marks = marks
        self.name = name


def text_of(head: bytes, whole: bool, marks: list[Mark]) -> str:
    """UTF-8 without a byte order mark, lines ended by LF.  Bad bytes are a Refusal."""
    if head.isascii() and b"\0" not in head and b"\r" not in head:
        return head.decode("ascii")
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if whole or error.start < len(head) - 3 or error.reason != "unexpected end of data":
            line = _line_at(head, error.start)
            raise Refusal([*marks, Mark("not-utf8", line, (str(error.start),), fatal=True)]) from None
        text = head[: error.start].decode()
    if "\0" in text:
        line = _line_at(head, head.index(b"\0"))
        raise Refusal([*marks, Mark("nul-byte", line, fatal=True)])
    if text[:1] == "\ufeff":
        marks.append(Mark("bom-stripped", 1))
        text = text[1:]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def _line_at(head: bytes, at: int) -> int:
    """The line that holds a byte; LF, CRLF and CR end lines."""
    before = head[:at]
    return before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n") + 1

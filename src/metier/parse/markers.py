"""Where a body says `run this`: inline and block commands, found once, with documentation left alone.

This is the only reader of command markers.  What is run, what a person is asked to trust, what `lint` reports and what
`lint --fix` must not bring to life all come from `find_markers`: two readers that differ on one input would let a
command run that nobody was shown.

A body is read line by line as CommonMark reads it: an ordinary fence, a code span, an HTML comment or a backslash makes
documentation of a command, which is shown and not run.  Where CommonMark would leave it open (a fence that is never
closed), nothing runs.  A full Markdown parser was refused: it decides more than is needed here and costs more.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import NamedTuple

from ..types.dialect import ShellRules


class CommandMarker(NamedTuple):
    """A command in a body: where it stands, and the author's own text of it."""

    start: int
    end: int
    command: str
    block: bool


ANY_DIALECT = ShellRules(fenced=True, anchored=False, cwd="agent", on_failure="error", one_line=True)
"""The widest rules: whatever any dialect finds in a body, these find too."""

_fence = re.compile(
    r"(?P<within>(?:[ \t]*+(?:>|[-*+](?=[ \t])|[0-9]{1,9}[.)](?=[ \t])))*)[ \t]*+(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)"
)
"""A fence, also in a quotation or a list."""
_inline, _block = re.compile("!`").search, re.compile("`!").search
_ticks = re.compile(r"`+|<!--")


def opening_fence(line: str) -> tuple[str, str]:
    """The ticks of a fence that a line opens, and what follows them; empty where it opens none."""
    fence = _fence.match(line)
    return (fence["mark"], fence["info"]) if fence else ("", "")


def find_markers(body: str, shell: ShellRules) -> Iterator[CommandMarker]:
    """The commands of a body, in order.  Linear in its length, whatever it holds."""
    if "!" not in body or "`" not in body or not (_inline(body) or _block(body)):
        return
    # The closing `-->` is looked up once: a search from each `<!--` would be quadratic.
    at, end = 0, len(body)
    scan = _MarkerScan(body, shell, body.rfind("-->"))
    comment = False
    while at <= end:
        stop = body.find("\n", at)
        stop = end if stop < 0 else stop
        if comment:
            closed = body.find("-->", at, stop)
            if closed >= 0:
                comment = yield from _inline_markers(scan, closed + 3, stop)
            at = stop + 1
            continue
        # An info string with a backtick makes code spans of the line, as in CommonMark; tildes have no such rule.
        opened = _fence.match(body, at, stop)
        if opened is None or ("`" in opened["info"] and opened["mark"][0] == "`"):
            comment = yield from _inline_markers(scan, at, stop)
            at = stop + 1
            continue
        inner, closing = _find_closing_fence(body, stop + 1, opened["mark"])
        if closing < 0:
            return  # never closed: it is code to the end, and nothing in it runs
        # In a quotation or a list it is somebody's example, so only a fence of its own runs.
        runs = opened["mark"][0] == "`" and opened["info"].rstrip(" \t\r") == "!" and not opened["within"]
        if shell.fenced and runs:
            indent = opened.start("mark") - at
            yield CommandMarker(opened.start("mark"), closing, _dedent_lines(body[stop + 1 : inner], indent), True)
        at = body.find("\n", closing)
        at = end + 1 if at < 0 else at + 1


def fenced_code(body: str) -> Iterator[tuple[int, int]]:
    """Where each fenced block begins and ends; one that is never closed goes to the end."""
    if "```" not in body and "~~~" not in body:
        return
    at, end = 0, len(body)
    while at < end:
        stop = body.find("\n", at)
        stop = end if stop < 0 else stop
        fence = _fence.match(body, at, stop)
        if fence is None or ("`" in fence["info"] and fence["mark"][0] == "`"):
            at = stop + 1
            continue
        closing = _find_closing_fence(body, stop + 1, fence["mark"])[1]
        closing = end if closing < 0 else closing
        yield at, closing
        at = closing + 1


class _MarkerScan(NamedTuple):
    body: str
    shell: ShellRules
    last_comment: int
    """Where the last HTML comment ends; one that begins later never does."""


_closer = {tick: re.compile(rf"^(?:[ \t]*+>)*[ \t]*+(?P<mark>{tick}{{3,}})[ \t\r]*+$", re.MULTILINE) for tick in "`~"}


def _find_closing_fence(body: str, at: int, mark: str) -> tuple[int, int]:
    """The start of the line that closes a fence, and the end of its ticks; -1 where there is none."""
    for fence in _closer[mark[0]].finditer(body, at):
        if len(fence["mark"]) >= len(mark):
            return fence.start(), fence.end("mark")
    return -1, -1


def _dedent_lines(text: str, indent: int) -> str:
    if not indent:
        return text
    return "\n".join(line[indent:] if not line[:indent].strip(" \t") else line for line in text.split("\n"))


def _inline_markers(scan: _MarkerScan, at: int, stop: int) -> Generator[CommandMarker, None, bool]:
    """The inline commands of one line; returns whether an HTML comment is left open at its end."""
    body = scan.body
    runs = list(_ticks.finditer(body, at, stop))
    # The last run of each length tells at once whether a span can close: without it, a line of ticks is quadratic.
    last = {len(run[0]): number for number, run in enumerate(runs) if run[0] != "<!--"}
    number = 0
    text = at + len(body[at:stop]) - len(body[at:stop].lstrip(" \t"))
    while number < len(runs):
        run = runs[number]
        if run[0] == "<!--":
            if run.end() > scan.last_comment and run.start() > text:
                number += 1  # in the middle of a line, and never closed: it is no comment
                continue
            closed = body.find("-->", run.end(), stop)
            if closed < 0:
                return True
            number = _skip_runs(runs, number, closed)
            continue
        length, start = len(run[0]), run.start()
        # A backslash takes one tick away; the rest of the run may still open a span.
        if _is_escaped(body, start, at):
            length, start = length - 1, start + 1
        if not length or last.get(length, -1) <= number:
            number += 1
            continue
        closing = number + 1
        while runs[closing][0] != "`" * length:
            closing += 1
        if length == 1 and _starts_command(body, start, at, scan.shell):
            yield CommandMarker(start - 1, runs[closing].end(), body[run.end() : runs[closing].start()], False)
        elif (
            length >= 3 and scan.shell.one_line and _is_block(body, (start, run.end(), runs[closing].end()), text, stop)
        ):
            command = body[run.end() + 1 : runs[closing].start()].strip()
            yield CommandMarker(start, runs[closing].end(), command, True)
        number = closing + 1
    return False


def _is_block(body: str, ticks: tuple[int, int, int], text: int, stop: int) -> bool:
    """Whether a code span is all of its line and begins with `!`: with more on the line, it is prose that shows one."""
    start, opened, closed = ticks
    return start == text and body[opened : opened + 1] == "!" and not body[closed:stop].strip()


def _skip_runs(runs: list[re.Match[str]], number: int, place: int) -> int:
    while number < len(runs) and runs[number].start() < place:
        number += 1
    return number


def _is_escaped(body: str, at: int, first: int) -> bool:
    count = 0
    while at - 1 - count >= first and body[at - 1 - count] == "\\":
        count += 1
    return count % 2 == 1


def _starts_command(body: str, tick: int, first: int, shell: ShellRules) -> bool:
    """Whether the tick follows a `!` that makes a command of it."""
    bang = tick - 1
    if bang < first or body[bang] != "!":
        return False
    before = body[bang - 1] if bang else "\n"
    # Anchored dialects want white space before it, so `wow!`code`` is prose to them.
    if shell.anchored:
        return before.isspace()
    return not _is_escaped(body, bang, first)


# --- What a person is shown before they trust a skill ---
# Every command that runs, as `find_markers` gives it, and then what only looks like one: in documentation, with an odd
# fence, or never closed.  Another product may run those, or the next edit may bring them to life, so a change to one of
# them is shown as well.  Too much costs a question; too little runs something that nobody saw.

_lookalike = re.compile(r"(?=!`([^`]*)`)")
_block_opener = {tick: re.compile(rf"[ \t]*({tick}{{3,}})[ \t]*!") for tick in "`~"}
_block_closer = {tick: re.compile(rf"(?:[ \t]*+>)*[ \t]*+({tick}{{3,}})[ \t\r]*") for tick in "`~"}


def commands_to_trust(body: str) -> tuple[str, ...]:
    """Every command in a body that any dialect runs, then whatever else looks like one; each once."""
    commands = dict.fromkeys(marker.command.strip() for marker in find_markers(body, ANY_DIALECT))
    known = set(map(_without_indents, commands))
    commands.update(dict.fromkeys(text for text in _lookalikes(body) if _without_indents(text) not in known))
    return tuple(commands)


def _without_indents(text: str) -> str:
    """What a block says however far it is indented: the reader dedents a command, a lookalike is as it stands."""
    return "\n".join(line.strip(" \t") for line in text.split("\n")).strip()


def _lookalikes(body: str) -> Iterator[str]:
    lines = body.split("\n")
    for line in lines:
        yield from (text.strip() for text in _inline_lookalikes(line))
    for tick in "`~":
        yield from _block_lookalikes(lines, tick)


def _inline_lookalikes(line: str) -> list[str]:
    """What stands between backticks; where longer runs of them make that hard to tell, all from the first on."""
    if "``" not in line:
        return _lookalike.findall(line)
    start = line.find("!`")
    return [line[start + 2 :]] if start >= 0 else []


def _block_lookalikes(lines: list[str], tick: str) -> Iterator[str]:
    block: list[str] | None = None
    ticks = 0
    for line in lines:
        opened, closed = _block_opener[tick].match(line), _block_closer[tick].fullmatch(line)
        if block is None:
            if opened is not None:
                block, ticks = [line[opened.end() :]], len(opened[1])
        elif closed is not None and len(closed[1]) >= ticks:
            yield "\n".join(block).strip()
            block = None
        else:
            block.append(line)
            if opened is not None:  # perhaps this is the one that counts: then its own end counts
                ticks = max(ticks, len(opened[1]))
    if block is not None:
        yield "\n".join(block).strip()

"""Three versions of a folder made one: what upstream changed, with what was edited here kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher, unified_diff
from typing import Literal, NamedTuple, TypeAlias

from ..types.installed import FileMark, Files

Choice: TypeAlias = Literal["theirs", "mine", "merge", "clash"]
_MOST_LINES = 20_000


class Step(NamedTuple):
    """What becomes of one path."""

    path: str
    choice: Choice


def steps(base: Mapping[str, FileMark], mine: Files, theirs: Files) -> Iterator[Step]:
    """What to do with every path of any version.  Files that are only here are kept; what both changed is merged."""
    for path in sorted({*base, *mine, *theirs}):
        old, here, there = base.get(path), mine.get(path), theirs.get(path)
        if here in (there, old):
            yield Step(path, "theirs")
        elif there == old or (old is not None and (here is None or there is None)):
            yield Step(path, "mine")  # what was deleted here stays so, and what was edited here is not lost
        elif old is None:
            yield Step(path, "clash")
        else:
            yield Step(path, "merge")


def merged_mode(old: FileMark, here: FileMark, there: FileMark) -> str:
    """Whoever changed the mode decides it; theirs where both did."""
    return here.mode if there.mode == old.mode else there.mode


def merge3(base: str, mine: str, theirs: str) -> str | None:
    """Both changes in one text; None where they touch the same lines."""
    old, left, right = (text.splitlines(keepends=True) for text in (base, mine, theirs))
    if max(map(len, (old, left, right))) > _MOST_LINES:
        return None
    changes = sorted([*_changes(old, left, 0), *_changes(old, right, 1)])
    out: list[str] = []
    at = 0
    for number, (start, end, side, lines) in enumerate(changes):
        if number and changes[number - 1][:2] == (start, end) and changes[number - 1][3] == lines:
            continue  # both made the same change
        if start < at or (number and start <= changes[number - 1][1] and side != changes[number - 1][2]):
            return None
        out += [*old[at:start], *lines]
        at = end
    return "".join([*out, *old[at:]])


def _changes(old: list[str], new: list[str], side: int) -> Iterator[tuple[int, int, int, list[str]]]:
    for tag, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield start, end, side, new[first:last]


def diff(path: str, before: str, after: str) -> list[str]:
    """The lines of a difference, as `diff -u` writes them."""
    names = f"a/{path}" if before else "/dev/null", f"b/{path}" if after else "/dev/null"
    return [line.rstrip("\n") for line in unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")]

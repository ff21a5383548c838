"""The listings of the dialects, as data: a head, one entry at a time, a tail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import NamedTuple

from ..types.catalog import Entry
from ..types.dialect import Format
from ..types.text import flat, inert
from .entries import emoji_of


class Layout(NamedTuple):
    """A text is `head`, the entries one after the other, then `tail`: lengths add up."""

    head: str
    pieces: Callable[[Sequence[Entry]], Iterable[tuple[str, ...]]]
    """Each entry in pieces, which are joined only once, with all others."""
    tail: str

    def entry(self, entry: Entry) -> str:
        return "".join(chain.from_iterable(self.pieces((entry,))))


_ENTITIES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&apos;"))
_TOGETHER = 100


def escape(texts: Sequence[str]) -> list[str]:
    """XML texts: the five characters that mean something, looked for in many texts at once."""
    escaped: list[str] = []
    for start in range(0, len(texts), _TOGETHER):
        some = texts[start : start + _TOGETHER]
        together = "".join(some)
        for character, entity in _ENTITIES:
            if character in together:
                some = [text.replace(character, entity) for text in some]
        escaped += some
    return escaped


def _xml(entries: Sequence[Entry]) -> Iterable[tuple[str, ...]]:
    names, descriptions, locations = (escape(list(map(itemgetter(at), entries))) for at in range(3))
    return zip(
        repeat("  <skill>\n    <name>"), names,
        repeat("</name>\n    <description>"), descriptions,
        repeat("</description>\n    <location>"), locations,
        repeat("</location>\n  </skill>\n"),
    )  # fmt: skip


def _each(write: Callable[[Entry], str]) -> Callable[[Sequence[Entry]], Iterable[tuple[str, ...]]]:
    return lambda entries: [(write(entry),) for entry in entries]


@_each
def _bold(entry: Entry) -> str:
    hint = entry.hint if not entry.hint or entry.hint.startswith("[") else f"[{entry.hint}]"
    first = f"- **{inert(entry.name)}**" + (f" {inert(hint)}" if hint else "")
    return f"{first}: {inert(entry.description)}\n" if entry.description else f"{first}\n"


@_each
def _bare(entry: Entry) -> str:
    name = inert(entry.name)
    return f"- {name}: {inert(entry.description)}\n" if entry.description else f"- {name}\n"


@_each
def _with_emoji(entry: Entry) -> str:
    emoji, id = (emoji_of(entry.skill), flat(entry.skill.id)) if entry.skill else ("🔧", entry.name)
    first = f"- {inert(emoji)} **{inert(entry.name)}** (`{inert(id)}`)"
    return f"{first}: {inert(entry.description)}\n" if entry.description else f"{first}\n"


_OPEN, _CLOSE = "<available_skills>\n", "</available_skills>"

_LAYOUTS: dict[Format, Layout] = {
    "xml": Layout(_OPEN, _xml, _CLOSE),
    "mandatory": Layout(
        "## Skills (mandatory)\n"
        "Before replying: scan <available_skills> <description> entries.\n"
        "- If exactly one skill clearly applies: read its SKILL.md at <location> with `read`, then follow it.\n"
        "- If multiple could apply: choose the most specific one, then read/follow it.\n"
        "- If none clearly apply: do not read any SKILL.md.\n"
        "Constraints: never read more than one skill up front; only read after selecting.\n"
        "\n" + _OPEN,
        _xml,
        _CLOSE,
    ),
    "available": Layout(
        "## Available Skills\n\n",
        _bold,
        "\nUse the `skill_use` tool to load a skill's full instructions when needed.",
    ),
    "policy": Layout(
        "## Skills\n\n"
        "A message that starts with `/name` has already activated that skill: carry it out as it is written.\n"
        "Otherwise, when a task matches one of these, call `run_skill` with its name before you begin.\n\n",
        _bare,
        "",
    ),
    "emoji": Layout("# Available Skills\n\n", _with_emoji, ""),
    "plain": Layout("Skills you can use; load one before you do what it is for:\n\n", _bare, ""),
    "guided": Layout(
        "These skills hold instructions for particular kinds of work.\n"
        "When a task matches a description, load that skill before you begin, and follow it.\n"
        "Paths in a skill are relative to the folder of its SKILL.md; use absolute paths in tool calls.\n"
        "\n" + _OPEN,
        _xml,
        _CLOSE,
    ),
}  # fmt: skip


def layout(format: Format) -> Layout:
    return _LAYOUTS[format]

"""What a careful reader would say about a SKILL.md that loads."""

from __future__ import annotations

import re
from difflib import get_close_matches

from ..types.dialect import Dialect
from ..types.problem import Mark
from ..types.skill import PERMISSIONS
from ..types.text import hidden_in, hides_nothing
from . import events, lines
from .events import BadYaml
from .fences import cut
from .fields import SPELLINGS, line_of
from .foreign import foreign
from .mend import TYPOS

_awk = re.compile(r"\bawk\b[^\n`'\"]{0,200}['\"][^'\"\n$]{0,400}(\$[0-9])")
_LONGEST_KEY, _MOST_KEYS = 40, 100
_price = re.compile(r"(?<![\w$\\])(\$[0-9][0-9,]*(?:\.[0-9]+)?(?:,[0-9]{3}|\.[0-9]{2}|[0-9]{2,}))")

_NO_ESCAPE = "if it is meant as it stands, write it in words: this dialect has no escape"


def lint(text: str, dialect: Dialect) -> list[Mark]:
    """Hidden characters, misspelled fields, what the dialect lacks, and what looks like a placeholder but is none."""
    marks = _hidden(text)
    block, body, _, _ = cut(text, dialect.authoring.indented)
    reading = _reading(block, dialect)
    if reading is not None:
        marks += [*_typos(reading, dialect), *_permissions(reading, block or "")]
    before = text.count("\n") - body.count("\n")
    marks += foreign(body, dialect, _names(reading), before)
    return marks + _hazards(body, dialect, before)


def _reading(block: str | None, dialect: Dialect) -> events.Reading | None:
    """The frontmatter; where the plain reader knows it, with the lines of only those fields that may be typos."""
    if block is None:
        return None
    plain = lines.read(block)
    if plain:
        unknown = [key for key in plain if not _is_field(key, dialect)]
        return events.Reading(plain, lines={key: line_of(key, block) - 2 for key in unknown[:_MOST_KEYS]})
    try:
        return events.read(block)
    except BadYaml:
        return None


def _names(reading: events.Reading | None) -> list[str]:
    """The arguments that the frontmatter declares."""
    written = reading.tree.get("arguments", "") if reading is not None else ""
    words = written if isinstance(written, list) else [written]
    return [name for word in words if isinstance(word, str) for name in word.replace(",", " ").split()][:_MOST_KEYS]


def _hidden(text: str) -> list[Mark]:
    if hides_nothing(text):
        return []
    return [
        Mark("hidden-text", number, (", ".join(found),))
        for number, line in enumerate(text.split("\n"), 1)
        if (found := hidden_in(line))
    ]


def _typos(reading: events.Reading, dialect: Dialect) -> list[Mark]:
    fields = dialect.authoring.fields
    marks = []
    for key, line in list(reading.lines.items())[:_MOST_KEYS]:
        if len(key) > _LONGEST_KEY or _is_field(key, dialect):
            continue
        meant = TYPOS.get(key) or next(iter(get_close_matches(key, fields, 1, 0.85)), None)
        if meant and meant not in reading.tree:
            marks.append(Mark("field-typo", line + 2, (key, meant)))
    return marks


def _permissions(reading: events.Reading, block: str) -> list[Mark]:
    """What is asked for by a name that asks for nothing."""
    asked: object = reading.tree
    for key in ("metadata", "metier", "permissions"):
        asked = asked.get(key) if isinstance(asked, dict) else None
    unknown = [key for key in asked if key not in PERMISSIONS] if isinstance(asked, dict) else []
    rows = block.split("\n")
    marks = []
    for key in unknown[:_MOST_KEYS]:
        meant = next(iter(get_close_matches(key[:_LONGEST_KEY], PERMISSIONS, 1, 0.6)), "`, `".join(PERMISSIONS))
        line = next((number for number, row in enumerate(rows, 2) if f"{key}:" in row), 0)
        marks.append(Mark("field-typo", line, (f"metadata.metier.permissions.{key[:_LONGEST_KEY]}", meant)))
    return marks


def _is_field(key: str, dialect: Dialect) -> bool:
    fields = dialect.authoring.fields
    return key in fields or SPELLINGS.get(key, key) in fields


def _hazards(body: str, dialect: Dialect, before: int) -> list[Mark]:
    """`$1` of awk and sums of money, in a dialect where `$1` is an argument."""
    arguments = dialect.authoring.arguments
    if arguments is None:
        return []
    marks = []
    for number, line in enumerate(body.split("\n") if "$" in body else (), before + 1):
        for found in (*_awk.findall(line), *_price.findall(line)):
            cure = f"write `\\{found}` if it is meant as it stands" if arguments.escape else _NO_ESCAPE
            marks.append(Mark("placeholder-hazard", number, (found, cure)))
            break
    return marks

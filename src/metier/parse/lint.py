"""What a careful reader would say about a SKILL.md that loads."""

from __future__ import annotations

import re
from difflib import get_close_matches

from ..types.dialect import Dialect
from ..types.problem import Mark
from ..types.text import hidden_in
from . import events
from .events import BadYaml
from .fences import cut
from .fields import SPELLINGS
from .mend import TYPOS

_awk = re.compile(r"\bawk\b[^\n`'\"]{0,200}['\"][^'\"\n$]{0,400}(\$[0-9])")
_LONGEST_KEY, _MOST_KEYS = 40, 100
_price = re.compile(r"(?<![\w$\\])(\$[0-9][0-9,]*(?:\.[0-9]+)?(?:,[0-9]{3}|\.[0-9]{2}|[0-9]{2,}))")

_NO_ESCAPE = "if it is meant as it stands, write it in words: this dialect has no escape"


def lint(text: str, dialect: Dialect) -> list[Mark]:
    """Hidden characters, misspelled fields, and text that looks like a placeholder but is none."""
    marks = _hidden(text)
    block, body, _, _ = cut(text, dialect.authoring.indented)
    if block is not None:
        marks += _typos(block, dialect)
    before = text.count("\n") - body.count("\n")
    return marks + _hazards(body, dialect, before)


def _hidden(text: str) -> list[Mark]:
    return [
        Mark("hidden-text", number, (", ".join(found),))
        for number, line in enumerate(text.split("\n"), 1)
        if (found := hidden_in(line))
    ]


def _typos(block: str, dialect: Dialect) -> list[Mark]:
    try:
        reading = events.read(block)
    except BadYaml:
        return []
    fields = dialect.authoring.fields
    marks = []
    for key, line in list(reading.lines.items())[:_MOST_KEYS]:
        if len(key) > _LONGEST_KEY or key in fields or SPELLINGS.get(key, key) in fields:
            continue
        meant = TYPOS.get(key) or next(iter(get_close_matches(key, fields, 1, 0.85)), None)
        if meant and meant not in reading.tree:
            marks.append(Mark("field-typo", line + 2, (key, meant)))
    return marks


def _hazards(body: str, dialect: Dialect, before: int) -> list[Mark]:
    """`$1` of awk and sums of money, in a dialect where `$1` is an argument."""
    arguments = dialect.authoring.arguments
    if arguments is None:
        return []
    marks = []
    for number, line in enumerate(body.split("\n"), before + 1):
        for found in (*_awk.findall(line), *_price.findall(line)):
            cure = f"write `\\{found}` if it is meant as it stands" if arguments.escape else _NO_ESCAPE
            marks.append(Mark("placeholder-hazard", number, (found, cure)))
            break
    return marks

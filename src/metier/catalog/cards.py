"""A skill's card: its name, what it says it is for, and what its body is about, as terms."""

from __future__ import annotations

import re

from ..types.search import Card
from ..types.words import terms
from .stuffing import is_stuffed

_sentences = re.compile(r"(?<=[.!?…;])\s+|\n+|(?=\bDO NOT USE\b)|(?<!NOT )(?=\bUSE FOR\b)").split
_elsewhere = re.compile(
    r"\W*(?:(?:please )?(?:do not|don['’]t|never|not)\b.{0,24}?\b(?:use|for|invoke|trigger|activate|apply|intended)\b"
    r"|for\b.{3,160}?[,;:—–-]+\s*(?:see|use|try|prefer|go to|invoke)\b"
    r"|(?:use|see|prefer)\b.{2,80}\binstead\b)",
    re.IGNORECASE | re.DOTALL,
).match
"""`Do not use for …`, `For …, see …`: what a skill says it is not for."""
_phrases = re.compile(r"[.;:!?,\"“”()\[\]\n—–•|…]+|\s[-/]\s|\b(?:or|and)\b|(?<!\w)['‘]|['’](?!\w)", re.IGNORECASE).split
_LONGEST = 4_000
"""So much of a description is looked at."""
_number = re.compile(r"\b\d{1,2}\b").sub


def card(name: str, description: str, more: str = "") -> Card:
    """What the index keeps of a skill."""
    text = description[:_LONGEST]
    said = [" ".join(terms(phrase)) for phrase in _phrases(" . ".join(_own(text)))]
    unique = dict.fromkeys(terms(_number(" ", more)))
    return Card(" ".join(terms(name)), " | ".join(filter(None, said)), " ".join(unique), is_stuffed(text))


def _own(description: str) -> list[str]:
    """The sentences that say what a skill is for; all of them where none is left."""
    sentences = _sentences(description)
    return [one for one in sentences if not _elsewhere(one)] or sentences

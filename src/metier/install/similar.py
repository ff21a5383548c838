"""Skills that could be taken for one another: by a name that looks the same, or a description that nearly is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from ..types.problem import Mark

_LOOKS = {
    ord(one): like
    for like, ones in {
        "a": "аα", "b": "в", "c": "с", "d": "ԁ", "e": "е3", "h": "һн", "i": "іι", "j": "ј", "k": "кκ", "l": "ӏ|1ⅼ",
        "m": "м",        "n": "п", "o": "оο0σ", "p": "рρ", "q": "ԛ", "s": "ѕ5", "t": "тτ", "u": "υ", "v": "ν", "w": "ԝ",
        "x": "х", "y": "у",
    }.items()
    for one in ones
}  # fmt: skip
_OVERLAP = 0.6
_FEW = 4
"""Descriptions of fewer telling words are not compared."""
_COMMON = frozenset(
    {
        "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "has", "have", "how", "if",
        "in", "into", "is", "it", "its", "of", "on", "or", "that", "the", "their", "them", "then", "this", "to", "use",
        "used", "user", "users", "when", "with", "you", "your", "asks", "need", "needs", "want", "wants", "skill",
    }
)  # fmt: skip


def skeleton(name: str) -> str:
    """What a name looks like to a hurried eye."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    plain = "".join(one for one in unicodedata.normalize("NFD", plain) if unicodedata.category(one) not in ("Mn", "Cf"))
    return re.sub(r"[-_.\s]+", "", plain.translate(_LOOKS).replace("rn", "m").replace("vv", "w"))


def alike(name: str, description: str, nearby: Sequence[tuple[str, str]]) -> Iterator[Mark]:
    """Which of the skills that are there already this one could be mistaken for."""
    if _mixed(name):
        yield Mark("looks-like", 2, (skeleton(name),), fatal=True)
    mine = skeleton(name)
    words = _words(description)
    for other, said in nearby:
        if other == name:
            continue
        if skeleton(other) == mine:
            yield Mark("looks-like", 2, (other,), fatal=not name.isascii())
        theirs = _words(said)
        both = words & theirs
        if min(len(words), len(theirs)) >= _FEW and len(both) >= _OVERLAP * len(words | theirs):
            yield Mark("trigger-overlap", 2, (other,))


def _mixed(name: str) -> bool:
    """Latin letters with Greek or Cyrillic ones among them."""
    scripts = {unicodedata.name(one, "").partition(" ")[0] for one in name if one.isalpha()}
    return "LATIN" in scripts and bool(scripts & {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"})


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"\w{2,}", text.lower()) if word not in _COMMON)

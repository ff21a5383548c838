"""Skills that could be taken for one another: by a name that looks the same, or a description that nearly is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from ..types.problem import Finding

_LOOKALIKES = {
    ord(letter): like
    for like, letters in {
        "a": "аα",
        "b": "в",
        "c": "с",
        "d": "ԁ",
        "e": "е3",
        "h": "һн",
        "i": "іι",
        "j": "ј",
        "k": "кκ",
        "l": "ӏ|1ⅼ",
        "m": "м",
        "n": "п",
        "o": "оο0σ",
        "p": "рρ",
        "q": "ԛ",
        "s": "ѕ5",
        "t": "тτ",
        "u": "υ",
        "v": "ν",
        "w": "ԝ",
        "x": "х",
        "y": "у",
    }.items()
    for letter in letters
}
_OVERLAP = 0.6
_FEWEST_WORDS = 4
"""Descriptions of fewer telling words are not compared."""
_COMMON_WORDS = frozenset(
    {
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "do",
        "does",
        "for",
        "from",
        "has",
        "have",
        "how",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "of",
        "on",
        "or",
        "that",
        "the",
        "their",
        "them",
        "then",
        "this",
        "to",
        "use",
        "used",
        "user",
        "users",
        "when",
        "with",
        "you",
        "your",
        "asks",
        "need",
        "needs",
        "want",
        "wants",
        "skill",
    }
)


def skeleton(name: str) -> str:
    """What a name looks like to a hurried eye."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    plain = "".join(
        letter for letter in unicodedata.normalize("NFD", plain) if unicodedata.category(letter) not in ("Mn", "Cf")
    )
    return re.sub(r"[-_.\s]+", "", plain.translate(_LOOKALIKES).replace("rn", "m").replace("vv", "w"))


def find_lookalikes(name: str, description: str, nearby: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """Which of the skills that are there already this one could be mistaken for."""
    if _mixes_scripts(name):
        yield Finding("looks-like", 2, (skeleton(name),), fatal=True)
    my_skeleton = skeleton(name)
    my_words = _telling_words(description)
    for other_name, other_description in nearby:
        if other_name == name:
            continue
        if skeleton(other_name) == my_skeleton:
            yield Finding("looks-like", 2, (other_name,), fatal=not name.isascii())
        their_words = _telling_words(other_description)
        both = my_words & their_words
        if min(len(my_words), len(their_words)) >= _FEWEST_WORDS and len(both) >= _OVERLAP * len(
            my_words | their_words
        ):
            yield Finding("trigger-overlap", 2, (other_name,))


def _mixes_scripts(name: str) -> bool:
    """Latin letters with Greek or Cyrillic ones among them."""
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in name if letter.isalpha()}
    return "LATIN" in scripts and bool(scripts & {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"})


def _telling_words(text: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"\w{2,}", text.lower()) if word not in _COMMON_WORDS)

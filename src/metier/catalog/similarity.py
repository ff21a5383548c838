"""Finds skills that could be mistaken for one another, by name or by description.

Names are compared by what they look like: letters of other alphabets, digits and pairs such as `rn` become the Latin
letter they resemble (as in Unicode's confusables, cut down to what is seen in names).  Descriptions are compared by the
overlap of their words; two that share most of them will be triggered by the same requests.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

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
"""The share of common words (Jaccard) that counts as the same description."""
_MIN_WORDS = 4
"""Descriptions with fewer words are not compared."""
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
    """What a name looks like at a glance."""
    # Compatibility forms first (full width, ligatures), then marks and invisible characters come off.
    plain = unicodedata.normalize("NFKC", name).casefold()
    plain = "".join(
        letter for letter in unicodedata.normalize("NFD", plain) if unicodedata.category(letter) not in ("Mn", "Cf")
    )
    return re.sub(r"[-_.\s]+", "", plain.translate(_LOOKALIKES).replace("rn", "m").replace("vv", "w"))


def find_lookalikes(name: str, description: str, nearby: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """The installed skills that this one could be mistaken for."""
    # Mixed scripts are fatal by themselves: no honest name has them.
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
        if min(len(my_words), len(their_words)) >= _MIN_WORDS and len(both) >= _OVERLAP * len(my_words | their_words):
            yield Finding("trigger-overlap", 2, (other_name,))


def deceptive_names(names: Iterable[str], real: Iterable[str]) -> dict[str, str]:
    """The names with letters of another script that look like one of the real names, or like plain Latin ones."""
    strange = {name for name in names if not name.isascii()}
    plain = {skeleton(name): name for name in real if name.isascii()} if strange else {}
    found = {name: plain[shape] for name in strange if (shape := skeleton(name)) in plain}
    return {**{name: skeleton(name) for name in strange if _mixes_scripts(name) or not skeleton(name)}, **found}


def _mixes_scripts(name: str) -> bool:
    """Whether a name mixes Latin letters with those of a script that looks like it."""
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in name if letter.isalpha()}
    return "LATIN" in scripts and bool(scripts & {"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"})


def _telling_words(text: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"\w{2,}", text.lower()) if word not in _COMMON_WORDS)

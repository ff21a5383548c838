"""The terms of a text, as the search compares them.

Lower case, without accents, `CamelCase` split, and English endings removed by a few rules.  Scripts without blanks
between words (Chinese, Japanese, Korean) become overlapping pairs of characters, which needs no dictionary.  The index
and the scorer both take their terms from here, so that a word means the same to both.  Refused: Porter's stemmer, which
found no more than these rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import category, normalize

_STOP_TEXT = (
    "a about also am an and any are as at be been being but by can could d did do does don dont down each few for"
    " from further get go going got had has have he her here him his how i id if ill im in into is it its ive just"
    " like ll m may me might more most must my need no nor not of off on once only or other our out over own re s"
    " same shall she should so some such t than that the their them then there these they this to too under until up"
    " us ve very want was we were what when where which who why will with would you your"
)
STOP_WORDS = frozenset(_STOP_TEXT.split())
"""Words that say nothing about a skill; neither indexed nor searched."""

_COMMON_TEXT = (
    "able across actual actually add again ago all almost already always another anyone anything around ask asked"
    " away back bad based basically become before began behind believe best better between big bit both bring brought"
    " bunch call called came care case certain chance change check choose clear close come common complete completely"
    " consider correct couple course current currently day deal decide definitely detail different difficult doing"
    " done easy either else end enough especially even ever every everyone everything exactly example explain extra"
    " fact fairly far fast feel felt figure final finally find fine first five folks follow former forward found four"
    " free full fully fun gave general generally getting give gone good great group guess half hand happen happy hard"
    " hear hello help helpful hey hi high hope hour huge hundred idea imagine important include instead interested"
    " issue job keep kept kind knew know known large last lately later least leave left less let level likely line"
    " list little live long longer look lost lot low made main make many matter maybe mean meant mention mind minute"
    " miss moment month mostly move much name near nearly necessary never new next nice nobody none normal nothing"
    " notice now number obviously often okay old one open order otherwise part particular past people per perfect"
    " perhaps person piece place please plus point possible pretty previous probably problem properly put question"
    " quick quickly quite rather read ready real really reason recent recently regular related rest right round run"
    " said saw say second see seem seen send sense sent separate several show side similar simple simply since single"
    " six size small somehow someone something sometimes soon sorry sort specific start stay step still stop straight"
    " stuff suggest supposed sure take talk tell ten thank thing think third though thought thousand three through"
    " throughout time tiny today together told tomorrow tonight took top total totally toward tried true try turn"
    " twice two type understand unfortunately unless upon use useful user usual usually various via view wait walk"
    " watch way week weird well went whatever whenever whether while whole whose within without wonder word work world"
    " worse worst worth wrong year yes yesterday yet zero"
)

_camel = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])").sub
_has_camel = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]").search
_word = re.compile(r"[^\W_]+").findall
_plain_word = re.compile(r"[a-z0-9]+").findall
_WIDE = "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003fffd]+"
"""Scripts without blanks between words; slow to compile, so only when a text has one."""
_MAX_WORD_LENGTH = 40
"""Anything longer is a digest or a path."""
_STEMS: dict[str, str] = {}
_MAX_STEMS = 50_000


def search_terms(text: str) -> list[str]:
    """All terms of a text in order, without stop words: `ReportTests` is itself, `report` and `test`."""
    stems: list[str] = []
    cache = _STEMS
    for word in raw_words(text):
        if word in STOP_WORDS:
            continue
        stem = cache.get(word)
        stems.append(stem if stem is not None else _stem_once(word))
    return stems


def raw_words(text: str) -> Iterable[str]:
    """The words of a text in order, in lower case, with stop words."""
    if _has_camel(text):
        text = " ".join(_split_camel(piece) for piece in text.split(" "))
    if text.isascii():
        return _plain_word(text.lower())
    return _unicode_words(_strip_accents(text.lower()))


def _split_camel(piece: str) -> str:
    return f"{piece} {_camel(' ', piece)}" if _has_camel(piece) else piece


def _unicode_words(text: str) -> Iterable[str]:
    for word in _word(text):
        if word.isascii():
            yield word
            continue
        at = 0
        for run in re.finditer(_WIDE, word):
            if word[at : run.start()]:
                yield word[at : run.start()]
            yield from _character_pairs(run[0])
            at = run.end()
        if word[at:]:
            yield word[at:]


def _character_pairs(run: str) -> Iterable[str]:
    """Two neighbours make a term: `部署服务` is `部署`, `署服` and `服务`."""
    return [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]


def _strip_accents(text: str) -> str:
    return "".join(c for c in normalize("NFKD", text) if category(c) != "Mn") if not _is_korean(text) else text


def _is_korean(text: str) -> bool:
    """Whether it has Korean, which decomposition would break into letters."""
    return any("\uac00" <= character <= "\ud7af" for character in text)


def _stem_once(word: str) -> str:
    if len(_STEMS) > _MAX_STEMS:
        _STEMS.clear()
    stemmed = _STEMS[word] = stem_word(word)
    return stemmed


def stem_word(word: str) -> str:
    """An English word without its most common endings; any other word unchanged."""
    if len(word) > _MAX_WORD_LENGTH:
        return word[:_MAX_WORD_LENGTH]
    if len(word) < 4 or not word.isalpha() or not word.isascii():
        return word
    word = _strip_plural(word)
    for ending in ("ing", "ed"):
        if word.endswith(ending):
            root = word[: -len(ending)]
            if len(root) < 3 or not any(vowel in root for vowel in "aeiouy"):
                return word
            if root[-1] == root[-2] and root[-1] not in "lsz":  # `running` is run, `calling` is call
                return root[:-1]
            word = root
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


def _strip_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "ches", "shes", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


COMMON_TERMS = frozenset(stem_word(word) for word in _COMMON_TEXT.split())
"""Everyday terms: they count for less."""

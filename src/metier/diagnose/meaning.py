"""Meaning: what a change takes from a skill's instructions, and what it adds to them.

A text that only reads well passes every check of its form.  So its meaning is compared: the steps it gives, the lines
that forbid, ask or limit, and its words.  A fix needs none of these to go, and rarely a word that stands neither in the
skill nor in the call that failed; whatever does not keep to that is shown to a person, with the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .scripts import options_of
from .steps import INTERPRETERS, code_pieces, is_open
from .texts import PROSE_SUFFIXES, compare_texts, prose_bodies, prose_body

# --- Lost steps ---

_link = re.compile(r"\]\(([^()\s]+)\)")
_check = re.compile(
    r"\b(?:check|verify|validate|confirm|make sure|ensure|test|review|compare|back ?up|dry.run|lint)\b", re.IGNORECASE
)
_sentence_end = re.compile(
    r"(?<=[.!?。！？;；])\s+|\n\s*(?:[-*+>]|\d+[.)])\s+|\n{2,}|\n(?=#)|^\s*(?:[-*+>]|\d+[.)])\s+"
)
_number = re.compile(r"\d+(?:[.,]\d+)*")
_marker = re.compile(r"^\s*\d+[.)]\s")
_plain_word = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


def lost_steps(
    before: Mapping[str, str], after: Mapping[str, str], files: Iterable[str], renamed: bool = False
) -> list[str]:
    """What the old texts had an agent run, read or check, and the new ones do not; a corrected step is not lost.

    With `renamed` a rule exchanged words in their places: then a piece of code is lost only if there are fewer.
    """
    old, new = prose_bodies(before), prose_bodies(after)
    old_pieces, new_pieces = _pieces(old), _pieces(new)
    text = "\n".join(new.values())
    if renamed and len(new_pieces) >= len(old_pieces):
        old_pieces = []
    lost = [
        f"`{piece}`" for piece in old_pieces if piece not in text and not _is_corrected(piece, new_pieces, old_pieces)
    ]
    for file in files:
        if _mentions(old, file) and not _mentions(new, file) and file not in " ".join(lost):
            lost.append(file)
    kept = [set(_words(sentence)) for sentence in _sentences(new.values())]
    for sentence in _sentences(old.values()):
        words = set(_words(sentence))
        if _check.search(sentence) and len(words) > 2 and not any(_shares(words, other, 0.6) for other in kept):
            lost.append(f"“{_short(sentence)}”")
    return list(dict.fromkeys(lost))


def _pieces(texts: Mapping[str, str]) -> list[str]:
    pieces = [" ".join(piece.source.split()) for text in texts.values() for piece in code_pieces(text)]
    return list(dict.fromkeys(pieces + [link for text in texts.values() for link in _link.findall(text)]))


def _mentions(texts: Mapping[str, str], file: str) -> bool:
    return any(file in text for text in texts.values())


def _is_corrected(piece: str, new: list[str], old: list[str]) -> bool:
    """Whether a new piece does the same: the same program, and most of its words."""
    words = piece.split()
    return any(
        _program(words) == _program(other.split()) and _alike(words, other.split()) for other in new if other not in old
    ) or any(len(words) == 1 and _same_name(piece, other) for other in new if other not in old)


def _program(words: list[str]) -> str:
    """What a command starts: the program, or the script that it is given."""
    at = 1 if len(words) > 1 and words[0] in INTERPRETERS else 0
    name = words[at].rpartition("/")[2].partition(".")[0] if words else ""
    return name[:3]  # a misspelled script is still the same one


def _alike(first: list[str], second: list[str]) -> bool:
    shared = len(set(first) & set(second))
    return shared * 2 >= min(len(set(first)), len(set(second))) or len(first) == len(second) <= 2


def _same_name(first: str, second: str) -> bool:
    return first.rpartition("/")[2][:3].casefold() == second.rpartition("/")[2][:3].casefold()


# --- Guards ---

_guard = re.compile(
    r"\b(?:never|don'?t|do not|must not|mustn'?t|cannot|can'?t|may not|should not|shouldn'?t|only|unless|until|at most"
    r"|at least|no more than|maximum|minimum|limit(?:ed)?|ask(?:s)?|approval|approve|permission|confirm\w*|forbidden"
    r"|prohibited|avoid|refuse|stop if|read-only|without|not)\b"
    r"|不要|請勿|请勿|禁止|不得|不可|先問|先问|確認|确认|最多|只能|必須|必须",
    re.IGNORECASE,
)
"""What makes a line one that forbids, asks or limits."""
_release = re.compile(
    r"without (?:asking|confirm\w+|approval|permission|waiting|a question)|no need to|not necessary to|need not"
    r"|skip(?:ping)? (?:the |any |all |this |that )?(?:check|confirm|approv|test|review|verif|question|step|warning)"
    r"|(?:turn|switch|set)\w*(?: \w+){0,4} off\b|\bdisabl\w+|\bbypass\w*|\bdeactivat\w+|\bunconfined\b|\bunrestricted\b"
    r"|regardless of|even if (?:the )?(?:user|they)|(?:always|auto)[- ]?(?:allow|approve|accept|confirm|yes)"
    r"|(?:don'?t|do not|never) (?:ask|confirm|wait|check|verify|warn|tell|mention|report|stop)"
    r"|ignor\w+ (?:the|any|all|errors)"
    r"|不用問|不必|略過|略过|關閉|关闭|停用",
    re.IGNORECASE,
)
"""What takes a guard away, whoever had it."""


def lost_guards(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Lines that forbid, ask or limit and are gone, and new ones that take such a line away."""
    old, new = prose_bodies(before).values(), prose_bodies(after).values()
    old_sentences, new_sentences = list(_sentences(old)), list(_sentences(new))
    kept = {_plain(sentence) for sentence in new_sentences}
    found = [
        f"gone: “{_short(sentence)}”"
        for sentence in old_sentences
        if _guard.search(sentence) and _plain(sentence) not in kept and not _is_kept(sentence, new_sentences)
    ]
    known = {_plain(sentence) for sentence in old_sentences}
    released = {match.casefold() for sentence in old_sentences for match in _release.findall(sentence)}
    for sentence in new_sentences:
        match = _release.search(sentence) if _plain(sentence) not in known else None
        if match and match[0].casefold() not in released:
            found.append(f"new: “{_short(sentence)}”")
    return list(dict.fromkeys(found))


def _is_kept(sentence: str, new: list[str]) -> bool:
    """Whether a new sentence says the same: the same guards and numbers, and nearly all of its words."""
    words, guards, numbers = set(_words(sentence)), _guards_in(sentence), re.findall(r"\d+", sentence)
    return any(
        guards == _guards_in(other) and numbers == re.findall(r"\d+", other) and _shares(words, set(_words(other)), 0.7)
        for other in new
    )


def _guards_in(sentence: str) -> list[str]:
    return sorted(match.casefold() for match in _guard.findall(sentence))


# --- Novelty ---

_STOP_WORDS = (
    "a about above after again all also an and any are as at away back be because been before being below"
    " between both but by called can case cases come comes could did different does done down during each"
    " either else end every few find first following for from further gets give given gives go goes got had has"
    " have having he her here him his how i if in instead into is it its itself just keep kept kind last later"
    " least less let like line lines list long look made make makes many may means might more most much must"
    " name named names need needed needs new next no nor not note nothing now of off old on once one ones only"
    " onto or order other others our out over own part place please possible put rather read reads result"
    " results right run running runs same say says second see set shall she should show shows since so some"
    " something still such sure take takes than that the their them then there these they thing things this"
    " those three through to together too try two under until up upon use used uses using very was way we well"
    " were what when where whether which while who whole whose why will with without word words work works"
    " would yes yet you your file files folder path text step steps command commands script scripts option"
    " options argument arguments skill tool tools output input value values write writes written print prints"
    " answer found missing exists exist available correct wrong fails failed error"
)
_KNOWN_ANYWHERE = frozenset(_STOP_WORDS.split())
"""Words that carry no instruction of their own."""
_SECRET = re.compile(
    r"\b(?:sk|pk|rk|ghp|gho|ghs|glpat|xox[abp]|AKIA|AIza|hf|npm|pypi)[-_]?[A-Za-z0-9_-]{12,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}|(?<![\w/.-])(?=[\w-]*\d)(?=[\w-]*[a-zA-Z])[A-Za-z0-9_-]{28,}(?![\w/.-])"
)


class NewWords(NamedTuple):
    """What a change says that neither the skill nor the fault does."""

    words: tuple[str, ...]
    secrets: tuple[str, ...]


def new_words(before: Mapping[str, str], after: Mapping[str, str], known_texts: Sequence[str]) -> NewWords:
    """The content words and secrets that a change adds; `known_texts` are the calls of the fault."""
    # Of a word's forms one is enough: `report`, `reports` and `reported` say the same.
    known = {_stem(word) for text in (*before, *before.values(), *known_texts) for word in _words(text)}
    known |= {_stem(word) for text in before.values() for option in options_of(text) for word in _words(option)}
    added = [
        line
        for path, text in after.items()
        if path.lower().endswith(PROSE_SUFFIXES) and text != before.get(path, "")
        for line in compare_texts(_whole(path, before), text).added
    ]
    words = [
        word for line in added for word in _words(line) if word not in _KNOWN_ANYWHERE and _stem(word) not in known
    ]
    old = "\n".join(before.values())
    secrets = [match[0] for line in added for match in _SECRET.finditer(line) if match[0] not in old]
    return NewWords(tuple(dict.fromkeys(words)), tuple(dict.fromkeys(secrets)))


def _whole(path: str, texts: Mapping[str, str]) -> str:
    return texts.get(path, "")


def is_correction(piece: str, before: Mapping[str, str], calls: Iterable[str]) -> bool:
    """Whether new code only corrects a command that the old text had: its words are the skill's or the run's."""
    words = piece.split()
    old = [known.split() for known in _pieces(prose_bodies(before))]
    same = [known for known in old if known and words and _program(known) == _program(words) and _alike(known, words)]
    if not same:
        return False
    sources = "\n".join(text for path, text in before.items() if not path.lower().endswith(PROSE_SUFFIXES))
    known_words = {word for known in old for word in known} | {word for call in calls for word in call.split()}
    known_words |= options_of(sources) | set(before) | INTERPRETERS
    return all(
        word in known_words or is_open(word) or word.strip("\"'") in known_words or _inner(word) in before
        for word in words
    )


def _inner(word: str) -> str:
    return re.sub(r"^(?:\$\{?\w+\}?|\{\w+\}|\.)/", "", word.strip("\"'"))


# --- Sentences and words ---


def _sentences(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        for sentence in _sentence_end.split(prose_body("", text)):
            if sentence and sentence.strip():
                yield sentence.strip()


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _plain_word.findall(text)]


def _plain(sentence: str) -> str:
    return " ".join(re.findall(r"\w+", sentence.casefold()))


def _shares(words: set[str], other: set[str], share: float) -> bool:
    return bool(words) and len(words & other) >= share * len(words)


def _stem(word: str) -> str:
    for end in ("ing", "ed", "es", "s", "d"):
        if word.endswith(end) and len(word) - len(end) >= 3:
            return word[: -len(end)].rstrip("e")
    return word.rstrip("e") if len(word) > 3 else word


def _short(sentence: str) -> str:
    plain = " ".join(sentence.split())
    return plain if len(plain) <= 90 else plain[:89] + "…"

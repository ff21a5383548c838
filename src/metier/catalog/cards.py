"""Search cards: what the index keeps of a skill, and whether its description was written to be found.

A card has terms, not text.  The description is kept in phrases, because phrases are what requests match (see `rank`),
and without the sentences that say what the skill is *not* for: those hold exactly the wrong words.  Descriptions that
demand to be used for everything, or only list keywords, are marked as stuffed and rank lower; they are not left out,
because some of them are honest.
"""

from __future__ import annotations

import re
from collections import Counter

from ..types.search import SearchCard
from .tokens import STOP_WORDS, raw_words, search_terms

# --- Stuffed descriptions ---

_CALL = r"(?:use|choose|prefer|select|invoke|call|load|pick|run|activate|start with)"
_CALLED = r"(?:used|chosen|selected|loaded|invoked|called|read)"
_ALL = r"(?:any|all|every|each)(?: and every)?"
_THING = r"(?:task|request|question|prompt|message|quer(?:y|ie)|conversation|topic|purpose|situation|job|thing)s?"
_NARROWED = r"(?! (?:about|that|involv|relat|with|in|on|where|which|for|of|to)\w*\b)"
_EVERYTHING = rf"(?:everything|anything|{_ALL}(?: \w+)? {_THING}{_NARROWED})"
_GOOD = r"(?:good|works|perfect|ideal|needed|made|here)"
_OTHERS = r"(?:all |any |every |the )?other skills?\b"
_BEST = r"(?:best|ultimate|number one|#1|only|most important|highest[- ]priority)"
_DEMANDS = (
    (("always",), rf"\balways {_CALL} this\b(?! (?:before|after|with)\b)"),
    (
        ("any", "all", "every", "each"),
        rf"\b(?:{_CALL}|{_GOOD}) (?:this |it )?(?:skill )?(?:for|on|in) (?:absolutely |literally )?{_EVERYTHING}",
    ),
    (("other skill",), rf"\b(?:before|instead of|rather than|over|above|ahead of) {_OTHERS}"),
    (("other skill",), rf"\b(?:ignore|never use|do not use|don['’]t use|skip) {_OTHERS}"),
    ((" skill ",), rf"\b{_BEST} skill (?:for {_ALL}|you(?:'ll)? (?:ever )?need|of all|available|there is|in the)\b"),
    (("regardless",), r"\bregardless of (?:the |what )?(?:task|request|question|topic|prompt|user)"),
    (
        ("no matter what", "whatever"),
        r"\b(?:no matter what|whatever) (?:the (?:user|task|request)|is asked|you (?:do|need))",
    ),
    (("priority", "precedence"), r"\b(?:takes?|has) (?:priority|precedence) over (?:all|any|every|other)\b"),
    (("must",), rf"\bmust (?:always )?be {_CALLED} (?:first|always|for {_ALL})\b"),
)
"""Demands that no honest description makes, in lower case; each is only searched if one of its words is there."""
_pieces = re.compile(r"[,;|/\n•·]+|\s[-–—]\s|(?<=[.:!?])\s").split
_MIN_WORDS = 20
"""Shorter descriptions are no keyword lists."""
_MAX_REPEATS = 9
"""How often a term may be repeated."""


def is_stuffed(description: str) -> bool:
    """Whether it demands to be used for everything, or is a list of keywords."""
    return demands_use(description) or is_keyword_list(description)


def demands_use(description: str) -> bool:
    text = " ".join(description.casefold().split())
    return any(any(word in text for word in words) and re.search(demand, text) for words, demand in _DEMANDS)


def is_keyword_list(description: str) -> bool:
    """Whether it is a list of keywords: long runs of short pieces, few function words, or one word over and over."""
    words = list(raw_words(description))
    if len(words) < _MIN_WORDS:
        return False
    # The thresholds mark at most one honest description in a hundred of the bench.
    joints = sum(word in STOP_WORDS for word in words) / len(words)
    run = _longest_run(description)
    if run >= 30 or (run >= 14 and joints < 0.16) or joints < 0.04 or _repeats_term(description):
        return True
    return joints < 0.2 and max(map(len, map(str.split, _pieces(description)))) >= 35


def _repeats_term(description: str) -> bool:
    """Whether one term is repeated more than nine times, and makes up much of the text."""
    term_list = search_terms(description)
    return max(Counter(term_list).values(), default=0) > max(_MAX_REPEATS, 0.4 * len(term_list))


def _longest_run(description: str) -> int:
    """The longest row of pieces of one or two words."""
    longest = run = 0
    for piece in _pieces(description):
        words = [word for word in piece.split() if word.lower() not in ("and", "or")]
        if words:
            run = run + 1 if len(words) <= 2 else 0
            longest = max(longest, run)
    return longest


# --- Cards ---

_split_sentences = re.compile(r"(?<=[.!?…;])\s+|\n+|(?=\bDO NOT USE\b)|(?<!NOT )(?=\bUSE FOR\b)").split
_match_elsewhere = re.compile(
    r"\W*(?:(?:please )?(?:do not|don['’]t|never|not)\b.{0,24}?\b(?:use|for|invoke|trigger|activate|apply|intended)\b"
    r"|for\b.{3,160}?[,;:—–-]+\s*(?:see|use|try|prefer|go to|invoke)\b"
    r"|(?:use|see|prefer)\b.{2,80}\binstead\b)",
    re.IGNORECASE | re.DOTALL,
).match
"""`Do not use for …`, `For …, see …`: sentences on what a skill is not for."""
_split_phrases = re.compile(
    r"[.;:!?,\"“”()\[\]\n—–•|…]+|\s[-/]\s|\b(?:or|and)\b|(?<!\w)['‘]|['’](?!\w)", re.IGNORECASE
).split
_MAX_DESCRIPTION = 4_000
"""Characters of a description that are looked at."""
_replace_numbers = re.compile(r"\b\d{1,2}\b").sub


def make_card(name: str, description: str, more: str = "") -> SearchCard:
    """The card of a skill; `more` is text of its body."""
    text = description[:_MAX_DESCRIPTION]
    phrases = [" ".join(search_terms(phrase)) for phrase in _split_phrases(" . ".join(_own_sentences(text)))]
    unique = dict.fromkeys(search_terms(_replace_numbers(" ", more)))
    return SearchCard(
        " ".join(search_terms(name)), " | ".join(filter(None, phrases)), " ".join(unique), is_stuffed(text)
    )


def _own_sentences(description: str) -> list[str]:
    """The sentences on what a skill is for; all of them if none is left."""
    sentences = _split_sentences(description)
    return [sentence for sentence in sentences if not _match_elsewhere(sentence)] or sentences

"""Descriptions that are written to be found rather than to be right."""

from __future__ import annotations

import re
from collections import Counter

from ..types.words import STOP, raw_words, terms

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
"""What no honest description says, in small letters; without one of the words before it, none is looked for."""
_pieces = re.compile(r"[,;|/\n•·]+|\s[-–—]\s|(?<=[.:!?])\s").split
_LEAST = 20
"""Words; fewer can't name too much."""
_OFTEN = 9


def is_stuffed(description: str) -> bool:
    """Whether it demands to be used whatever is asked, or names things rather than saying anything of them."""
    return demands(description) or is_list(description)


def demands(description: str) -> bool:
    said = " ".join(description.casefold().split())
    return any(any(word in said for word in words) and re.search(demand, said) for words, demand in _DEMANDS)


def is_list(description: str) -> bool:
    """Whether it is a list of keywords: long runs of short pieces, hardly a word between, or one word over and over."""
    words = list(raw_words(description))
    if len(words) < _LEAST:
        return False
    joints = sum(word in STOP for word in words) / len(words)
    run = _longest_run(description)
    if run >= 30 or (run >= 14 and joints < 0.16) or joints < 0.04 or _is_one_word(description):
        return True
    return joints < 0.2 and max(map(len, map(str.split, _pieces(description)))) >= 35


def _is_one_word(description: str) -> bool:
    """Whether one term is said more than nine times, and makes up most of it."""
    said = terms(description)
    return max(Counter(said).values(), default=0) > max(_OFTEN, 0.4 * len(said))


def _longest_run(description: str) -> int:
    """How many pieces of one or two words stand in a row."""
    longest = run = 0
    for piece in _pieces(description):
        words = [word for word in piece.split() if word.lower() not in ("and", "or")]
        if words:
            run = run + 1 if len(words) <= 2 else 0
            longest = max(longest, run)
    return longest

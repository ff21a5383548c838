"""Which skills a request is for: the request as weighed terms, and how well the cards of skills answer them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple, TypeAlias

from ..types.search import Card, Matched
from ..types.words import PLAIN, STOP, raw_words, stem

Pair: TypeAlias = tuple[str, str]

_quoted = re.compile(r"```.*?(?:```|\Z)|(?<!\w)['\"“‘](?:[^'\"“”’\n]|(?<=\w)['’](?=\w)){60,}['\"”’]?", re.DOTALL)
"""Code, and text that was pasted to be worked on: what is in it says little about what is wanted."""

_READ = 4_000
"""So many characters of a request are looked at, and so many words."""
_MOST_WORDS = 400
_PLAIN_WEIGHT = 0.4
_QUOTED_WEIGHT = 0.5
_FADING = 0.05
"""What comes first counts most: the word at place p has 1 / (1 + p/20) of its weight."""

_SATURATION = 1.8
_LEVELLING = 0.3
"""How far a long text counts for less: 0 is not at all, 1 is in proportion."""
_NAME, _MORE = 2.0, 0.3
"""A term in a name, and one in the rest of the card, against one in the description."""
_NAME_LENGTH, _DESCRIPTION_LENGTH, _MORE_LENGTH = 3.0, 28.0, 30.0
"""Usual lengths in terms.  Constants, so that a skill's score does not depend on how long the others are."""
_PAIR = 0.3
_PHRASE = 2.0
_PHRASES = (1.0, 0.5, 0.25)
"""What the best phrase counts, the second and the third."""
_UNKNOWN = 6.0
"""What a rare word of a phrase weighs that the request does not have."""
_STUFFED = 0.6


class Question(NamedTuple):
    """A request, as far as it can be searched for."""

    weights: Mapping[str, float]
    """Each term once, with what it weighs before its rarity is known."""
    pairs: tuple[Pair, ...] = ()
    """Neighbours."""


class Weighed(NamedTuple):
    """A question among so many skills: what each term is worth, the worthiest first."""

    terms: Mapping[str, float]
    pairs: tuple[Pair, ...]
    common: Mapping[str, float]
    """What terms weigh that many skills have; the others are about equally rare."""
    total: int


def question(request: str) -> Question:
    """The terms of a request.  Where none of them has weight, all have the same."""
    text = request[:_READ]
    said, pasted = _quoted.sub(" ", text), " ".join(found[0] for found in _quoted.finditer(text))
    weights: dict[str, float] = {}
    order: list[str] = []
    for place, word in enumerate(raw_words(said)):
        if word not in STOP and place < _MOST_WORDS:
            term = stem(word)
            order.append(term)
            weights[term] = max(weights.get(term, 0.0), _weight(term) / (1 + _FADING * place))
    for place, word in enumerate(raw_words(pasted)):
        if word not in STOP and place < _MOST_WORDS:
            weights.setdefault(stem(word), _QUOTED_WEIGHT * _weight(stem(word)))
    kept = {term: weight for term, weight in weights.items() if weight > 0}
    pairs = dict.fromkeys(pairwise(order))
    return Question(kept or dict.fromkeys(weights, 1.0), tuple(pairs))


def _weight(term: str) -> float:
    if (len(term) == 1 and term.isascii()) or (term.isdigit() and len(term) < 3):
        return 0.0
    return _PLAIN_WEIGHT if term in PLAIN else 1.0


def rarity(found: int, total: int) -> float:
    """How much it tells that a skill has a term which so many have."""
    return log(1 + (total - found + 0.5) / (found + 0.5))


def weighed(asked: Question, frequencies: Mapping[str, int], common: Mapping[str, float], total: int) -> Weighed:
    """What each term is worth; one that no skill has is left out."""
    worth = {
        term: weight * rarity(frequencies[term], total)
        for term, weight in asked.weights.items()
        if frequencies.get(term)
    }
    best = sorted(worth, key=lambda term: (-worth[term], term))
    return Weighed({term: worth[term] for term in best}, asked.pairs, common, total)


def usual(frequencies: Mapping[str, int], total: int) -> dict[str, float]:
    """What the words weigh that many skills have, when a phrase has them and the request does not."""
    return {
        term: rarity(found, total) * (_PLAIN_WEIGHT if term in PLAIN else 1.0) for term, found in frequencies.items()
    }


class _Read(NamedTuple):
    """What a card has of a question."""

    name: list[str]
    phrases: list[list[str]]
    """Those that hold a term of the question."""
    length: int
    """Of the whole description, in terms."""
    more: list[str]
    pairs: frozenset[Pair]


def scores(asked: Weighed, cards: Sequence[Card]) -> list[float]:
    """How well each card answers: its words, its pairs of words, and its three best phrases."""
    wanted = frozenset(asked.pairs)
    read = [_apart(card, asked.terms, wanted) for card in cards]
    having: dict[Pair, int] = {}
    for one in read:
        for pair in one.pairs:
            having[pair] = having.get(pair, 0) + 1
    rare = {pair: rarity(found, asked.total) for pair, found in having.items()}
    found = []
    for card, one in zip(cards, read, strict=True):
        worth = _words(asked.terms, one) + _PHRASE * _phrases(asked, one)
        worth += _PAIR * sum(rare[pair] for pair in one.pairs)
        found.append(worth * _STUFFED if card.stuffed else worth)
    return found


def _apart(card: Card, terms: Mapping[str, float], wanted: frozenset[Pair]) -> _Read:
    name = card.name.split()
    phrases = [phrase.split() for phrase in card.description.split("|")]
    length = sum(map(len, phrases))
    strange = terms.keys().isdisjoint
    phrases = [phrase for phrase in phrases if not strange(phrase)]
    pairs = frozenset(pair for text in (name, *phrases) for pair in pairwise(text) if pair in wanted)
    return _Read(name, phrases, length, card.more.split(), pairs)


def _words(terms: Mapping[str, float], card: _Read) -> float:
    """Each term once, however often it is said: more of the same counts for less and less."""
    counts: dict[str, float] = {}
    once = _NAME / _levelled(len(card.name), _NAME_LENGTH)
    for term in card.name:
        if term in terms:
            counts[term] = counts.get(term, 0.0) + once
    once = 1 / _levelled(card.length, _DESCRIPTION_LENGTH)
    for phrase in card.phrases:
        for term in phrase:
            if term in terms:
                counts[term] = counts.get(term, 0.0) + once
    once = _MORE / _levelled(len(card.more), _MORE_LENGTH)
    for term in card.more:
        if term in terms:
            counts[term] = counts.get(term, 0.0) + once
    full = _SATURATION + 1
    return sum([terms[term] * count * full / (count + _SATURATION) for term, count in counts.items()])


def _levelled(length: int, usual: float) -> float:
    return 1 - _LEVELLING + _LEVELLING * length / usual


def _phrases(asked: Weighed, card: _Read) -> float:
    """The phrases that the request covers best: a skill says what it is for in short phrases, and one is enough."""
    terms, weight = asked.terms, asked.common.get
    found = []
    for phrase in (card.name, *card.phrases):
        said = whole = 0.0
        for term in set(phrase):
            whole += weight(term, _UNKNOWN)
            if term in terms:
                said += terms[term]
        if said:
            found.append(said * (said / max(whole, said)) ** 3)
    found.sort(reverse=True)
    return sum([worth * share for worth, share in zip(found, _PHRASES, strict=False)])


def explained(asked: Weighed, card: Card) -> tuple[Matched, ...]:
    """Every term of the request, what it is worth, and where a card has it."""
    there = {"name": card.name.split(), "description": card.description.split(), "card": card.more.split()}
    return tuple(
        Matched(term, round(worth, 2), tuple(field for field, words in there.items() if term in words))
        for term, worth in asked.terms.items()
    )


_CLEARLY = 14.5
_A_TERM = 4.0
_REFERENCE = 7.4
"""The rarity of a word that one skill in 2,500 has: scores among fewer skills are lower, and are scaled up to it."""


def applies(best: Sequence[float], matched: int, total: int) -> bool:
    """Whether a request is for any skill at all, by its best scores and how many of its terms the first one has.

    Small talk shares a word with some skill; a task shares several, and is about what a few skills are about.
    """
    if not best or total < 1:
        return False
    near = min(5, 1 + total // 100)
    scale = _REFERENCE / max(rarity(1, total), 0.5)
    return scale * sum(best[:near]) / near + _A_TERM * matched >= _CLEARLY

"""Which skills a request is for: the request as weighed terms, and how well the cards of skills answer them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple, TypeAlias

from ..types.search import MatchedTerm, RankedSkill, SearchCard
from .tokens import COMMON_TERMS, STOP_WORDS, raw_words, stem_word

_SOFTENING = 60


def fuse_rankings(rankings: Mapping[str, Sequence[RankedSkill]], weights: Mapping[str, float]) -> list[RankedSkill]:
    """Each path once: what it is worth is the sum of weight / (60 + rank) over the rankings that have it.

    What is known of a path besides comes from the first ranking that has it.
    """
    worth: dict[str, float] = {}
    first_ranked: dict[str, RankedSkill] = {}
    for engine, ranking in rankings.items():
        for rank, ranked in enumerate(ranking, 1):
            worth[ranked.path] = worth.get(ranked.path, 0.0) + weights.get(engine, 1.0) / (_SOFTENING + rank)
            first_ranked.setdefault(ranked.path, ranked)
    best = sorted(worth, key=lambda path: (-worth[path], path))
    return [first_ranked[path]._replace(score=worth[path]) for path in best]


def ranks_by_path(rankings: Mapping[str, Sequence[RankedSkill]]) -> dict[str, dict[str, int]]:
    """The rank of every path in each ranking that has it, 1 being the best."""
    by_path: dict[str, dict[str, int]] = {}
    for engine, ranking in rankings.items():
        for rank, ranked in enumerate(ranking, 1):
            by_path.setdefault(ranked.path, {})[engine] = rank
    return by_path


Pair: TypeAlias = tuple[str, str]

_quoted = re.compile(r"```.*?(?:```|\Z)|(?<!\w)['\"“‘](?:[^'\"“”’\n]|(?<=\w)['’](?=\w)){60,}['\"”’]?", re.DOTALL)
"""Code, and text that was pasted to be worked on: what is in it says little about what is wanted."""

_MAX_CHARACTERS = 4_000
"""So many characters of a request are looked at, and so many words."""
_MAX_WORDS = 400
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
_PHRASE_SHARES = (1.0, 0.5, 0.25)
"""What the best phrase counts, the second and the third."""
_UNKNOWN_WEIGHT = 6.0
"""What a rare word of a phrase weighs that the request does not have."""
_STUFFED_FACTOR = 0.6


class SearchQuery(NamedTuple):
    """A request, as far as it can be searched for."""

    weights: Mapping[str, float]
    """Each term once, with what it weighs before its rarity is known."""
    pairs: tuple[Pair, ...] = ()
    """Neighbours."""


class WeightedQuery(NamedTuple):
    """A question among so many skills: what each term is worth, the worthiest first."""

    terms: Mapping[str, float]
    pairs: tuple[Pair, ...]
    common: Mapping[str, float]
    """What terms weigh that many skills have; the others are about equally rare."""
    total: int


def parse_query(request: str) -> SearchQuery:
    """The terms of a request.  Where none of them has weight, all have the same."""
    text = request[:_MAX_CHARACTERS]
    unquoted, pasted = _quoted.sub(" ", text), " ".join(match[0] for match in _quoted.finditer(text))
    weights: dict[str, float] = {}
    order: list[str] = []
    for place, word in enumerate(raw_words(unquoted)):
        if word not in STOP_WORDS and place < _MAX_WORDS:
            term = stem_word(word)
            order.append(term)
            weights[term] = max(weights.get(term, 0.0), _term_weight(term) / (1 + _FADING * place))
    for place, word in enumerate(raw_words(pasted)):
        if word not in STOP_WORDS and place < _MAX_WORDS:
            weights.setdefault(stem_word(word), _QUOTED_WEIGHT * _term_weight(stem_word(word)))
    weighted = {term: weight for term, weight in weights.items() if weight > 0}
    pairs = dict.fromkeys(pairwise(order))
    return SearchQuery(weighted or dict.fromkeys(weights, 1.0), tuple(pairs))


def _term_weight(term: str) -> float:
    if (len(term) == 1 and term.isascii()) or (term.isdigit() and len(term) < 3):
        return 0.0
    return _PLAIN_WEIGHT if term in COMMON_TERMS else 1.0


def rarity(count: int, total: int) -> float:
    """How much it tells that a skill has a term which so many have."""
    return log(1 + (total - count + 0.5) / (count + 0.5))


def weigh_query(
    query: SearchQuery, frequencies: Mapping[str, int], common: Mapping[str, float], total: int
) -> WeightedQuery:
    """What each term is worth; one that no skill has is left out."""
    worth = {
        term: weight * rarity(frequencies[term], total)
        for term, weight in query.weights.items()
        if frequencies.get(term)
    }
    best = sorted(worth, key=lambda term: (-worth[term], term))
    return WeightedQuery({term: worth[term] for term in best}, query.pairs, common, total)


def usual_weights(frequencies: Mapping[str, int], total: int) -> dict[str, float]:
    """What the words weigh that many skills have, when a phrase has them and the request does not."""
    return {
        term: rarity(count, total) * (_PLAIN_WEIGHT if term in COMMON_TERMS else 1.0)
        for term, count in frequencies.items()
    }


class _CardMatch(NamedTuple):
    """What a card has of a question."""

    name: list[str]
    phrases: list[list[str]]
    """Those that hold a term of the question."""
    length: int
    """Of the whole description, in terms."""
    more: list[str]
    pairs: frozenset[Pair]


def score_cards(query: WeightedQuery, cards: Sequence[SearchCard]) -> list[float]:
    """How well each card answers: its words, its pairs of words, and its three best phrases."""
    query_pairs = frozenset(query.pairs)
    card_matches = [_split_card(card, query.terms, query_pairs) for card in cards]
    having: dict[Pair, int] = {}
    for card_match in card_matches:
        for pair in card_match.pairs:
            having[pair] = having.get(pair, 0) + 1
    rare = {pair: rarity(count, query.total) for pair, count in having.items()}
    results = []
    for card, card_match in zip(cards, card_matches, strict=True):
        worth = _word_score(query.terms, card_match) + _PHRASE * _phrase_score(query, card_match)
        worth += _PAIR * sum(rare[pair] for pair in card_match.pairs)
        results.append(worth * _STUFFED_FACTOR if card.stuffed else worth)
    return results


def _split_card(card: SearchCard, terms: Mapping[str, float], query_pairs: frozenset[Pair]) -> _CardMatch:
    name = card.name.split()
    phrases = [phrase.split() for phrase in card.description.split("|")]
    length = sum(map(len, phrases))
    strange = terms.keys().isdisjoint
    phrases = [phrase for phrase in phrases if not strange(phrase)]
    pairs = frozenset(pair for text in (name, *phrases) for pair in pairwise(text) if pair in query_pairs)
    return _CardMatch(name, phrases, length, card.more.split(), pairs)


def _word_score(terms: Mapping[str, float], card: _CardMatch) -> float:
    """Each term once, however often it is said: more of the same counts for less and less."""
    counts: dict[str, float] = {}
    once = _NAME / _length_factor(len(card.name), _NAME_LENGTH)
    for term in card.name:
        if term in terms:
            counts[term] = counts.get(term, 0.0) + once
    once = 1 / _length_factor(card.length, _DESCRIPTION_LENGTH)
    for phrase in card.phrases:
        for term in phrase:
            if term in terms:
                counts[term] = counts.get(term, 0.0) + once
    once = _MORE / _length_factor(len(card.more), _MORE_LENGTH)
    for term in card.more:
        if term in terms:
            counts[term] = counts.get(term, 0.0) + once
    full = _SATURATION + 1
    return sum([terms[term] * count * full / (count + _SATURATION) for term, count in counts.items()])


def _length_factor(length: int, usual: float) -> float:
    return 1 - _LEVELLING + _LEVELLING * length / usual


def _phrase_score(query: WeightedQuery, card: _CardMatch) -> float:
    """The phrases that the request covers best: a skill says what it is for in short phrases, and one is enough."""
    terms, weight = query.terms, query.common.get
    worths = []
    for phrase in (card.name, *card.phrases):
        matched_weight = total_weight = 0.0
        for term in set(phrase):
            total_weight += weight(term, _UNKNOWN_WEIGHT)
            if term in terms:
                matched_weight += terms[term]
        if matched_weight:
            worths.append(matched_weight * (matched_weight / max(total_weight, matched_weight)) ** 3)
    worths.sort(reverse=True)
    return sum([worth * share for worth, share in zip(worths, _PHRASE_SHARES, strict=False)])


def explain_match(query: WeightedQuery, card: SearchCard) -> tuple[MatchedTerm, ...]:
    """Every term of the request, what it is worth, and where a card has it."""
    words_by_field = {"name": card.name.split(), "description": card.description.split(), "card": card.more.split()}
    return tuple(
        MatchedTerm(term, round(worth, 2), tuple(field for field, words in words_by_field.items() if term in words))
        for term, worth in query.terms.items()
    )


_CLEAR_SCORE = 14.5
_TERM_BONUS = 4.0
_REFERENCE = 7.4
"""The rarity of a word that one skill in 2,500 has: scores among fewer skills are lower, and are scaled up to it."""


def request_applies(best: Sequence[float], matched: int, total: int) -> bool:
    """Whether a request is for any skill at all, by its best scores and how many of its terms the first one has.

    Small talk shares a word with some skill; a task shares several, and is about what a few skills are about.
    """
    if not best or total < 1:
        return False
    near = min(5, 1 + total // 100)
    scale = _REFERENCE / max(rarity(1, total), 0.5)
    return scale * sum(best[:near]) / near + _TERM_BONUS * matched >= _CLEAR_SCORE

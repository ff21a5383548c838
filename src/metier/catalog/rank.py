"""Ranks skills for a request: lexical scores of cards, and the fusion of several rankings.

A card has three fields, the name, the description in phrases, and words of the body.  Its score has three parts.  Words
count as in BM25F: each field adds its weighted, length-normalised frequency, and the sum saturates once per term, so
that repeating a word in every field gains little.  Pairs of neighbouring words count by their own rarity.  Phrases
count most: descriptions list what a skill is for ("merge PDF files, fill forms"), and a request usually means one item
of that list, so the three phrases that the request covers best are added, by the cube of the covered share.

Differences from textbook BM25: the usual lengths are constants, not averages, so that installing one skill does not
change the scores of others; words at the start of a request weigh more, pasted code and quotations less, and everyday
words (`COMMON_TERMS`) less than half.  The weights were chosen by `make bench-select`; docs/concepts/selection.md has
the figures.  Refused, because the bench got worse: feeding the words of the best skills back into the request, counting
repeated words of a request, and cutting a request to its rarest terms, which are often names and numbers.

Several engines are fused by reciprocal rank, since their scores have no common scale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log

from ..light_typing import NamedTuple, TypeAlias
from ..types.search import MatchedTerm, RankedSkill, SearchCard
from .tokens import COMMON_TERMS, STOP_WORDS, raw_words, stem_word

# --- Fusing rankings ---

_SOFTENING = 60
"""The usual constant of reciprocal rank fusion: how much the first ranks stand out."""


def fuse_rankings(rankings: Mapping[str, Sequence[RankedSkill]], weights: Mapping[str, float]) -> list[RankedSkill]:
    """Each path once, by the sum of weight / (60 + rank) over the rankings that have it.

    Everything else about a path comes from the first ranking that has it.
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


# --- The request ---

Pair: TypeAlias = tuple[str, str]

_quoted = re.compile(r"```.*?(?:```|\Z)|(?<!\w)['\"“‘](?:[^'\"“”’\n]|(?<=\w)['’](?=\w)){60,}['\"”’]?", re.DOTALL)
"""Code and pasted text: the words in it say little about what is wanted."""

_MAX_CHARACTERS = 4_000
_MAX_WORDS = 400
"""The part of a request that is looked at."""
_PLAIN_WEIGHT = 0.4
"""The weight of an everyday word."""
_QUOTED_WEIGHT = 0.5
_FADING = 0.05
"""The first words count most: the word at place p has 1 / (1 + p/20) of its weight."""

# --- Scores ---

_SATURATION = 1.8
"""BM25's k1: how soon more of the same term stops counting."""
_LEVELLING = 0.3
"""BM25's b: how far a long text counts for less; 0 is not at all, 1 is in proportion."""
_NAME, _MORE = 2.0, 0.3
"""The weights of a term in the name and in the body; in the description it is 1."""
_NAME_LENGTH, _DESCRIPTION_LENGTH, _MORE_LENGTH = 3.0, 28.0, 30.0
"""Usual lengths in terms; constants, so that a skill's score does not depend on the others'."""
_PAIR = 0.3
_PHRASE = 2.0
"""The weights of pairs and phrases against words."""
_PHRASE_SHARES = (1.0, 0.5, 0.25)
"""The shares of the best, second and third phrase."""
_UNKNOWN_WEIGHT = 6.0
"""The weight of a rare word in a phrase that the request does not have."""
_STUFFED_FACTOR = 0.6
"""For descriptions that are written to be found rather than to describe (see `cards`)."""


class SearchQuery(NamedTuple):
    """A request as search terms."""

    weights: Mapping[str, float]
    """Each term once, with its weight before rarity."""
    pairs: tuple[Pair, ...] = ()
    """Neighbouring terms."""


class WeightedQuery(NamedTuple):
    """A query among so many skills: the value of each term, highest first."""

    terms: Mapping[str, float]
    pairs: tuple[Pair, ...]
    common: Mapping[str, float]
    """The weights of terms that many skills have; all others are about equally rare."""
    total: int


def parse_query(request: str) -> SearchQuery:
    """The terms of a request.  If none of them has weight, all get the same."""
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
    # Single letters and small numbers name nothing.
    if (len(term) == 1 and term.isascii()) or (term.isdigit() and len(term) < 3):
        return 0.0
    return _PLAIN_WEIGHT if term in COMMON_TERMS else 1.0


def rarity(count: int, total: int) -> float:
    """Inverse document frequency: how much a term tells that so many skills have."""
    return log(1 + (total - count + 0.5) / (count + 0.5))


def weigh_query(
    query: SearchQuery, frequencies: Mapping[str, int], common: Mapping[str, float], total: int
) -> WeightedQuery:
    """The value of each term; one that no skill has is left out."""
    worth = {
        term: weight * rarity(frequencies[term], total)
        for term, weight in query.weights.items()
        if frequencies.get(term)
    }
    best = sorted(worth, key=lambda term: (-worth[term], term))
    return WeightedQuery({term: worth[term] for term in best}, query.pairs, common, total)


def usual_weights(frequencies: Mapping[str, int], total: int) -> dict[str, float]:
    """The weights of common words in a phrase, when the request does not have them."""
    return {
        term: rarity(count, total) * (_PLAIN_WEIGHT if term in COMMON_TERMS else 1.0)
        for term, count in frequencies.items()
    }


class _CardMatch(NamedTuple):
    """The parts of a card that matter for a query."""

    name: list[str]
    phrases: list[list[str]]
    """Those with a term of the query."""
    length: int
    """Of the whole description, in terms."""
    more: list[str]
    pairs: frozenset[Pair]


def score_cards(query: WeightedQuery, cards: Sequence[SearchCard]) -> list[float]:
    """The score of each card: its words, its pairs of words, and its three best phrases."""
    query_pairs = frozenset(query.pairs)
    card_matches = [_split_card(card, query.terms, query_pairs) for card in cards]
    pair_counts: dict[Pair, int] = {}
    for card_match in card_matches:
        for pair in card_match.pairs:
            pair_counts[pair] = pair_counts.get(pair, 0) + 1
    rare = {pair: rarity(count, query.total) for pair, count in pair_counts.items()}
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
    lacks_terms = terms.keys().isdisjoint
    phrases = [phrase for phrase in phrases if not lacks_terms(phrase)]
    pairs = frozenset(pair for text in (name, *phrases) for pair in pairwise(text) if pair in query_pairs)
    return _CardMatch(name, phrases, length, card.more.split(), pairs)


def _word_score(terms: Mapping[str, float], card: _CardMatch) -> float:
    """BM25F over the fields: frequencies add up first and saturate together."""
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
    """The phrases that the request covers best; one is enough, so a long description is no drawback."""
    terms, weight = query.terms, query.common.get
    worths = []
    for phrase in (card.name, *card.phrases):
        matched_weight = total_weight = 0.0
        for term in set(phrase):
            total_weight += weight(term, _UNKNOWN_WEIGHT)
            if term in terms:
                matched_weight += terms[term]
        if matched_weight:
            # Cubed: a phrase that is covered by half is mostly about something else.
            worths.append(matched_weight * (matched_weight / max(total_weight, matched_weight)) ** 3)
    worths.sort(reverse=True)
    return sum([worth * share for worth, share in zip(worths, _PHRASE_SHARES, strict=False)])


def explain_match(query: WeightedQuery, card: SearchCard) -> tuple[MatchedTerm, ...]:
    """Every term of the request, its value, and the fields of the card that have it."""
    words_by_field = {"name": card.name.split(), "description": card.description.split(), "card": card.more.split()}
    return tuple(
        MatchedTerm(term, round(worth, 2), tuple(field for field, words in words_by_field.items() if term in words))
        for term, worth in query.terms.items()
    )


# --- Whether a request is for a skill at all ---

# Both chosen by `make bench-select`, on requests that are for a skill and requests that are for none.
_CLEAR_SCORE = 14.5
_TERM_BONUS = 4.0
_REFERENCE = 7.4
"""The rarity of a word that one of 2,500 skills has; scores among fewer skills are lower, and are scaled up to it."""


def request_applies(best: Sequence[float], matched: int, total: int) -> bool:
    """Whether a request is for any skill, by its best scores and how many of its terms the first one has.

    Small talk shares one word with some skill; a task shares several, and with a few skills.
    """
    if not best or total < 1:
        return False
    # Among few skills only the best one is near; in a large library a task has several neighbours.
    near = min(5, 1 + total // 100)
    scale = _REFERENCE / max(rarity(1, total), 0.5)
    return scale * sum(best[:near]) / near + _TERM_BONUS * matched >= _CLEAR_SCORE

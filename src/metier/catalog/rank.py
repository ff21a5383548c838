"""Ranks skills for a request: lexical scores of cards, and the fusion of several rankings.

A card has three fields, the name, the description in phrases, and words of the body.  Its score has four parts, each
as a share of the best card's, so that none drowns the others whatever the request:

- words, as in BM25F: each field adds its weighted frequency, and the sum saturates once per term;
- segments: a long request asks for several skills, one in each sentence or two, so the words of every segment are
  summed apart and the strongest segments count most; a skill that one sentence is about is not outvoted by one that
  shares a word with each;
- phrases: descriptions list what a skill is for ("merge PDF files, fill forms"), and a request usually means one item
  of that list, so the three phrases that the request covers best are added, by the cube of the covered share;
- pairs of neighbouring words, by their own rarity.

Differences from textbook BM25: the usual lengths are constants, not averages, so that installing one skill does not
change the scores of others; pasted code and quotations weigh less, and so do everyday words (`COMMON_TERMS`).  The
weights were chosen over whole sources and styles of requests at a time, as `make bench-select` prints them;
docs/quality.md has the figures.  Refused, because the bench got worse: feeding the words of the best skills
back into the request, counting repeated words of a request, and letting later words fade by more than a little, which
loses the second half of a long task.

Several engines are fused by reciprocal rank, since their scores have no common scale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from math import exp, log, log1p

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

_MAX_CHARACTERS = 12_000
_MAX_WORDS = 1_500
"""The part of a request that is looked at."""
_PLAIN_WEIGHT = 0.63
"""The weight of an everyday word."""
_LIGHT_WEIGHT = 0.7
"""The weight of a small number, and of the letters that are names of languages."""
_QUOTED_WEIGHT = 0.7
_FADING = 0.05
_FADING_START, _FADING_END = 5, 90
"""A request of a few sentences says first what it wants: after five words, the word at place p has 1 / (1 + (p-5)/20)
of its weight.  The longer the request, the less: a task of 90 words or more asks for something in every sentence."""
_TERSE = 20
"""Fewer words are search phrases, not sentences: none comes first, and whole phrases of a description are covered by
accident more often."""
_split_segments = re.compile(r"(?<=[.!?;:])\s+|\n+").split
_SEGMENT_TERMS = 2
"""Terms of a segment; a shorter sentence is joined with the next."""

# --- Scores ---

_SATURATION = 1.8
"""BM25's k1: how soon more of the same term stops counting."""
_LEVELLING = 0.4
"""BM25's b: how far a long text counts for less; 0 is not at all, 1 is in proportion."""
_NAME, _MORE = 2.0, 0.7
"""The weights of a term in the name and in the body; in the description it is 1."""
_USUAL_LENGTH = 57.0
"""The usual length of a card in terms; a constant, so that a skill's score does not depend on the others'."""
_SEGMENTS, _PHRASES, _PAIRS = 0.5, 0.3, 0.1
"""The weights of segments, phrases and pairs against words, all as shares of the best."""
_TERSE_PHRASES = 0.1
"""The weight of phrases for a few words; pairs have none there."""
_SEGMENT_POWER = 4
"""How far the strongest segments stand out in their sum: 1 is not at all."""
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
    segments: Mapping[str, tuple[int, ...]] = {}
    """The segments that a term is in, by number; empty where the request is one segment."""
    terse: bool = False
    """Whether it is a few words rather than a sentence."""


class WeightedQuery(NamedTuple):
    """A query among so many skills: the value of each term, highest first."""

    terms: Mapping[str, float]
    pairs: tuple[Pair, ...]
    common: Mapping[str, float]
    """The weights of terms that many skills have; all others are about equally rare."""
    total: int
    segments: Mapping[str, tuple[int, ...]] = {}
    unknown: float = 0.0
    """The value of the terms that no skill has."""
    terse: bool = False


def parse_query(request: str) -> SearchQuery:
    """The terms of a request.  If none of them has weight, all get the same."""
    text = request[:_MAX_CHARACTERS]
    unquoted, pasted = _quoted.sub(" ", text), " ".join(match[0] for match in _quoted.finditer(text))
    weights: dict[str, float] = {}
    order: list[str] = []
    segments: dict[str, list[int]] = {}
    place = segment = filled = 0
    length = unquoted.count(" ") + 1
    fading = 0.0 if length < _TERSE else _FADING * max(0.02, 1 - length / _FADING_END)
    for sentence in _split_segments(unquoted):
        for word in raw_words(sentence):
            place += 1
            if word in STOP_WORDS or place > _MAX_WORDS:
                continue
            term = stem_word(word)
            order.append(term)
            weights[term] = max(
                weights.get(term, 0.0), _term_weight(term) / (1 + fading * max(0, place - _FADING_START))
            )
            numbers = segments.setdefault(term, [])
            if not numbers or numbers[-1] != segment:
                numbers.append(segment)
            filled += 1
        if filled >= _SEGMENT_TERMS:
            segment, filled = segment + 1, 0
    for word in islice(raw_words(pasted), _MAX_WORDS):
        if word not in STOP_WORDS:
            weights.setdefault(stem_word(word), _QUOTED_WEIGHT * _term_weight(stem_word(word)))
    weighted = {term: weight for term, weight in weights.items() if weight > 0}
    pairs = dict.fromkeys(pairwise(order))
    several = segment > 1 or (segment == 1 and filled > 0)
    by_term = {term: tuple(numbers) for term, numbers in segments.items()} if several else {}
    return SearchQuery(weighted or dict.fromkeys(weights, 1.0), tuple(pairs), by_term, length < _TERSE)


def _term_weight(term: str) -> float:
    # Single letters name nothing but two languages; small numbers name versions, and lists.
    if len(term) == 1 and term.isascii() and not term.isdigit():
        return _LIGHT_WEIGHT if term in "cr" else 0.0
    if term.isdigit() and len(term) < 3:
        return _LIGHT_WEIGHT
    return _PLAIN_WEIGHT if term in COMMON_TERMS else 1.0


def rarity(count: int, total: int) -> float:
    """Inverse document frequency: how much a term tells that so many skills have."""
    return log(1 + (total - count + 0.5) / (count + 0.5))


def weigh_query(
    query: SearchQuery, frequencies: Mapping[str, int], common: Mapping[str, float], total: int
) -> WeightedQuery:
    """The value of each term; one that no skill has only counts as unknown."""
    worth = {
        term: weight * rarity(frequencies[term], total)
        for term, weight in query.weights.items()
        if frequencies.get(term)
    }
    unknown = sum(weight for term, weight in query.weights.items() if term not in worth) * rarity(0, max(total, 1))
    best = sorted(worth, key=lambda term: (-worth[term], term))
    return WeightedQuery(
        {term: worth[term] for term in best}, query.pairs, common, total, query.segments, unknown, query.terse
    )


def usual_weights(frequencies: Mapping[str, int], total: int) -> dict[str, float]:
    """The weights of common words in a phrase, when the request does not have them."""
    return {
        term: rarity(count, total) * (_PLAIN_WEIGHT if term in COMMON_TERMS else 1.0)
        for term, count in frequencies.items()
    }


class CardParts(NamedTuple):
    """What a card scores for a query, part by part."""

    words: float
    segments: float
    phrases: float
    pairs: float


class _CardMatch(NamedTuple):
    """The parts of a card that matter for a query."""

    counts: Mapping[str, float]
    """The weighted frequency of each term of the query."""
    name: list[str]
    phrases: list[list[str]]
    """Those with a term of the query."""
    length: int
    """Of the whole card, in terms."""
    pairs: tuple[Pair, ...]


def score_cards(query: WeightedQuery, cards: Sequence[SearchCard]) -> list[float]:
    """The score of each card: its words, segments, phrases and pairs, each as a share of the best card's."""
    return combine_parts(query, score_parts(query, cards), cards)


def combine_parts(query: WeightedQuery, parts: Sequence[CardParts], cards: Sequence[SearchCard]) -> list[float]:
    """One score for the parts of each card."""
    if not parts:
        return []
    best_words, best_segments, best_phrases, best_pairs = (max(values) or 1.0 for values in zip(*parts, strict=True))
    phrase_weight, pair_weight = (_TERSE_PHRASES, 0.0) if query.terse else (_PHRASES, _PAIRS)
    scores = []
    for (words, segments, phrases, pairs), card in zip(parts, cards, strict=True):
        score = words / best_words + _SEGMENTS * segments / best_segments
        score += phrase_weight * phrases / best_phrases + pair_weight * pairs / best_pairs
        scores.append(score * _STUFFED_FACTOR if card.stuffed else score)
    return scores


def score_parts(query: WeightedQuery, cards: Sequence[SearchCard]) -> list[CardParts]:
    """The parts of each card's score, on scales of their own."""
    terms = query.terms
    query_pairs = frozenset(query.pairs)
    card_matches = [_match_card(card, terms, query_pairs) for card in cards]
    pair_counts: dict[Pair, int] = {}
    for card_match in card_matches:
        for pair in card_match.pairs:
            pair_counts[pair] = pair_counts.get(pair, 0) + 1
    rare = {pair: rarity(count, query.total) for pair, count in pair_counts.items()}
    results = []
    for card_match in card_matches:
        words, segments = _word_scores(query, card_match)
        pairs = sum([rare[pair] for pair in card_match.pairs])
        results.append(CardParts(words, segments, _phrase_score(query, card_match), pairs))
    return results


def _match_card(card: SearchCard, terms: Mapping[str, float], query_pairs: frozenset[Pair]) -> _CardMatch:
    name, more = card.name.split(), card.more.split()
    counts: dict[str, float] = {}
    for term in name:
        if term in terms:
            counts[term] = counts.get(term, 0.0) + _NAME
    length = len(name) + len(more)
    phrases = []
    for text in card.description.split("|"):
        phrase = text.split()
        length += len(phrase)
        matched = [term for term in phrase if term in terms]
        if matched:
            phrases.append(phrase)
            for term in matched:
                counts[term] = counts.get(term, 0.0) + 1.0
    for term in more:
        if term in terms:
            counts[term] = counts.get(term, 0.0) + _MORE
    # A dict keeps the order: sums of the same numbers in another order differ in the last digit.
    pairs = dict.fromkeys(pair for text in (name, *phrases) for pair in pairwise(text) if pair in query_pairs)
    return _CardMatch(counts, name, phrases, length, tuple(pairs))


def _word_scores(query: WeightedQuery, card: _CardMatch) -> tuple[float, float]:
    """BM25F over the fields, for the whole request and for its segments."""
    terms, segments = query.terms, query.segments
    # Frequencies of all fields add up first and saturate together.
    slack = _SATURATION * (1 - _LEVELLING + _LEVELLING * card.length / _USUAL_LENGTH)
    full = _SATURATION + 1
    whole = 0.0
    by_segment: dict[int, float] = {}
    for term, count in card.counts.items():
        worth = terms[term] * count * full / (count + slack)
        whole += worth
        for number in segments.get(term, ()):
            by_segment[number] = by_segment.get(number, 0.0) + worth
    if not segments:
        return whole, whole
    return whole, sum([worth**_SEGMENT_POWER for worth in by_segment.values()]) ** (1 / _SEGMENT_POWER)


def _phrase_score(query: WeightedQuery, card: _CardMatch) -> float:
    """The phrases that the request covers best; one is enough, so a long description is no drawback."""
    terms, weight = query.terms, query.common.get
    worths = []
    for phrase in (card.name, *card.phrases):
        matched_weight = total_weight = 0.0
        for term in dict.fromkeys(phrase):
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
    words_by_field = {
        "name": frozenset(card.name.split()),
        "description": frozenset(card.description.split()),
        "card": frozenset(card.more.split()),
    }
    return tuple(
        MatchedTerm(term, round(worth, 2), tuple(field for field, words in words_by_field.items() if term in words))
        for term, worth in query.terms.items()
    )


# --- Whether a request is for a skill at all ---

_CONFIDENCE = (-0.479, 0.789, 0.602, 1.082, -2.314, -0.467, 4.247, 0.793)
_CONFIDENCE_BIAS = -9.231
"""A logistic model of eight numbers, fitted over requests for skills and small talk among 500 to 66,500 skills; chosen
so that of a hundred of the latter about four pass at any size."""
_MAX_MATCHED = 8
_NEAR = 5
_KEYWORDS = 2
_FEWEST = 500
"""Words are less rare among fewer skills than this: their values are scaled up to it."""


def request_confidence(query: WeightedQuery, best: Sequence[CardParts], matched: Sequence[str]) -> float:
    """How likely a request is for a skill at all, by the parts of the best cards and the terms that the first one has.

    Small talk shares a word with some skill; a task shares several, and with a few skills.  The size of the library is
    one of the numbers: among tens of thousands, every sentence finds a neighbour.
    """
    if not best or query.total < 1:
        return 0.0
    # One or two words, all of which a skill has, are a search and no small talk.
    if not query.unknown and len(matched) == len(query.terms) <= _KEYWORDS and COMMON_TERMS.isdisjoint(matched):
        return 1.0
    # Among few skills only the best one is near; in a large library a task has several neighbours.
    first, near = best[0], best[: min(_NEAR, 1 + query.total // 100)]
    scale = rarity(1, _FEWEST) / max(rarity(1, min(query.total, _FEWEST)), 0.5)
    mass = scale * sum(query.terms[term] for term in matched)
    whole = scale * (sum(query.terms.values()) + query.unknown)
    numbers = (
        log1p(mass),
        log1p(scale * first.phrases),
        log1p(scale * first.pairs),
        min(len(matched), _MAX_MATCHED),
        mass / whole if whole else 0.0,
        log(max(query.total, _FEWEST)),
        log1p(scale * sum(parts.words for parts in near) / len(near)),
        log1p(whole),
    )
    logit = _CONFIDENCE_BIAS + sum(factor * number for factor, number in zip(_CONFIDENCE, numbers, strict=True))
    return 1 / (1 + exp(-max(-50.0, min(50.0, logit))))

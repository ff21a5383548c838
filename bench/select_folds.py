"""Every fold by itself: requests by source and by style, metier beside plain FTS5 and bm25s over the same skills.

Weights are judged by the worst fold, not by the mean: a fold is a whole source (one author's prompts, one repository's
quoted phrases) or a whole style (long tasks, the same without the names of their tools, search phrases).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench import select_rankers as rankers
from bench.select_data import DATA, Record, skills

from metier.catalog.tokens import STOP_WORDS, search_terms
from metier.types.text import shorten_text

LIMITS = (22_000, 3_600)
"""Characters of lines in a ranked block, in catalogs of 30,000 and 4,000."""
SMALLEST = 25
"""Quoted phrases of a source that has fewer are one fold together."""
_quotes = re.compile(r"[\"“']([^\"“”']{12,80})[\"”']").finditer


class Asked(NamedTuple):
    """A request and the skills it needs; any of the ids of a group will do (the same name, from two sources)."""

    text: str
    needs: Sequence[Sequence[str]]


class Shares(NamedTuple):
    """Percent of a fold."""

    first: float
    ten: float
    fifty: float
    large: float
    small: float


def folds() -> dict[str, tuple[list[Record], list[Asked]]]:
    """Each fold: the skills to search, and what is asked."""
    pool = skills()
    rows = [json.loads(line) for line in (DATA / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    tasks = [json.loads(line) for line in (DATA / "tasks.jsonl").read_text(encoding="utf-8").splitlines()]
    made: dict[str, tuple[list[Record], list[Asked]]] = {}
    for source in ("dotnet/skills", "coreyhaines31/marketingskills"):
        made[f"prompts of {source.split('/')[0]}"] = (
            pool,
            [Asked(row["query"], [row["gold"]]) for row in rows if row["source"] == source],
        )
    for style, key in (("tasks", "task"), ("tasks, tools unnamed", "oblique"), ("search phrases", "short")):
        made[style] = (pool, [Asked(task[key], task["needs"]) for task in tasks])
    cut, asked = held_out_phrases(pool)
    rest: list[Asked] = []
    for source, quoted in asked.items():
        if len(quoted) < SMALLEST:
            rest += quoted
        else:
            made[f"quotes of {source.split('/')[0]}"] = (cut, quoted)
    made["quotes of others"] = (cut, rest)
    return made


def held_out_phrases(pool: list[Record]) -> tuple[list[Record], dict[str, list[Asked]]]:
    """One quoted phrase is cut from each description that has two or more, and asked for; by source."""
    chance = random.Random(4)
    sources = {
        row["id"]: row["source"]
        for row in map(json.loads, (DATA / "pool.jsonl").read_text(encoding="utf-8").splitlines())
    }
    cut, asked = [], {}
    for one in pool:
        phrases = [
            match
            for match in _quotes(one.description)
            if len(match[1].split()) >= 3 and len(search_terms(match[1])) >= 2
        ]
        if len(phrases) < 2:
            cut.append(one)
            continue
        chosen = chance.choice(phrases)
        text = one.description[: chosen.start()] + one.description[chosen.end() :]
        cut.append(one._replace(description=text))
        asked.setdefault(sources[one.id], []).append(Asked(chosen[1], [[one.id]]))
    return cut, asked


def measured(pool: list[Record], asked: list[Asked], ranker: rankers.Ranker) -> Shares:
    sizes = {one.id: len(f"- {one.name}: {shorten_text(one.description, 160)}") + 1 for one in pool}
    sums = [0.0] * 5
    for text, needs in asked:
        ids = list(ranker(text))
        places = {one: place for place, one in enumerate(ids)}
        ends, total = {}, 0
        for one in ids:
            total += sizes[one]
            ends[one] = total
        sums[0] += any(places.get(one) == 0 for group in needs for one in group)
        for at, depth in ((1, 10), (2, 50)):
            sums[at] += _share(needs, lambda one, depth=depth, places=places: places.get(one, depth) < depth)
        for at, limit in ((3, LIMITS[0]), (4, LIMITS[1])):
            sums[at] += _share(needs, lambda one, limit=limit, ends=ends: ends.get(one, limit + 1) <= limit)
    return Shares(*(100 * total / len(asked) for total in sums))


def _share(needs: Sequence[Sequence[str]], seen: object) -> float:
    assert callable(seen)
    return sum(any(seen(one) for one in group) for group in needs) / len(needs)


def bm25s_ranker(pool: list[Record]) -> rankers.Ranker | None:
    """The bm25s package as it comes; None where it is not installed."""
    try:
        import bm25s
    except ImportError:
        return None
    texts = [
        [w for w in re.findall(r"\w+", f"{one.name} {one.description}".lower()) if w not in STOP_WORDS] for one in pool
    ]
    index = bm25s.BM25()
    index.index(texts, show_progress=False)

    def rank(request: str) -> list[str]:
        words = list(dict.fromkeys(w for w in re.findall(r"\w+", request.lower()) if w not in STOP_WORDS))
        known = [word for word in words if word in index.vocab_dict]
        if not known:
            return []
        found, scores = index.retrieve([known], k=min(rankers.DEPTH, len(pool)), show_progress=False)
        return [pool[at].id for at, score in zip(found[0], scores[0], strict=True) if score > 0]

    return rank


def compare(folder: Path) -> tuple[list[str], dict[str, tuple[Shares, Shares]]]:
    """The table, and for each fold what plain FTS5 and metier reach."""
    lines = [f"{'fold':<24}{'n':>4}  {'ranker':<8}{'Hit@1':>7}{'R@10':>7}{'R@50':>7}{'30,000':>8}{'4,000':>7}"]
    reached = {}
    engines: dict[int, dict[str, rankers.Ranker]] = {}
    for name, (pool, asked) in folds().items():
        if id(pool) not in engines:
            place = folder / str(len(engines))
            place.mkdir()
            tried = {
                "FTS5": rankers.plain(pool, ("name", "description")),
                "bm25s": bm25s_ranker(pool),
                "metier": rankers.ids_of(rankers.lexical(pool, place)),
            }
            engines[id(pool)] = {label: ranker for label, ranker in tried.items() if ranker is not None}
        shares = {label: measured(pool, asked, ranker) for label, ranker in engines[id(pool)].items()}
        for label, share in shares.items():
            lines.append(
                f"{name if label == 'FTS5' else '':<24}{len(asked) if label == 'FTS5' else '':>4}  {label:<8}"
                f"{share.first:>7.1f}{share.ten:>7.1f}{share.fifty:>7.1f}{share.large:>8.1f}{share.small:>7.1f}"
            )
        reached[name] = (shares["FTS5"], shares["metier"])
    return lines, reached

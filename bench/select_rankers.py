"""The rankers that are compared: each gives the ids of skills for a request, best first."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.select_data import Record

from metier.catalog import rank as ranking
from metier.catalog.cards import make_card
from metier.catalog.rank import fuse_rankings
from metier.catalog.tokens import STOP_WORDS
from metier.host.sqlite import open_database
from metier.library import search_index
from metier.library.search import DenseEngine, LexicalEngine
from metier.sources import index
from metier.types.search import TextEncoder

DEPTH = 200
Ranker = Callable[[str], Sequence[str]]


def in_order(pool: list[Record]) -> Ranker:
    """No ranking: the first ones are shown, whatever is asked."""
    ids = [one.id for one in pool]
    return lambda request: ids


def alphabetical(pool: list[Record]) -> Ranker:
    return in_order(sorted(pool, key=lambda one: (one.name, one.id)))


def plain(pool: list[Record], columns: Sequence[str]) -> Ranker:
    """SQLite as it comes: porter, any of the words that are not stop words, equal weights."""
    names = ", ".join(columns)
    base = sqlite3.connect(":memory:")
    base.execute(f"CREATE VIRTUAL TABLE words USING fts5 ({names}, tokenize = 'porter unicode61')")
    marks = ", ".join("?" * (len(columns) + 1))
    rows = [(number, *(getattr(one, column) for column in columns)) for number, one in enumerate(pool)]
    base.executemany(f"INSERT INTO words (rowid, {names}) VALUES ({marks})", rows)

    def rank(request: str) -> list[str]:
        words = dict.fromkeys(word for word in re.findall(r"\w+", request.lower()) if word not in STOP_WORDS)
        asked = " OR ".join(f'"{word}"' for word in words)
        found = base.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words), rowid LIMIT ?", (asked, DEPTH)
        )
        return [pool[number].id for (number,) in found] if asked else []

    return rank


def lexical(pool: list[Record], folder: Path, headings: bool = True) -> LexicalEngine:
    """metier's own engine, over an index made of these skills."""
    path = str(folder / f"{len(pool)}-{headings}.db")
    database, _ = open_database(path, index.SCHEMA, index.READER_VERSION)
    assert database is not None
    for at in range(0, len(pool), 500):
        search_index.save_cards(database, [made(one, headings) for one in pool[at : at + 500]])
    database.close()
    return opened(path)


class _Everything(frozenset[str]):
    """Every skill of these indexes may be found."""

    def __contains__(self, path: object) -> bool:
        return True


def opened(path: str) -> LexicalEngine:
    database, _ = open_database(path, index.SCHEMA, index.READER_VERSION)
    assert database is not None
    total = search_index.count_cards(database)
    usual = ranking.usual_weights(search_index.common_terms(database, total // 100), total)
    return LexicalEngine(database, _Everything(), total, usual)


def made(one: Record, headings: bool = True) -> search_index.NewCard:
    return search_index.NewCard(
        one.id, "", True, make_card(one.name, one.description, "\n".join(one.headings) if headings else "")
    )


def ids_of(engine: LexicalEngine | DenseEngine) -> Ranker:
    return lambda request: [one.path for one in engine.rank(request, DEPTH)]


def dense(pool: list[Record], encoder: TextEncoder) -> DenseEngine:
    vectors = tuple(encoder.encode(f"{one.name.replace('-', ' ')}: {one.description}") for one in pool)
    return DenseEngine(encoder, tuple(one.id for one in pool), vectors)


def both(words: LexicalEngine, meaning: DenseEngine) -> Ranker:
    def rank(request: str) -> list[str]:
        rankings = {"lexical": words.rank(request, DEPTH), "dense": meaning.rank(request, DEPTH)}
        return [one.path for one in fuse_rankings(rankings, {"lexical": 2.0})]

    return rank

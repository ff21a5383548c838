"""The tables of the search index: cards, their words in an FTS table, and vectors.

`words` is an external-content FTS5 table over `cards`: it stores no text, so it must be told the old text of a row
before that row changes.  Every write therefore goes through `save_cards`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..host.sqlite import IndexDatabase, StatementExecutor
from ..light_typing import NamedTuple, TypeAlias
from ..types.search import SearchCard

_WEIGHTS = "2.0, 1.0, 0.5"
"""BM25 weights of name, description and the rest of the card, for choosing candidates."""
_MAX_OCCURRENCES = 26_000
"""Occurrences that the terms of one query may have together, about a microsecond each; commoner terms are left out
beyond that."""
_MIN_TERMS = 4
"""Terms that are always looked for, however common."""
_QUERY_CHUNK = 100
"""Parameters per statement, well below SQLite's limit."""


class IndexedCard(NamedTuple):
    """What the index knows about one skill's card."""

    id: int
    mark: str
    """The stamp of the file it was made from; another stamp means a changed file."""
    whole: bool
    """Whether the card includes the body."""


class NewCard(NamedTuple):
    """A card to store."""

    path: str
    mark: str
    whole: bool
    card: SearchCard


CandidateCard: TypeAlias = tuple[str, SearchCard]
"""A path and its card."""


def indexed_cards(database: IndexDatabase) -> dict[str, IndexedCard]:
    """Every card, by the path of its skill."""
    rows = database.rows("SELECT path, id, mark, whole FROM cards")
    return {path: IndexedCard(id, mark, bool(whole)) for path, id, mark, whole in rows}


def save_cards(database: IndexDatabase, cards: Iterable[NewCard], gone: Iterable[str] = ()) -> None:
    """Write cards and delete others in one transaction: a reader sees all of it or none."""
    with database.change() as change:
        for path in gone:
            # The words first: afterwards the old text is gone.
            _remove_words(database, change, path)
            change("DELETE FROM cards WHERE path = ?", (path,))
        for path, mark, whole, card in cards:
            _remove_words(database, change, path)
            change(
                "INSERT INTO cards (path, mark, whole, name, description, more, stuffed) VALUES (?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (path) DO UPDATE SET mark = excluded.mark, whole = excluded.whole, name = excluded.name,"
                " description = excluded.description, more = excluded.more, stuffed = excluded.stuffed, vector = NULL",
                (path, mark, whole, *card),
            )
            change(
                "INSERT INTO words (rowid, name, description, more)"
                " SELECT id, name, description, more FROM cards WHERE path = ?",
                (path,),
            )


def _remove_words(database: IndexDatabase, change: StatementExecutor, path: str) -> None:
    """Take a card's words out of the FTS table, which has to be given the old text."""
    change(
        "INSERT INTO words (words, rowid, name, description, more)"
        " SELECT 'delete', id, name, description, more FROM cards WHERE path = ?",
        (path,),
    )


def count_cards(database: IndexDatabase) -> int:
    """How many cards there are."""
    rows = database.rows("SELECT count(*) FROM cards")
    return rows[0][0] if rows else 0


def term_frequencies(database: IndexDatabase, terms: Iterable[str]) -> dict[str, int]:
    """How many cards have each term."""
    term_list = list(terms)
    counts: dict[str, int] = {}
    for start in range(0, len(term_list), _QUERY_CHUNK):
        chunk = term_list[start : start + _QUERY_CHUNK]
        placeholders = ", ".join("?" * len(chunk))
        counts.update(database.rows(f"SELECT term, doc FROM vocabulary WHERE term IN ({placeholders})", chunk))
    return counts


def affordable_terms(terms: Sequence[str], common: Mapping[str, int]) -> list[str]:
    """The terms to look for, best first: the first few always, the others unless they are too common."""
    spent, chosen = 0, []
    for number, term in enumerate(terms):
        if number < _MIN_TERMS or spent + common[term] <= _MAX_OCCURRENCES:
            chosen.append(term)
            spent += common[term]
    return chosen


def candidate_cards(database: IndexDatabase, terms: Sequence[str], limit: int) -> list[CandidateCard]:
    """Path and card of the skills that have any of the terms, best BM25 first."""
    if not terms:
        return []
    # Quoted, so that a term can't be FTS syntax.
    any_of = " OR ".join(f'"{term}"' for term in terms)
    rows = database.rows(
        "SELECT path, cards.name, cards.description, cards.more, stuffed FROM ("
        f" SELECT rowid AS id, bm25(words, {_WEIGHTS}) AS worth FROM words WHERE words MATCH ?"
        " ORDER BY worth LIMIT ?) AS found JOIN cards USING (id) ORDER BY worth, path",
        (any_of, limit),
    )
    return [(path, SearchCard(name, text, more, bool(stuffed))) for path, name, text, more, stuffed in rows]


def common_terms(database: IndexDatabase, least: int) -> dict[str, int]:
    """The terms that more than `least` cards have, and how many have them."""
    return dict(database.rows("SELECT term, doc FROM vocabulary WHERE doc > ?", (least,)))


def read_vectors(database: IndexDatabase) -> list[tuple[str, bytes]]:
    """Path and vector of every card that has one."""
    rows: list[tuple[str, bytes]] = database.rows("SELECT path, vector FROM cards WHERE vector IS NOT NULL")
    return rows


def paths_without_vector(database: IndexDatabase) -> set[str]:
    """The paths of the cards without a vector."""
    return {path for (path,) in database.rows("SELECT path FROM cards WHERE vector IS NULL")}


def save_vectors(database: IndexDatabase, rows: Iterable[tuple[str, str, bytes]]) -> None:
    """Write vectors by path and stamp; a card that changed meanwhile gets none."""
    with database.change() as change:
        for path, mark, vector in rows:
            # The stamp guards against a card that was replaced while its vector was computed.
            change("UPDATE cards SET vector = ? WHERE path = ? AND mark = ?", (vector, path, mark))

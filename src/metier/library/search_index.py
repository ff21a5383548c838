"""Filling the index beside whatever else happens: bodies, and vectors where they are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..host.sqlite import IndexDatabase, StatementExecutor
from ..types.search import SearchCard

if TYPE_CHECKING:
    pass


_WEIGHTS = "8.0, 2.0, 1.0"
"""Of name, description and the rest of the card, when candidates are chosen."""
_MAX_OCCURRENCES = 60_000
"""So many occurrences may the terms of one question have together; then the commoner ones are left out."""
_MIN_TERMS = 4
_QUERY_CHUNK = 100


class IndexedCard(NamedTuple):
    """What the index knows of one skill's card."""

    id: int
    mark: str
    """Of the file it was made from; another mark means another file."""
    whole: bool
    """Whether the body was read too."""


class NewCard(NamedTuple):
    """A card to keep."""

    path: str
    mark: str
    whole: bool
    card: SearchCard


CandidateCard: TypeAlias = tuple[str, SearchCard]
"""A path and its card."""


def indexed_cards(database: IndexDatabase) -> dict[str, IndexedCard]:
    """Every card there is, by the path of its skill."""
    rows = database.rows("SELECT path, id, mark, whole FROM cards")
    return {path: IndexedCard(id, mark, bool(whole)) for path, id, mark, whole in rows}


def save_cards(database: IndexDatabase, cards: Iterable[NewCard], gone: Iterable[str] = ()) -> None:
    """Write cards and forget others, all at once: a reader sees all of it or none."""
    with database.change() as change:
        for path in gone:
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
    """Take a card's words out of the index: it must be told which they were."""
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
    for at in range(0, len(term_list), _QUERY_CHUNK):
        chunk = term_list[at : at + _QUERY_CHUNK]
        marks = ", ".join("?" * len(chunk))
        counts.update(database.rows(f"SELECT term, doc FROM vocabulary WHERE term IN ({marks})", chunk))
    return counts


def affordable_terms(terms: Sequence[str], common: Mapping[str, int]) -> list[str]:
    """The terms to look for, best first: the first few always, of the others those that are not too common."""
    spent, chosen = 0, []
    for number, term in enumerate(terms):
        if number < _MIN_TERMS or spent + common[term] <= _MAX_OCCURRENCES:
            chosen.append(term)
            spent += common[term]
    return chosen


def candidate_cards(database: IndexDatabase, terms: Sequence[str], most: int) -> list[CandidateCard]:
    """Path and card of the skills that have any of the terms, the likeliest first."""
    if not terms:
        return []
    any_of = " OR ".join(f'"{term}"' for term in terms)
    rows = database.rows(
        "SELECT path, cards.name, cards.description, cards.more, stuffed FROM ("
        f" SELECT rowid AS id, bm25(words, {_WEIGHTS}) AS worth FROM words WHERE words MATCH ?"
        " ORDER BY worth LIMIT ?) AS found JOIN cards USING (id) ORDER BY worth, path",
        (any_of, most),
    )
    return [(path, SearchCard(name, text, more, bool(stuffed))) for path, name, text, more, stuffed in rows]


def common_terms(database: IndexDatabase, least: int) -> dict[str, int]:
    """The terms that more than so many cards have."""
    return dict(database.rows("SELECT term, doc FROM vocabulary WHERE doc > ?", (least,)))


def read_vectors(database: IndexDatabase) -> list[tuple[str, bytes]]:
    """Path and vector of every card that has one."""
    rows: list[tuple[str, bytes]] = database.rows("SELECT path, vector FROM cards WHERE vector IS NOT NULL")
    return rows


def paths_without_vector(database: IndexDatabase) -> set[str]:
    """The paths of the cards that have none."""
    return {path for (path,) in database.rows("SELECT path FROM cards WHERE vector IS NULL")}


def save_vectors(database: IndexDatabase, rows: Iterable[tuple[str, str, bytes]]) -> None:
    """Write vectors by path and mark; a card that has changed meanwhile keeps none."""
    with database.change() as change:
        for path, mark, vector in rows:
            change("UPDATE cards SET vector = ? WHERE path = ? AND mark = ?", (vector, path, mark))

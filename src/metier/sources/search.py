"""The searchable half of the index: cards, the words in them, and who has which.  Listing never comes here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ..host.database import Change, Database
from ..types.search import Card

_WEIGHTS = "8.0, 2.0, 1.0"
"""Of name, description and the rest of the card, when candidates are chosen."""
_DEAREST = 60_000
"""So many occurrences may the terms of one question have together; then the commoner ones are left out."""
_FEWEST = 4
_AT_ONCE = 100


class Kept(NamedTuple):
    """What the index knows of one skill's card."""

    id: int
    mark: str
    """Of the file it was made from; another mark means another file."""
    whole: bool
    """Whether the body was read too."""


class Made(NamedTuple):
    """A card to keep."""

    path: str
    mark: str
    whole: bool
    card: Card


Candidate: TypeAlias = tuple[str, Card]
"""A path and its card."""


def kept(database: Database) -> dict[str, Kept]:
    """Every card there is, by the path of its skill."""
    rows = database.rows("SELECT path, id, mark, whole FROM cards")
    return {path: Kept(id, mark, bool(whole)) for path, id, mark, whole in rows}


def keep(database: Database, made: Iterable[Made], gone: Iterable[str] = ()) -> None:
    """Write cards and forget others, all at once: a reader sees all of it or none."""
    with database.change() as change:
        for path in gone:
            _forget(database, change, path)
            change("DELETE FROM cards WHERE path = ?", (path,))
        for path, mark, whole, card in made:
            _forget(database, change, path)
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


def _forget(database: Database, change: Change, path: str) -> None:
    """Take a card's words out of the index: it must be told which they were."""
    change(
        "INSERT INTO words (words, rowid, name, description, more)"
        " SELECT 'delete', id, name, description, more FROM cards WHERE path = ?",
        (path,),
    )


def total(database: Database) -> int:
    """How many cards there are."""
    rows = database.rows("SELECT count(*) FROM cards")
    return rows[0][0] if rows else 0


def frequencies(database: Database, terms: Iterable[str]) -> dict[str, int]:
    """How many cards have each term."""
    asked = list(terms)
    found: dict[str, int] = {}
    for at in range(0, len(asked), _AT_ONCE):
        some = asked[at : at + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        found.update(database.rows(f"SELECT term, doc FROM vocabulary WHERE term IN ({marks})", some))
    return found


def affordable(terms: Sequence[str], common: Mapping[str, int]) -> list[str]:
    """The terms to look for, best first: the first few always, of the others those that are not too common."""
    spent, chosen = 0, []
    for number, term in enumerate(terms):
        if number < _FEWEST or spent + common[term] <= _DEAREST:
            chosen.append(term)
            spent += common[term]
    return chosen


def candidates(database: Database, terms: Sequence[str], most: int) -> list[Candidate]:
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
    return [(path, Card(name, text, more, bool(stuffed))) for path, name, text, more, stuffed in rows]


def common(database: Database, least: int) -> dict[str, int]:
    """The terms that more than so many cards have."""
    return dict(database.rows("SELECT term, doc FROM vocabulary WHERE doc > ?", (least,)))


def vectors(database: Database) -> list[tuple[str, bytes]]:
    """Path and vector of every card that has one."""
    rows: list[tuple[str, bytes]] = database.rows("SELECT path, vector FROM cards WHERE vector IS NOT NULL")
    return rows


def without_vector(database: Database) -> set[str]:
    """The paths of the cards that have none."""
    return {path for (path,) in database.rows("SELECT path FROM cards WHERE vector IS NULL")}


def keep_vectors(database: Database, made: Iterable[tuple[str, str, bytes]]) -> None:
    """Write vectors by path and mark; a card that has changed meanwhile keeps none."""
    with database.change() as change:
        for path, mark, vector in made:
            change("UPDATE cards SET vector = ? WHERE path = ? AND mark = ?", (vector, path, mark))

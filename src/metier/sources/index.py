"""The warm index: what was read once is not read again while the file is the same."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping

from ..host.database import Change, Database
from ..types.dialect import Dialect
from ..types.place import Root
from ..types.problem import Mark, Problem, problem
from .batch import Entry, Known, packed, parts, whole

READER = 4
"""Raised whenever parsing changes: what an older reader wrote is then not believed."""

SCHEMA = """
CREATE TABLE roots (id INTEGER PRIMARY KEY, tag TEXT NOT NULL UNIQUE);
CREATE TABLE skills (
    root INTEGER NOT NULL, first TEXT NOT NULL,
    folders TEXT NOT NULL, names TEXT NOT NULL, descriptions TEXT NOT NULL, hints TEXT NOT NULL,
    requires TEXT NOT NULL, extras TEXT NOT NULL, marks TEXT NOT NULL, numbers BLOB NOT NULL, flags BLOB NOT NULL,
    PRIMARY KEY (root, first)
) WITHOUT ROWID;
CREATE TABLE notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE memos (
    key TEXT PRIMARY KEY, guards TEXT NOT NULL, answer TEXT NOT NULL, at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE cards (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, mark TEXT NOT NULL, whole INTEGER NOT NULL,
    name TEXT NOT NULL, description TEXT NOT NULL, more TEXT NOT NULL, stuffed INTEGER NOT NULL, vector BLOB
);
CREATE VIRTUAL TABLE words USING fts5 (
    name, description, more, content = 'cards', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 0'
);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab (words, 'row');
"""
"""A row of `skills` is a batch of one root: the folders from `first` up to the first of the next, in order.
`cards` and what is made of them belong to `search.py`; a look at the roots neither reads nor writes them."""
_COLUMNS = "folders, names, descriptions, hints, requires, extras, marks, numbers, flags"


def fault(how: str, path: str) -> Problem:
    """Why an index can't be used, as a finding: `damaged`, `locked`, or `unwritable: why`."""
    if how.startswith("unwritable: "):
        return problem(Mark("index-unwritable", 0, (how.removeprefix("unwritable: "), path.rpartition("/")[0])), path)
    return problem(Mark("index-damaged" if how == "damaged" else "index-locked"), path)


def tag(root: Root) -> str:
    """What a root's rows are kept under: its path, and everything that decides how its files are read."""
    return f"{READER}\0{_fingerprint(root.origin.dialect)}\0{root.origin.path}"


def _fingerprint(dialect: Dialect) -> str:
    return dialect.name if dialect.name in _BUILT_IN else repr(dialect.authoring)


_BUILT_IN = frozenset({"standard", "claude", "umbra", "agentmd", "multica", "agenvoy", "openclaw"})


def recall(database: Database | None, root: Root) -> Known:
    """All that is remembered of a root."""
    query = f"SELECT {_COLUMNS} FROM skills WHERE root = (SELECT id FROM roots WHERE tag = ?) ORDER BY first"
    rows = database.rows(query, (tag(root),)) if database is not None else []
    return Known(root.origin, whole(rows))


def remember(database: Database, root: Root, changes: Mapping[str, Entry | None]) -> None:
    """Write what was read anew and forget what is no longer there (None), all at once, by folder.

    Only the batches that hold it are written, each as it is by now: another process may have been here meanwhile.
    """
    with database.change() as change:
        change("INSERT OR IGNORE INTO roots (tag) VALUES (?)", (tag(root),))
        found = database.rows("SELECT id FROM roots WHERE tag = ?", (tag(root),))
        if not found:
            return  # the index is busy or gone; what was read is still right
        number = found[0][0]
        for first, mine in _by_batch(database, number, changes).items():
            _rewrite(database, change, (number, first), mine)


def _by_batch(
    database: Database, number: int, changes: Mapping[str, Entry | None]
) -> dict[str, dict[str, Entry | None]]:
    """The changes of each batch, by its first folder; what comes before all of them belongs to the very first."""
    rows = database.rows("SELECT first FROM skills WHERE root = ?", (number,))
    firsts = sorted({"", *(first for (first,) in rows)})
    touched: dict[str, dict[str, Entry | None]] = defaultdict(dict)
    for folder, entry in changes.items():
        touched[firsts[bisect_right(firsts, folder) - 1]][folder] = entry
    return touched


def _rewrite(database: Database, change: Change, place: tuple[int, str], changes: Mapping[str, Entry | None]) -> None:
    rows = database.rows(f"SELECT {_COLUMNS} FROM skills WHERE root = ? AND first = ?", place)
    before = {entry.folder: entry for batch in whole(rows) for entry in batch.entries()}
    after = {**before, **changes}
    kept = [entry for _, entry in sorted(after.items()) if entry is not None]
    change("DELETE FROM skills WHERE root = ? AND first = ?", place)
    for part in parts(kept):
        first = place[1] if part[0] is kept[0] else part[0].folder
        change("INSERT INTO skills VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (place[0], first, *packed(part)))

"""The warm index: what was read once is not read again while the file is the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from json import dumps, loads
from typing import Any, TypeAlias

from ..host.database import Database
from ..types.dialect import Dialect
from ..types.place import Root
from ..types.problem import Mark, Problem, pack, problem, unpack
from ..types.skill import NOTHING_REQUIRED, Broken, Origin, Requirements, Skill
from ..types.tree import EMPTY

READER = 3
"""Raised whenever parsing changes: what an older reader wrote is then not believed."""

_USER, _MODEL, _ENABLED, BROKEN, _TIDY = 1, 2, 4, 8, 16
"""The flags of a row."""
_ORDINARY = _USER | _MODEL | _ENABLED
new = tuple.__new__

Row: TypeAlias = tuple[str, int, int, int, int, int, str]
"""Folder, the four parts of the key, flags, and all the texts in one: fewer things to fetch."""

_LONGEST_ROW = 16_384
"""What is longer than any sensible frontmatter is read each time; the index stays small."""
_APART = "\x1f"
"""Between the texts of a row: name, description, hint, requirements, extra, marks."""

SCHEMA = """
CREATE TABLE roots (id INTEGER PRIMARY KEY, tag TEXT NOT NULL UNIQUE);
CREATE TABLE skills (
    root INTEGER NOT NULL, dir TEXT NOT NULL,
    ino INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, size INTEGER NOT NULL,
    flags INTEGER NOT NULL, texts TEXT NOT NULL,
    PRIMARY KEY (root, dir)
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
"""`cards` and what is made of them belong to `search.py`; a look at the roots neither reads nor writes them."""
_COLUMNS = "dir, ino, mtime, ctime, size, flags, texts"


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


def recall(database: Database | None, root: Root) -> Mapping[str, Row]:
    """All that is remembered of a root, by folder."""
    if database is None:
        return {}
    rows: list[Row] = database.rows(
        f"SELECT {_COLUMNS} FROM skills WHERE root = (SELECT id FROM roots WHERE tag = ?)", (tag(root),)
    )
    return {row[0]: row for row in rows if type(row[6]) is str and row[6].count(_APART) >= 5 and type(row[5]) is int}


def name_in(row: Row) -> str:
    return row[6].partition(_APART)[0]


def revive(row: Row, origin: Origin, path: str) -> Skill | Broken:
    """A row as the value it was made from."""
    relative, ino, mtime, ctime, size, flags, texts = row
    name, description, hint, requires, extra, noted = texts.split(_APART, 5)
    id = relative if "/" not in relative else relative.rpartition("/")[2]
    key = (ino, mtime, ctime, size)
    rest = extra or EMPTY
    if flags & ~_TIDY == _ORDINARY and not requires:
        return new(
            Skill,
            (
                id, name, description, path, key, origin, hint, True, True, True, NOTHING_REQUIRED, rest, noted or (),
                flags > _TIDY,
            ),
        )  # fmt: skip
    if flags & BROKEN:
        return Broken(id, path, key, origin, unpack(noted), name)
    return Skill(
        id, name, description, path, key, origin, hint, bool(flags & _USER), bool(flags & _MODEL),
        bool(flags & _ENABLED), _requirements(requires), rest, noted or (), bool(flags & _TIDY),
    )  # fmt: skip


def remember(database: Database, root: Root, fresh: Iterable[Skill | Broken], gone: Iterable[str], cut: int) -> None:
    """Write what was read anew and forget what is no longer there, all at once.

    `cut` is the length of the root's path with its slash: what stands between it and the file is the folder.
    """
    with database.change() as change:
        change("INSERT OR IGNORE INTO roots (tag) VALUES (?)", (tag(root),))
        found = database.rows("SELECT id FROM roots WHERE tag = ?", (tag(root),))
        if not found:
            return  # the index is busy or gone; what was read is still right
        number = found[0][0]
        for relative in gone:
            change("DELETE FROM skills WHERE root = ? AND dir = ?", (number, relative))
        for item in fresh:
            relative = item.path[cut:].rpartition("/")[0]
            flags, texts = _columns(item)
            if any(_APART in text for text in texts[:-1]) or sum(map(len, texts)) > _LONGEST_ROW:
                change("DELETE FROM skills WHERE root = ? AND dir = ?", (number, relative))
                continue  # it could not be taken apart again; it is simply read each time
            change(
                "INSERT OR REPLACE INTO skills VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (number, relative, *item.key, flags, _APART.join(texts)),
            )


def _columns(item: Skill | Broken) -> tuple[int, tuple[str, ...]]:
    noted = pack(item.marks) if item.marks else ""
    if isinstance(item, Broken):
        return BROKEN, (item.name, "", "", "", "", noted)
    flags = item.user_may_invoke * _USER | item.model_may_invoke * _MODEL | item.enabled * _ENABLED
    flags |= item.tidy * _TIDY
    requires = "" if item.requires is NOTHING_REQUIRED else dumps(vars(item.requires))
    extra = item.extra.json() if item.extra else ""
    return flags, (item.name, item.description, item.argument_hint, requires, extra, noted)


_UNREADABLE = Requirements(platforms=("unknown: the index is damaged",))
"""What a damaged row requires: something that no machine has."""


def _requirements(text: str) -> Requirements:
    if not text:
        return NOTHING_REQUIRED
    try:
        found: dict[str, Any] = loads(text)
    except ValueError:
        return _UNREADABLE
    lists = {key: tuple(value) for key, value in found.items() if isinstance(value, list)}
    rest: dict[str, Any] = {**found, **lists}
    return Requirements(**rest)

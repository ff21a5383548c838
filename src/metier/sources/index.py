"""The warm index: what was read once is not read again while the file is the same."""

# No `from __future__ import annotations`: NamedTuple would compile every annotation again at import.
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, compress, repeat
from json import dumps, loads
from typing import Any, NamedTuple

from ..host.sqlite import IndexDatabase, StatementExecutor
from ..types.dialect import Dialect
from ..types.place import SkillRoot
from ..types.problem import Finding, Problem, pack_findings, problem_from, unpack_findings
from ..types.skill import NOTHING_REQUIRED, BrokenSkill, Origin, Requirements, Skill
from ..types.tree import EMPTY_TREE

new = tuple.__new__

_USER, _MODEL, _ENABLED, _BROKEN, _TIDY = 1, 2, 4, 8, 16
"""The flags of an entry."""
_ORDINARY = _USER | _MODEL | _ENABLED
_LOADS = bytes(not flags & _BROKEN for flags in range(256))
_FAILS = bytes(bool(flags & _BROKEN) for flags in range(256))
_IS_UNUSUAL = bytes(flags & ~_TIDY != _ORDINARY for flags in range(256))
_IS_TIDY = [bool(flags & _TIDY) for flags in range(256)]

_MAX_TEXT = 16_384
"""What is longer than any sensible frontmatter is read each time; the index stays small."""
_SEPARATOR = "\x1d"
"""Between the texts of a column; within one, packed marks have separators of their own."""
_TEXT_COLUMNS, _NUMBER_COLUMNS = 7, 4
_TIME_LIMIT = 1 << 63

_BATCH_SIZE, _BATCH_LIMIT = 256, 512
"""A batch takes in up to the second number of skills, then it is cut into some of the first."""


class IndexEntry(NamedTuple):
    """One skill as the index keeps it."""

    folder: str
    name: str
    description: str
    hint: str
    requires: str
    extra: str
    marks: str
    inode: int
    modified: int
    changed: int
    size: int
    flags: int


def make_entry(folder: str, item: Skill | BrokenSkill) -> IndexEntry | None:
    """What is kept of a skill; None where it could not be taken apart again, so that it is read each time."""
    noted = pack_findings(item.marks) if item.marks else ""
    if isinstance(item, BrokenSkill):
        entry = IndexEntry(folder, item.name, "", "", "", "", noted, *item.key, _BROKEN)
    else:
        flags = item.user_may_invoke * _USER | item.model_may_invoke * _MODEL | item.enabled * _ENABLED
        requires = "" if item.requires is NOTHING_REQUIRED else _encode_requirements(item.requires)
        extra = item.extra.json() if item.extra else ""
        texts = (folder, item.name, item.description, item.argument_hint, requires, extra, noted)
        entry = new(IndexEntry, (*texts, *item.key, flags | item.tidy * _TIDY))
    return entry if _fits_index(entry) else None


def _fits_index(entry: IndexEntry) -> bool:
    text = "".join(entry[:_TEXT_COLUMNS])  # type: ignore[arg-type]
    times = abs(entry.modified), abs(entry.changed)
    if _SEPARATOR in text or len(text) > _MAX_TEXT or max(times) >= _TIME_LIMIT:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False  # a file name that is no text


class IndexBatch(NamedTuple):
    """A row: entries in order of their folders, as one text for each field."""

    folders: str
    names: str
    descriptions: str
    hints: str
    requires: str
    extras: str
    marks: str
    numbers: bytes
    """The four parts of the keys, all of one and then all of the next."""
    flags: bytes
    """A byte each."""

    def texts(self, at: int) -> list[str]:
        return self[at].split(_SEPARATOR)  # type: ignore[arg-type, return-value]

    def integers(self, at: int) -> list[int]:
        """An inode may use all its bits, a time may lie before 1970."""
        width = len(self.flags) * 8
        return memoryview(self.numbers)[at * width : at * width + width].cast("q" if at else "Q").tolist()

    def entries(self) -> Iterator[IndexEntry]:
        columns: list[Iterable[Any]] = [
            *map(self.texts, range(_TEXT_COLUMNS)),
            *map(self.integers, range(_NUMBER_COLUMNS)),
        ]
        return map(IndexEntry._make, zip(*columns, self.flags, strict=True))

    def is_whole(self) -> bool:
        """Whether it can be taken apart: what does not fit together is not believed."""
        *texts, numbers, flags = self
        if set(map(type, texts)) != {str} or type(numbers) is not bytes or type(flags) is not bytes or not flags:
            return False
        count = len(flags)
        return len(numbers) == count * _NUMBER_COLUMNS * 8 and all(
            text.count(_SEPARATOR) == count - 1 for text in texts
        )


def valid_batches(rows: Iterable[Iterable[Any]]) -> list[IndexBatch]:
    """The rows that are to be believed."""
    return [batch for batch in map(IndexBatch._make, rows) if batch.is_whole()]


def pack_batch(entries: Sequence[IndexEntry]) -> IndexBatch:
    *columns, flags = zip(*entries, strict=True)
    texts = map(_SEPARATOR.join, columns[:_TEXT_COLUMNS])
    integers = [array("q" if at else "Q", column) for at, column in enumerate(columns[_TEXT_COLUMNS:])]
    return IndexBatch._make([*texts, b"".join(integers), bytes(flags)])


def split_batch(entries: Sequence[IndexEntry]) -> Iterator[Sequence[IndexEntry]]:
    """The batches of what one batch has grown to."""
    step = _BATCH_SIZE if len(entries) > _BATCH_LIMIT else _BATCH_LIMIT
    return (entries[at : at + step] for at in range(0, len(entries), step))


class IndexedSkills:
    """All that the index remembers of a root, in order of folders; each column is taken apart when it is wanted."""

    def __init__(self, origin: Origin, batches: Sequence[IndexBatch] = ()) -> None:
        self.origin = origin
        self.batches = batches

    def _column(self, at: int) -> list[str]:
        return list(chain.from_iterable([batch.texts(at) for batch in self.batches]))

    @cached_property
    def folders(self) -> list[str]:
        return self._column(0)

    @cached_property
    def keys(self) -> list[list[int]]:
        """Inodes, times of modification and of change, sizes."""
        return [
            list(chain.from_iterable([batch.integers(at) for batch in self.batches])) for at in range(_NUMBER_COLUMNS)
        ]

    @cached_property
    def _names(self) -> list[str]:
        return self._column(1)

    @cached_property
    def _flags(self) -> bytes:
        return b"".join([batch.flags for batch in self.batches])

    @cached_property
    def _loading(self) -> bytes:
        return self._flags.translate(_LOADS)

    def __len__(self) -> int:
        """How many load."""
        return self._loading.count(1)

    @property
    def names(self) -> list[str]:
        """Of those that load."""
        return list(compress(self._names, self._loading))

    @property
    def skills(self) -> list[Skill]:
        """Those that load."""
        return list(compress(self.items, self._loading))  # type: ignore[arg-type]

    @property
    def broken(self) -> list[BrokenSkill]:
        places = list(compress(range(len(self._flags)), self._flags.translate(_FAILS)))
        marks = self._column(6) if places else []
        return [self._broken(at, marks[at]) for at in places]

    @cached_property
    def items(self) -> list[Skill | BrokenSkill]:
        """Every entry as the value it was made from, in order."""
        descriptions, hints, requires, extras, marks = map(self._column, (2, 3, 4, 5, 6))
        folders, before = self.folders, self.origin.path + "/"
        columns = zip(
            map(_last_segment, folders) if any("/" in batch.folders for batch in self.batches) else folders,
            self._names,
            descriptions,
            [f"{before}{folder}/SKILL.md" for folder in folders],
            zip(*self.keys, strict=True),
            repeat(self.origin),
            hints,
            repeat(True),
            repeat(True),
            repeat(True),
            repeat(NOTHING_REQUIRED),
            [extra or EMPTY_TREE for extra in extras],
            [noted or () for noted in marks],
            map(_IS_TIDY.__getitem__, self._flags),
        )
        items: list[Skill | BrokenSkill] = list(map(new, repeat(Skill), columns))
        places, requirements = range(len(items)), {text: _decode_requirements(text) for text in set(requires)}
        for at in {*compress(places, requires), *compress(places, self._flags.translate(_IS_UNUSUAL))}:
            skill, flags = items[at], self._flags[at]
            if isinstance(skill, BrokenSkill) or flags & _BROKEN:
                items[at] = self._broken(at, marks[at])
            else:
                items[at] = skill._replace(
                    user_may_invoke=bool(flags & _USER),
                    model_may_invoke=bool(flags & _MODEL),
                    enabled=bool(flags & _ENABLED),
                    requires=requirements[requires[at]],
                )
        return items

    @cached_property
    def by_folder(self) -> Mapping[str, Skill | BrokenSkill]:
        return dict(zip(self.folders, self.items, strict=True))

    def _broken(self, at: int, marks: str) -> BrokenSkill:
        inode, modified, changed, size = [column[at] for column in self.keys]
        folder, path = self.folders[at], f"{self.origin.path}/{self.folders[at]}/SKILL.md"
        key = inode, modified, changed, size
        return BrokenSkill(_last_segment(folder), path, key, self.origin, unpack_findings(marks), self._names[at])


def _last_segment(folder: str) -> str:
    return folder.rpartition("/")[2]


def _encode_requirements(requires: Requirements) -> str:
    """Requirements as a text, without what is not asked for; where nothing is, it is still said that they are there."""
    return dumps({name: value for name, value in requires._asdict().items() if value})


_UNMEETABLE = Requirements(platforms=("unknown: the index is damaged",))
"""What a damaged entry requires: something that no machine has."""


def _decode_requirements(text: str) -> Requirements:
    if not text:
        return NOTHING_REQUIRED
    try:
        fields = loads(text)
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
        }
        return Requirements(**values)
    except (ValueError, TypeError, AttributeError):
        return _UNMEETABLE


READER_VERSION = 5
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


def index_problem(reason: str, path: str) -> Problem:
    """Why an index can't be used, as a finding: `damaged`, `locked`, or `unwritable: why`."""
    if reason.startswith("unwritable: "):
        return problem_from(
            Finding("index-unwritable", 0, (reason.removeprefix("unwritable: "), path.rpartition("/")[0])), path
        )
    return problem_from(Finding("index-damaged" if reason == "damaged" else "index-locked"), path)


def root_tag(root: SkillRoot) -> str:
    """What a root's rows are kept under: its path, and everything that decides how its files are read."""
    return f"{READER_VERSION}\0{_dialect_fingerprint(root.origin.dialect)}\0{root.origin.path}"


def _dialect_fingerprint(dialect: Dialect) -> str:
    return dialect.name if dialect.name in _BUILT_IN else repr(dialect.authoring)


_BUILT_IN = frozenset({"standard", "claude", "umbra", "agentmd", "multica", "agenvoy", "openclaw"})


def load_indexed(database: IndexDatabase | None, root: SkillRoot) -> IndexedSkills:
    """All that is remembered of a root."""
    query = f"SELECT {_COLUMNS} FROM skills WHERE root = (SELECT id FROM roots WHERE tag = ?) ORDER BY first"
    rows = database.rows(query, (root_tag(root),)) if database is not None else []
    return IndexedSkills(root.origin, valid_batches(rows))


def save_changes(database: IndexDatabase, root: SkillRoot, changes: Mapping[str, IndexEntry | None]) -> None:
    """Write what was read anew and forget what is no longer there (None), all at once, by folder.

    Only the batches that hold it are written, each as it is by now: another process may have been here meanwhile.
    """
    with database.change() as change:
        change("INSERT OR IGNORE INTO roots (tag) VALUES (?)", (root_tag(root),))
        rows = database.rows("SELECT id FROM roots WHERE tag = ?", (root_tag(root),))
        if not rows:
            return  # the index is busy or gone; what was read is still right
        number = rows[0][0]
        for first, mine in _changes_by_batch(database, number, changes).items():
            _rewrite_batch(database, change, (number, first), mine)


def _changes_by_batch(
    database: IndexDatabase, number: int, changes: Mapping[str, IndexEntry | None]
) -> dict[str, dict[str, IndexEntry | None]]:
    """The changes of each batch, by its first folder; what comes before all of them belongs to the very first."""
    rows = database.rows("SELECT first FROM skills WHERE root = ?", (number,))
    firsts = sorted({"", *(first for (first,) in rows)})
    touched: dict[str, dict[str, IndexEntry | None]] = defaultdict(dict)
    for folder, entry in changes.items():
        touched[firsts[bisect_right(firsts, folder) - 1]][folder] = entry
    return touched


def _rewrite_batch(
    database: IndexDatabase, change: StatementExecutor, place: tuple[int, str], changes: Mapping[str, IndexEntry | None]
) -> None:
    rows = database.rows(f"SELECT {_COLUMNS} FROM skills WHERE root = ? AND first = ?", place)
    before = {entry.folder: entry for batch in valid_batches(rows) for entry in batch.entries()}
    after = {**before, **changes}
    entries = [entry for _, entry in sorted(after.items()) if entry is not None]
    change("DELETE FROM skills WHERE root = ? AND first = ?", place)
    for part in split_batch(entries):
        first = place[1] if part[0] is entries[0] else part[0].folder
        change("INSERT INTO skills VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (place[0], first, *pack_batch(part)))

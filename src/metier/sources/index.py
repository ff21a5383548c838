"""The warm index: what was read once is not read again while the file is the same.

The unit is a batch of a few hundred skills of one root, in order of folders, each field of all of them joined into one
text.  A warm start of ten thousand skills then reads some forty rows, splits a few long strings and makes tuples with
`map`; a row for each skill was refused, because fetching ten thousand rows takes longer than all the rest.  A change
rewrites the batches it touches and no others.

What the columns hold is this module's affair: a `Skill` from here is equal to one that was read from its file, and its
frontmatter is decoded when it is first asked for.  The index is a cache: every row is checked before it is believed,
and whatever does not fit is read from the file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain, compress, repeat

from ..host.sqlite import IndexDatabase, StatementExecutor
from ..light_typing import TYPE_CHECKING, Any, NamedTuple
from ..types.dialect import Dialect
from ..types.place import SkillRoot
from ..types.problem import CODE_MEANINGS, Finding, Problem, problem_from
from ..types.skill import NOTHING_REQUIRED, BrokenSkill, Origin, Requirements, Skill
from ..types.tree import EMPTY_TREE, RawValue, TextTree

if TYPE_CHECKING:
    from typing import TypeVar

    _Decoded = TypeVar("_Decoded")

new = tuple.__new__
_NO_FINDINGS: tuple[Finding, ...] = ()

_USER, _MODEL, _ENABLED, _BROKEN, _TIDY = 1, 2, 4, 8, 16
"""The flags of an entry."""
_ORDINARY = _USER | _MODEL | _ENABLED
# Tables for `bytes.translate`, which tests the flags of all entries in one call.
_LOADS = bytes(not flags & _BROKEN for flags in range(256))
_FAILS = bytes(bool(flags & _BROKEN) for flags in range(256))
_IS_UNUSUAL = bytes(flags & ~_TIDY != _ORDINARY for flags in range(256))
_IS_TIDY = [bool(flags & _TIDY) for flags in range(256)]

_MAX_TEXT = 16_384
"""Longer frontmatter is read from the file each time, so that the index stays small."""
_SEPARATOR = "\x1d"
"""Between the texts of a column; packed findings have separators of their own."""
_REPLACED_SEPARATORS = dict.fromkeys(map(ord, "\x1e\x1f"), "\ufffd")
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
    findings: str
    inode: int
    modified: int
    changed: int
    size: int
    flags: int


def make_entry(folder: str, item: Skill | BrokenSkill) -> IndexEntry | None:
    """What is kept of a skill; None where it can't be stored without loss, so that the file is read each time."""
    noted = pack_findings(item.findings) if item.findings else ""
    if isinstance(item, BrokenSkill):
        entry = IndexEntry(folder, item.name, "", "", "", "", noted, *item.key, _BROKEN)
    else:
        flags = item.user_may_invoke * _USER | item.model_may_invoke * _MODEL | item.enabled * _ENABLED
        requires = "" if item.requires is NOTHING_REQUIRED else _encode_requirements(item.requires)
        extra = encode_extra(item.extra) if item.extra else ""
        texts = (folder, item.name, item.description, item.argument_hint, requires, extra, noted)
        entry = new(IndexEntry, (*texts, *item.key, flags | item.tidy * _TIDY))
    # What does not fit costs a file read on every start, and nothing else.
    return entry if _fits_index(entry) else None


def _fits_index(entry: IndexEntry) -> bool:
    text = "".join(entry[:_TEXT_COLUMNS])  # type: ignore[arg-type]
    times = abs(entry.modified), abs(entry.changed)
    if _SEPARATOR in text or len(text) > _MAX_TEXT or max(times) >= _TIME_LIMIT:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False  # a file name that is not UTF-8


# --- Batches ---


class IndexBatch(NamedTuple):
    """A row: entries in order of their folders, as one text for each field."""

    folders: str
    names: str
    descriptions: str
    hints: str
    requires: str
    extras: str
    findings: str
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
    from array import array  # only where the index is written

    *columns, flags = zip(*entries, strict=True)
    texts = map(_SEPARATOR.join, columns[:_TEXT_COLUMNS])
    integers = [array("q" if at else "Q", column) for at, column in enumerate(columns[_TEXT_COLUMNS:])]
    return IndexBatch._make([*texts, b"".join(integers), bytes(flags)])


def split_batch(entries: Sequence[IndexEntry]) -> Iterator[Sequence[IndexEntry]]:
    """The batches of what one batch has grown to."""
    step = _BATCH_SIZE if len(entries) > _BATCH_LIMIT else _BATCH_LIMIT
    return (entries[at : at + step] for at in range(0, len(entries), step))


# --- The entries of a root ---


class IndexedSkills:
    """All that the index remembers of a root, in order of folders; each column is split when it is needed."""

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
        findings = self._column(6) if places else []
        return [self._broken(at, findings[at]) for at in places]

    @cached_property
    def items(self) -> list[Skill | BrokenSkill]:
        """Every entry as the value it was made from, in order."""
        # Every skill is made as if it were ordinary, by `map` and without a line of Python for each;
        # the few that are not are replaced below.
        descriptions, hints, requires, extras, findings = map(self._column, (2, 3, 4, 5, 6))
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
            map(_decode_each(extras, StoredTree, EMPTY_TREE), extras),
            map(_decode_each(findings, unpack_findings, _NO_FINDINGS), findings),
            map(_IS_TIDY.__getitem__, self._flags),
        )
        items: list[Skill | BrokenSkill] = list(map(new, repeat(Skill), columns))
        places, requirements = range(len(items)), _decode_each(requires, _decode_requirements, NOTHING_REQUIRED)
        for at in {*compress(places, requires), *compress(places, self._flags.translate(_IS_UNUSUAL))}:
            skill, flags = items[at], self._flags[at]
            if isinstance(skill, BrokenSkill) or flags & _BROKEN:
                items[at] = self._broken(at, findings[at])
            else:
                items[at] = skill._replace(
                    user_may_invoke=bool(flags & _USER),
                    model_may_invoke=bool(flags & _MODEL),
                    enabled=bool(flags & _ENABLED),
                    requires=requirements(requires[at]),
                )
        return items

    @cached_property
    def by_folder(self) -> Mapping[str, Skill | BrokenSkill]:
        return dict(zip(self.folders, self.items, strict=True))

    def _broken(self, at: int, findings: str) -> BrokenSkill:
        inode, modified, changed, size = [column[at] for column in self.keys]
        folder, path = self.folders[at], f"{self.origin.path}/{self.folders[at]}/SKILL.md"
        key = inode, modified, changed, size
        return BrokenSkill(_last_segment(folder), path, key, self.origin, unpack_findings(findings), self._names[at])


def _last_segment(folder: str) -> str:
    return folder.rpartition("/")[2]


# --- What a column's texts stand for ---


def _decode_each(texts: Iterable[str], decode: Callable[[str], _Decoded], empty: _Decoded) -> Callable[[str], _Decoded]:
    """What gives the value of a text.  Skills of one root often say the same, so each text is decoded once."""
    values = {text: decode(text) for text in set(texts) if text}
    values[""] = empty
    return values.__getitem__


class StoredTree(TextTree):
    """Frontmatter as JSON text, read when it is first asked for: few skills of ten thousand ever are."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __bool__(self) -> bool:
        return True  # only what holds something is stored

    @property
    def raw(self) -> Mapping[str, RawValue]:
        if self._text:
            from json import loads

            try:
                read = loads(self._text)
            except (ValueError, RecursionError):  # a damaged index: what it kept is lost
                read = {}
            self._raw = read if isinstance(read, dict) else {}
            self._text = ""  # last: another thread may be reading too
        return self._raw


def encode_extra(extra: TextTree) -> str:
    from json import dumps

    return dumps(extra.plain(), ensure_ascii=False)


def pack_findings(findings: tuple[Finding, ...]) -> str:
    """Marks as one text."""
    return "\x1e".join(
        "\x1f".join(
            (finding.code, str(finding.line), "1" if finding.fatal else "", *_without_separators(finding.details))
        )
        for finding in findings
    )


def _without_separators(details: tuple[str, ...]) -> tuple[str, ...]:
    """Details come from files, and may contain the separators themselves."""
    return tuple(detail.translate(_REPLACED_SEPARATORS) for detail in details)


def unpack_findings(packed: str) -> tuple[Finding, ...]:
    """What was packed; an unknown code or a malformed record is left out."""
    findings = []
    for record in packed.split("\x1e"):
        code, *parts = record.split("\x1f")
        if code in CODE_MEANINGS and len(parts) >= 2 and parts[0].isdecimal():
            findings.append(Finding(code, int(parts[0]), tuple(parts[2:]), bool(parts[1])))
    return tuple(findings)


def _encode_requirements(requires: Requirements) -> str:
    """Requirements as JSON, without empty ones.  `{}` is not the empty text: it says that there are some."""
    from json import dumps

    return dumps({name: value for name, value in requires._asdict().items() if value})


_UNMEETABLE = Requirements(platforms=("unknown: the index is damaged",))
"""What a damaged entry requires: something that no machine has, so that damage never makes a skill eligible."""


def _decode_requirements(text: str) -> Requirements:
    from json import loads

    try:
        fields = loads(text)
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
        }
        return Requirements(**values)
    except (ValueError, TypeError, AttributeError):
        return _UNMEETABLE


# --- The database ---

READER_VERSION = 6
"""Raised whenever parsing changes: rows of an older reader are then ignored."""

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
    """Why an index can't be used, as a problem; `reason` is `damaged`, `locked` or `unwritable: why`."""
    if reason.startswith("unwritable: "):
        return problem_from(
            Finding("index-unwritable", 0, (reason.removeprefix("unwritable: "), path.rpartition("/")[0])), path
        )
    return problem_from(Finding("index-damaged" if reason == "damaged" else "index-locked"), path)


def root_tag(root: SkillRoot) -> str:
    """What a root's rows are kept under: its path, and everything that decides how its files are read."""
    return f"{READER_VERSION}\0{_dialect_fingerprint(root.origin.dialect)}\0{root.origin.path}"


@cache
def _dialect_fingerprint(dialect: Dialect) -> str:
    """All that decides how a file is read: the same in every process, and another one when any of it changes."""
    return repr(_stable_form(dialect.authoring))


def _stable_form(value: object) -> object:
    """A value whose `repr` does not depend on the order in which this process keeps a set."""
    if isinstance(value, tuple):
        return [_stable_form(item) for item in value]
    return sorted(value) if isinstance(value, frozenset) else value


def load_indexed(database: IndexDatabase | None, root: SkillRoot) -> IndexedSkills:
    """All that is remembered of a root."""
    query = f"SELECT {_COLUMNS} FROM skills WHERE root = (SELECT id FROM roots WHERE tag = ?) ORDER BY first"
    rows = database.rows(query, (root_tag(root),)) if database is not None else []
    return IndexedSkills(root.origin, valid_batches(rows))


def save_changes(database: IndexDatabase, root: SkillRoot, changes: Mapping[str, IndexEntry | None]) -> None:
    """Write entries that were read again and delete those that are gone (None), by folder, in one transaction.

    Only the batches that hold them are written, each merged with its current state: another process may have written
    in between.
    """
    with database.change() as change:
        change("INSERT OR IGNORE INTO roots (tag) VALUES (?)", (root_tag(root),))
        rows = database.rows("SELECT id FROM roots WHERE tag = ?", (root_tag(root),))
        if not rows:
            return  # the index is busy or gone; what was read is still correct
        number = rows[0][0]
        for first, mine in _changes_by_batch(database, number, changes).items():
            _rewrite_batch(database, change, (number, first), mine)


def _changes_by_batch(
    database: IndexDatabase, number: int, changes: Mapping[str, IndexEntry | None]
) -> dict[str, dict[str, IndexEntry | None]]:
    """The changes of each batch, by its first folder; what comes before all of them belongs to the very first."""
    from bisect import bisect_right

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

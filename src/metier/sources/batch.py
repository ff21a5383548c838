"""Many skills in one row of the index: a text for each field, taken apart for all of them at once."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress, repeat
from json import dumps, loads
from typing import Any, NamedTuple

from ..types.problem import pack, unpack
from ..types.skill import NOTHING_REQUIRED, Broken, Origin, Requirements, Skill
from ..types.tree import EMPTY

new = tuple.__new__

_USER, _MODEL, _ENABLED, _BROKEN, _TIDY = 1, 2, 4, 8, 16
"""The flags of an entry."""
_ORDINARY = _USER | _MODEL | _ENABLED
_LOADS = bytes(not flags & _BROKEN for flags in range(256))
_FAILS = bytes(bool(flags & _BROKEN) for flags in range(256))
_ODD = bytes(flags & ~_TIDY != _ORDINARY for flags in range(256))
_IS_TIDY = [bool(flags & _TIDY) for flags in range(256)]

_LONGEST = 16_384
"""What is longer than any sensible frontmatter is read each time; the index stays small."""
_APART = "\x1d"
"""Between the texts of a column; within one, packed marks have separators of their own."""
_TEXTS, _NUMBERS = 7, 4
_FAR = 1 << 63

_KEEPS, _MOST = 256, 512
"""A batch takes in up to the second number of skills, then it is cut into some of the first."""


class Entry(NamedTuple):
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


def entry_of(folder: str, item: Skill | Broken) -> Entry | None:
    """What is kept of a skill; None where it could not be taken apart again, so that it is read each time."""
    noted = pack(item.marks) if item.marks else ""
    if isinstance(item, Broken):
        entry = Entry(folder, item.name, "", "", "", "", noted, *item.key, _BROKEN)
    else:
        flags = item.user_may_invoke * _USER | item.model_may_invoke * _MODEL | item.enabled * _ENABLED
        requires = "" if item.requires is NOTHING_REQUIRED else _asked(item.requires)
        extra = item.extra.json() if item.extra else ""
        texts = (folder, item.name, item.description, item.argument_hint, requires, extra, noted)
        entry = new(Entry, (*texts, *item.key, flags | item.tidy * _TIDY))
    return entry if _fits(entry) else None


def _fits(entry: Entry) -> bool:
    text = "".join(entry[:_TEXTS])  # type: ignore[arg-type]
    times = abs(entry.modified), abs(entry.changed)
    if _APART in text or len(text) > _LONGEST or max(times) >= _FAR:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False  # a file name that is no text


class Batch(NamedTuple):
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
        return self[at].split(_APART)  # type: ignore[arg-type, return-value]

    def integers(self, at: int) -> list[int]:
        """An inode may use all its bits, a time may lie before 1970."""
        width = len(self.flags) * 8
        return memoryview(self.numbers)[at * width : at * width + width].cast("q" if at else "Q").tolist()

    def entries(self) -> Iterator[Entry]:
        columns: list[Iterable[Any]] = [*map(self.texts, range(_TEXTS)), *map(self.integers, range(_NUMBERS))]
        return map(Entry._make, zip(*columns, self.flags, strict=True))

    def is_whole(self) -> bool:
        """Whether it can be taken apart: what does not fit together is not believed."""
        *texts, numbers, flags = self
        if set(map(type, texts)) != {str} or type(numbers) is not bytes or type(flags) is not bytes or not flags:
            return False
        count = len(flags)
        return len(numbers) == count * _NUMBERS * 8 and all(text.count(_APART) == count - 1 for text in texts)


def whole(rows: Iterable[Iterable[Any]]) -> list[Batch]:
    """The rows that are to be believed."""
    return [batch for batch in map(Batch._make, rows) if batch.is_whole()]


def packed(entries: Sequence[Entry]) -> Batch:
    *columns, flags = zip(*entries, strict=True)
    texts = map(_APART.join, columns[:_TEXTS])
    integers = [array("q" if at else "Q", column) for at, column in enumerate(columns[_TEXTS:])]
    return Batch._make([*texts, b"".join(integers), bytes(flags)])


def parts(kept: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """The batches of what one batch has grown to."""
    step = _KEEPS if len(kept) > _MOST else _MOST
    return (kept[at : at + step] for at in range(0, len(kept), step))


@dataclass(frozen=True, eq=False)
class Known:
    """All that the index remembers of a root, in order of folders; each column is taken apart when it is wanted."""

    origin: Origin
    batches: Sequence[Batch] = ()

    def _column(self, at: int) -> list[str]:
        return list(chain.from_iterable([batch.texts(at) for batch in self.batches]))

    @cached_property
    def folders(self) -> list[str]:
        return self._column(0)

    @cached_property
    def keys(self) -> list[list[int]]:
        """Inodes, times of modification and of change, sizes."""
        return [list(chain.from_iterable([batch.integers(at) for batch in self.batches])) for at in range(_NUMBERS)]

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
    def broken(self) -> list[Broken]:
        places = list(compress(range(len(self._flags)), self._flags.translate(_FAILS)))
        marks = self._column(6) if places else []
        return [self._broken(at, marks[at]) for at in places]

    @cached_property
    def items(self) -> list[Skill | Broken]:
        """Every entry as the value it was made from, in order."""
        descriptions, hints, requires, extras, marks = map(self._column, (2, 3, 4, 5, 6))
        folders, before = self.folders, self.origin.path + "/"
        columns = zip(
            map(_last, folders) if any("/" in batch.folders for batch in self.batches) else folders,
            self._names, descriptions, [f"{before}{folder}/SKILL.md" for folder in folders],
            zip(*self.keys, strict=True), repeat(self.origin), hints,
            repeat(True), repeat(True), repeat(True), repeat(NOTHING_REQUIRED),
            [extra or EMPTY for extra in extras], [noted or () for noted in marks],
            map(_IS_TIDY.__getitem__, self._flags),
        )  # fmt: skip
        made: list[Skill | Broken] = list(map(new, repeat(Skill), columns))
        places, asked = range(len(made)), {text: _requirements(text) for text in set(requires)}
        for at in {*compress(places, requires), *compress(places, self._flags.translate(_ODD))}:
            skill, flags = made[at], self._flags[at]
            if isinstance(skill, Broken) or flags & _BROKEN:
                made[at] = self._broken(at, marks[at])
            else:
                made[at] = skill._replace(
                    user_may_invoke=bool(flags & _USER),
                    model_may_invoke=bool(flags & _MODEL),
                    enabled=bool(flags & _ENABLED),
                    requires=asked[requires[at]],
                )
        return made

    @cached_property
    def by_folder(self) -> Mapping[str, Skill | Broken]:
        return dict(zip(self.folders, self.items, strict=True))

    def _broken(self, at: int, marks: str) -> Broken:
        inode, modified, changed, size = [column[at] for column in self.keys]
        folder, path = self.folders[at], f"{self.origin.path}/{self.folders[at]}/SKILL.md"
        key = inode, modified, changed, size
        return Broken(_last(folder), path, key, self.origin, unpack(marks), self._names[at])


def _last(folder: str) -> str:
    return folder.rpartition("/")[2]


def _asked(requires: Requirements) -> str:
    """Requirements as a text, without what is not asked for; where nothing is, it is still said that they are there."""
    return dumps({name: one for name, one in vars(requires).items() if one})


_UNREADABLE = Requirements(platforms=("unknown: the index is damaged",))
"""What a damaged entry requires: something that no machine has."""


def _requirements(text: str) -> Requirements:
    if not text:
        return NOTHING_REQUIRED
    try:
        found = loads(text)
        asked: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in found.items()}
        return Requirements(**asked)
    except (ValueError, TypeError, AttributeError):
        return _UNREADABLE

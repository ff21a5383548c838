"""Look at every root once, in order of precedence, and bring the index up to date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

from ..host.clock import now_ns
from ..host.database import Database
from ..host.memory import making_many
from ..types.dialect import Limits
from ..types.place import Root
from ..types.problem import Mark, Problem, problem
from ..types.skill import Broken, Skill, StatKey
from .batch import Entry, Known, entry_of
from .directory import Finding, Reader, Visit, find
from .index import recall, remember

_SETTLED_NS = 50_000_000
"""A file younger than this may change again without its times showing it: it is not remembered yet."""


_COARSE_NS = 2_000_000_000
"""The same where the file system keeps whole seconds only."""


def is_settled(key: StatKey, at: int) -> bool:
    """Whether a file read at that time or later will show any further change in its key."""
    changed = max(key[1], key[2])
    return changed < at - (_SETTLED_NS if changed % 1_000_000_000 else _COARSE_NS)


class Shelf(Sequence[Skill]):
    """The skills of a look, in order.  What the index knows is made into a Skill when somebody wants one."""

    __slots__ = ("_made", "_runs")

    def __init__(self, runs: Sequence[Known | list[Skill]]) -> None:
        self._runs = runs
        self._made: tuple[Skill, ...] | None = None

    def _all(self) -> tuple[Skill, ...]:
        if self._made is None:
            made: list[Skill] = []
            for run in self._runs:
                made += run.skills if isinstance(run, Known) else run
            self._runs = [made]
            self._made = tuple(made)
        return self._made

    @property
    def names(self) -> tuple[str, ...]:
        found: list[str] = []
        for run in self._runs:
            found += run.names if isinstance(run, Known) else [skill.name for skill in run]
        return tuple(found)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._all())

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @overload
    def __getitem__(self, at: int) -> Skill: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Skill, ...]: ...
    def __getitem__(self, at: int | slice) -> Skill | tuple[Skill, ...]:
        return self._all()[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


class Seen(NamedTuple):
    skills: Shelf
    broken: tuple[Broken, ...]
    problems: tuple[Problem, ...]
    guards: tuple[tuple[str, StatKey | None], ...]


def look(roots: Sequence[Root], limits: Limits, database: Database | None, read: Reader) -> Seen:
    """Every skill and every broken one; `read` makes a skill of what the index does not know."""
    with making_many():
        return _look(roots, limits, database, read)


def _look(roots: Sequence[Root], limits: Limits, database: Database | None, read: Reader) -> Seen:
    visit = Visit(limits)
    runs: list[Known | list[Skill]] = []
    broken: list[Broken] = []
    loaded: dict[str, int] = {}
    left_out: dict[str, list[str]] = {}
    for root in roots:
        began = now_ns()
        known = recall(database, root)
        finding = find(root, visit, known, read)
        tier = root.origin.tier
        mine = _loaded(finding.items, broken)
        room = limits.skills - loaded.get(tier, 0)
        if len(mine) > room:
            every = mine.skills if isinstance(mine, Known) else mine
            left_out.setdefault(tier, []).extend(skill.id for skill in every[room:])
            mine = every[:room]
        loaded[tier] = loaded.get(tier, 0) + len(mine)
        if mine:
            runs.append(mine)
        if database is not None and (changes := _changes(root, known, finding, began)):
            remember(database, root, changes)
    for tier, ids in left_out.items():
        details = (tier, str(limits.skills), str(len(ids)), ids[0])
        visit.problems.append(problem(Mark("limit-skills", 0, details)))
    return Seen(Shelf(runs), tuple(broken), tuple(visit.problems), tuple(visit.guards))


def _loaded(items: list[Skill | Broken] | Known, broken: list[Broken]) -> Known | list[Skill]:
    """What loads, as it came; what does not is added to the broken."""
    if isinstance(items, Known):
        broken += items.broken
        return items
    if set(map(type, items)) <= {Skill}:
        return items  # type: ignore[return-value]
    broken += [item for item in items if isinstance(item, Broken)]
    return [item for item in items if isinstance(item, Skill)]


def _changes(root: Root, known: Known, finding: Finding, began: int) -> dict[str, Entry | None]:
    """What the index should learn, and forget, by folder."""
    if isinstance(finding.items, Known):
        return {}
    cut = len(root.origin.path) + 1
    there = {item.path[cut:].rpartition("/")[0] for item in finding.items}
    before = set(known.folders)
    changes: dict[str, Entry | None] = dict.fromkeys(before - there)
    for item in finding.fresh:
        if item.origin is root.origin and is_settled(item.key, began):
            folder = item.path[cut:].rpartition("/")[0]
            entry = entry_of(folder, item)
            if entry is not None or folder in before:
                changes[folder] = entry
    return changes

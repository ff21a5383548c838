"""Look at every root once, in order of precedence, and bring the index up to date."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

from ..host.clock import now_ns
from ..host.database import Database
from ..host.memory import making_many
from ..types.dialect import Limits
from ..types.place import Root
from ..types.problem import Mark, Problem, problem
from ..types.skill import Broken, Origin, Skill, StatKey
from .directory import Finding, Reader, Visit, find
from .index import BROKEN, Row, name_in, recall, remember, revive

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

    def __init__(self, runs: Sequence[tuple[Origin, Sequence[Skill | Row]]]) -> None:
        self._runs = runs
        self._made: tuple[Skill, ...] | None = None

    def _all(self) -> tuple[Skill, ...]:
        if self._made is None:
            made: list[Skill] = []
            for origin, items in self._runs:
                before = origin.path + "/"
                made += (
                    items
                    if _only_skills(items)
                    else [
                        item if type(item) is Skill else revive(item, origin, f"{before}{item[0]}/SKILL.md")  # type: ignore[arg-type, misc]
                        for item in items
                    ]
                )
            self._made = tuple(made)
        return self._made

    @property
    def names(self) -> tuple[str, ...]:
        if self._made is not None:
            return tuple([skill.name for skill in self._made])
        return tuple(
            [
                item.name if type(item) is Skill else name_in(item)  # type: ignore[arg-type]
                for _, items in self._runs
                for item in items
            ]
        )

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._all())

    def __len__(self) -> int:
        return sum(len(items) for _, items in self._runs)

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


def _only_skills(items: Iterable[object]) -> bool:
    return set(map(type, items)) <= {Skill}


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
    runs: list[tuple[Origin, Sequence[Skill | Row]]] = []
    broken: list[Broken] = []
    loaded: dict[str, int] = {}
    left_out: dict[str, list[str]] = {}
    for root in roots:
        began = now_ns()
        rows = recall(database, root)
        finding = find(root, visit, rows, read)
        tier = root.origin.tier
        mine = _loaded(root, finding, broken)
        room = limits.skills - loaded.get(tier, 0)
        if len(mine) > room:
            left_out.setdefault(tier, []).extend(
                item.id if isinstance(item, Skill) else item[0].rpartition("/")[2] for item in mine[room:]
            )
            mine = mine[:room]
        loaded[tier] = loaded.get(tier, 0) + len(mine)
        if mine:
            runs.append((root.origin, mine))
        if database is not None and (finding.fresh or len(finding.items) < len(rows)):
            _update(database, root, rows, finding, began)
    for tier, ids in left_out.items():
        details = (tier, str(limits.skills), str(len(ids)), ids[0])
        visit.problems.append(problem(Mark("limit-skills", 0, details)))
    return Seen(Shelf(runs), tuple(broken), tuple(visit.problems), tuple(visit.guards))


def _loaded(root: Root, finding: Finding, broken: list[Broken]) -> list[Skill | Row]:
    """What loads, as it came; what does not is added to the broken."""
    kinds = set(map(type, finding.items))
    if kinds <= {Skill}:
        return finding.items  # type: ignore[return-value]
    if kinds <= {Skill, Broken}:
        broken += [item for item in finding.items if type(item) is Broken]
        return [item for item in finding.items if type(item) is Skill]
    if kinds == {tuple} and not any(row[5] & BROKEN for row in finding.items):  # type: ignore[operator, index]
        return finding.items  # type: ignore[return-value]
    mine: list[Skill | Row] = []
    for item in finding.items:
        if isinstance(item, Broken):
            broken.append(item)
        elif isinstance(item, Skill) or not item[5] & BROKEN:
            mine.append(item)
        else:
            made = revive(item, root.origin, f"{root.origin.path}/{item[0]}/SKILL.md")
            broken += [made] if isinstance(made, Broken) else []
    return mine


def _folder_of(item: Skill | Broken | Row, cut: int) -> str:
    return item.path[cut:].rpartition("/")[0] if isinstance(item, Skill | Broken) else item[0]


def _update(database: Database, root: Root, before: Iterable[str], finding: Finding, began: int) -> None:
    cut = len(root.origin.path) + 1
    lasting = [item for item in finding.fresh if item.origin is root.origin and is_settled(item.key, began)]
    there = {_folder_of(item, cut) for item in finding.items}
    remember(database, root, lasting, [name for name in before if name not in there], cut)

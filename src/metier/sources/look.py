"""Look at every root once, in order of precedence, and bring the index up to date."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..host.clock import now_ns
from ..host.database import Database
from ..types.dialect import Limits
from ..types.place import Root
from ..types.problem import Mark, Problem, problem
from ..types.skill import Broken, Skill, StatKey
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


class Seen(NamedTuple):
    skills: tuple[Skill, ...]
    broken: tuple[Broken, ...]
    problems: tuple[Problem, ...]
    guards: tuple[tuple[str, StatKey | None], ...]


def look(roots: Sequence[Root], limits: Limits, database: Database | None, read: Reader) -> Seen:
    """Every skill and every broken one; `read` makes a skill of what the index does not know."""
    collecting = gc.isenabled()
    gc.disable()  # nothing made here is garbage, and looking for some takes a fifth of the time
    try:
        return _look(roots, limits, database, read)
    finally:
        if collecting:
            gc.enable()


def _look(roots: Sequence[Root], limits: Limits, database: Database | None, read: Reader) -> Seen:
    visit = Visit(limits)
    skills: list[Skill] = []
    broken: list[Broken] = []
    loaded: dict[str, int] = {}
    left_out: dict[str, list[str]] = {}
    for root in roots:
        began = now_ns()
        rows = recall(database, root)
        finding = find(root, visit, rows, read)
        tier = root.origin.tier
        mine = [item for item in finding.items if type(item) is Skill]
        broken += [item for item in finding.items if type(item) is Broken]
        room = limits.skills - loaded.get(tier, 0)
        if len(mine) > room:
            left_out.setdefault(tier, []).extend(skill.id for skill in mine[room:])
            mine = mine[:room]
        loaded[tier] = loaded.get(tier, 0) + len(mine)
        skills += mine
        if database is not None and (finding.fresh or len(finding.items) < len(rows)):
            _update(database, root, rows, finding, began)
    for tier, ids in left_out.items():
        details = (tier, str(limits.skills), str(len(ids)), ids[0])
        visit.problems.append(problem(Mark("limit-skills", 0, details)))
    return Seen(tuple(skills), tuple(broken), tuple(visit.problems), tuple(visit.guards))


def _update(database: Database, root: Root, before: Iterable[str], finding: Finding, began: int) -> None:
    cut = len(root.origin.path) + 1
    lasting = [item for item in finding.fresh if item.origin is root.origin and is_settled(item.key, began)]
    there = {item.path[cut:].rpartition("/")[0] for item in finding.items}
    remember(database, root, lasting, [name for name in before if name not in there], cut)

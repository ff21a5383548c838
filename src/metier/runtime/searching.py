"""Searching a library: the index is brought up to date, the engines are asked, and skills come back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING
from zlib import crc32

from ..catalog import rank as ranking
from ..catalog.cards import card
from ..host import files
from ..host.clock import monotonic
from ..host.database import Database, memory_database, open_database
from ..parse.card import card_of_file
from ..sources import index, search
from ..sources.search import Made
from ..types.errors import OutsideSkill
from ..types.problem import FAMILIES, Problem
from ..types.search import Card, Ranked
from ..types.skill import Skill

if TYPE_CHECKING:
    from .library import Library

_LOOKED_FOR = 16
"""So many terms of a request are looked for; all of them count in the score."""
_CANDIDATES = 150
_MOST_CANDIDATES = 6_400
_EXPLAINED = 25
"""So many answers say which terms they have."""
_BATCH = 200
"""Skills in one transaction: nobody waits long for the index."""
PATIENCE = 0.3
"""Seconds that one search spends reading bodies it has not seen yet; the next one goes on from there."""


@dataclass(frozen=True)
class Lexical:
    """The words of a request against the cards in the index."""

    database: Database
    among: Collection[str]
    """The paths of the skills that may be found: one index serves many places."""
    total: int
    usual: Mapping[str, float]
    name: str = "lexical"

    def rank(self, request: str, most: int) -> Sequence[Ranked]:
        weighed, found = self._asked(request, most)
        worth = ranking.scores(weighed, [one for _, one in found])
        best = sorted(zip(worth, found, strict=True), key=lambda one: (-one[0], one[1][0]))[:most]
        explained = [ranking.explained(weighed, one) for _, (_, one) in best[:_EXPLAINED]]
        first = sum(bool(one.fields) for one in explained[0]) if explained else 0
        clear = ranking.applies([score for score, _ in best], first, self.total)
        return [
            Ranked(path, score, clear and score >= best[0][0] / 2, explained[at] if at < _EXPLAINED else ())
            for at, (score, (path, _)) in enumerate(best)
        ]

    def loses(self, request: str, owner: str, newcomer: str, card: Card) -> bool:
        """Whether a skill that is first for a request would not be if there were this card."""
        weighed, found = self._asked(request, 10)
        others = [one for one in found if one[0] != newcomer]
        *worth, new = ranking.scores(weighed, [*(one for _, one in others), card])
        first = max(zip(worth, others, strict=True), key=lambda one: one[0], default=None)
        return first is not None and first[1][0] == owner and new > first[0]

    def likeliest(self, request: str, most: int) -> list[str]:
        """The paths of candidates, before they are scored."""
        return [path for path, _ in self._asked(request, most)[1]][:most]

    def _asked(self, request: str, most: int) -> tuple[ranking.Weighed, list[search.Candidate]]:
        asked = ranking.question(request)
        common = search.frequencies(self.database, asked.weights)
        weighed = ranking.weighed(asked, common, self.usual, self.total)
        terms = search.affordable(list(islice(weighed.terms, _LOOKED_FOR)), common)
        return weighed, self._candidates(terms, most)

    def _candidates(self, terms: Sequence[str], most: int) -> list[search.Candidate]:
        """The likeliest of this place's own skills; other places' are passed over."""
        wanted = max(_CANDIDATES, most + 50)
        asked = wanted
        while True:
            rows = search.candidates(self.database, terms, asked)
            mine = [one for one in rows if one[0] in self.among]
            if len(mine) >= wanted or len(rows) < asked or asked >= _MOST_CANDIDATES:
                return mine[:wanted]
            asked *= 4


@dataclass(frozen=True)
class Plain:
    """The same words in the order that the index alone would give: what the scores are measured against."""

    words: Lexical
    name: str = "plain"

    def rank(self, request: str, most: int) -> Sequence[Ranked]:
        return [Ranked(path, float(-at)) for at, path in enumerate(self.words.likeliest(request, most))]


def lexical(library: Library) -> Lexical:
    """The lexical engine over an index in memory, made anew: names and descriptions only, so that nobody waits."""
    database = memory_database(index.SCHEMA)
    catch_up(library, database, lambda: False)
    return _engine(library, database)


def stored(library: Library, patience: float = PATIENCE) -> tuple[Lexical | None, Problem | None]:
    """The lexical engine over the library's own index, or why it can't be used; neither where it has none."""
    database = library.database
    if database is None:
        return None, next((one for one in library.problems if one.code in FAMILIES["index"]), None)
    own = writer(database)
    fault = "locked" if own is None else ""
    if own is not None:
        until = monotonic() + patience
        catch_up(library, own, lambda: monotonic() < until)
        fault = own.silent
        own.close()
    engine = _engine(library, database)
    fault = fault or database.silent
    if not fault:
        return engine, None
    return None, index.fault(fault, database.path)


def _engine(library: Library, database: Database) -> Lexical:
    total = search.total(database)
    usual = ranking.usual(search.common(database, total // 100), total)
    return Lexical(database, frozenset(skill.path for skill in library.skills), total, usual)


def writer(database: Database) -> Database | None:
    """A connection of its own to write with: if it must give up, reading goes on."""
    return open_database(database.path, index.SCHEMA, index.READER)[0]


def catch_up(library: Library, database: Database, go_on: Callable[[], bool]) -> int:
    """Make the cards those of this library, then read bodies while told to: how many are left to read."""
    there = search.kept(database)
    marks = {skill.path: mark_of(skill) for skill in library.skills}
    new = [skill for skill in library.skills if there.get(skill.path, _NONE).mark != marks[skill.path]]
    roots = tuple(root.origin.path + "/" for root in library.roots)
    gone = [path for path in there if path.startswith(roots) and path not in marks]
    for batch in _batches(new):
        made = [Made(one.path, marks[one.path], False, card(one.name, one.description)) for one in batch]
        search.keep(database, made, gone)
        gone = []
    if gone:
        search.keep(database, (), gone)
    fresh = {skill.path for skill in new}
    unread = [one for one in library.skills if one.path in fresh or not there[one.path].whole]
    done = 0
    for batch in _batches(unread):
        if not go_on() or database.silent:
            break
        search.keep(database, [_read(library, one, marks[one.path]) for one in batch])
        done += len(batch)
    return len(unread) - done


_NONE = search.Kept(0, "", False)


def _batches(skills: Sequence[Skill]) -> Iterator[Sequence[Skill]]:
    return (skills[at : at + _BATCH] for at in range(0, len(skills), _BATCH))


def mark_of(skill: Skill) -> str:
    """What changes when the file does, or how it is read."""
    text = f"{skill.name}\0{skill.description}".encode("utf-8", "surrogatepass")
    return f"{'.'.join(map(str, skill.key))}.{crc32(text):08x}"


def _read(library: Library, skill: Skill, mark: str) -> Made:
    """A skill's whole card; what can't be read has no more than its head."""
    more = ""
    folder, _, name = skill.path.rpartition("/")
    try:
        data = library.kept.get(skill.path) or files.read_skill_file(folder, name, library.limits.file_bytes)[1]
        more = card_of_file(data, skill.origin.dialect.authoring.indented)
    except (OSError, OutsideSkill):
        pass
    return Made(skill.path, mark, True, card(skill.name, skill.description, more))

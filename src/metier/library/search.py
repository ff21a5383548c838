"""Search over the skills of a library: by words, by meaning where that is configured, and both fused.

The lexical engine takes candidates from SQLite's FTS index and scores them with `catalog.rank`, which weighs fields,
holds back descriptions stuffed with keywords and can say which terms matched.  The index is filled in slices: names and
descriptions at once, bodies as long as a search has patience for, so that the first search of a large library answers
quickly and later ones answer better.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from zlib import crc32

from ..catalog import rank as ranking
from ..catalog.cards import make_card
from ..catalog.commands import pick_commands
from ..catalog.rank import fuse_rankings, ranks_by_path
from ..host import files
from ..host.facts import monotonic
from ..host.sqlite import IndexDatabase, memory_database, open_database
from ..light_typing import TYPE_CHECKING, NamedTuple, get_args
from ..parse.card import card_of_file
from ..sources import index
from ..types.catalog import SlashCommand
from ..types.errors import BadRequest, OutsideSkill
from ..types.problem import CODE_FAMILIES, Problem
from ..types.search import Audience, RankedSkill, SearchCard, SearchEngine, SearchHit, TextEncoder
from ..types.skill import Skill
from ..types.verdict import Verdict
from . import search_index
from .search_index import NewCard

if TYPE_CHECKING:
    from .library import Library


_MAX_TERMS = 40
"""Terms of a request that select candidates, the most telling ones; every term counts in the score."""
_MIN_CANDIDATES = 150
_MAX_CANDIDATES = 6_400
_CLEAR_CONFIDENCE = 0.5
"""From which confidence a request counts as one for a skill."""
_MAX_EXPLAINED = 25
"""Results that carry an explanation of the matched terms."""
_BATCH_SIZE = 200
"""Skills per transaction: short enough that other processes do not wait long for the index."""
PATIENCE = 0.3
"""Seconds that one search spends reading bodies that are not indexed yet; the next search continues from there."""


class LexicalEngine(NamedTuple):
    """Matches the words of a request with the cards in the index."""

    database: IndexDatabase
    among: Collection[str]
    """The paths of the skills that may be found: one index serves many places."""
    total: int
    usual: Mapping[str, float]
    name: str = "lexical"

    def rank(self, request: str, most: int) -> Sequence[RankedSkill]:
        weighed, candidates = self._candidates(request, most)
        cards = [skill_card for _, skill_card in candidates]
        parts = ranking.score_parts(weighed, cards)
        scores = ranking.combine_parts(weighed, parts, cards)
        best = sorted(range(len(scores)), key=lambda at: (-scores[at], candidates[at][0]))
        explained = [ranking.explain_match(weighed, cards[at]) for at in best[: min(most, _MAX_EXPLAINED)]]
        matched = [term.term for term in explained[0] if term.fields] if explained else []
        # "Clear" is for skills that really fit: half the best score, of a request that fits any skill at all.
        clear = ranking.request_confidence(weighed, [parts[at] for at in best[:5]], matched) >= _CLEAR_CONFIDENCE
        return [
            RankedSkill(
                candidates[at][0],
                scores[at],
                clear and scores[at] >= scores[best[0]] / 2,
                explained[place] if place < len(explained) else (),
            )
            for place, at in enumerate(best[:most])
        ]

    def loses(self, request: str, owner: str, newcomer: str, card: SearchCard) -> bool:
        """Whether the owner ranks first for a request now, and would not with the newcomer's card."""
        weighed, candidates = self._candidates(request, 10)
        others = [candidate for candidate in candidates if candidate[0] != newcomer]
        *scores, new = ranking.score_cards(weighed, [*(other_card for _, other_card in others), card])
        first = max(zip(scores, others, strict=True), key=lambda pair: pair[0], default=None)
        return first is not None and first[1][0] == owner and new > first[0]

    def likeliest(self, request: str, most: int) -> list[str]:
        """The paths of candidates in the order of the index, before they are scored."""
        return [path for path, _ in self._candidates(request, most)[1]][:most]

    def _candidates(self, request: str, most: int) -> tuple[ranking.WeightedQuery, list[search_index.CandidateCard]]:
        query = ranking.parse_query(request)
        common = search_index.term_frequencies(self.database, query.weights)
        weighed = ranking.weigh_query(query, common, self.usual, self.total)
        terms = search_index.affordable_terms(list(islice(weighed.terms, _MAX_TERMS)), common)
        return weighed, self._select_candidates(terms, most)

    def _select_candidates(self, terms: Sequence[str], most: int) -> list[search_index.CandidateCard]:
        """The likeliest skills of this place; those of other places in the index are skipped."""
        needed = max(_MIN_CANDIDATES, most + 50)
        limit = needed
        while True:  # ask for more until enough of them are this place's
            rows = search_index.candidate_cards(self.database, terms, limit)
            mine = [row for row in rows if row[0] in self.among]
            if len(mine) >= needed or len(rows) < limit or limit >= _MAX_CANDIDATES:
                return mine[:needed]
            limit *= 4


class IndexOrderEngine(NamedTuple):
    """The order that the index alone would give: a baseline to measure the scores against."""

    words: LexicalEngine
    name: str = "plain"

    def rank(self, request: str, most: int) -> Sequence[RankedSkill]:
        return [RankedSkill(path, float(-at)) for at, path in enumerate(self.words.likeliest(request, most))]


def open_memory_engine(library: Library) -> LexicalEngine:
    """The lexical engine over a new index in memory: names and descriptions only, because bodies take too long."""
    database = memory_database(index.SCHEMA)
    update_index(library, database, lambda: False)
    return _lexical_engine(library, database)


def open_stored_engine(library: Library, patience: float = PATIENCE) -> tuple[LexicalEngine | None, Problem | None]:
    """The lexical engine over the library's own index, or why it can't be used; (None, None) without an index."""
    database = library.database
    if database is None:
        return None, next((problem for problem in library.problems if problem.code in CODE_FAMILIES["index"]), None)
    connection = open_writer(database)
    fault = "locked" if connection is None else ""
    if connection is not None:
        deadline = monotonic() + patience
        update_index(library, connection, lambda: monotonic() < deadline)
        fault = connection.silent
        connection.close()
    engine = _lexical_engine(library, database)
    fault = fault or database.silent
    if not fault:
        return engine, None
    return None, index.index_problem(fault, database.path)


def _lexical_engine(library: Library, database: IndexDatabase) -> LexicalEngine:
    total = search_index.count_cards(database)
    usual = ranking.usual_weights(search_index.common_terms(database, total // 100), total)
    return LexicalEngine(database, frozenset(skill.path for skill in library.skills), total, usual)


def open_writer(database: IndexDatabase) -> IndexDatabase | None:
    """A separate connection for writing: if writing has to stop, reading continues."""
    return open_database(database.path, index.SCHEMA, index.READER_VERSION)[0]


def update_index(library: Library, database: IndexDatabase, go_on: Callable[[], bool]) -> int:
    """Bring the cards in line with this library, then read bodies while `go_on()`; returns how many are left."""
    indexed = search_index.indexed_cards(database)
    stamps = {skill.path: index_stamp(skill) for skill in library.skills}
    new = [skill for skill in library.skills if indexed.get(skill.path, _NOT_INDEXED).mark != stamps[skill.path]]
    roots = tuple(root.origin.path + "/" for root in library.roots)
    # Cards below other roots belong to other places, and stay.
    gone = [path for path in indexed if path.startswith(roots) and path not in stamps]
    for batch in _split_batches(new):
        rows = [
            NewCard(skill.path, stamps[skill.path], False, make_card(skill.name, skill.description)) for skill in batch
        ]
        search_index.save_cards(database, rows, gone)
        gone = []
    if gone:
        search_index.save_cards(database, (), gone)
    fresh = {skill.path for skill in new}
    unread = [skill for skill in library.skills if skill.path in fresh or not indexed[skill.path].whole]
    read_count = 0
    for batch in _split_batches(unread):
        if not go_on() or database.silent:
            break
        search_index.save_cards(database, [_read_card(library, skill, stamps[skill.path]) for skill in batch])
        read_count += len(batch)
    return len(unread) - read_count


_NOT_INDEXED = search_index.IndexedCard(0, "", False)


def _split_batches(skills: Sequence[Skill]) -> Iterator[Sequence[Skill]]:
    return (skills[at : at + _BATCH_SIZE] for at in range(0, len(skills), _BATCH_SIZE))


def index_stamp(skill: Skill) -> str:
    """Changes when the file changes, or how it is read."""
    text = f"{skill.name}\0{skill.description}".encode("utf-8", "surrogatepass")
    return f"{'.'.join(map(str, skill.key))}.{crc32(text):08x}"


def _read_card(library: Library, skill: Skill, stamp: str) -> NewCard:
    """A skill's card with its body; without one if the file can't be read."""
    body = ""
    folder, _, name = skill.path.rpartition("/")
    try:
        data = library.kept.get(skill.path) or files.read_skill_file(folder, name, library.limits.file_bytes)[1]
        body = card_of_file(data, skill.origin.dialect.authoring.indented)
    except (OSError, OutsideSkill):
        pass
    return NewCard(skill.path, stamp, True, make_card(skill.name, skill.description, body))


# --- Searching by meaning ---

DENSE_PATIENCE = 1.0
"""Seconds that one search spends encoding skills that have no vector yet."""
_VECTOR_BATCH = 16
"""Vectors per transaction: each takes about twenty milliseconds to compute."""


class DenseEngine(NamedTuple):
    """Compares a request with the vectors of skills."""

    encoder: TextEncoder
    paths: tuple[str, ...]
    vectors: tuple[bytes, ...]
    name: str = "dense"

    def rank(self, request: str, most: int) -> Sequence[RankedSkill]:
        similarities = self.encoder.nearest(request, self.vectors)
        best = sorted(zip(similarities, self.paths, strict=True), key=lambda pair: (-pair[0], pair[1]))[:most]
        return [RankedSkill(path, similarity) for similarity, path in best]


def open_dense_engine(library: Library, lexical: LexicalEngine, encoder: TextEncoder, patience: float) -> DenseEngine:
    """The dense engine over the same index; it encodes for `patience` seconds and uses the vectors that exist."""
    connection = open_writer(lexical.database) if lexical.database.path else lexical.database
    if connection is not None:
        deadline = monotonic() + patience
        encode_pending(library, connection, encoder, lambda: monotonic() < deadline)
        if connection is not lexical.database:
            connection.close()
    stored_vectors = [
        (path, vector) for path, vector in search_index.read_vectors(lexical.database) if path in lexical.among
    ]
    return DenseEngine(
        encoder, tuple(path for path, _ in stored_vectors), tuple(vector for _, vector in stored_vectors)
    )


def _skill_text(skill: Skill) -> str:
    return f"{skill.name.replace('-', ' ')}: {skill.description}"


def encode_pending(library: Library, database: IndexDatabase, encoder: TextEncoder, go_on: Callable[[], bool]) -> int:
    """Encode skills without a vector while `go_on()`; returns how many are left."""
    lacking = search_index.paths_without_vector(database)
    pending = [skill for skill in library.skills if skill.path in lacking]
    encoded = 0
    while encoded < len(pending) and go_on() and not database.silent:
        batch = pending[encoded : encoded + _VECTOR_BATCH]
        search_index.save_vectors(
            database,
            [(skill.path, index_stamp(skill), encoder.encode(_skill_text(skill))) for skill in batch],
        )
        encoded += len(batch)
    return len(pending) - encoded


# --- Fusing the engines ---

_WEIGHTS = {"lexical": 2.0}
"""Weights in a fusion; every other engine has 1."""
_EXTRA_DEPTH = 50
"""How many more results each engine is asked for: some may not be shown to this audience."""


class SkillFinder(NamedTuple):
    """The engines over the skills of one library, asked together."""

    verdicts: Mapping[str, Verdict]
    """By the path of the skill's file."""
    engines: tuple[SearchEngine, ...]
    beside: tuple[SearchEngine, ...] = ()
    """Engines that contribute no result: they are only compared with the others."""
    fault: Problem | None = None
    """Why the index could not be used; the engines then work without it, and slower."""

    def search(self, query: str, limit: int = 10, audience: Audience = "model") -> tuple[SearchHit, ...]:
        if limit < 0:
            raise BadRequest("limit must be 0 or more", "pass a number from 0 up")
        if audience not in get_args(Audience):
            raise BadRequest(f"`{audience}` is not an audience", "one of: " + ", ".join(get_args(Audience)))
        rankings = {engine.name: engine.rank(query, limit + _EXTRA_DEPTH) for engine in self.engines}
        best = next(iter(rankings.values())) if len(rankings) == 1 else fuse_rankings(rankings, _WEIGHTS)
        engine_ranks = ranks_by_path(rankings)
        hits: list[SearchHit] = []
        for ranked in best:
            verdict = self.verdicts.get(ranked.path)
            if len(hits) >= limit:
                break
            if verdict is not None and (audience == "person" or model_may_see(verdict)):
                skill = verdict.skill
                hits.append(
                    SearchHit(
                        skill, len(hits) + 1, ranked.score, ranked.clear, ranked.matched, engine_ranks[ranked.path]
                    )
                )
        return tuple(hits)

    def shadow(self, query: str, most: int = 50) -> dict[str, tuple[str, ...]]:
        """What each engine alone would return, including those outside the fusion: paths, best first."""
        every = (*self.engines, *self.beside)
        return {engine.name: tuple(ranked.path for ranked in engine.rank(query, most)) for engine in every}


def model_may_see(verdict: Verdict) -> bool:
    """Whether the model's catalog may list this skill."""
    skill = verdict.skill
    hides = skill.origin.dialect.authoring.user_invocable_hides
    return verdict.usable and skill.model_may_invoke and (skill.user_may_invoke or not hides)


def open_finder(library: Library, patience: float | None = None) -> SkillFinder:
    """The engines of a library: lexical always, dense too if it is configured."""
    verdicts = {verdict.skill.path: verdict for verdict in library.verdicts}
    word_engine, fault = open_stored_engine(library) if patience is None else open_stored_engine(library, patience)
    # The index is locked or damaged: search names and descriptions in memory instead.
    if word_engine is None:
        word_engine = open_memory_engine(library)
    engines: tuple[SearchEngine, ...] = (word_engine,)
    if library.settings.dense:
        from .encoder import load_encoder

        engines = (
            word_engine,
            open_dense_engine(library, word_engine, load_encoder(), DENSE_PATIENCE if patience is None else patience),
        )
    return SkillFinder(verdicts, engines, (IndexOrderEngine(word_engine),), fault)


def nearest_names(library: Library, name: str) -> tuple[str, ...]:
    """Names with a similar spelling; if there are none and there is an index, skills about these words."""
    from difflib import get_close_matches

    names = dict.fromkeys([*(skill.name for skill in library.skills), *(broken.id for broken in library.broken)])
    folded = {candidate.lower(): candidate for candidate in names}
    close = [folded[candidate] for candidate in get_close_matches(name.lower(), folded, 3, 0.6)]
    if not close and library.database is not None:
        query = name.replace("-", " ").replace("_", " ")
        close = [hit.skill.name for hit in library.search(query, limit=3, audience="person") if hit.clear]
    return tuple(dict.fromkeys(close))


def matching_commands(library: Library, typed: str, limit: int) -> tuple[SlashCommand, ...]:
    """Commands for what a person has typed so far: by letters first, then by what their skills are for."""
    table = library.commands()
    query = typed.removeprefix("/")
    about = [hit.skill.path for hit in library.search(query, limit=limit, audience="person")] if " " in query else []
    return pick_commands(table, query, about)[:limit]


# --- Indexing in the background ---


class BackgroundIndexer:
    """Fills the index of a library in a thread of its own."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metier-index", daemon=True)
        self.left = -1
        """How many skills were left to read when it ended; -1 until then."""

    def start(self) -> BackgroundIndexer:
        self._thread.start()
        return self

    def stop(self, patience: float | None = None) -> None:
        """Stop after the current batch, and wait for that."""
        self._stop.set()
        self._thread.join(patience)

    def wait(self, patience: float | None = None) -> bool:
        """Wait for the end; returns whether it came within `patience`."""
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        stored = self._library.database
        if stored is None:
            return
        # SQLite connections do not cross threads.
        connection, _ = open_database(stored.path, index.SCHEMA, index.READER_VERSION)
        if connection is None:
            return
        try:
            self.left = update_index(self._library, connection, self._go_on)
            if self._library.settings.dense and self._go_on():
                from .encoder import load_encoder

                self.left += encode_pending(self._library, connection, load_encoder(), self._go_on)
        finally:
            connection.close()

    def _go_on(self) -> bool:
        return not self._stop.is_set()


def start_indexing(library: Library) -> BackgroundIndexer:
    """Start to fill the index of a library; searching and listing continue meanwhile."""
    return BackgroundIndexer(library).start()

"""The engine of the extra `dense`: skills by what they mean, in whatever words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..host.clock import monotonic
from ..host.database import Database
from ..sources import search
from ..types.search import Encoder, Ranked
from ..types.skill import Skill
from .searching import Lexical, mark_of, writer

if TYPE_CHECKING:
    from .library import Library

PATIENCE = 1.0
"""Seconds that one search spends making vectors it has not seen yet."""
_BATCH = 16
"""Vectors in one transaction: each takes some twenty milliseconds to make."""


@dataclass(frozen=True)
class Dense:
    """A request against the vectors of skills."""

    encoder: Encoder
    paths: tuple[str, ...]
    vectors: tuple[bytes, ...]
    name: str = "dense"

    def rank(self, request: str, most: int) -> Sequence[Ranked]:
        worth = self.encoder.nearest(request, self.vectors)
        best = sorted(zip(worth, self.paths, strict=True), key=lambda one: (-one[0], one[1]))[:most]
        return [Ranked(path, near) for near, path in best]


def dense(library: Library, lexical: Lexical, encoder: Encoder, patience: float) -> Dense:
    """The engine over the same index; it makes vectors for so many seconds, and knows those that are made."""
    own = writer(lexical.database) if lexical.database.path else lexical.database
    if own is not None:
        until = monotonic() + patience
        encode_more(library, own, encoder, lambda: monotonic() < until)
        if own is not lexical.database:
            own.close()
    made = [(path, vector) for path, vector in search.vectors(lexical.database) if path in lexical.among]
    return Dense(encoder, tuple(path for path, _ in made), tuple(vector for _, vector in made))


def _said(skill: Skill) -> str:
    return f"{skill.name.replace('-', ' ')}: {skill.description}"


def encode_more(library: Library, database: Database, encoder: Encoder, go_on: Callable[[], bool]) -> int:
    """Make vectors while told to: how many are left to make."""
    lacking = search.without_vector(database)
    wanted = [skill for skill in library.skills if skill.path in lacking]
    done = 0
    while done < len(wanted) and go_on() and not database.silent:
        batch = wanted[done : done + _BATCH]
        search.keep_vectors(
            database,
            [
                (one.path, mark_of(one), encoder.encode(f"{one.name.replace('-', ' ')}: {one.description}"))
                for one in batch
            ],
        )
        done += len(batch)
    return len(wanted) - done

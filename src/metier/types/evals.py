"""Evals: what a skill is tried with, what must be true afterwards, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias, TypeVar

Kind: TypeAlias = Literal["model", "file", "json", "matches", "contains", "command"]
"""How a check is decided: by a model, or without one."""
Arm: TypeAlias = Literal["with_skill", "without_skill", "old_skill"]
"""What a run could use: the skill as it is, no skill at all, or the skill as it was."""
Spelling: TypeAlias = Literal["assertions", "expectations"]


@dataclass(frozen=True)
class Check:
    """One thing that must be true after a run."""

    text: str
    """What is claimed, for a person or a model to read."""
    kind: Kind = "model"
    file: str = ""
    """The file that it is about, `*` and `?` allowed; empty is the answer."""
    wanted: str = ""
    """A regular expression, a text, a command, or where in a JSON document to look."""
    value: object = None
    """What must be there in a JSON document; None where anything will do."""
    negated: bool = False
    """It must not be so."""


@dataclass(frozen=True)
class Case:
    """One task to try a skill with."""

    id: str
    prompt: str
    checks: tuple[Check, ...]
    files: tuple[str, ...] = ()
    """Files of the skill that the task needs, by their paths in its folder."""
    expected: str = ""
    slug: str = ""
    """Its name as a folder."""


class Trigger(NamedTuple):
    """A prompt that a skill must be chosen for, or must not."""

    query: str
    should: bool


@dataclass(frozen=True)
class Suite:
    """The cases that a skill is tried with."""

    skill: str
    cases: tuple[Case, ...] = ()
    spelling: Spelling = "assertions"


class Graded(NamedTuple):
    """A check, decided."""

    text: str
    passed: bool | None
    """None where nobody could say."""
    evidence: str = ""
    by: Kind = "model"


class Made(NamedTuple):
    """What a run came to, before anybody judges it."""

    answer: str
    outputs: str
    """The folder with the files that it made."""
    outcome: str = "finished"
    seconds: float = 0.0
    tokens: int = 0
    calls: int = 0
    """Calls of tools."""
    failed: int = 0
    """Of those, the ones that went wrong."""
    activated: bool = False
    """Whether the skill's instructions were part of it."""
    void: bool = False
    """It was cut short by what is no fault of the skill, such as a service that is down: it counts for nothing."""
    note: str = ""
    """What went wrong, where something did."""


class Sample(NamedTuple):
    """One run of one case in one arm, judged."""

    case: str
    arm: Arm
    number: int
    made: Made
    graded: tuple[Graded, ...] = ()

    @property
    def decided(self) -> tuple[Graded, ...]:
        return tuple(one for one in self.graded if one.passed is not None)

    @property
    def score(self) -> float | None:
        """The share of its checks that passed; None where none was decided."""
        found = self.decided
        return sum(one.passed is True for one in found) / len(found) if found else None


T = TypeVar("T")
R = TypeVar("R")


class Queue(Protocol):
    """Where many pieces of work are done at once."""

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Do the work for every item; each comes back with its result as it is done, in any order."""

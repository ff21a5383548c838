"""Many calls at once: what each is to do, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from .schedule import Outcome


@dataclass(frozen=True)
class Task:
    """One call: a request, or `/skill words`, and what it is done with."""

    text: str
    cwd: str = ""
    model: str = ""
    dialect: str = ""
    agent: str = ""
    allow: tuple[str, ...] = ()
    trial: str = ""
    """The folder of a trial, where this is one of its runs; `text` says which."""


@dataclass(frozen=True)
class Ran:
    """A call that has ended; `number` counts from 1."""

    number: int
    text: str
    outcome: Outcome


Step: TypeAlias = Callable[[str, Callable[[], object]], object]
Do: TypeAlias = Callable[[Task, Step, Callable[[], bool]], Outcome]
"""The agent: it is handed in, with steps that are done once, and a word on whether to stop."""

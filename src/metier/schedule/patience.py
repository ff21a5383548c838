"""Patience: what fails because of the machine or the database is tried again, and never taken for a decision.

A disk that is full and a database that is being restarted are well again some time later.  Until then a firing waits
where it is: its schedule is not paused, no failure is counted, and no step that was done is done again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from ..host.facts import monotonic
from ..host.failure import is_machine_trouble
from ..types.errors import MetierError
from ..types.text import clean_line, shorten_text
from .database import database_errors, is_database_trouble

if TYPE_CHECKING:
    from .durable import DurableExecutor

T = TypeVar("T")

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0


@dataclass
class Patience:
    """Tries again what the machine spoiled, for so many seconds."""

    leaving: threading.Event
    park: Callable[[], object]
    """Blocks for good: the worker is leaving, and another one continues."""
    say: Callable[[str], None] = lambda line: None
    longest: float = 3_600.0
    """Seconds after which the error is reported as the outcome; for the database there is no end."""
    trouble: dict[str, str] = field(default_factory=dict)
    """What waits, and for what: shown in the health file."""

    def keep_trying(self, what: str, work: Callable[[], T]) -> T:
        """Do something; while it fails because of the machine, say so, wait, and do it again."""
        until, wait = monotonic() + self.longest, _FIRST_WAIT
        kinds: tuple[type[Exception], ...] = (MetierError, OSError, MemoryError, *database_errors())
        try:
            while True:
                try:
                    return work()
                except kinds as error:
                    of_database = is_database_trouble(error)
                    if not of_database and (monotonic() > until or not is_machine_trouble(error)):
                        raise
                    reason = shorten_text(clean_line(str(error)), 200)
                self.trouble[what] = reason
                self.say(f"{what}: {reason}; trying again in {wait:g} s")
                if self.leaving.wait(wait):
                    self.park()
                wait = min(wait * 2, _LONGEST_WAIT)
        finally:
            self.trouble.pop(what, None)

    def step_once(
        self, what: str, name: str, work: Callable[[], object], durable: DurableExecutor, done: dict[str, object]
    ) -> object:
        """Do a durable step of a run, of which `done` has what an attempt did that the machine spoiled."""

        def once() -> object:
            # Tried again inside the step: an error that leaves it would be stored as its result.
            if name not in done:
                done[name] = self.keep_trying(what, work)
            return done[name]

        stored = f"stored {name}"
        if stored not in done:
            done[name] = self.keep_trying(what, lambda: durable.step(name, once))
            done[stored] = True
        return done[name]

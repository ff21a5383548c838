"""One firing: the skill as it was agreed to, a session, the agent, and an end that is written down."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from json import dumps
from typing import TYPE_CHECKING

from ..host import paths, sink
from ..types.errors import HostError, MetierError, Refused
from ..types.place import Place
from ..types.schedule import Fire, Outcome, Schedule
from ..types.text import flat, shortened
from . import book, copies, runs, skills
from .engine import Durable
from .runs import Turn

if TYPE_CHECKING:
    from .database import Engine


def turn_text(turn: Turn) -> str:
    return f"{turn.schedule}, due {book.instant_of(turn.due).strftime('%Y-%m-%dT%H:%M:%SZ')}"


def _told(turn: Turn, outcome: Outcome) -> str:
    """A line for the log: how a firing ended, as which run; the words themselves only where it failed."""
    run = f", run {outcome.run}" if outcome.run else ""
    why = "" if outcome.ok else f": {shortened(flat(outcome.text), 300)}"
    return f"{'finished' if outcome.ok else 'failed'} {turn_text(turn)}{run}{why}"


class Stopped(Refused):
    """A run that was asked to stop."""


class Paused(Refused):
    """A skill that is not what was agreed to."""


@dataclass(frozen=True)
class _Run:
    folder: str
    session: str
    body: str
    _step: Callable[[str, Callable[[], object]], object] = field(repr=False)
    _stopped: Callable[[], bool] = field(repr=False)

    def step(self, name: str, work: Callable[[], object]) -> object:
        return self._step(name, work)

    def stopped(self) -> bool:
        return self._stopped()


@dataclass
class Firer:
    """What a worker does with each firing that it takes from the queue."""

    place: Place
    fire: Fire
    engine: Engine
    durable: Durable
    worker: str
    home: str
    leaving: threading.Event
    now: Callable[[], datetime]
    say: Callable[[str], None]
    working: set[Turn] = field(default_factory=set)
    parked: int = 0
    """Of those at work, so many have come to a step's end and wait for another worker."""

    @property
    def busy(self) -> bool:
        return len(self.working) > self.parked

    def work(self, turn: Turn) -> None:
        """Fire one instant.  Whatever happens, the book is told."""
        if self.leaving.is_set():
            threading.Event().wait()  # taken from the queue while leaving: it is for another worker
        schedule = runs.begin(self.engine, turn, self.worker, self.now())
        if schedule is None:
            return
        outcome: Outcome | None = None
        self.working.add(turn)
        self.say(f"fires {turn_text(turn)}")
        try:
            outcome = self._fire(schedule, turn)
        except Paused as error:
            runs.refuse(self.engine, turn, error.message, self.now())
            self.say(f"paused {schedule.id}: {error.message}")
            return
        except MetierError as error:
            outcome = Outcome(False, f"{error.message}{'; ' + error.hint if error.hint else ''}")
        finally:
            self.working.discard(turn)
            fault = sys.exception()
            if outcome is None and isinstance(fault, Exception) and not isinstance(fault, Paused):
                runs.end(self.engine, turn, Outcome(False, f"{type(fault).__name__}: {fault}"), self.now())
                self.say(f"failed {turn_text(turn)}: {type(fault).__name__}: {fault}")
        self.say(_told(turn, outcome))
        self._deliver(schedule, turn, outcome)
        if runs.end(self.engine, turn, outcome, self.now()):
            self.clear(schedule)

    def _fire(self, schedule: Schedule, turn: Turn) -> Outcome:
        folder = self._agreed(schedule)
        at = book.instant_of(turn.due)
        run = _Run(
            folder,
            copies.session_folder(self.place, schedule.session or schedule.id, schedule.skill),
            skills.body(folder),
            lambda name, work: self._step(turn, name, work),
            lambda: self._must_stop(turn),
        )
        return self.fire(schedule, at, run)

    def _agreed(self, schedule: Schedule) -> str:
        """The folder of the skill as it was agreed to; one that changed otherwise pauses the schedule."""
        if schedule.home == self.home:
            if not paths.exists(f"{schedule.source}/SKILL.md"):
                raise Paused(f"its skill is gone from {schedule.source}")
            now = copies.pin(schedule.source)
            if now.digest != schedule.digest:
                if schedule.own:
                    return copies.unpin(self.place, self._repinned(schedule, now))
                if schedule.rules.on_change == "pause":
                    raise Paused("its skill changed; look at it, then `metier schedule resume` agrees to it")
        found = book.pinned(self.engine, schedule.digest)
        if found is None:
            raise Paused("the copy of its skill is gone")
        return copies.unpin(self.place, found)

    def _repinned(self, schedule: Schedule, now: copies.Pin) -> copies.Pin:
        try:
            skills.find(self.place, paths.real_name(schedule.source))
        except MetierError as error:  # renamed or broken, which is no edit that could run
            raise Paused(f"its skill can't be used: {error.message}") from error
        book.repin(self.engine, schedule, now)
        self.say(f"pinned anew, its owner edited it: {schedule.skill}")
        return now

    def _step(self, turn: Turn, name: str, work: Callable[[], object]) -> object:
        if self.leaving.is_set():
            self.park()
        if self._must_stop(turn):
            raise Stopped("it was asked to stop")
        return self.durable.step(name, work)

    def park(self) -> None:
        """This worker is leaving: what comes next is for another, which begins at this very step."""
        self.parked += 1
        threading.Event().wait()

    def _must_stop(self, turn: Turn) -> bool:
        return runs.must_stop(self.engine, turn)

    def _deliver(self, schedule: Schedule, turn: Turn, outcome: Outcome) -> None:
        if not schedule.terms.sink:
            return
        result = {
            "schedule": schedule.id,
            "skill": schedule.skill,
            "instant": book.instant_of(turn.due).isoformat(),
            "ok": outcome.ok,
            "text": outcome.text,
        }
        try:
            self.durable.step("deliver", lambda: sink.deliver(schedule.terms.sink, dumps(result, ensure_ascii=False)))
        except HostError as error:
            self.say(error.message)

    def clear(self, schedule: Schedule) -> None:
        """A one-shot is over: its skill goes to the bin, unless another schedule uses it, and then the schedule."""
        if schedule.own and schedule.home != self.home:
            return  # the skill lies with another worker, which will see to it
        shared = schedule.own and book.is_used(self.engine, schedule.skill, but=schedule.id)
        if schedule.own and not shared and paths.exists(schedule.source):
            copies.trash(self.place, schedule.source)
        runs.clear_done(self.engine, schedule.id)

    def clear_all(self) -> None:
        """Make up for what a crash, or a worker elsewhere, left to clear."""
        for schedule in runs.done_with(self.engine, self.home):
            self.clear(schedule)

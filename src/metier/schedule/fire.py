"""One firing: the skill as it was agreed to, a session, the agent, and an end that is written down."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from json import dumps
from typing import TYPE_CHECKING

from ..host import http, paths
from ..library import scheduled
from ..types.errors import HostError, MetierError, Refused
from ..types.place import Place
from ..types.schedule import FireCallback, RunOutcome, Schedule
from ..types.text import clean_line, shorten_text
from . import pins, queue, store
from .durable import DurableExecutor
from .queue import WorkItem

if TYPE_CHECKING:
    from .database import Engine


def describe_item(item: WorkItem) -> str:
    return f"{item.schedule}, due {store.instant_of(item.due).strftime('%Y-%m-%dT%H:%M:%SZ')}"


def _outcome_line(item: WorkItem, outcome: RunOutcome) -> str:
    """A line for the log: how a firing ended, as which run; the words themselves only where it failed."""
    run = f", run {outcome.run}" if outcome.run else ""
    why = "" if outcome.ok else f": {shorten_text(clean_line(outcome.text), 300)}"
    return f"{'finished' if outcome.ok else 'failed'} {describe_item(item)}{run}{why}"


class StopRequested(Refused):
    """A run that was asked to stop."""


class SchedulePaused(Refused):
    """A skill that is not what was agreed to."""


@dataclass(frozen=True)
class _FiringRun:
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
class FiringExecutor:
    """What a worker does with each firing that it takes from the queue."""

    place: Place
    fire: FireCallback
    engine: Engine
    durable: DurableExecutor
    worker: str
    home: str
    leaving: threading.Event
    now: Callable[[], datetime]
    say: Callable[[str], None]
    working: set[WorkItem] = field(default_factory=set)
    parked: int = 0
    """Of those at work, so many have come to a step's end and wait for another worker."""

    @property
    def busy(self) -> bool:
        return len(self.working) > self.parked

    def work(self, item: WorkItem) -> None:
        """Fire one instant.  Whatever happens, the book is told."""
        if self.leaving.is_set():
            threading.Event().wait()  # taken from the queue while leaving: it is for another worker
        schedule = queue.begin_firing(self.engine, item, self.worker, self.now())
        if schedule is None:
            return
        outcome: RunOutcome | None = None
        self.working.add(item)
        self.say(f"fires {describe_item(item)}")
        try:
            outcome = self._fire(schedule, item)
        except SchedulePaused as error:
            queue.refuse_firing(self.engine, item, error.message, self.now())
            self.say(f"paused {schedule.id}: {error.message}")
            return
        except MetierError as error:
            outcome = RunOutcome(False, f"{error.message}{'; ' + error.hint if error.hint else ''}")
        finally:
            self.working.discard(item)
            fault = sys.exception()
            if outcome is None and isinstance(fault, Exception) and not isinstance(fault, SchedulePaused):
                queue.end_firing(self.engine, item, RunOutcome(False, f"{type(fault).__name__}: {fault}"), self.now())
                self.say(f"failed {describe_item(item)}: {type(fault).__name__}: {fault}")
        self.say(_outcome_line(item, outcome))
        self._deliver(schedule, item, outcome)
        if queue.end_firing(self.engine, item, outcome, self.now()):
            self.clear(schedule)

    def _fire(self, schedule: Schedule, item: WorkItem) -> RunOutcome:
        folder = self._agreed(schedule)
        at = store.instant_of(item.due)
        run = _FiringRun(
            folder,
            pins.session_folder(self.place, schedule.session or schedule.id, schedule.skill),
            scheduled.read_body(folder),
            lambda name, work: self._step(item, name, work),
            lambda: self._must_stop(item),
        )
        return self.fire(schedule, at, run)

    def _agreed(self, schedule: Schedule) -> str:
        """The folder of the skill as it was agreed to; one that changed otherwise pauses the schedule."""
        if schedule.home == self.home:
            if not paths.exists(f"{schedule.source}/SKILL.md"):
                raise SchedulePaused(f"its skill is gone from {schedule.source}")
            now = pins.pin_folder(schedule.source)
            if now.digest != schedule.digest:
                if schedule.own:
                    return pins.unpack_pin(self.place, self._repinned(schedule, now))
                if schedule.rules.on_change == "pause":
                    raise SchedulePaused("its skill changed; look at it, then `metier schedule resume` agrees to it")
        pinned = store.get_pinned(self.engine, schedule.digest)
        if pinned is None:
            raise SchedulePaused("the copy of its skill is gone")
        return pins.unpack_pin(self.place, pinned)

    def _repinned(self, schedule: Schedule, now: pins.PinnedCopy) -> pins.PinnedCopy:
        try:
            scheduled.find_scheduler_skill(self.place, paths.real_name(schedule.source))
        except MetierError as error:  # renamed or broken, which is no edit that could run
            raise SchedulePaused(f"its skill can't be used: {error.message}") from error
        store.repin_schedule(self.engine, schedule, now)
        self.say(f"pinned anew, its owner edited it: {schedule.skill}")
        return now

    def _step(self, item: WorkItem, name: str, work: Callable[[], object]) -> object:
        if self.leaving.is_set():
            self.park()
        if self._must_stop(item):
            raise StopRequested("it was asked to stop")
        return self.durable.step(name, work)

    def park(self) -> None:
        """This worker is leaving: what comes next is for another, which begins at this very step."""
        self.parked += 1
        threading.Event().wait()

    def _must_stop(self, item: WorkItem) -> bool:
        return queue.must_stop(self.engine, item)

    def _deliver(self, schedule: Schedule, item: WorkItem, outcome: RunOutcome) -> None:
        if not schedule.terms.sink:
            return
        result = {
            "schedule": schedule.id,
            "skill": schedule.skill,
            "instant": store.instant_of(item.due).isoformat(),
            "ok": outcome.ok,
            "text": outcome.text,
        }
        try:
            self.durable.step(
                "deliver", lambda: http.deliver_result(schedule.terms.sink, dumps(result, ensure_ascii=False))
            )
        except HostError as error:
            self.say(error.message)

    def clear(self, schedule: Schedule) -> None:
        """A one-shot is over: its skill goes to the bin, unless another schedule uses it, and then the schedule."""
        if schedule.own and schedule.home != self.home:
            return  # the skill lies with another worker, which will see to it
        shared = schedule.own and store.is_used(self.engine, schedule.skill, but=schedule.id)
        if schedule.own and not shared and paths.exists(schedule.source):
            pins.trash_skill(self.place, schedule.source)
        queue.clear_finished(self.engine, schedule.id)

    def clear_all(self) -> None:
        """Make up for what a crash, or a worker elsewhere, left to clear."""
        for schedule in queue.finished_one_shots(self.engine, self.home):
            self.clear(schedule)

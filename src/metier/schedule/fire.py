"""One firing: get the skill as it was pinned, run the agent in its session, deliver the result, record the outcome."""

from __future__ import annotations

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
from .durable import DurableExecutor, QueueEntry
from .failures import CrashRecorder, failed_outcome
from .queue import QueuedFiring

if TYPE_CHECKING:
    from .database import Engine


def describe_firing(firing: QueuedFiring) -> str:
    return f"{firing.schedule}, due {store.instant_of(firing.due).strftime('%Y-%m-%dT%H:%M:%SZ')}"


def _outcome_line(firing: QueuedFiring, outcome: RunOutcome) -> str:
    """A line for the log: how a firing ended and its run; the text only if it failed."""
    run = f", run {outcome.run}" if outcome.run else ""
    why = "" if outcome.ok else f": {shorten_text(clean_line(outcome.text), 300)}"
    return f"{'finished' if outcome.ok else 'failed'} {describe_firing(firing)}{run}{why}"


class StopRequested(Refused):
    """The run was asked to stop."""


class SchedulePaused(Refused):
    """The skill may not run as it is now; its schedule pauses for review."""


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
    """Runs the firings that a worker takes from the queue."""

    place: Place
    fire: FireCallback
    engine: Engine
    durable: DurableExecutor
    worker: str
    home: str
    leaving: threading.Event
    now: Callable[[], datetime]
    say: Callable[[str], None]
    working: set[QueueEntry] = field(default_factory=set)
    """What this worker is doing, calls of batches included."""
    parked: int = 0
    """How many of these have reached the end of a step, and wait for another worker to continue."""

    @property
    def busy(self) -> bool:
        """Whether a thread is within a step, or on its way to one."""
        return len(self.working) > self.parked

    def work(self, firing: QueuedFiring) -> None:
        """Run a firing and record its outcome, whatever it is."""
        if self.leaving.is_set():
            # Taken from the queue while leaving: left to another worker.
            threading.Event().wait()
        schedule = queue.begin_firing(self.engine, firing, self.worker, self.now())
        if schedule is None:
            return
        self.working.add(firing)
        self.say(f"fires {describe_firing(firing)}")
        try:
            with CrashRecorder(lambda outcome: self._record_crash(firing, outcome)):
                outcome = self._outcome(schedule, firing)
            done = outcome is not None and queue.end_firing(self.engine, firing, outcome, self.now())
        finally:
            self.working.discard(firing)
        if done:
            self.clear(schedule)

    def _record_crash(self, firing: QueuedFiring, outcome: RunOutcome) -> None:
        queue.end_firing(self.engine, firing, outcome, self.now())
        self.say(_outcome_line(firing, outcome))

    def _outcome(self, schedule: Schedule, firing: QueuedFiring) -> RunOutcome | None:
        """Fire and deliver the result; None if the schedule was paused instead."""
        try:
            outcome = self._fire(schedule, firing)
        except SchedulePaused as error:
            queue.refuse_firing(self.engine, firing, error.message, self.now())
            self.say(f"paused {schedule.id}: {error.message}")
            return None
        except MetierError as error:
            outcome = failed_outcome(error)
        self.say(_outcome_line(firing, outcome))
        self._deliver(schedule, firing, outcome)
        return outcome

    def _fire(self, schedule: Schedule, firing: QueuedFiring) -> RunOutcome:
        folder = self._pinned_folder(schedule)
        at = store.instant_of(firing.due)
        run = _FiringRun(
            folder,
            pins.session_folder(self.place, schedule.session or schedule.id, schedule.skill),
            scheduled.read_body(folder),
            lambda name, work: self._step(firing, name, work),
            lambda: self._must_stop(firing),
        )
        return self.fire(schedule, at, run)

    def _pinned_folder(self, schedule: Schedule) -> str:
        """The folder of the pinned skill.  A change that its owner did not make pauses the schedule, or is ignored."""
        if schedule.home == self.home:
            if not paths.exists(f"{schedule.source}/SKILL.md"):
                raise SchedulePaused(f"its skill is missing from {schedule.source}")
            # Digest first, run after: the pinned copy is run, so an edit between the two has no effect.
            now = pins.pin_folder(schedule.source)
            if now.digest != schedule.digest:
                if schedule.own:
                    return pins.unpack_pin(self.place, self._repinned(schedule, now))
                if schedule.rules.on_change == "pause":
                    raise SchedulePaused("its skill changed; review it, then accept it with `metier schedule resume`")
        pinned = store.get_pinned(self.engine, schedule.digest)
        if pinned is None:
            raise SchedulePaused("the pinned copy of its skill is missing")
        return pins.unpack_pin(self.place, pinned)

    def _repinned(self, schedule: Schedule, now: pins.PinnedCopy) -> pins.PinnedCopy:
        try:
            scheduled.find_scheduler_skill(self.place, paths.real_name(schedule.source))
        except MetierError as error:  # renamed or broken by the edit: it could not run
            raise SchedulePaused(f"its skill can't be used: {error.message}") from error
        store.repin_schedule(self.engine, schedule, now)
        self.say(f"pinned again, its owner edited it: {schedule.skill}")
        return now

    def _step(self, firing: QueuedFiring, name: str, work: Callable[[], object]) -> object:
        # Between two steps is the only place where a run can change hands.
        if self.leaving.is_set():
            self.park()
        if self._must_stop(firing):
            raise StopRequested("it was stopped")
        return self.durable.step(name, work)

    def park(self) -> None:
        """Block this thread for good: the worker is leaving, and another one continues at this step."""
        self.parked += 1
        threading.Event().wait()

    def _must_stop(self, firing: QueuedFiring) -> bool:
        return queue.must_stop(self.engine, firing)

    def _deliver(self, schedule: Schedule, firing: QueuedFiring, outcome: RunOutcome) -> None:
        if not schedule.terms.sink:
            return
        result = {
            "schedule": schedule.id,
            "skill": schedule.skill,
            "instant": store.instant_of(firing.due).isoformat(),
            "ok": outcome.ok,
            "text": outcome.text,
        }
        try:
            self.durable.step(
                "deliver", lambda: http.deliver_result(schedule.terms.sink, dumps(result, ensure_ascii=False))
            )
        except HostError as error:  # the run itself succeeded, and its result is in the journal
            self.say(error.message)

    def clear(self, schedule: Schedule) -> None:
        """Trash the skill of a completed one-shot, unless another schedule uses it, then delete the schedule.

        In this order, because `clear_all` finds the schedule again after a crash in between.
        """
        if schedule.own and schedule.home != self.home:
            return  # only workers of its home have the folder: one of them clears it
        shared = schedule.own and store.is_used(self.engine, schedule.skill, but=schedule.id)
        if schedule.own and not shared and paths.exists(schedule.source):
            pins.trash_skill(self.place, schedule.source)
        queue.clear_finished(self.engine, schedule.id)

    def clear_all(self) -> None:
        """Clear what a crash, or a worker of another home, left."""
        for schedule in queue.finished_one_shots(self.engine, self.home):
            self.clear(schedule)

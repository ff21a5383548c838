"""One firing: get the skill as it was pinned, run the agent in its session, deliver the result, record the outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from json import dumps
from typing import TYPE_CHECKING, TypeVar

from ..host import http, paths
from ..host.failure import check_machine, is_machine_trouble
from ..library import scheduled
from ..library.open import OpenRequest, open_at
from ..library.settings import load_settings
from ..record.observation import observe_firing
from ..types.errors import MetierError, Refused
from ..types.place import Place
from ..types.schedule import FireCallback, RunOutcome, Schedule
from ..types.text import clean_line, shorten_text
from . import pins, queue, store
from .durable import DurableExecutor, QueueEntry
from .failures import CrashRecorder, failed_outcome
from .notifications import Notice, NoticeTarget, Severity, notice_targets, send_notice
from .patience import Patience
from .queue import QueuedFiring

if TYPE_CHECKING:
    from .database import Engine

T = TypeVar("T")


def describe_firing(firing: QueuedFiring) -> str:
    return f"{firing.schedule}, due {store.instant_of(firing.due).strftime('%Y-%m-%dT%H:%M:%SZ')}"


def _outcome_line(firing: QueuedFiring, outcome: RunOutcome) -> str:
    """A line for the log: how a firing ended and its run; the text only if it failed."""
    run = f", run {outcome.run}" if outcome.run else ""
    why = "" if outcome.ok else f": {shorten_text(clean_line(outcome.text), 300)}"
    return f"{'finished' if outcome.ok else 'failed'} {describe_firing(firing)}{run}{why}"


def _deliver_once(sink: str, result: dict[str, object]) -> str:
    """Deliver a result; the message of a failure, or nothing."""
    try:
        http.deliver_result(sink, dumps(result, ensure_ascii=False))
    except MetierError as error:
        return error.message
    return ""


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
    given_up: threading.Event = field(default_factory=threading.Event)
    """The grace is over: programs of runs that go on are killed, and what these runs then report does not count."""
    patience: Patience = field(init=False)

    def __post_init__(self) -> None:
        self.patience = Patience(self.leaving, self.park, self.say)

    @property
    def busy(self) -> bool:
        """Whether a thread is within a step, or on its way to one."""
        return len(self.working) > self.parked

    def work(self, firing: QueuedFiring) -> None:
        """Run a firing and record its outcome, whatever it is."""
        if self.leaving.is_set():
            # Taken from the queue while leaving: left to another worker.
            threading.Event().wait()
        schedule = self._patiently(firing, lambda: queue.begin_firing(self.engine, firing, self.worker, self.now()))
        if schedule is None:
            return
        self.working.add(firing)
        self.say(f"fires {describe_firing(firing)}")
        try:
            with CrashRecorder(lambda outcome: self._record_crash(firing, outcome)):
                outcome = self._outcome(schedule, firing)
            done = outcome is not None and self._end(firing, outcome)
        finally:
            self.working.discard(firing)
        if done:
            self._patiently(firing, lambda: self.clear(schedule))

    def _record_crash(self, firing: QueuedFiring, outcome: RunOutcome) -> None:
        self._park_if_given_up()
        self._end(firing, outcome)
        self.say(_outcome_line(firing, outcome))

    def _end(self, firing: QueuedFiring, outcome: RunOutcome) -> bool:
        return self._patiently(firing, lambda: queue.end_firing(self.engine, firing, outcome, self.now()))

    def _patiently(self, firing: QueuedFiring, work: Callable[[], T]) -> T:
        return self.patience.keep_trying(describe_firing(firing), work)

    def _outcome(self, schedule: Schedule, firing: QueuedFiring) -> RunOutcome | None:
        """Fire and deliver the result; None if the schedule was paused instead."""
        done: dict[str, object] = {}
        try:
            outcome = self._patiently(firing, lambda: self._fire_when_well(schedule, firing, done))
        except SchedulePaused as error:
            reason = error.message
            self._patiently(firing, lambda: queue.refuse_firing(self.engine, firing, reason, self.now()))
            self.say(f"paused {schedule.id}: {error.message}")
            self._notify(firing, "attention", f"{schedule.id} is paused", reason)
            return None
        except MetierError as error:
            outcome = failed_outcome(error)
        self._park_if_given_up()
        self.say(_outcome_line(firing, outcome))
        self._deliver(schedule, firing, outcome)
        if outcome.ok:
            self._notify(firing, "info", f"{schedule.id} finished", run=outcome.run)
        else:
            self._notify(firing, "failure", f"{schedule.id} failed", outcome.text, outcome.run)
        return outcome

    def _fire_when_well(self, schedule: Schedule, firing: QueuedFiring, done: dict[str, object]) -> RunOutcome:
        """Fire; a decision to pause counts if it is made twice by a machine that can open, read and write files.

        One that has no files left finds no skill, and would pause every schedule as if it had been removed.
        """
        for _ in range(2):
            try:
                return self._fire(schedule, firing, done)
            except SchedulePaused as error:
                decision = error
                beside = {schedule.source.rpartition("/")[0], schedule.project} - {""}
                check_machine(self.place.state, *sorted(beside))
        raise decision

    def _fire(self, schedule: Schedule, firing: QueuedFiring, done: dict[str, object]) -> RunOutcome:
        folder = self._pinned_folder(schedule)
        at = store.instant_of(firing.due)
        run = _FiringRun(
            folder,
            pins.session_folder(self.place, schedule.session or schedule.id, schedule.skill),
            scheduled.read_body(folder),
            lambda name, work: self._step(firing, name, work, done),
            lambda: self._must_stop(firing),
        )
        late = max(0.0, (self.now() - at).total_seconds())
        with observe_firing(self.place.env, schedule.id, schedule.skill, late):
            return self.fire(schedule, at, run)

    def _pinned_folder(self, schedule: Schedule) -> str:
        """The folder of the pinned skill.  A change that its owner did not make pauses the schedule, or is ignored."""
        if schedule.home == self.home:
            if paths.is_missing(f"{schedule.source}/SKILL.md"):
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
            if is_machine_trouble(error):
                raise
            raise SchedulePaused(f"its skill can't be used: {error.message}") from error
        store.repin_schedule(self.engine, schedule, now)
        self.say(f"pinned again, its owner edited it: {schedule.skill}")
        return now

    def _step(self, firing: QueuedFiring, name: str, work: Callable[[], object], done: dict[str, object]) -> object:
        """Do a step once; `done` has those of an attempt that the machine spoiled, which this one continues."""
        # Between two steps is the only place where a run can change hands.
        if self.leaving.is_set():
            # No step is in flight, so this one is not lost, even if it must not be repeated.
            self._patiently(firing, lambda: queue.release_firing(self.engine, firing))
            self.park()
        if self._must_stop(firing):
            raise StopRequested("it was stopped")
        return self.patience.step_once(describe_firing(firing), name, work, self.durable, done)

    def _park_if_given_up(self) -> None:
        if self.given_up.is_set():
            self.park()

    def park(self) -> None:
        """Block this thread for good: the worker is leaving, and another one continues at this step."""
        self.parked += 1
        threading.Event().wait()

    def _must_stop(self, firing: QueuedFiring) -> bool:
        return self._patiently(firing, lambda: queue.must_stop(self.engine, firing))

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
        # A failure is the step's result and not an error of it: after a crash DBOS would raise it as another type.
        failure = self.patience.step_once(
            describe_firing(firing), "deliver", lambda: _deliver_once(schedule.terms.sink, result), self.durable, {}
        )
        if failure:  # the run itself succeeded, and its result is in the journal
            self.say(str(failure))

    def _notify(self, firing: QueuedFiring, severity: Severity, title: str, text: str = "", run: str = "") -> None:
        """Tell whoever wants to know, each in a step of its own: a worker that takes over tells nobody again."""
        notice = Notice(f"{firing.schedule}@{firing.due}", severity, title, text, firing.schedule, run)
        try:
            targets = notice_targets(load_settings(self.place, [])[0])
        except MetierError as error:
            self.say(error.message)
            return
        for target in filter(lambda target: target.wants(notice), targets):
            failure = self.patience.step_once(
                describe_firing(firing),
                f"notify {target.name}",
                partial(self._send_notice, target, notice),
                self.durable,
                {},
            )
            if failure:
                self.say(str(failure))

    def _send_notice(self, target: NoticeTarget, notice: Notice) -> str:
        # Opened only to know its secrets, and only where somebody is told.
        with closing(open_at(self.place, OpenRequest(use_index=False))) as library:
            return send_notice(target, notice, self.place.env, library.hide)

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

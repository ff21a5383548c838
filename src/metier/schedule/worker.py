"""The worker: a loop that claims what is due, queues it, beats, and takes over from dead workers.

A worker does one bounded round after another, and keeps nothing in memory that the next worker would need: what is due,
queued and running is in the database.  DBOS runs the firings in threads of its own (`fire.py`); the loop never waits
for one.  A lock file, which the system releases however the process dies, allows one worker of a name in a home;
workers of several homes may share a database, and watch each other by their beats (see `queue.py`).

A worker that leaves stops taking work, lets each run reach the end of its step, and exits with the threads still
blocked: no run is interrupted within a step unless the grace period ends, and the next worker resumes them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from json import dumps
from threading import Thread
from typing import TYPE_CHECKING

from ..host import daemon, facts, fs, paths, trees
from ..types.errors import HostError
from ..types.place import Place
from ..types.schedule import FireCallback, TaskRunner
from . import claims, queue, store
from .calls import CallExecutor
from .database import named_errors, open_engine
from .durable import FIRING_WORKFLOW, FIRINGS_QUEUE, DurableExecutor, QueueBinding
from .fire import FiringExecutor
from .queue import QueuedFiring, WorkerRecord

if TYPE_CHECKING:
    from .database import Engine


@dataclass(frozen=True)
class WorkerSettings:
    """How often, how many, how long; times in seconds."""

    poll: float = 0.5
    queue_poll: float = 0.5
    calls_poll: float = 1.0
    crowd_poll: float = 0.05
    """How often the queue is polled while more is queued than can run: each poll takes one batch of it."""
    concurrency: int = 8
    beat: float = 1.0
    lease: float = 10.0
    """A worker whose beat stands still for so long is dead."""
    grace: float = 30.0
    """How long leaving waits for runs to reach the end of a step."""
    health: float = 5.0
    """How often the health file is written."""
    tidy: float = 600.0
    """How often old records are deleted."""


def utc_now() -> datetime:
    return datetime.fromtimestamp(facts.now_ns() / 1e9, UTC)


def home_id(place: Place) -> str:
    """The id of this home among those that share a database; made once."""
    path = f"{place.state}/home-id"
    id_text = paths.read_text_file(path)
    if id_text is None or not id_text.strip():
        with fs.hold_lock(f"{place.state}/.home-id.lock"):
            id_text = paths.read_text_file(path)
            if id_text is None or not id_text.strip():
                id_text = facts.random_hex(8)
                fs.write_text(path, id_text)
    return id_text.strip()


def lock_path(place: Place, name: str) -> str:
    return f"{place.state}/daemon/{name}.lock"


def health_path(place: Place, name: str) -> str:
    return f"{place.state}/daemon/{name}.json"


_CLAIM_SIZE = 100
"""Schedules per transaction: a backlog must not keep a worker from beating."""
_RESTART = 75
"""EX_TEMPFAIL: the service manager starts the worker again."""


def take_over_work(engine: Engine, durable: DurableExecutor, dead: WorkerRecord, now: datetime) -> list[QueuedFiring]:
    """Requeue what a dead worker was running; what must not run twice ends as lost, and is returned."""
    lost = queue.end_lost_firings(engine, dead.id, now)
    for firing in lost:
        # Cancelled first, or it would be requeued with the others.
        durable.cancel(firing)
    durable.take_over(dead.id)
    # Deleted last: after a crash before this, the next sweep repeats all of it.
    queue.delete_worker(engine, dead.id)
    return lost


class ScheduleWorker:
    """A worker of a place.  `serve` runs until it is asked to stop, and returns an exit code."""

    def __init__(
        self, place: Place, fire: FireCallback, name: str = "daemon", pace: WorkerSettings | None = None
    ) -> None:
        self.place, self.fire, self.name = place, fire, name
        self.pace = pace or WorkerSettings()
        self.id = f"{name}-{facts.random_hex(4)}"
        self.signals = daemon.DaemonSignals()
        self.do: TaskRunner | None = None
        """Runs the calls of batches; without it they are left to other workers."""
        self.prepare: Callable[[Place, frozenset[str]], None] = lambda place, models: None
        """Loads what runs with these models need, so that the first ones that are due do not wait for it."""
        self.say: Callable[[str], None] = lambda line: None
        self.now: Callable[[], datetime] = utc_now
        self._seen: dict[str, tuple[int, float]] = {}
        """The last beat of each other worker, and when it was first seen."""
        self._at: dict[str, float] = {}
        """When each periodic task was last done."""
        self._crowded = False
        self._firer: FiringExecutor
        self._engine: Engine
        self._durable: DurableExecutor

    # --- The loop ---

    def serve(self) -> int:
        with daemon.hold_daemon_lock(lock_path(self.place, self.name)):
            self.signals.listen()
            self._start()
            daemon.notify_systemd("READY=1")
            self.say(f"{self.name} started as {self.id}")
            while not self.signals.stop.is_set():
                pause = self._round()
                if pause is None:
                    self.say("another worker declared this one dead: exiting, to be restarted")
                    daemon.kill_children()  # that worker repeats the step they are in, and both would write
                    return _RESTART
                self.signals.wake.wait(pause)
                self.signals.wake.clear()
            return self._leave()

    def _start(self) -> None:
        self._engine = open_engine(self.place)
        self.home = home_id(self.place)
        with named_errors(self.place):
            # An update since the last start may have changed the rules of a zone.
            claims.recompute_next(self._engine, self.now())
            me = WorkerRecord(
                self.id,
                self.name,
                self.home,
                daemon.host_name(),
                daemon.current_pid(),
                store.epoch_ms(self.now()),
                0,
                "up",
            )
            queue.register_worker(self._engine, me)
            self._durable = DurableExecutor(self._engine, self.id)
            self._firer = FiringExecutor(
                self.place,
                self.fire,
                self._engine,
                self._durable,
                self.id,
                self.home,
                self.signals.stop,
                self.now,
                self.say,
            )
            models = frozenset(schedule.terms.model for schedule in store.all_schedules(self._engine))
            # On a thread: a second of imports must not keep the worker from beating.
            Thread(target=self.prepare, args=(self.place, models), name="metier-prepare", daemon=True).start()
            self._durable.launch(self._bindings())

    def _bindings(self) -> list[QueueBinding]:
        """The queue of firings, and the calls of this home's batches if this worker runs them."""
        concurrency, firer = self.pace.concurrency, self._firer
        bindings = [
            QueueBinding(
                FIRINGS_QUEUE,
                FIRING_WORKFLOW,
                lambda schedule, due: firer.work(QueuedFiring(schedule, due)),
                concurrency,
                self.pace.queue_poll,
            )
        ]
        if self.do is not None:
            leaving = self.signals.stop
            caller = CallExecutor(self.do, self._engine, self._durable, leaving, firer.working, firer.park, self.say)
            bindings.append(caller.binding(self.home, concurrency, self.pace.calls_poll))
        return bindings

    def _round(self) -> float | None:
        """Do one round of work; how long to wait after it, or None if this worker was declared dead."""
        pause = self.pace.poll
        try:
            with named_errors(self.place):
                if self._is_time("beat", self.pace.beat):
                    if not queue.record_heartbeat(self._engine, self.id):
                        return None
                    self._sweep()
                    daemon.notify_systemd("WATCHDOG=1")
                if self._tick():
                    pause = 0
                if self._is_time("tidy", self.pace.tidy):
                    claims.forget_old(self._engine, self.now())
                    self._firer.clear_all()
                    self._durable.clear(store.epoch_ms(self.now() - timedelta(hours=1)))
            self._report("")
        except (
            HostError,
            OSError,
            MemoryError,
        ) as error:  # the database, or the machine, may be well in the next round
            self.say(str(error))
            self._report(str(error))
        return pause

    def _tick(self) -> bool:
        """Claim what is due and queue what may run; whether there is more."""
        claimed = claims.claim_due(self._engine, self.now(), _CLAIM_SIZE)
        queued = queue.promote_waiting(self._engine, self._durable.enqueue, _CLAIM_SIZE)
        # Poll often only while there is a crowd: polling costs a query for every worker all the time.
        if queued > self.pace.concurrency and not self._crowded:
            self._crowd(True)
        elif self._crowded and self._is_time("crowd", 5.0) and not queue.is_queued(self._engine):
            self._crowd(False)
        return claimed.schedules == _CLAIM_SIZE or queued == _CLAIM_SIZE

    def _crowd(self, crowded: bool) -> None:
        self._crowded = crowded
        self._at["crowd"] = facts.monotonic()
        self._durable.look_every(self.pace.crowd_poll if crowded else self.pace.queue_poll)

    def _is_time(self, task: str, every: float) -> bool:
        now = facts.monotonic()
        if now - self._at.get(task, -every) < every:
            return False
        self._at[task] = now
        return True

    def _report(self, trouble: str) -> None:
        if not trouble and not self._is_time("health", self.pace.health):
            return
        health = {
            "worker": self.id,
            "pid": daemon.current_pid(),
            "at": self.now().isoformat(),
            "running": len(self._firer.working),
            "trouble": trouble or next(iter(self._firer.patience.trouble.values()), ""),
        }
        # A full disk must not stop the loop; what needs the disk reports it.
        with suppress(HostError):
            fs.write_text(health_path(self.place, self.name), dumps(health) + "\n", sync=False)

    # --- Leases ---

    def _sweep(self) -> None:
        """Declare workers dead whose beat stands still, and take over from those that are dead or have left."""
        now = facts.monotonic()
        workers = queue.list_workers(self._engine)
        for worker in workers:
            if worker.id == self.id:
                continue
            # A worker seen for the first time has a whole lease, whatever its beat: ours may have just started.
            beat, since = self._seen.get(worker.id, (-1, now))
            if beat != worker.beat:
                self._seen[worker.id] = (worker.beat, now)
            elif now - since > self.pace.lease and worker.state == "up":
                queue.declare_dead(self._engine, worker)
            if worker.state != "up":
                self._take_over(worker)
        self._seen = {worker.id: self._seen[worker.id] for worker in workers if worker.id in self._seen}

    def _take_over(self, worker: WorkerRecord) -> None:
        for firing in take_over_work(self._engine, self._durable, worker, self.now()):
            self.say(f"lost: {firing.id}")
        # One that left in order has said so itself.
        if worker.state == "dead":
            self.say(f"took over from {worker.id}, which died")

    # --- Leaving ---

    def _leave(self) -> int:
        """Wait for runs to reach the end of a step, then exit; another worker continues them."""
        daemon.notify_systemd("STOPPING=1")
        self.say("leaving")
        until = facts.monotonic() + self.pace.grace
        beaten = facts.monotonic()
        while self._firer.busy and facts.monotonic() < until and not self.signals.now.is_set():
            if facts.monotonic() - beaten > self.pace.beat:
                beaten = facts.monotonic()
                with named_errors(self.place):
                    queue.record_heartbeat(self._engine, self.id)
            facts.sleep(0.05)
        unfinished = len(self._firer.working)
        # Before the programs are killed: a run whose program was killed would otherwise be recorded as failed.
        self._firer.given_up.set()
        # Before the record says `left`: from then on another worker may start the same step, and both would write.
        daemon.kill_children()
        with named_errors(self.place):
            queue.dismiss_worker(self._engine, self.id, "left")
        self.say(f"left with {unfinished} unfinished; another worker continues them" if unfinished else "left")
        trees.remove_file(health_path(self.place, self.name))
        return 0

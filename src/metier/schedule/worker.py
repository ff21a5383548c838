"""A worker: it looks at the clock, claims what is due, fires it, and takes over from workers that died."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from json import dumps
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
from .queue import WorkerRecord, WorkItem

if TYPE_CHECKING:
    from .database import Engine


@dataclass(frozen=True)
class WorkerSettings:
    """How often, how many, how long; in seconds."""

    poll: float = 0.5
    queue_poll: float = 0.5
    calls_poll: float = 1.0
    crowd_poll: float = 0.05
    """How often the queue is looked into while a crowd waits in it."""
    concurrency: int = 8
    beat: float = 1.0
    lease: float = 10.0
    """A worker that gives no sign for so long is dead."""
    grace: float = 30.0
    """On leaving, so long is waited for what is at work."""
    health: float = 5.0
    tidy: float = 600.0


def utc_now() -> datetime:
    return datetime.fromtimestamp(facts.now_ns() / 1e9, UTC)


def home_id(place: Place) -> str:
    """The name of this home among those that share a database."""
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


def take_over_work(engine: Engine, durable: DurableExecutor, dead: WorkerRecord, now: datetime) -> list[WorkItem]:
    """Hand on what a dead worker had begun; what must not be begun again is lost, and named."""
    lost = queue.lost_firings(engine, dead.id, now)
    for item in lost:
        durable.cancel(item)
    durable.take_over(dead.id)
    queue.delete_worker(engine, dead.id)
    return lost


class ScheduleWorker:
    """One worker of a place.  `serve` returns when it is asked to stop."""

    def __init__(
        self, place: Place, fire: FireCallback, name: str = "daemon", pace: WorkerSettings | None = None
    ) -> None:
        self.place, self.fire, self.name = place, fire, name
        self.pace = pace or WorkerSettings()
        self.id = f"{name}-{facts.random_hex(4)}"
        self.signals = daemon.DaemonSignals()
        self.do: TaskRunner | None = None
        """Does the calls of batches; without it they are left to others."""
        self.say: Callable[[str], None] = lambda line: None
        self.now: Callable[[], datetime] = utc_now
        self._seen: dict[str, tuple[int, float]] = {}
        self._at: dict[str, float] = {}
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
            self.say(f"{self.name} works as {self.id}")
            while not self.signals.stop.is_set():
                pause = self._round()
                if pause is None:
                    self.say("other workers have given this one up: it leaves, and is to be started anew")
                    return 75
                self.signals.wake.wait(pause)
                self.signals.wake.clear()
            return self._leave()

    def _start(self) -> None:
        self._engine = open_engine(self.place)
        self.home = home_id(self.place)
        with named_errors(self.place):
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
            self._durable.launch(self._lines())

    def _lines(self) -> list[QueueBinding]:
        """Firings; and the calls of this home's batches, where there is somebody to do them."""
        concurrency, firer = self.pace.concurrency, self._firer
        bindings = [QueueBinding(FIRINGS_QUEUE, FIRING_WORKFLOW, firer.work, concurrency, self.pace.queue_poll)]
        if self.do is not None:
            leaving = self.signals.stop
            caller = CallExecutor(self.do, self._engine, self._durable, leaving, firer.working, firer.park)
            bindings.append(caller.line(self.home, concurrency, self.pace.calls_poll))
        return bindings

    def _round(self) -> float | None:
        """A bounded piece of work, and how long to rest after it; None when this worker has been given up."""
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
        except HostError as error:  # a database that is away for a while comes back
            self.say(error.message)
            self._report(error.message)
        return pause

    def _tick(self) -> bool:
        """Claim what is due, and queue what has its turn; whether there is more of it."""
        claimed = claims.claim_due(self._engine, self.now(), _CLAIM_SIZE)
        queued = queue.promote_waiting(self._engine, self._durable.enqueue, _CLAIM_SIZE)
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
            "trouble": trouble,
        }
        with suppress(HostError):  # a full disk is reported where it matters
            fs.write_text(health_path(self.place, self.name), dumps(health) + "\n", sync=False)

    # --- Leases ---

    def _sweep(self) -> None:
        """Give up workers whose beat stands still by our own clock, and hand on what they had begun."""
        now = facts.monotonic()
        workers = queue.list_workers(self._engine)
        for worker in workers:
            if worker.id == self.id:
                continue
            beat, since = self._seen.get(worker.id, (-1, now))
            if beat != worker.beat:
                self._seen[worker.id] = (worker.beat, now)
            elif now - since > self.pace.lease and worker.state == "up":
                queue.declare_dead(self._engine, worker)
            if worker.state != "up":
                self._bury(worker)
        self._seen = {worker.id: self._seen[worker.id] for worker in workers if worker.id in self._seen}

    def _bury(self, worker: WorkerRecord) -> None:
        for item in take_over_work(self._engine, self._durable, worker, self.now()):
            self.say(f"lost: {item.id}")
        if worker.state == "dead":  # one that left has said so, and what it was at is fired again
            self.say(f"took over from {worker.id}, which ended without a word")

    # --- Leaving ---

    def _leave(self) -> int:
        """Let what is at work come to a step's end, hand on the rest, and go."""
        daemon.notify_systemd("STOPPING=1")
        self.say("leaving")
        until = facts.monotonic() + self.pace.grace
        beaten = facts.monotonic()
        while (
            len(self._firer.working) > self._firer.parked
            and facts.monotonic() < until
            and not self.signals.now.is_set()
        ):
            if facts.monotonic() - beaten > self.pace.beat:
                beaten = facts.monotonic()
                with named_errors(self.place):
                    queue.record_heartbeat(self._engine, self.id)
            facts.sleep(0.05)
        unfinished = len(self._firer.working)
        daemon.kill_children()
        with named_errors(self.place):
            queue.dismiss_worker(self._engine, self.id, "left")
        self.say(f"left with {unfinished} at work; another worker goes on with them" if unfinished else "left")
        trees.remove_file(health_path(self.place, self.name))
        return 0

"""A worker: it looks at the clock, claims what is due, fires it, and takes over from workers that died."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from json import dumps
from typing import TYPE_CHECKING

from ..host import clock, daemon, paths, state
from ..types.batch import Do
from ..types.errors import HostError
from ..types.place import Place
from ..types.schedule import Fire
from . import book, runs, ticker
from .calls import Caller
from .database import named_errors, open_engine
from .engine import QUEUE, WORKFLOW, Durable, Line
from .fire import Firer
from .runs import Turn, Worker

if TYPE_CHECKING:
    from .database import Engine


@dataclass(frozen=True)
class Pace:
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
    return datetime.fromtimestamp(clock.now_ns() / 1e9, UTC)


def home_id(place: Place) -> str:
    """The name of this home among those that share a database."""
    path = f"{place.state}/home-id"
    found = paths.read_text_file(path)
    if found is None or not found.strip():
        with state.locked(f"{place.state}/.home-id.lock"):
            found = paths.read_text_file(path)
            if found is None or not found.strip():
                found = daemon.unguessable(8)
                state.write_text(path, found)
    return found.strip()


def lock_path(place: Place, name: str) -> str:
    return f"{place.state}/daemon/{name}.lock"


def health_path(place: Place, name: str) -> str:
    return f"{place.state}/daemon/{name}.json"


_PIECE = 100


def bury(engine: Engine, durable: Durable, dead: Worker, now: datetime) -> list[Turn]:
    """Hand on what a dead worker had begun; what must not be begun again is lost, and named."""
    lost = runs.lost(engine, dead.id, now)
    for turn in lost:
        durable.cancel(turn)
    durable.take_over(dead.id)
    runs.strike(engine, dead.id)
    return lost


class Service:
    """One worker of a place.  `serve` returns when it is asked to stop."""

    def __init__(self, place: Place, fire: Fire, name: str = "daemon", pace: Pace | None = None) -> None:
        self.place, self.fire, self.name = place, fire, name
        self.pace = pace or Pace()
        self.id = f"{name}-{daemon.unguessable()}"
        self.signals = daemon.Signals()
        self.do: Do | None = None
        """Does the calls of batches; without it they are left to others."""
        self.say: Callable[[str], None] = lambda line: None
        self.now: Callable[[], datetime] = utc_now
        self._seen: dict[str, tuple[int, float]] = {}
        self._at: dict[str, float] = {}
        self._crowded = False
        self._firer: Firer
        self._engine: Engine
        self._durable: Durable

    # --- The loop ---

    def serve(self) -> int:
        with daemon.held(lock_path(self.place, self.name)):
            self.signals.listen()
            self._start()
            daemon.tell_keeper("READY=1")
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
            ticker.recount(self._engine, self.now())
            me = Worker(self.id, self.name, self.home, daemon.machine(), daemon.pid(), book.ms(self.now()), 0, "up")
            runs.enrol(self._engine, me)
            self._durable = Durable(self._engine, self.id)
            self._firer = Firer(
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

    def _lines(self) -> list[Line]:
        """Firings; and the calls of this home's batches, where there is somebody to do them."""
        concurrency, firer = self.pace.concurrency, self._firer
        lines = [Line(QUEUE, WORKFLOW, firer.work, concurrency, self.pace.queue_poll)]
        if self.do is not None:
            leaving = self.signals.stop
            caller = Caller(self.do, self._engine, self._durable, leaving, firer.working, firer.park)
            lines.append(caller.line(self.home, concurrency, self.pace.calls_poll))
        return lines

    def _round(self) -> float | None:
        """A bounded piece of work, and how long to rest after it; None when this worker has been given up."""
        pause = self.pace.poll
        try:
            with named_errors(self.place):
                if self._is_time("beat", self.pace.beat):
                    if not runs.beat(self._engine, self.id):
                        return None
                    self._sweep()
                    daemon.tell_keeper("WATCHDOG=1")
                if self._tick():
                    pause = 0
                if self._is_time("tidy", self.pace.tidy):
                    ticker.forget(self._engine, self.now())
                    self._firer.clear_all()
                    self._durable.clear(book.ms(self.now() - timedelta(hours=1)))
            self._report("")
        except HostError as error:  # a database that is away for a while comes back
            self.say(error.message)
            self._report(error.message)
        return pause

    def _tick(self) -> bool:
        """Claim what is due, and queue what has its turn; whether there is more of it."""
        claimed = ticker.claim(self._engine, self.now(), _PIECE)
        queued = runs.promote(self._engine, self._durable.enqueue, _PIECE)
        if queued > self.pace.concurrency and not self._crowded:
            self._crowd(True)
        elif self._crowded and self._is_time("crowd", 5.0) and not runs.is_queued(self._engine):
            self._crowd(False)
        return claimed.schedules == _PIECE or queued == _PIECE

    def _crowd(self, there: bool) -> None:
        self._crowded = there
        self._at["crowd"] = clock.monotonic()
        self._durable.look_every(self.pace.crowd_poll if there else self.pace.queue_poll)

    def _is_time(self, what: str, every: float) -> bool:
        now = clock.monotonic()
        if now - self._at.get(what, -every) < every:
            return False
        self._at[what] = now
        return True

    def _report(self, trouble: str) -> None:
        if not trouble and not self._is_time("health", self.pace.health):
            return
        found = {
            "worker": self.id,
            "pid": daemon.pid(),
            "at": self.now().isoformat(),
            "running": len(self._firer.working),
            "trouble": trouble,
        }
        with suppress(HostError):  # a full disk is reported where it matters
            state.write_text(health_path(self.place, self.name), dumps(found) + "\n", sync=False)

    # --- Leases ---

    def _sweep(self) -> None:
        """Give up workers whose beat stands still by our own clock, and hand on what they had begun."""
        now = clock.monotonic()
        known = runs.workers(self._engine)
        for one in known:
            if one.id == self.id:
                continue
            beat, since = self._seen.get(one.id, (-1, now))
            if beat != one.beat:
                self._seen[one.id] = (one.beat, now)
            elif now - since > self.pace.lease and one.state == "up":
                runs.give_up(self._engine, one)
            if one.state != "up":
                self._bury(one)
        self._seen = {one.id: self._seen[one.id] for one in known if one.id in self._seen}

    def _bury(self, one: Worker) -> None:
        for turn in bury(self._engine, self._durable, one, self.now()):
            self.say(f"lost: {turn.id}")
        if one.state == "dead":  # one that left has said so, and what it was at is fired again
            self.say(f"took over from {one.id}, which ended without a word")

    # --- Leaving ---

    def _leave(self) -> int:
        """Let what is at work come to a step's end, hand on the rest, and go."""
        daemon.tell_keeper("STOPPING=1")
        self.say("leaving")
        until = clock.monotonic() + self.pace.grace
        beaten = clock.monotonic()
        while (
            len(self._firer.working) > self._firer.parked
            and clock.monotonic() < until
            and not self.signals.now.is_set()
        ):
            if clock.monotonic() - beaten > self.pace.beat:
                beaten = clock.monotonic()
                with named_errors(self.place):
                    runs.beat(self._engine, self.id)
            clock.sleep(0.05)
        left = len(self._firer.working)
        daemon.kill_children()
        with named_errors(self.place):
            runs.dismiss(self._engine, self.id, "left")
        self.say(f"left with {left} at work; another worker goes on with them" if left else "left")
        state.remove_file(health_path(self.place, self.name))
        return 0

"""Random histories under a simulated clock, on the real book: no firing twice, none lost silently, rules kept."""

import os
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from metier.schedule import claims, queue, store
from metier.schedule.database import make_tables
from metier.schedule.pins import PinnedCopy
from metier.schedule.plan import CATCH_UP_WINDOW, MOST_CAUGHT_UP
from metier.schedule.times import next_instant
from metier.types.schedule import END_STATES, CronTrigger, RunOutcome, Schedule, ScheduleRules

HISTORIES = 10_000 if os.environ.get("METIER_SOAK") else 250
CRONS = [
    "* * * * *",
    "*/5 * * * *",
    "30 2 * * *",
    "15 * * * *",
    "0 9 * * 1-5",
    "0 */6 * * *",
    "59 1 1 * *",
    "*/7 1-3 * * *",
]
ZONES = ["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Taipei", "Europe/Berlin"]
STARTS = [
    datetime(2026, 3, 7, 20, tzinfo=UTC),
    datetime(2026, 10, 31, 20, tzinfo=UTC),
    datetime(2026, 4, 4, 10, tzinfo=UTC),
]
PIN = PinnedCopy("sha256:0", "{}")


class Crash(Exception):
    """A worker dies here."""


@pytest.fixture(scope="module")
def engine():
    made = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    make_tables(made)
    yield made
    made.dispose()


class History:
    """One schedule, its clock, and what must be in the book."""

    def __init__(self, engine, seed: int) -> None:
        self.chance = random.Random(seed)
        self.engine, self.id = engine, f"h{seed}"
        self.now = self.chance.choice(STARTS) + timedelta(seconds=self.chance.randrange(90_000))
        rules = ScheduleRules(
            self.chance.choice(["one", "none", "all"]),
            self.chance.choice(["skip", "queue-one", "replace"]),
            pause_after=self.chance.choice([0, 3]),
        )
        zone = self.chance.choice(ZONES)
        made = Schedule(
            self.id, self.id, CronTrigger(self.chance.choice(CRONS)), zone, PIN.digest, "/s", "h", rules=rules
        )
        store.add_schedule(engine, made, PIN, self.now)
        self.mark = self.now
        """Everything after this and up to the last look at the clock is in the book."""
        self.expected: set[datetime] = set()
        self.queue: list[queue.QueuedFiring] = []
        self.fired: list[queue.QueuedFiring] = []
        self.at_work: queue.QueuedFiring | None = None

    @property
    def schedule(self) -> Schedule:
        found = store.get_schedule(self.engine, self.id)
        assert found is not None
        return found

    def enqueue(self, connection, turn: queue.QueuedFiring) -> None:
        if self.chance.random() < 0.05:
            raise Crash
        if turn.schedule == self.id:
            self.queue.append(turn)

    # --- What happens ---

    def wait(self) -> None:
        self.now += timedelta(seconds=self.chance.choice([0.5, 20, 61, 400, 4_000, 30_000, 90_000, 400_000]))

    def jump(self) -> None:
        """The clock is set: forward a day, back an hour, or by a little."""
        self.now += timedelta(seconds=self.chance.choice([86_400, -3_600, -30, -59, -120, -86_400, 3_600]))

    def look(self) -> None:
        before = self.schedule
        known = {one.due: one.state for one in store.firing_history(self.engine, self.id, 100_000)}
        claims.claim_due(self.engine, self.now)
        if not before.paused:
            self.owe(before)
            self.mark = max(self.mark, self.now)
            soon = next_instant(before.trigger, before.zone, self.now + timedelta(seconds=60))
            assert self.schedule.next is not None
            assert soon is not None
            assert self.schedule.next <= soon, "a clock that was turned back must not silence it"
        book = {one.due: one for one in store.firing_history(self.engine, self.id, 100_000)}
        if not known.keys() <= book.keys():
            # A clock that was ahead had called them missed: they are owed again, by this one.
            assert {state for due, state in known.items() if due not in book} == {"missed"}
            self.expected = {at for at in self.expected if at <= self.now or at in book}
            self.mark = self.now
        new = {due: one for due, one in book.items() if due not in known}
        waiting = [one for one in new.values() if one.state == "waiting"]
        assert all(due <= self.now for due in new)
        self.check_catch_up(before, [one for one in new.values() if one.state in ("waiting", "skipped", "replaced")])
        was_open = [due for due, state in known.items() if state not in END_STATES]
        if before.rules.overlap == "skip" and was_open and before.rules.catch_up != "all":
            assert not waiting
        if before.rules.overlap == "queue-one" and before.rules.catch_up != "all":
            assert len(waiting) + len(was_open) <= 2 or not waiting

    def owe(self, before: Schedule) -> None:
        at = next_instant(before.trigger, before.zone, self.mark)
        while at is not None and at <= self.now and len(self.expected) < 5_000:
            self.expected.add(at)
            at = next_instant(before.trigger, before.zone, at)

    def check_catch_up(self, before: Schedule, new: list) -> None:
        if before.rules.catch_up == "all":
            assert len(new) <= MOST_CAUGHT_UP
            return
        assert len(new) <= 1
        for one in new:
            assert self.now - one.due <= (CATCH_UP_WINDOW if before.rules.catch_up == "one" else timedelta(seconds=60))

    def promote(self) -> None:
        kept = list(self.queue)
        try:
            queue.promote_waiting(self.engine, self.enqueue)
        except Crash:
            self.queue = kept  # the transaction is undone, and the queue with it

    def begin(self) -> None:
        if self.at_work is None and self.queue:
            turn = self.queue.pop(0)
            if queue.begin_firing(self.engine, turn, "w", self.now) is not None:
                self.at_work = turn
                self.fired.append(turn)

    def crash(self) -> None:
        """The worker dies; another one begins the same firing again."""
        if self.at_work is not None:
            assert queue.begin_firing(self.engine, self.at_work, "w2", self.now) is not None

    def end(self) -> None:
        if self.at_work is not None:
            queue.end_firing(self.engine, self.at_work, RunOutcome(self.chance.random() < 0.7, "said"), self.now)
            assert (
                queue.begin_firing(self.engine, self.at_work, "w3", self.now) is None
            )  # it is over, also for who comes late
            self.at_work = None

    def edit(self) -> None:
        changed = replace(self.schedule, trigger=CronTrigger(self.chance.choice(CRONS)), zone=self.chance.choice(ZONES))
        store.change_schedule(self.engine, changed, self.now)
        self.mark = self.now

    def pause(self) -> None:
        store.pause_schedule(self.engine, self.id, "by hand", self.now)

    def resume(self) -> None:
        if self.schedule.paused:
            store.resume_schedule(self.engine, self.schedule, self.now)
            self.mark = self.now

    def recount(self) -> None:
        claims.recompute_next(self.engine, self.now)

    def trigger(self) -> None:
        if len([one for one in store.firing_history(self.engine, self.id) if one.state == "waiting"]) < 5:
            store.trigger_schedule(self.engine, self.id, self.now)

    # --- What must hold ---

    def check(self) -> None:
        found = store.firing_history(self.engine, self.id, 100_000)
        at_work = [one for one in found if one.state in ("queued", "running")]
        assert len(at_work) <= 1
        assert len(self.fired) == len(set(self.fired)), "fired twice"
        known = {one.due for one in found}
        gaps = [one.note for one in found if "were missed from" in one.note]
        spans = [tuple(map(datetime.fromisoformat, note.rpartition("from ")[2].split(" to "))) for note in gaps]
        lost = [at for at in self.expected - known if not any(first <= at <= last for first, last in spans)]
        assert not lost, f"nobody knows of {sorted(lost)[:3]}"


ACTS = [
    "wait",
    "wait",
    "wait",
    "look",
    "look",
    "look",
    "promote",
    "promote",
    "begin",
    "begin",
    "end",
    "end",
    "crash",
    "jump",
    "edit",
    "pause",
    "resume",
    "resume",
    "recount",
    "trigger",
]


@pytest.mark.parametrize("block", range(10))
def test_whatever_happens_nothing_fires_twice_and_nothing_is_lost_silently(engine, block):
    for number in range(HISTORIES // 10):
        history = History(engine, block * 1_000_000 + number)
        for _ in range(history.chance.randrange(10, 40)):
            getattr(history, history.chance.choice(ACTS))()
            history.check()
        store.remove_schedule(engine, history.id, history.now)

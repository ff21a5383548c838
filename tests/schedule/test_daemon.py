"""The daemon as a process: who runs, what it says, what it fires, what it refuses."""

import configparser
import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.console import Desk
from tests.schedule.house import NAME, House, now

from metier.host import daemon as machine
from metier.schedule import calls, queue, store
from metier.schedule.database import fetch_rows, named_errors, open_engine, run_statement
from metier.schedule.pins import PinnedCopy
from metier.types.errors import BadRequest, HostError
from metier.types.schedule import END_STATES, RunTerms, ScheduleRules


def triggered(house: House, id: str = "ping") -> None:
    store.trigger_schedule(house.engine, id, now())


def ended(house: House) -> bool:
    return bool(house.states()) and all(state in END_STATES for state in house.states())


def test_parts_of_a_second_are_known_to_any_sqlite(house):
    """Where Python is newer than its SQLite, the engine's own tables ask for them."""
    with house.engine.begin() as connection:
        run_statement(
            connection, "CREATE TABLE times (name TEXT, at INTEGER NOT NULL DEFAULT (unixepoch('subsec') * 1000))"
        )
        run_statement(connection, "INSERT INTO times (name) VALUES ('now')")
        [found] = fetch_rows(connection, "SELECT at FROM times")

    assert abs(found["at"] / 1000 - time.time()) < 60


def test_a_schedule_that_is_due_is_fired(house):
    house.add(
        "ping",
        "* * * * *",
        at=now().replace(second=0, microsecond=0).replace(year=2020),
        rules=ScheduleRules(catch_up="all"),
    )
    house.start(steps=1, seconds=0)
    house.until(lambda: house.states().count("finished") >= 10)
    assert house.said().count("fires ping, due ") >= 10
    house.until(lambda: house.said().count("finished ping, due ") >= 10)


def test_a_worker_that_left_is_no_crash_to_the_next_one_and_one_that_was_killed_is(house):
    house.kill(working(house, "first"), signal.SIGTERM)
    second = working(house, "second", lease=0.5)
    house.until(lambda: {one.name for one in queue.list_workers(house.engine)} == {"second"})
    house.kill(second)
    working(house, "third", lease=0.5)
    house.until(lambda: "took over from second" in house.said("third"))
    assert "took over" not in house.said("second")


def working(house: House, name: str, lease: float = 5.0) -> subprocess.Popen[bytes]:
    begun = house.start(name, lease=lease)
    house.until(lambda: "started as" in house.said(name))
    return begun


def test_a_second_daemon_of_a_home_is_refused_and_told_who_is_there(house):
    first = house.start()
    house.until(lambda: "started as" in house.said())
    second = house.start()
    assert second.wait(60) != 0
    assert f"a daemon is already running: process {first.pid}" in house.said()


def test_a_changed_skill_of_others_pauses_and_does_not_run(house):
    house.add("ping", own=False)
    house.skill(body="Something else.\n")
    house.start()
    triggered(house)
    house.until(lambda: ended(house))
    assert house.states() == ["cancelled"]
    one = store.get_schedule(house.engine, "ping")
    assert one is not None
    assert "its skill changed" in one.paused
    assert house.lines() == []


def test_a_changed_skill_of_others_runs_as_it_was_pinned_by_choice(house):
    house.add("ping", rules=ScheduleRules(on_change="run-pinned"), own=False)
    house.skill(body="Something else.\n")
    house.start(code=SAYS_BODY)
    triggered(house)
    house.until(lambda: ended(house))
    assert [one.note for one in house.firings()] == ["Ping."]


def test_the_owners_edit_of_a_scheduler_skill_is_pinned_anew(house):
    made = house.add("ping")
    house.skill(body="Pong.\n")
    house.start(code=SAYS_BODY)
    triggered(house)
    house.until(lambda: ended(house))
    assert [one.note for one in house.firings()] == ["Pong."]
    after = store.get_schedule(house.engine, "ping")
    assert after is not None
    assert after.digest != made.digest
    assert not after.paused


@pytest.mark.parametrize("fate", ["removed", "renamed"])
def test_a_skill_that_is_gone_pauses_its_schedule(house, fate):
    house.add("ping")
    folder = house.state / "scheduler" / NAME
    if fate == "removed":
        (folder / "SKILL.md").unlink()
    else:
        (folder / "SKILL.md").write_text("---\nname: other\ndescription: x\n---\nPing.\n")
    house.start()
    triggered(house)
    house.until(lambda: ended(house))
    assert house.states() == ["cancelled"]
    one = store.get_schedule(house.engine, "ping")
    assert one is not None
    assert one.paused.startswith("its skill")
    assert house.lines() == []


SAYS_BODY = """
def fire(schedule, at, run):
    assert os.path.exists(run.session + "/bot.md")
    return RunOutcome(True, run.body)
"""


def test_a_run_that_raises_is_a_failure_with_its_reason_and_the_daemon_lives_on(house):
    house.add("ping")
    house.start(code="def fire(schedule, at, run): raise ZeroDivisionError('by nothing')")
    triggered(house)
    house.until(lambda: ended(house))
    triggered(house)
    house.until(lambda: house.states() == ["failed", "failed"])
    assert house.firings()[0].note == "ZeroDivisionError: by nothing"


def test_a_one_shot_that_went_well_takes_its_skill_to_the_bin_unless_another_schedule_uses_it(house):
    house.add("shared", "0 0 1 1 *", name="shared-12345678")
    for id in ("alone", "shared-once"):
        name = "shared-12345678" if "shared" in id else NAME
        house.add(id, (now().replace(microsecond=0)).isoformat(), name=name, at=now().replace(year=2020))
    house.start(steps=1, seconds=0)
    house.until(lambda: len(store.all_schedules(house.engine)) == 1)
    house.until(lambda: not (house.state / "scheduler" / NAME).exists())
    assert (house.state / "scheduler/.Trash" / NAME / "SKILL.md").exists()
    assert (house.state / "scheduler/shared-12345678/SKILL.md").exists()


def test_what_a_crash_left_to_clear_is_cleared_by_the_next_worker(house):
    house.add("once", now().replace(microsecond=0).isoformat(), at=now().replace(year=2020))
    with house.engine.begin() as connection:  # it went well, and its worker died before the bin
        run_statement(connection, "UPDATE metier_schedules SET paused = :done, next_due = NULL", done=queue.DONE_REASON)
    house.start()
    house.until(lambda: store.all_schedules(house.engine) == [])
    assert (house.state / "scheduler/.Trash" / NAME / "SKILL.md").exists()


def test_results_go_to_the_sink(house):
    file, told = house.folder / "results", house.folder / "told"
    house.add("file", terms=RunTerms(sink=f"file:{file}"))
    house.add("command", name="command-12345678", terms=RunTerms(sink=f"command:tee '{told}'"))
    house.start(steps=0)
    triggered(house, "file")
    triggered(house, "command")
    house.until(lambda: house.states() == ["finished", "finished"])
    assert json.loads(file.read_text())["schedule"] == "file"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(told.read_text())["ok"] is True


def test_a_sink_that_is_not_there_fails_no_run(house):
    house.add("ping", terms=RunTerms(sink="webhook:http://127.0.0.1:1/x"))
    house.start(steps=0)
    triggered(house)
    house.until(lambda: house.states() == ["finished"])
    house.until(lambda: "could not be delivered" in house.said())


def test_stored_values_are_json(house):
    house.add("ping")
    house.start(steps=2, seconds=0)
    triggered(house)
    house.until(lambda: ended(house))
    with sqlite3.connect(house.state / "schedule.db") as connection:
        stored = connection.execute("SELECT inputs, output, serialization FROM workflow_status").fetchall()
        steps = connection.execute("SELECT output FROM operation_outputs WHERE output IS NOT NULL").fetchall()
    assert {one[2] for one in stored} == {"portable_json"}
    assert [json.loads(one[0]) for one in steps] == [0, 1]


def test_state_is_the_owners_alone(house):
    house.add("ping")
    house.start()
    house.until(lambda: (house.state / "daemon/daemon.json").exists())
    found = [path for path in house.state.rglob("*") if "scheduler" not in path.parts]
    assert {path.name for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077} == set()


def test_the_keeper_of_services_is_told(house, tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as keeper:
        monkeypatch.chdir(tmp_path)  # the whole path may be longer than a socket's may be
        keeper.bind("notify")
        keeper.settimeout(60)
        house.start(code=f"os.environ['NOTIFY_SOCKET'] = '/proc/{os.getpid()}/cwd/notify'")
        assert keeper.recv(100) == b"READY=1"
        assert keeper.recv(100) == b"WATCHDOG=1"


def test_a_stale_lock_file_with_the_number_of_a_living_process_names_nobody(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        lock = tmp_path / "daemon.lock"
        lock.write_text(json.dumps([other.pid, "12345"]))
        assert machine.current_holder(str(lock)) is None
        with machine.hold_daemon_lock(str(lock)):
            holder = machine.current_holder(str(lock))
            assert holder is not None
            assert holder.pid == os.getpid()
        assert machine.stop_lock_holder(machine.LockHolder(other.pid, "12345"), 1)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.5)
    finally:
        other.communicate()


# --- The database ---


def test_a_damaged_database_is_reported_and_left_as_it_is(house):
    house.add("ping")
    house.close()
    path = house.state / "schedule.db"
    path.write_bytes(b"this was a database once " * 100)
    with pytest.raises(HostError, match="is damaged"):
        open_engine(house.place)
    assert path.read_bytes().startswith(b"this was")


def test_a_log_that_was_cut_off_loses_what_was_not_there_and_nothing_else(house):
    house.add("ping")
    copy = house.folder / "copy"
    copy.mkdir()
    for name in ("schedule.db", "schedule.db-wal"):
        (copy / name).write_bytes((house.state / name).read_bytes())
    wal = copy / "schedule.db-wal"
    for size in (0, 20, 5_000, wal.stat().st_size - 100):
        place = house.place._replace(state=str(house.folder / f"cut-{size}"))
        Path(place.state).mkdir(mode=0o700)
        for path in copy.iterdir():
            data = path.read_bytes()
            (Path(place.state) / path.name).write_bytes(data[:size] if path == wal else data)
        engine = open_engine(place)
        assert len(store.all_schedules(engine)) <= 1
        engine.dispose()


def test_a_full_disk_is_reported_and_what_was_there_is_still_read(house):
    house.add("ping")

    def fill() -> None:
        with named_errors(house.place), house.engine.begin() as connection:
            fetch_rows(connection, "PRAGMA max_page_count = 1")
            for number in range(200):
                store.store_pin(connection, PinnedCopy(f"sha256:{number}", "x" * 10_000))

    with pytest.raises(HostError, match="full"):
        fill()
    house.engine.dispose()
    assert [one.id for one in store.all_schedules(house.engine)] == ["ping"]


def test_a_database_that_is_locked_is_waited_for_and_then_reported(house):
    house.add("ping")
    with sqlite3.connect(house.state / "schedule.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        engine = open_engine(house.place, wait_ms=200)
        with pytest.raises(HostError, match="is locked by another process"), named_errors(house.place):
            store.pause_schedule(engine, "ping", "x", now())
        other.execute("ROLLBACK")
        engine.dispose()


def test_a_database_of_a_newer_metier_is_refused(any_house):
    with any_house.engine.begin() as connection:
        run_statement(connection, "UPDATE metier_schema SET version = 99")
    with pytest.raises(HostError, match="is from a newer metier"):
        open_engine(any_house.place)


def test_a_database_of_an_older_metier_is_brought_up_to_date_and_keeps_what_it_holds(any_house):
    any_house.add("ping")
    with any_house.engine.begin() as connection:
        run_statement(connection, "DROP TABLE metier_calls")
        run_statement(connection, "ALTER TABLE metier_firings DROP COLUMN run")
        run_statement(connection, "UPDATE metier_schema SET version = 1")
    for _ in range(2):
        engine = open_engine(any_house.place)
        assert [one.id for one in store.all_schedules(engine)] == ["ping"]
        assert calls.unfinished_batch(engine, "x") == ""
        engine.dispose()


def test_bringing_up_to_date_is_done_whole_or_not_at_all_and_can_be_tried_again(any_house):
    with any_house.engine.begin() as connection:
        run_statement(connection, "UPDATE metier_schema SET version = 1")
    with pytest.raises(HostError, match="already exists"):
        open_engine(any_house.place)
    with any_house.engine.begin() as connection:
        assert fetch_rows(connection, "SELECT version FROM metier_schema")[0]["version"] == 1
        run_statement(connection, "DROP TABLE metier_calls")
        run_statement(connection, "ALTER TABLE metier_firings DROP COLUMN run")
    open_engine(any_house.place).dispose()


def test_an_address_that_is_no_postgresql_is_refused(house):
    with pytest.raises(BadRequest, match="not a PostgreSQL URL"):
        open_engine(house.place._replace(env={"METIER_DATABASE_URL": "mysql://x"}))


@pytest.mark.parametrize("host", ["/nonexistent", "db..internal"])
def test_a_database_that_is_away_is_reported_in_a_sentence(house, host):
    with pytest.raises(HostError, match="can't reach the database"):
        open_engine(house.place._replace(env={"METIER_DATABASE_URL": f"postgresql://x@/y?host={host}"}))


# --- The command line ---


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_the_daemon_is_started_asked_and_stopped_by_the_command_line(desk):
    assert desk.say("daemon", "status").code == 1
    env = desk.env | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with (desk.home / "out").open("wb") as out:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "metier", "daemon"],
            cwd=desk.project,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        until = time.monotonic() + 120
        while not (desk.state / "daemon/daemon.json").exists():
            assert time.monotonic() < until, (desk.home / "out").read_text()
            time.sleep(0.05)
        found = json.loads(desk.say("daemon", "status", "--json").out)
        assert found["running"] is True
        assert found["pid"] == daemon.pid
        assert found["health"]["running"] == 0
        assert "Stopped" in desk.say("daemon", "stop").out
        assert daemon.wait(60) == 0
    finally:
        if daemon.poll() is None:
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
    assert "Traceback" not in (desk.home / "out").read_text()
    assert desk.say("daemon", "stop").out == "No daemon is running.\n"


def test_a_unit_is_printed_and_written_on_request(desk):
    said = desk.say("daemon", "unit")
    assert "Type=notify" in said.out
    state = f'"{desk.state}"' if " " in str(desk.state) else str(desk.state)  # as systemd reads a name with spaces
    assert f"ReadWritePaths={state}" in said.out
    assert f"EnvironmentFile=-{desk.state}/daemon.env" in said.out
    assert f"{desk.state}/daemon.env" in desk.say("daemon", "unit", "--write").out
    assert (desk.home / ".config/systemd/user/metier.service").read_text().startswith("[Unit]")


def test_the_limit_on_restarts_is_where_systemd_reads_it(desk: Desk):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read_string(desk.say("daemon", "unit").out)

    assert unit["Unit"]["StartLimitIntervalSec"] == "300"
    assert unit["Unit"]["StartLimitBurst"] == "5"
    assert not [key for key in unit["Service"] if key.startswith("startlimit")]


@pytest.mark.parametrize("more", ["\nExecStartPre=/bin/touch pwned", "\x1b[2J"])
def test_a_home_whose_name_would_be_a_line_of_its_own_is_in_no_unit(desk: Desk, more: str):
    said = desk.say("daemon", "unit", "--write", METIER_HOME=f"{desk.home}/x{more}")

    assert said.code == 2
    assert "control character" in said.err
    assert not (desk.home / ".config/systemd/user/metier.service").exists()

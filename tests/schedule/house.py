"""A home with scheduler skills, a book, and worker processes that can be killed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from metier.schedule import pins, store
from metier.schedule.database import open_engine
from metier.schedule.worker import home_id
from metier.types.place import Place
from metier.types.schedule import CronTrigger, Firing, OnceTrigger, RunTerms, Schedule, ScheduleRules

NAME = "ping-12345678"


def now() -> datetime:
    return datetime.now(UTC)


class House:
    def __init__(self, folder: Path, url: str = "", home: str = "home") -> None:
        self.folder = folder
        self.home = folder / home
        self.home.mkdir(parents=True)
        self.state = self.home / ".metier"
        self.log = folder / "log"
        self.url = url
        env = {"METIER_DATABASE_URL": url} if url else {}
        self.place = Place(str(folder), str(folder), str(self.home), str(self.state), env, "linux")
        self.processes: list[subprocess.Popen[bytes]] = []
        self._engine: object = None

    @property
    def engine(self):
        if self._engine is None:
            self._engine = open_engine(self.place)
        return self._engine

    def skill(self, name: str = NAME, body: str = "Ping.\n") -> Path:
        folder = self.state / "scheduler" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Pings.\n---\n{body}", encoding="utf-8")
        return folder

    def add(
        self,
        id: str = "ping",
        when: str = "0 0 1 1 *",
        rules: ScheduleRules | None = None,
        *,
        name: str = NAME,
        terms: RunTerms | None = None,
        at: datetime | None = None,
        **more: object,
    ) -> Schedule:
        folder = self.skill(name) if not (self.state / "scheduler" / name).exists() else self.state / "scheduler" / name
        one = pins.pin_folder(str(folder))
        made = Schedule(
            id,
            name,
            OnceTrigger(datetime.fromisoformat(when)) if "T" in when else CronTrigger(when),
            "UTC",
            one.digest,
            str(folder),
            home_id(self.place),
            rules=rules or ScheduleRules(),
            terms=terms or RunTerms(),
        )
        return store.add_schedule(self.engine, replace(made, **more), one, at or now())  # type: ignore[arg-type]

    def start(
        self,
        name: str = "daemon",
        *,
        steps: int = 3,
        seconds: float = 0.05,
        stop_at: int = -1,
        code: str = "",
        **pace: float,
    ) -> subprocess.Popen[bytes]:
        """A worker of its own process, which writes each step of a firing to the log."""
        script = WORKER.replace("# more", code)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "METIER_HOME": str(self.state),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "STEPS": str(steps),
            "SECONDS": str(seconds),
            "STOP_AT": str(stop_at),
            "LOG": str(self.log),
            "PACE": repr({"poll": 0.1, "queue_poll": 0.1, "beat": 0.3, "lease": 5.0, "grace": 5.0} | pace),
        }
        if self.url:
            env["METIER_DATABASE_URL"] = self.url
        with (self.folder / f"{name}.out").open("ab") as out:
            started = subprocess.Popen(
                [sys.executable, "-c", script, name],
                env=env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self.processes.append(started)
        return started

    def kill(self, process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> int:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        return process.wait(60)

    def said(self, name: str = "daemon") -> str:
        path = self.folder / f"{name}.out"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def all_said(self) -> str:
        return "\n".join(
            f"{path.name}: {path.read_text(encoding='utf-8')}" for path in sorted(self.folder.glob("*.out"))
        )

    def lines(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []

    def done(self) -> Counter[tuple[str, str]]:
        """How often each step of each firing was done."""
        return Counter((line.split()[0], line.split()[1]) for line in self.lines())

    def firings(self, id: str = "") -> list[Firing]:
        return store.firing_history(self.engine, id, 100_000)

    def states(self, id: str = "") -> list[str]:
        return [one.state for one in reversed(self.firings(id))]

    def until(self, holds: Callable[[], bool], seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"it never came so: {self.states()} {self.all_said()}"
            time.sleep(0.05)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                self.kill(process)
        if self._engine is not None:
            self._engine.dispose()  # type: ignore[attr-defined]


WORKER = """
import os, sys, time
from metier.host.facts import find_place
from metier.host.daemon import exit_now
from metier.schedule.worker import WorkerSettings, ScheduleWorker
from metier.types.schedule import RunOutcome

def write(line):
    opened = os.open(os.environ["LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(opened, (line + "\\n").encode())
    os.close(opened)

def fire(schedule, at, run):
    name = f"{schedule.id}@{round(at.timestamp() * 1000)}"
    def step(number):
        write(f"{name} {number} {os.getpid()}")
        # At that step it stays until it is killed, however slow the machine is.
        time.sleep(600 if number == int(os.environ["STOP_AT"]) else float(os.environ["SECONDS"]))
        return number
    done = [run.step(f"step-{number}", lambda number=number: step(number)) for number in range(int(os.environ["STEPS"]))]
    return RunOutcome(True, f"did {done} by {sys.argv[1]}")

# more
service = ScheduleWorker(find_place("."), fire, sys.argv[1], WorkerSettings(**eval(os.environ["PACE"])))
service.say = lambda line: print(line, flush=True)
exit_now(service.serve())
"""

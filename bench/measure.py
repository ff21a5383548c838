"""Measuring: contenders in fresh processes and interleaved rounds, whole commands by what the kernel charged.

Only CPU time (user + system) is taken, and only the best of many: on a busy machine the least is the truest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BENCH = Path(__file__).resolve().parent
STATE = (BENCH.parent / ".bench").resolve()
HOME = STATE / "home"
CONTENDERS = BENCH / "contenders"
PATIENCE = 900
"""Seconds after which a process is given up."""


@dataclass(frozen=True)
class Job:
    """One contender over one corpus."""

    name: str
    script: str
    root: Path
    size: int
    python: Path = Path(sys.executable)


@dataclass(frozen=True)
class Sample:
    """What a job's processes said: the best pass of all of them, in milliseconds."""

    name: str
    size: int
    best: float = 0.0
    first: float = 0.0
    """The best first pass of a process: far above `best`, something is remembered between passes."""
    start: float = 0.0
    """CPU before the first pass: the interpreter and the imports."""
    passes: int = 0
    skills: int = 0
    chars: int = 0
    peak_mb: float = 0.0
    error: str = ""

    @property
    def per_skill(self) -> float:
        """Microseconds."""
        return self.best * 1000 / self.size


def race(jobs: Sequence[Job], *, rounds: int, repeats: int, budget: float) -> dict[tuple[str, int], Sample]:
    """Run every job once a round, so that a slow minute of the machine falls on all of them alike.

    A process stops after `repeats` passes, or after the pass in which it has used `budget` seconds.
    """
    heard: dict[Job, list[dict[str, object]]] = {job: [] for job in jobs}
    errors: dict[Job, str] = {}
    for number in range(rounds):
        for job in jobs:
            if job in errors:
                continue
            print(f"round {number + 1} of {rounds}: {job.name}, {job.size:,} skills", file=sys.stderr)
            found = _run(job, repeats, budget)
            if isinstance(found, str):
                errors[job] = found
            else:
                heard[job].append(found)
    return {(job.name, job.size): _sample(job, heard[job], errors.get(job, "")) for job in jobs}


def _run(job: Job, repeats: int, budget: float) -> dict[str, object] | str:
    command = [str(job.python), str(CONTENDERS / job.script), str(job.root), str(repeats), str(budget)]
    try:
        done = subprocess.run(
            command,
            cwd=HOME,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {PATIENCE} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def _sample(job: Job, heard: list[dict[str, object]], error: str) -> Sample:
    if error or not heard:
        return Sample(job.name, job.size, error=error or "not run")
    passes: list[list[float]] = [one["passes_s"] for one in heard]  # type: ignore[misc]
    last = heard[-1]
    return Sample(
        name=job.name,
        size=job.size,
        best=min(map(min, passes)) * 1000,
        first=min(each[0] for each in passes) * 1000,
        start=min(float(str(one["start_s"])) for one in heard) * 1000,
        passes=sum(map(len, passes)),
        skills=int(str(last["skills"])),
        chars=int(str(last["chars"])),
        peak_mb=max(int(str(one["peak_kb"])) for one in heard) / 1024,
    )


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a measured process sees: nothing of ours but PATH, and bytecode may be written."""
    HOME.mkdir(parents=True, exist_ok=True)
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(HOME),
        "METIER_HOME": str(HOME / ".metier"),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "DO_NOT_TRACK": "1",
        "DISABLE_TELEMETRY": "1",
        **(extra or {}),
    }


@dataclass(frozen=True)
class Command:
    """One whole process to measure."""

    name: str
    words: tuple[str, ...]
    extra: tuple[tuple[str, str], ...] = ()
    """Environment variables of its own."""
    must_say: str = ""
    """What its output has to hold for its time to count."""


@dataclass(frozen=True)
class Cost:
    """The least CPU of one command, in milliseconds."""

    best: float = 0.0
    error: str = ""


def commands(wanted: Sequence[Command], runs: int) -> dict[str, Cost]:
    """Try each command once, which also writes bytecode and index; then run those that work, in turn."""
    costs = {command.name: Cost(error=_trial(command)) for command in wanted}
    working = [command for command in wanted if not costs[command.name].error]
    best = {command.name: float("inf") for command in working}
    print(f"{runs} runs of {len(working)} commands", file=sys.stderr)
    for _ in range(runs):
        for command in working:
            best[command.name] = min(best[command.name], _cpu(command))
    return costs | {name: Cost(best=value * 1000) for name, value in best.items()}


def _trial(command: Command) -> str:
    """Why it cannot be measured, or nothing.  Findings may end it with 1 or 3; misuse ends with 2."""
    try:
        done = subprocess.run(
            command.words,
            cwd=HOME,
            env=environment(dict(command.extra)),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except FileNotFoundError:
        return f"{Path(command.words[0]).name} is not there"
    except subprocess.TimeoutExpired:
        return f"no answer in {PATIENCE} s"
    if done.returncode not in (0, 1, 3) or "Traceback" in done.stderr or "No module named" in done.stderr:
        return (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    if command.must_say not in done.stdout:
        return f"its output lacks {command.must_say!r}"
    return ""


def _cpu(command: Command) -> float:
    process = subprocess.Popen(
        command.words,
        cwd=HOME,
        env=environment(dict(command.extra)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime

"""Starting a program inside the boundary, against bubblewrap that bounds nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable

from report import Row, at_most, number

from metier import sandbox
from metier.types.sandbox import ProgramSpec, SandboxSpec

LIMIT = 2.0
BARE = ("/usr/bin/bwrap", "--ro-bind", "/", "/", "true")
PROGRAM = ProgramSpec(("true",), "/tmp", {"PATH": "/usr/bin:/bin"})
TIERS = {"bubblewrap": sandbox.MachineOptions(), "landlock": sandbox.MachineOptions(bwrap="/missing")}


def spawn(runs: int) -> list[Row]:
    """The least CPU of a start, ours and the children's, in turns; for the second tier nothing is asked."""
    found = {name: sandbox.probe_sandbox(machine) for name, machine in TIERS.items()}
    jobs: dict[str, Callable[[], object]] = {
        name: lambda machine=TIERS[name]: sandbox.run_sandboxed(PROGRAM, SandboxSpec("require"), machine)  # type: ignore[misc]
        for name, footing in found.items()
        if footing.tier == name
    }
    if os.access(BARE[0], os.X_OK):
        jobs["bare"] = lambda: subprocess.run(BARE, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    print(f"{runs} rounds of {len(jobs)} ways to start a program", file=sys.stderr)
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(runs):
        for name, job in jobs.items():
            best[name] = min(best[name], _cpu(job))
    bare = best.get("bare")
    missing = found["bubblewrap"].reason if "bubblewrap" not in best else ""
    if missing or bare is None:
        row = Row(what="F sandboxed spawn, bubblewrap", target=f"<= {LIMIT:g}x floor", note=missing or "no bwrap")
    else:
        row = at_most("F sandboxed spawn, bubblewrap", best["bubblewrap"], bare, LIMIT)
    if "landlock" not in best:
        return [row]
    ratio = f"landlock {number(best['landlock'], 'ms')}"
    return [Row(**{**vars(row), "peer": ratio})]


def _cpu(job: Callable[[], object], times: int = 8) -> float:
    """Milliseconds for one of several in a row: the kernel counts in steps that one alone would drown in."""
    before = _spent()
    for _ in range(times):
        job()
    return (_spent() - before) * 1000 / times


def _spent() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)

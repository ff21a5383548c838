"""However many firings and calls a real agent does: files, threads and memory stay as they are."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.wire import Says, speaking
from tests.cli.console import METIER, Desk
from tests.home import make_world, python

SOAK = bool(os.environ.get("METIER_SOAK"))
ROUNDS = 5_000 if SOAK else 40

FIRING = f"""
import gc, json, os, pathlib, sys, threading
from datetime import UTC, datetime
from metier.faces.agents import fire, run_task
from metier.types.schedule import BatchTask, CronTrigger, RunTerms, Schedule

class Run:
    session, body, folder = os.getcwd(), "Tidy up.", ""
    def step(self, name, work):
        return work()
    def stopped(self):
        return False

schedule = Schedule("s1", "tidy-0a1b2c3d", CronTrigger("0 9 * * *"), "UTC", "sha256:x", "/nowhere", "/nowhere", terms=RunTerms(model="mine"))

def call(number):
    if sys.argv[1] == "firing":
        outcome = fire(schedule, datetime.now(UTC), Run())
    else:
        outcome = run_task(BatchTask(f"task {{number}}", os.getcwd(), "mine"), lambda name, work: work(), lambda: False)
    assert outcome.ok, outcome

def now():
    status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return len(os.listdir("/proc/self/fd")), threading.active_count(), int(status["VmRSS"].split()[0])

for number in range({ROUNDS} // 4):
    call(number)
first = now()
# What waits for the collector is still open when the files run out: each has an owner that closes it.
if {not SOAK}:
    gc.disable()
for number in range({ROUNDS}):
    call(number)
print(json.dumps([first, now()]))
"""


@pytest.mark.parametrize("kind", ["firing", "call"])
def test_each_run_of_the_agent_closes_all_that_it_opened(tmp_path, kind):
    world = make_world(tmp_path)
    with speaking(lambda asked: Says("Done.")) as wire:
        world.state.mkdir()
        (world.state / "config.toml").write_text(f'[models.mine]\nmodel = "m"\nurl = "{wire.url}/v1"\n')
        done = python(FIRING, kind, env=world.variables, cwd=world.project, timeout=1_800)
    assert done.returncode == 0, done.stderr
    first, last = json.loads(done.stdout.splitlines()[-1])

    assert last[:2] == first[:2]
    assert last[2] <= first[2] * 1.05


def batch_within(desk: Desk, files: int, lines: int) -> subprocess.CompletedProcess[str]:
    """A batch by a process that may have so many files open."""
    calls = desk.project / "calls.txt"
    calls.write_text("".join(f"task {number}\n" for number in range(lines)))
    return subprocess.run(
        [*METIER, "batch", str(calls), "--model", "mine", "--json"],
        cwd=desk.project,
        env=desk.env | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files)),
        timeout=3_600,
    )


def test_a_batch_needs_no_more_files_than_its_jobs_do(tmp_path: Path):
    desk = Desk(tmp_path)
    lines = 3_000 if SOAK else 60
    with speaking(lambda asked: Says("Done.")) as wire:
        desk.configure(f'[models.mine]\nmodel = "a-model"\nurl = "{wire.url}/v1"\n')
        done = batch_within(desk, 128, lines)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["state"] for line in done.stdout.splitlines()] == ["finished"] * lines
    assert done.stderr == ""

"""A disk that is full, broken or read-only at the n-th step: it is said, the old or the new is there, and it goes on.

The kernel is made to refuse single calls, one after the other, so that every write of an operation fails once.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from itertools import cycle, product
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.cli.console import METIER, Desk, Said
from tests.install.servers import Repo

SOAK = bool(os.environ.get("METIER_SOAK"))
STRACE = shutil.which("strace")
if STRACE is None:
    pytest.skip("needs strace", allow_module_level=True)

CALLS = {
    "ENOSPC": "write,pwrite64,fsync,fdatasync,ftruncate,mkdir,mkdirat",
    "EIO": "rename,renameat,renameat2,link,linkat,unlink,unlinkat,fsync,rmdir",
    "EROFS": "mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,fchmod,chmod",
    "EINTR": "write,fsync,flock",
}
"""What the kernel says, and which calls it says it to."""


class Operation(NamedTuple):
    prepare: Callable[[Desk], None]
    words: Callable[[Desk], list[str]]
    done: Callable[[Desk], bool]


def _upstream(desk: Desk) -> None:
    repo = Repo(desk.home.parent / "upstream")
    repo.write("SKILL.md", "---\nname: thing\ndescription: Does a thing.\n---\nBody.\n")
    repo.write("references/more.md", "More.\n")
    repo.commit("one", date=1_700_000_000)


def _added(desk: Desk) -> None:
    _upstream(desk)
    assert desk.say("add", str(desk.home.parent / "upstream"), "--name", "thing", "--yes").code == 0


def _mine(desk: Desk) -> None:
    desk.skill("mine", "", desk.project / ".metier/skills")


def _edited(desk: Desk) -> None:
    _added(desk)
    with (desk.skills / "thing/SKILL.md").open("a") as file:
        file.write("Edited.\n")
    assert desk.say("approve", "thing", "--yes").code == 0


def _scheduler(desk: Desk) -> None:
    name = "tidy-0a1b2c3d"
    desk.skill(name, f"---\nname: {name}\ndescription: Tidies.\n---\nTidy up.\n", desk.state / "scheduler")
    assert desk.say("schedule", "list").code == 0


def _listed(desk: Desk, *words: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(desk.say(*words, "--json").out or "[]")
    return found


OPERATIONS = {
    "add": Operation(
        _upstream,
        lambda desk: ["add", str(desk.home.parent / "upstream"), "--name", "thing", "--yes"],
        lambda desk: (desk.skills / "thing/SKILL.md").exists() and "thing" in _lock(desk),
    ),
    "remove": Operation(_added, lambda desk: ["remove", "thing"], lambda desk: not (desk.skills / "thing").exists()),
    "trust": Operation(
        _mine,
        lambda desk: ["trust", "--yes", str(desk.project)],
        lambda desk: "mine" in desk.say("list").out and "untrusted" not in desk.say("status", "mine").out,
    ),
    "rollback": Operation(
        _edited,
        lambda desk: ["rollback", "thing", str(_listed(desk, "history", "thing")[-1]["rev"])],
        lambda desk: "Edited." not in (desk.skills / "thing/SKILL.md").read_text(),
    ),
    "schedule": Operation(
        _scheduler,
        lambda desk: ["schedule", "add", "tidy-0a1b2c3d", "0 9 * * *"],
        lambda desk: len(_listed(desk, "schedule", "list")) == 1,
    ),
}


def _lock(desk: Desk) -> dict[str, object]:
    file = desk.state / "skills-lock.json"
    found: dict[str, object] = json.loads(file.read_text())["skills"] if file.exists() else {}
    return found


def traced(desk: Desk, error: str, words: list[str], *more: str) -> tuple[Said, str]:
    """The command, and what it called of those calls."""
    log = desk.home.parent / "strace.log"
    done = subprocess.run(
        [str(STRACE), "-f", "-qq", "-o", str(log), "-e", f"trace={CALLS[error]}", *more, *METIER, *words],
        cwd=desk.project, env=desk.env, capture_output=True, stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    said = Said(done.returncode, done.stdout.decode(), done.stderr.decode())
    return said, log.read_text(errors="replace")


def faulty(desk: Desk, error: str, number: int, words: list[str]) -> tuple[Said, bool]:
    """The command, with the n-th of those calls refused in each process; and whether one was."""
    said, log = traced(desk, error, words, "-e", f"inject={CALLS[error]}:error={error}:when={number}")
    return said, "(INJECTED)" in log


def one_of_the_last(tmp_path: Path, operation: Operation, error: str) -> list[int]:
    """The number of a call by which something becomes so."""
    desk = Desk(tmp_path / "well")
    operation.prepare(desk)
    _, log = traced(desk, error, operation.words(desk))
    lines = [line for line in log.splitlines() if "resumed>" not in line and "+++" not in line]
    calls = sum(line.split()[0] == lines[0].split()[0] for line in lines)
    last = random.Random(error).randint(max(1, calls - 8), calls)
    return [last, max(1, last // 2), 1]  # the next, should it have had less to do this time


PAIRS = list(product(OPERATIONS, CALLS)) if SOAK else list(zip(OPERATIONS, cycle(CALLS), strict=False))


@pytest.mark.parametrize(("name", "error"), PAIRS)
def test_whatever_call_fails_it_is_said_and_nothing_is_half_done(tmp_path: Path, name: str, error: str):
    operation = OPERATIONS[name]
    if name == "schedule":
        pytest.importorskip("sqlalchemy", reason="the extra `schedule` is not installed")
    numbers = list(range(1, 400)) if SOAK else one_of_the_last(tmp_path, operation, error)
    fired = 0
    for number in numbers:
        if fired and not SOAK:
            break
        desk = Desk(tmp_path / str(number))
        operation.prepare(desk)
        said, hit = faulty(desk, error, number, operation.words(desk))
        if not hit and SOAK:
            break
        fired += hit
        told = f"{error} at call {number}: {said}"
        assert "Traceback" not in said.out + said.err, told
        if said.code == 0:
            assert operation.done(desk), told
        else:
            assert said.err.strip(), told
        for words in (["list", "--json"], ["verify"]):
            after = desk.say(*words)
            assert "Traceback" not in after.err, (told, after)
            assert after.code in (0, 1), (told, words, after)
        if not operation.done(desk):
            again = desk.say(*operation.words(desk))  # it is done anew, or what was begun is finished
            assert operation.done(desk), (told, again)
            assert "Traceback" not in again.err, (told, again)
    assert fired

"""Programs in boxes: a skill, a work folder and something private beside them, in a temporary folder."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from metier import sandbox
from metier.dialects import PROTECTED_FOLDERS
from metier.types.sandbox import ProcessResult, ProgramSpec, SandboxPermissions, SandboxSpec

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
SOAK = bool(os.environ.get("METIER_SOAK"))


def program(*argv: str, cwd: Path | str = "/", env: dict[str, str] | None = None, **more: Any) -> ProgramSpec:
    return ProgramSpec(argv, str(cwd), ENV | (env or {}), **more)


def sh(script: str, *arguments: str, **more: Any) -> ProgramSpec:
    # Words are parted at line ends alone: `$1` is one word also where TMPDIR has spaces.
    return program("bash", "-c", f"IFS=$'\\n'\n{script}", "bash", *arguments, **more)


def py(script: str, *arguments: str, **more: Any) -> ProgramSpec:
    return program(sys.executable, "-c", script, *arguments, **more)


@dataclass(frozen=True)
class Desk:
    """Where one test works, and the machine as it is allowed to use it."""

    machine: sandbox.MachineOptions
    skill: Path
    work: Path
    private: Path
    project: Path

    @property
    def tier(self) -> str:
        return sandbox.probe_sandbox(self.machine).tier

    def box(self, read: tuple[Path, ...] = (), write: tuple[Path, ...] = (), **more: Any) -> SandboxSpec:
        allowed = SandboxPermissions(more.pop("network", False), (), tuple(map(str, read)), tuple(map(str, write)))
        more.setdefault("protected", PROTECTED_FOLDERS)  # as a library hands them in
        return SandboxSpec(more.pop("need", "require"), str(self.skill), str(self.work), allowed, **more)

    def run(self, wanted: ProgramSpec, box: SandboxSpec | None = None) -> ProcessResult:
        if wanted.cwd == "/":
            wanted = replace(wanted, cwd=str(self.work))
        return sandbox.run_sandboxed(wanted, box or self.box(), self.machine)

    def says(self, wanted: ProgramSpec, box: SandboxSpec | None = None) -> str:
        """What it prints when all goes well."""
        ran = self.run(wanted, box)
        assert ran.status == 0, ran
        return ran.stdout.strip()


TIERS = {
    "bubblewrap": sandbox.MachineOptions(bwrap="system", landlock=False),
    "wheel": sandbox.MachineOptions(bwrap="wheel", landlock=False),
    "landlock": sandbox.MachineOptions(bwrap="/missing"),
}
"""Every tier, and what it is made of: bubblewrap may be the system's or the one that comes with metier."""

LACKING = {
    "bubblewrap": ("is not installed", "needs Linux", "no system call filter", "new namespace"),
    "wheel": ("is not installed", "needs Linux", "no system call filter", "new namespace"),
    "landlock": ("has no Landlock", "no system call filter"),
}
if container := os.environ.get("METIER_TEST_CONTAINER"):  # such as `docker sha256:…`, and the client if it is elsewhere
    tier, image, engine = [*container.split(), ""][:3]
    TIERS[tier] = sandbox.MachineOptions(only=tier, image=image, engine=engine, chosen_by="sandbox.tier")
    LACKING[tier] = ()


def lacks(name: str) -> str:
    """Why this machine does not have a tier; empty if it has it, or if it is here and does not hold."""
    footing = sandbox.probe_sandbox(TIERS[name])
    lacking = footing.tier == "none" and any(word in footing.reason for word in LACKING[name])
    return footing.reason if lacking else ""


HERE = [name for name in TIERS if not lacks(name)]
"""The tiers to run every test in; `test_every_tier_is_here` is skipped once for each of the others, and says why."""


def desk_for(tier: str, world: dict[str, Path]) -> Desk:
    footing = sandbox.probe_sandbox(TIERS[tier])
    if why := lacks(tier):
        pytest.skip(f"no {tier} here: {why}")
    assert footing.tier != "none", f"{tier} is here and does not hold: {footing.reason}"
    # Its own state folder, for what is moved away; what was probed is known by then.
    return Desk(TIERS[tier]._replace(state=str(world["work"].parent / "state")), **world)


def alive(marker: str) -> list[int]:
    """Processes that have this word among their arguments."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(marker.encode() == word for word in words):
                found.append(int(name))
    return found


def begun(run: Callable[[float], ProcessResult], seconds: float, word: str) -> ProcessResult:
    """A program ended at its time, which is prolonged where a busy machine had not yet let it say its first word."""
    ran = run(seconds)
    for longer in (5 * seconds, 50 * seconds):
        if word in ran.stdout:
            break
        ran = run(longer)
    return ran


def soon(true: Callable[[], object], patience: float = 60) -> bool:
    """Whether something comes true before we lose patience."""
    end = time.monotonic() + patience
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True

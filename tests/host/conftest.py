import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.host.boxes import Desk, soon

from metier.host import sandbox

TIERS = {"bubblewrap": sandbox.MachineOptions(landlock=False), "landlock": sandbox.MachineOptions(bwrap="/missing")}

LACKING = {
    "bubblewrap": ("is not installed", "needs Linux", "no system call filter", "create new namespace"),
    "landlock": ("has no Landlock", "no system call filter"),
}

if container := os.environ.get("METIER_TEST_CONTAINER"):  # such as `docker sha256:…`, and the client if it is elsewhere
    tier, image, engine = [*container.split(), ""][:3]
    TIERS[tier] = sandbox.MachineOptions(only=tier, image=image, engine=engine, chosen_by="sandbox.tier")
    LACKING[tier] = ()


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """No test may leave an open file, a thread or a temporary folder behind."""

    def temporary() -> set[str]:
        return {
            name for name in os.listdir(tempfile.gettempdir()) if name.startswith(("metier-work-", "metier-probe-"))
        }

    for machine in TIERS.values():
        sandbox.probe_sandbox(machine)
    files, threads, folders = len(os.listdir("/proc/self/fd")), threading.active_count(), temporary()
    yield
    assert soon(lambda: len(os.listdir("/proc/self/fd")) <= files), "a file stayed open"
    assert threading.active_count() <= threads
    new = temporary() - folders  # those of tests beside this one are among them, and go when they end
    assert soon(lambda: not (new & temporary()), 60), f"left behind: {new & temporary()}"


@pytest.fixture
def world(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name for name in ("skill", "work", "private", "project")}
    for folder in found.values():
        folder.mkdir()
    (found["skill"] / "SKILL.md").write_text("---\nname: skill\n---\n")
    (found["private"] / "key").write_text("secret")
    (found["project"] / "code.txt").write_text("code")
    return found


def desk_for(tier: str, world: dict[str, Path]) -> Desk:
    footing = sandbox.probe_sandbox(TIERS[tier])
    assert all(check.held for check in footing.checks), f"{tier} is here and does not hold: {footing.reason}"
    if footing.tier != tier:  # only for want of what it is made of: one that is here and fails is no reason to skip
        assert any(word in footing.reason for word in LACKING[tier]), footing.reason
        pytest.skip(f"no {tier} here: {footing.reason}")
    return Desk(TIERS[tier], **world)


@pytest.fixture(params=TIERS)
def desk(request: pytest.FixtureRequest, world: dict[str, Path]) -> Desk:
    """A desk in each tier that this machine has."""
    return desk_for(request.param, world)


@pytest.fixture
def bubble(world: dict[str, Path]) -> Desk:
    return desk_for("bubblewrap", world)


@pytest.fixture
def landlocked(world: dict[str, Path]) -> Desk:
    return desk_for("landlock", world)

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.host.boxes import HERE, TIERS, Desk, desk_for, lacks, soon

from metier import sandbox


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of a tier that is not here: `test_every_tier_is_here` says so, once for all of them."""
    missing = {
        *(["bubble"] if not {"bubblewrap", "wheel"} & {*HERE} else []),
        *(["landlocked"] if "landlock" not in HERE else []),
    }
    left_out = [item for item in items if missing & {*getattr(item, "fixturenames", ())}]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


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


@pytest.fixture(params=HERE)
def desk(request: pytest.FixtureRequest, world: dict[str, Path]) -> Desk:
    """A desk in each tier that this machine has."""
    return desk_for(request.param, world)


@pytest.fixture
def bubble(world: dict[str, Path]) -> Desk:
    """A desk in bubblewrap, whichever there is."""
    return desk_for("wheel" if lacks("bubblewrap") else "bubblewrap", world)


@pytest.fixture
def landlocked(world: dict[str, Path]) -> Desk:
    return desk_for("landlock", world)

"""A world of its own for every test, and both ways to open files."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.home import World, make_world

from metier.host import files


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.fixture(params=["openat2", "walk"])
def opener(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both openers: the system call, and the walk of machines that lack it."""
    files.use_plain_walk(request.param == "walk")
    yield request.param
    files.use_plain_walk(False)

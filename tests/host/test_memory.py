"""What is made by the thousand is taken for old, and its garbage is found all the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from metier.host.memory import pause_garbage_collection


class Ring:
    """Garbage that only a look can find."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.unfreeze()
    gc.enable()


def test_nobody_looks_for_garbage_while_many_are_made() -> None:
    with pause_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_was_made_is_old_at_once() -> None:
    with pause_garbage_collection():
        kept: list[object] = []
    assert any(one is kept for one in gc.get_objects(generation=2))


def test_garbage_among_what_was_made_is_found_in_the_end() -> None:
    first = weakref.ref(Ring())
    for _ in range(100):
        with pause_garbage_collection():
            for _ in range(5_000):
                Ring()
    assert first() is None


def test_what_others_froze_stays_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with pause_garbage_collection():
        pass
    assert gc.get_freeze_count() > frozen / 2


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with pause_garbage_collection():
        pass
    assert not gc.isenabled()

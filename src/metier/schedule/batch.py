"""A batch: many calls over the queue, done by the daemon of this home, or by a worker of its own while it lasts."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from json import dumps
from typing import TYPE_CHECKING

from ..host import clock, daemon
from ..types.batch import Do, Ran, Task
from ..types.errors import BadRequest, HostError, Refused
from ..types.place import Place
from . import book, calls, runs
from .calls import Caller
from .database import named_errors, open_engine
from .engine import Durable
from .runs import Worker
from .worker import Pace, bury, home_id, lock_path, utc_now

if TYPE_CHECKING:
    from .database import Engine

_LOOK = 0.2


def batch(place: Place, do: Do, tasks: Sequence[Task], jobs: int = 4) -> Iterator[Ran]:
    """Do calls, and give each as it ends.  A batch that was cut off goes on where it was."""
    digest = sha256(dumps([repr(task) for task in tasks]).encode("utf-8", "replace")).hexdigest()[:16]
    engine = open_engine(place)
    try:
        with _alone(place, digest), named_errors(place):
            yield from _batch(place, engine, do, tasks, (digest, jobs))
    finally:
        engine.dispose()


@contextmanager
def _alone(place: Place, digest: str) -> Iterator[None]:
    try:
        with daemon.held(lock_path(place, f"batch-{digest}")):
            yield
    except Refused as error:
        raise BadRequest("the same batch is going on in another process", "wait for it to end") from error


def _batch(place: Place, engine: Engine, do: Do, tasks: Sequence[Task], terms: tuple[str, int]) -> Iterator[Ran]:
    (digest, jobs), home = terms, home_id(place)
    name, durable = f"batch-{digest}", Durable(engine, f"batch-{digest}-{daemon.unguessable()}")
    private = not _living(place, engine, home, name)
    if private:
        _work(engine, durable, (home, name), do, jobs)
        for one in _dead(place, engine, home, durable):
            bury(engine, durable, one, utc_now())
    number = calls.unfinished(engine, digest) or f"{digest}-{daemon.unguessable()}"
    calls.enter(engine, durable, home, number, tasks)
    try:
        yield from _results(place, engine, durable, (number, len(tasks), private, home))
        calls.forget(engine, number)
    finally:
        if private:
            runs.dismiss(engine, durable.worker, "left")


def _results(place: Place, engine: Engine, durable: Durable, of: tuple[str, int, bool, str]) -> Iterator[Ran]:
    (number, total, private, home), seen, pace = of, set[int](), Pace()
    beaten = clock.monotonic()
    while len(seen) < total:
        for one in calls.ended(engine, number):
            if one.number not in seen:
                seen.add(one.number)
                yield one
        if clock.monotonic() - beaten >= pace.beat:
            beaten = clock.monotonic()
            if private:
                runs.beat(engine, durable.worker)
            elif not _living(place, engine, home, ""):
                raise HostError("the daemon that worked on it is gone", "run it again: what is done is kept")
        clock.sleep(_LOOK)


def _work(engine: Engine, durable: Durable, who: tuple[str, str], do: Do, jobs: int) -> None:
    """Become a worker that takes calls, and no firings."""
    home, name = who
    me = Worker(durable.worker, name, home, daemon.machine(), daemon.pid(), book.ms(utc_now()), 0, "up")
    runs.enrol(engine, me)
    caller = Caller(do, engine, durable, threading.Event())
    durable.launch([caller.line(home, jobs, _LOOK)])


def _living(place: Place, engine: Engine, home: str, mine: str) -> bool:
    """Whether a daemon of this home is there to do it."""
    return any(
        one.state == "up" and daemon.holder(lock_path(place, one.name))
        for one in runs.workers(engine)
        if one.home == home and one.name != mine and not one.name.startswith("batch-")
    )


def _dead(place: Place, engine: Engine, home: str, durable: Durable) -> list[Worker]:
    """Workers of this home whose processes are gone."""
    known = [one for one in runs.workers(engine) if one.home == home and one.id != durable.worker]
    gone = [one for one in known if one.state != "up" or daemon.holder(lock_path(place, one.name)) is None]
    for one in gone:
        runs.dismiss(engine, one.id)
    return gone

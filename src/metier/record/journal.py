"""A journal: the events of one run, a line each, in a file of the owner's alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from json import loads
from typing import NamedTuple

from ..host import lines
from ..host.clock import local_stamp, new_name, now_ns
from ..types.agent import IMPROVER
from ..types.errors import BadRequest
from ..types.event import Event, Started, Wrote
from .encode import decode, line_of

_id = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}").fullmatch


class Recorded(NamedTuple):
    at: float
    """When, in seconds since 1970."""
    event: Event


def new_id() -> str:
    """A name for a run."""
    return new_name()


def folder_of(state: str) -> str:
    return f"{state}/runs"


@dataclass(frozen=True)
class Journal:
    path: str
    hide: Callable[[str], str] = str
    """Takes secrets out of a line before it is written."""

    def keep(self, event: Event) -> None:
        """Write an event down.  Pieces of a reply are not: the reply itself follows."""
        if not isinstance(event, Wrote):
            lines.append(self.path, self.hide(line_of(event, now_ns() / 1e9)))

    def read(self) -> Iterator[Recorded]:
        """Everything that was written; a line that was cut off by a crash is passed over."""
        for line in lines.read(self.path):
            try:
                written = loads(line)
            except ValueError:
                continue
            event = decode(written) if isinstance(written, dict) else None
            if event is not None:
                at = written.get("at")
                yield Recorded(float(at) if isinstance(at, int | float) else 0.0, event)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Nobody else goes on with this run meanwhile."""
        with lines.claimed(self.path) as free:
            if not free:
                raise BadRequest("that run is going on somewhere else", "wait for it to end, or start another")
            yield


def journal_of(state: str, run: str, hide: Callable[[str], str] = str) -> Journal:
    """The journal of a run that is there; the beginning of its name will do, and `last` is the newest of a person's."""
    names = ids(state)
    if run == "last" and names:
        kept = [Journal(f"{folder_of(state)}/{name}.jsonl", hide) for name in reversed(names)]
        return next(filter(_is_own, kept), kept[0])
    found = [name for name in names if name.startswith(run)] if run else []
    if run in found:
        found = [run]
    if len(found) != 1:
        what = f"no run is called `{run}`" if not found else f"{len(found)} runs begin with `{run}`"
        raise BadRequest(what, "run `metier runs` to see what there is")
    return Journal(f"{folder_of(state)}/{found[0]}.jsonl", hide)


def _is_own(journal: Journal) -> bool:
    """Whether a run was begun by somebody, and not by another run or by what improves skills afterwards."""
    begun = next((one.event for one in journal.read()), None)
    return isinstance(begun, Started) and not begun.parent and begun.agent != IMPROVER


def forget(state: str, days: int, most: int) -> None:
    """Remove the journals that are older or more than are kept, but for runs that are going on; 0 is no end."""
    names = ids(state)
    began = local_stamp(now_ns() - days * 86_400_000_000_000) if days else ""
    old = [name for at, name in enumerate(names) if name < began or (most and at < len(names) - most)]
    for name in old:
        lines.remove(f"{folder_of(state)}/{name}.jsonl")


def ids(state: str) -> list[str]:
    """The runs there are, the oldest first."""
    names = [name.removesuffix(".jsonl") for name in lines.names(folder_of(state)) if name.endswith(".jsonl")]
    return sorted(name for name in names if _id(name))

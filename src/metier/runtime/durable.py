"""Steps that outlast a crash: what came of each is kept as JSON, without secrets, and read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from json import dumps, loads
from typing import Any

from ..act.boxes import Done, Step
from ..act.toolset import Ending
from ..record.encode import decode, encode, plain, read
from ..types.errors import ModelError
from ..types.event import Wrote
from ..types.model import Reply
from ..types.tool import Answer

Keep = Callable[[str, Callable[[], object]], object]
"""Does a piece of work once, and keeps what it gave, which must be JSON."""
_VALUES: Mapping[str, type[Any]] = {"reply": Reply, "answer": Answer}


def durable(keep: Keep, hide: Callable[[str], str] = str) -> Step:
    """Steps that are kept; the same ones in the same order have the same names."""
    number = count(1)

    def step(name: str, work: Callable[[], Done]) -> Done:
        kept = keep(f"{next(number)} {name}", lambda: hide(dumps(written(work()))))
        return done_of(loads(str(kept)))

    return step


def written(done: Done) -> dict[str, object]:
    """What came of a step as plain values.  Pieces of a reply are left out: the reply has them all."""
    found: dict[str, object] = {"events": [encode(one) for one in done.events if not isinstance(one, Wrote)]}
    if isinstance(done.fault, ModelError):
        found["failed"] = [done.fault.message, done.fault.hint, done.fault.reason]
    elif done.fault is not None:
        one = done.fault
        found["ending"] = [one.outcome, one.text, one.reason, one.hint, one.code]
    elif done.value is not None:
        found[type(done.value).__name__.lower()] = plain(done.value)
    return found


def done_of(kept: Mapping[str, Any]) -> Done:
    events = tuple(one for event in kept["events"] if (one := decode(event)) is not None)
    if "failed" in kept:
        return Done(events, fault=ModelError(*kept["failed"]))
    if "ending" in kept:
        return Done(events, fault=Ending(*kept["ending"]))
    values = [read(kind, kept[name]) for name, kind in _VALUES.items() if name in kept]
    return Done(events, values[0] if values else None)

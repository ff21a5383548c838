"""A structured log: a line of JSON for each event and each command, for whoever looks for a fault.

It has names, times and reasons, and nothing that was said: a person can send it.  `METIER_LOG` names the file, or is
`stderr`.  Without it nothing here is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from json import dumps

from ..host.facts import now_ns
from ..host.fs import append_line
from ..types.errors import HostError
from ..types.event import (
    Activated,
    Asked,
    Compacted,
    Ended,
    Event,
    EventSteps,
    Heard,
    Replied,
    Resumed,
    Retried,
    Started,
    Used,
    Wrote,
    innermost_event,
)
from .trace_context import LOG_VARIABLE, TurnSubject


def write_log(target: str, what: str, facts: Mapping[str, object], hide: Callable[[str], str] = str) -> None:
    """Write one line; a log that can't be written stops nothing."""
    at = datetime.fromtimestamp(now_ns() / 1e9, UTC).isoformat(timespec="milliseconds")
    kept = {key: value for key, value in facts.items() if value not in ("", None, ())}
    line = hide(dumps({"at": at, "what": what, **kept}, ensure_ascii=False, default=str))
    if target == "stderr":
        print(line, file=sys.stderr, flush=True)  # noqa: T201  # where the user asked for it
        return
    with suppress(HostError):
        append_line(target, line)


def log_turn(steps: EventSteps[None], subject: TurnSubject) -> EventSteps[None]:
    """The same events, each with a line in the log; pieces of a reply are none."""
    target = subject.env[LOG_VARIABLE]
    for event in steps:
        if not isinstance(event, Wrote):
            inner = innermost_event(event)
            about = {"run": subject.run, "schedule": subject.schedule, **_facts_of(inner)}
            write_log(target, type(inner).__name__.lower(), about, subject.hide)
        yield event


def _facts_of(event: Event) -> dict[str, object]:
    """What a line says of an event: never what somebody wrote."""
    match event:
        case Started() | Resumed():
            return {"model": event.model}
        case Heard():
            return {"by": event.by}
        case Activated():
            return {"skill": event.skill, "by": event.by, "digest": event.digest}
        case Replied():
            calls = [call.name for call in event.calls]
            return {"calls": calls, "input": event.usage.input, "output": event.usage.output}
        case Asked():
            return {"tool": event.tool, "kind": event.kind}
        case Used():
            named = {"tool": event.call.name, "skill": event.skill, "seconds": round(event.seconds, 3)}
            return named | {"status": event.status, "reason": event.reason, "cause": event.cause}
        case Retried():
            return {"attempt": event.attempt, "seconds": event.seconds}
        case Compacted():
            return {"before": event.before, "after": event.after}
        case Ended():
            return {"outcome": event.outcome, "reason": event.reason, "seconds": round(event.seconds, 3)}
    return {}

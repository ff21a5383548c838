"""Observe turns and firings, where somebody wants traces or a log of them.

Every turn of every run passes here; OpenTelemetry is imported only for one that is traced.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .trace_context import LOG_VARIABLE, TurnSubject, asks_for_telemetry, in_trace

if TYPE_CHECKING:
    from ..types.event import EventSteps
    from .telemetry import Telemetry


def observe_turn(steps: EventSteps[None], subject: TurnSubject) -> EventSteps[None]:
    """The same events, with a line in the log for each, and spans, where somebody wants them."""
    if subject.env.get(LOG_VARIABLE):
        from .run_log import log_turn

        steps = log_turn(steps, subject)
    telemetry = _telemetry_for(subject.env)
    return steps if telemetry is None else telemetry.observe_turn(steps, subject)


@contextmanager
def observe_firing(env: Mapping[str, str], schedule: str, skill: str, late: float) -> Iterator[None]:
    """A span around one firing, the root of its trace; and how late it began, in seconds."""
    telemetry = _telemetry_for(env)
    if telemetry is None:
        yield
        return
    with telemetry.firing(schedule, skill, late) as traceparent, in_trace(traceparent):
        yield


def _telemetry_for(env: Mapping[str, str]) -> Telemetry | None:
    # An application that set up OpenTelemetry itself gets our spans among its own, and has imported it by then.
    if not asks_for_telemetry(env) and "opentelemetry.sdk.trace" not in sys.modules:
        return None
    try:
        from .telemetry import find_telemetry
    except ImportError:  # the variables may be meant for other programs: `metier doctor` says what lacks
        return None
    return find_telemetry(env)

"""Whether runs are traced, and the trace that a program belongs to.

All of it without OpenTelemetry: every turn of every run passes here, and one that is not traced costs a few lookups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

VARIABLE = "TRACEPARENT"
"""What a traced program is told by: `00-<trace>-<span>-<flags>`, as W3C Trace Context writes it."""
LOG_VARIABLE = "METIER_LOG"
"""Where the structured log goes: a file, or `stderr`."""
_SWITCHES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
)
"""Each of them names somewhere to send to; without one nothing is sent, not even to a collector at the default port."""

_current: ContextVar[str] = ContextVar("metier-traceparent", default="")


def current_traceparent() -> str:
    """The trace and the span that this thread works for; empty where nothing is traced."""
    return _current.get()


@contextmanager
def in_trace(traceparent: str) -> Iterator[None]:
    """Programs that start in here, and runs that are delegated, belong to this span."""
    token = _current.set(traceparent)
    try:
        yield
    finally:
        _current.reset(token)


@dataclass(frozen=True)
class TurnSubject:
    """Whose turn is traced."""

    run: str
    model: str
    agent: str = ""
    dialect: str = ""
    schedule: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    hide: Callable[[str], str] = str
    source: Callable[[str], str] = str
    """Where a skill comes from, by the path of its file."""


def asks_for_telemetry(env: Mapping[str, str]) -> bool:
    """Whether the standard variables ask for traces or metrics."""
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return any(env.get(name, "").strip() not in ("", "none") for name in _SWITCHES)

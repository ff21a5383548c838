"""A run's events as OpenTelemetry spans and metrics, by the conventions for generative AI.

A turn is `invoke_agent`, with a `chat` for each reply and an `execute_tool` for each call of a tool; a firing of a
schedule is a span around its turn.  Times are those of the events, so the loop knows nothing of spans.  What was said
is left out unless the standard variable asks for it, and every text passes the redactor.

The only module that imports OpenTelemetry: `observation` decides whether it is needed.
"""

from __future__ import annotations

import atexit
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from json import dumps
from threading import Lock, Thread
from typing import TypeAlias

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ..host.daemon import before_exit
from ..host.facts import now_ns
from ..types.activation import ToolCall
from ..types.event import (
    Activated,
    Answered,
    Asked,
    Compacted,
    Ended,
    Event,
    EventSteps,
    Heard,
    Nested,
    Replied,
    Retried,
    Usage,
    Used,
    Waited,
    Wrote,
)
from ..types.text import shorten_text
from .redaction import hide_strings
from .trace_context import TurnSubject, asks_for_telemetry, current_traceparent, in_trace

Attributes: TypeAlias = dict[str, "str | int | float | bool | list[str]"]

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_LONGEST_CONTENT = 20_000
"""Characters of one text: services refuse a batch for one attribute that is too long."""
_EXIT_SECONDS = 3.0
"""How long the end of a command waits for a collector: traces matter less than the shell's prompt."""
_PROVIDERS = {"google": "gcp.gemini", "openai-responses": "openai"}
"""Services whose name in the conventions is another."""
_CALM_ENDINGS = frozenset({"finished", "interrupted"})


# --- Where spans and metrics go ---


def _own_version() -> str:
    # From the package's metadata: `metier` itself imports everything below and above.
    try:
        return version("metier")
    except PackageNotFoundError:  # a checkout that was not installed
        return ""


_lock = Lock()
_opened: list[Telemetry] = []


def find_telemetry(env: Mapping[str, str]) -> Telemetry | None:
    """The application's own telemetry if it has set it up, or one that the standard variables configure."""
    provider = trace.get_tracer_provider()
    if not isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return _telemetry_of_application(provider)
    if not asks_for_telemetry(env):
        return None
    with _lock:  # a daemon fires several schedules at once
        if not _opened:
            _opened.append(_open_telemetry(env))
    return _opened[0]


@lru_cache(1)
def _telemetry_of_application(provider: trace.TracerProvider) -> Telemetry:
    return Telemetry(provider, metrics.get_meter_provider())


def _open_telemetry(env: Mapping[str, str]) -> Telemetry:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    # A collector that does not answer would write into the middle of a chat; METIER_LOG shows what it logs.
    logger = logging.getLogger("opentelemetry")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    named = env.get("OTEL_SERVICE_NAME") or "service.name=" in env.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({"service.version": _own_version()} | ({} if named else {"service.name": "metier"}))
    # At exit they are shut down here, with a limit of time that the SDK's own shutdown does not have.
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    readers = []
    # Console means standard error: standard output is the command's, and may be JSON.
    match _exporter_name(env, "TRACES"):
        case "console":
            tracers.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=sys.stderr)))
        case "otlp":
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    match _exporter_name(env, "METRICS"):
        case "console":
            readers.append(PeriodicExportingMetricReader(ConsoleMetricExporter(out=sys.stderr)))
        case "otlp":
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

            readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    meters = MeterProvider(readers, resource, shutdown_on_exit=False)

    def finish() -> None:
        # Both at once, each in a thread that may be left behind.
        ends = [Thread(target=provider.shutdown, daemon=True) for provider in (tracers, meters)]
        for end in ends:
            end.start()
        for end in ends:
            end.join(_EXIT_SECONDS)

    atexit.register(finish)
    before_exit(finish)
    return Telemetry(tracers, meters)


def _exporter_name(env: Mapping[str, str], signal: str) -> str:
    """`otlp`, `console` or `none`; what the extra does not bring is `none`."""
    named = env.get(f"OTEL_{signal}_EXPORTER", "").strip()
    if named:
        return named
    # One signal that has an address of its own does not switch the other on.
    addressed = env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or env.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return "otlp" if addressed else "none"


class Telemetry:
    """Where spans and metrics go."""

    def __init__(self, tracers: trace.TracerProvider, meters: metrics.MeterProvider) -> None:
        self.tracer = tracers.get_tracer("metier", _own_version())
        meter = meters.get_meter("metier", _own_version())
        self.tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens of a reply")
        self.durations = meter.create_histogram("gen_ai.client.operation.duration", "s", "Time of a reply")
        self.activations = meter.create_counter("metier.skill.activations", "{activation}", "Skills activated")
        self.failures = meter.create_counter("metier.tool.failures", "{call}", "Calls of tools that failed")
        self.turns = meter.create_counter("metier.turns", "{turn}", "Turns, by how they ended")
        self.firings = meter.create_counter("metier.schedule.firings", "{firing}", "Firings of schedules")
        self.lateness = meter.create_histogram("metier.schedule.lateness", "s", "How late a firing began")

    def observe_turn(self, steps: EventSteps[None], subject: TurnSubject) -> EventSteps[None]:
        """The same events, with a span for the turn."""
        return TurnTracer(self, subject).observe(steps)

    @contextmanager
    def firing(self, schedule: str, skill: str, late: float) -> Iterator[str]:
        """A span around one firing; its traceparent."""
        about: Attributes = {"metier.schedule": schedule, "gen_ai.skill.name": skill}
        self.lateness.record(late, about)
        self.firings.add(1, about)
        # A root, whatever the worker itself was started by: one trace of all firings would never end.
        span = self.tracer.start_span(
            f"fire_schedule {schedule}", Context(), attributes={**about, "metier.schedule.lateness": late}
        )
        done = False
        try:
            yield traceparent_of(span)
            done = True
        finally:
            if not done:
                span.set_status(Status(StatusCode.ERROR))
            span.end()


def traceparent_of(span: Span) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _parent_context(env: Mapping[str, str]) -> Context | None:
    """What the turn is part of: a call or firing of ours, the caller's `TRACEPARENT`, or the application's span."""
    parent = current_traceparent() or env.get("TRACEPARENT", "")
    if not parent or (not current_traceparent() and trace.get_current_span().get_span_context().is_valid):
        return None
    return TraceContextTextMapPropagator().extract({"traceparent": parent})


# --- One turn ---


class TurnTracer:
    """The spans of one turn.  Calls run one after the other, so that one of them is open at most."""

    def __init__(self, telemetry: Telemetry, subject: TurnSubject) -> None:
        self._telemetry, self._subject, self._hide = telemetry, subject, subject.hide
        self._content = subject.env.get(CONTENT_VARIABLE, "").strip().lower() not in ("", "false", "no_content")
        service, colon, model = subject.model.partition(":")
        self._model = model or service
        provider = _PROVIDERS.get(service, service) if colon else "metier"
        self._about: Attributes = {"gen_ai.provider.name": provider, "gen_ai.request.model": self._model}
        self._since = now_ns()
        self._asking = self._closed = False
        self._waiting: list[ToolCall] = []
        self._tool: tuple[ToolCall, Span] | None = None
        self._skills: list[str] = []
        self._used = Usage()
        self._turn = self._open_turn()
        self._inside = trace.set_span_in_context(self._turn)

    def observe(self, steps: EventSteps[None]) -> EventSteps[None]:
        """The same events.  The trace is this thread's only while a step is done: between two it may be another's."""
        try:
            while True:
                try:
                    with in_trace(traceparent_of(self._tool[1] if self._tool else self._turn)):
                        event = next(steps)
                except StopIteration:
                    return
                self._see(event)
                yield event
        finally:
            steps.close()
            self._close(Ended("interrupted"))

    def _open_turn(self) -> Span:
        subject = self._subject
        name = subject.agent or "metier"
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.conversation.id": subject.run,
            "metier.run": subject.run,
            "metier.dialect": subject.dialect,
            "metier.schedule": subject.schedule,
        }
        return self._telemetry.tracer.start_span(
            f"invoke_agent {name}",
            _parent_context(subject.env),
            attributes=self._about | {key: value for key, value in attributes.items() if value},
            start_time=self._since,
        )

    def _see(self, event: Event) -> None:
        """Note an event; it is yielded to the caller afterwards."""
        match event:
            case Wrote() | Waited() | Retried():
                self._asking = True
                if isinstance(event, Retried):
                    self._turn.add_event("metier.retried", {"metier.reason": self._hide(event.reason)})
                return  # the reply goes on, and so does its time
            case Heard():
                self._turn.set_attribute("metier.invoked_by", event.by)
                self._put_message(self._turn, "gen_ai.input.messages", "user", event.text)
            case Activated():
                self._activated(event)
            case Replied():
                self._replied(event)
            case Used():
                self._answered(event)
            case Asked() | Answered():
                self._note_approval(event)
            case Compacted():
                self._count_tokens(event.usage)
                self._turn.add_event("metier.compacted", {"before": event.before, "after": event.after})
            case Ended():
                self._close(event)
            case Nested():
                pass  # a delegated run has spans of its own
        self._asking, self._since = False, now_ns()

    # --- Skills ---

    def _activated(self, event: Activated) -> None:
        self._skills.append(event.skill)
        source = self._hide(self._subject.source(event.path))
        about: Attributes = {"gen_ai.skill.name": event.skill}
        self._telemetry.activations.add(1, about | {"metier.invoked_by": event.by})
        more: Attributes = {"gen_ai.skill.source.uri": source, "metier.skill.digest": event.digest}
        self._turn.add_event("metier.skill.activated", about | {key: value for key, value in more.items() if value})
        # The turn belongs to the skill that was activated last; all of them are in the list.
        self._turn.set_attributes(about | {"metier.skills": list(dict.fromkeys(self._skills))})
        if source:
            self._turn.set_attribute("gen_ai.skill.source.uri", source)

    # --- Replies ---

    def _replied(self, event: Replied) -> None:
        span = self._open_chat()
        span.set_attributes(_usage_attributes(event.usage))
        span.set_attribute("gen_ai.response.finish_reasons", ["tool_calls" if event.calls else "stop"])
        self._put_message(span, "gen_ai.output.messages", "assistant", event.text)
        self._end_chat(span)
        self._count_tokens(event.usage)
        self._waiting = list(event.calls)
        self._open_tool()

    def _open_chat(self) -> Span:
        about = self._about | {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": self._subject.run}
        tracer = self._telemetry.tracer
        return tracer.start_span(f"chat {self._model}", self._inside, SpanKind.CLIENT, about, start_time=self._since)

    def _end_chat(self, span: Span, error: str = "") -> None:
        about = self._about | {"gen_ai.operation.name": "chat"}
        if error:
            about |= {"error.type": error}
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        span.end()
        self._telemetry.durations.record((now_ns() - self._since) / 1e9, about)

    def _count_tokens(self, usage: Usage) -> None:
        self._used += usage
        for kind, count in (("input", usage.input), ("output", usage.output)):
            about: Attributes = {"gen_ai.operation.name": "chat", "gen_ai.token.type": kind}
            if count:
                self._telemetry.tokens.record(count, self._about | about)

    # --- Calls of tools ---

    def _open_tool(self) -> None:
        """Open the span of the next call now, before it runs: its programs are told by it."""
        if not self._waiting:
            return
        call = self._waiting.pop(0)
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self._hide(call.name),
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.id,
            "gen_ai.conversation.id": self._subject.run,
        }
        tracer = self._telemetry.tracer
        span = tracer.start_span(f"execute_tool {self._hide(call.name)}", self._inside, attributes=attributes)
        if self._content:
            # Text by text, before JSON escapes it: a secret of several lines is found in neither line of JSON.
            arguments = hide_strings(dict(call.arguments), self._hide)
            self._put_content(span, "gen_ai.tool.call.arguments", dumps(arguments, ensure_ascii=False, default=str))
        self._tool = (call, span)

    def _answered(self, event: Used) -> None:
        if self._tool is None or self._tool[0].id != event.call.id:
            return  # what follows an answer is said in an event of the same kind
        span = self._tool[1]
        about: Attributes = {"gen_ai.tool.name": self._hide(event.call.name)}
        if event.skill:
            about["gen_ai.skill.name"] = event.skill
        span.set_attributes(about)
        if event.status is not None:
            span.set_attribute("metier.exit_status", event.status)
        if event.cause:
            span.set_attribute("metier.cause", event.cause)
        if event.failed:
            reason = event.reason or "exit-status"
            span.set_attribute("error.type", reason)
            span.set_status(Status(StatusCode.ERROR))
            self._telemetry.failures.add(1, about | {"error.type": reason})
        self._put_content(span, "gen_ai.tool.call.result", event.text)
        span.end()
        self._tool = None
        self._open_tool()

    def _note_approval(self, event: Asked | Answered) -> None:
        span = self._tool[1] if self._tool else self._turn
        if isinstance(event, Asked):
            span.add_event("metier.asked", {"metier.kind": event.kind})
        else:
            # The answer to a question is what somebody said; the one to an approval is a decision.
            span.add_event("metier.answered", {"metier.answered_by": event.by})

    # --- The end ---

    def _close(self, event: Ended) -> None:
        if self._closed:
            return
        self._closed = True
        why = event.reason or event.outcome
        if self._tool is not None:
            self._tool[1].set_attribute("error.type", "unfinished")
            self._tool[1].end()
            self._tool = None
        if self._asking:
            self._end_chat(self._open_chat(), why)
        self._turn.set_attributes({"metier.outcome": event.outcome, **_usage_attributes(self._used)})
        if event.outcome not in _CALM_ENDINGS:
            self._turn.set_attribute("error.type", why)
            # Only the text of a failure is ours; the others are the model's words.
            text = shorten_text(self._hide(event.text), 300) if event.outcome == "failed" else ""
            self._turn.set_status(Status(StatusCode.ERROR, text or None))
        self._put_message(self._turn, "gen_ai.output.messages", "assistant", event.text)
        self._turn.end()
        about: Attributes = {"metier.outcome": event.outcome, "gen_ai.request.model": self._model}
        self._telemetry.turns.add(1, about)

    def _put_content(self, span: Span, name: str, text: str) -> None:
        """What was said, only where the user asked for it, without secrets."""
        if self._content and text:
            span.set_attribute(name, shorten_text(self._hide(text), _LONGEST_CONTENT))

    def _put_message(self, span: Span, name: str, role: str, text: str) -> None:
        """The same for a message, in the form of the conventions."""
        if self._content and text:
            parts = [{"type": "text", "content": shorten_text(self._hide(text), _LONGEST_CONTENT)}]
            span.set_attribute(name, dumps([{"role": role, "parts": parts}], ensure_ascii=False))


def _usage_attributes(usage: Usage) -> Attributes:
    counts: Attributes = {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
    }
    return counts | ({"metier.cost_usd": usage.cost} if usage.cost is not None else {})

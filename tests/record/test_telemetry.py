"""Runs as OpenTelemetry spans and metrics, as a receiver of the protocol gets them."""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.home import SOURCE, World, make_world, python, write_skill
from tests.record.otlp_receiver import Received, receiving
from tests.schedule.house import House, now

from metier.library.grants import secret_values
from metier.schedule import store

SECRET = "correct-horse-battery-staple"
RUN = """
import sys, json
import metier
from metier.agent.agent import Agent
from metier.agent.permissions import Permission, PermissionRule
from metier.testing.models import ScriptedModel
from metier.types.activation import ToolCall

allowed = Permission(allow=(PermissionRule("run_command"), PermissionRule("skill_run_script")))
lines = [
    ToolCall("a", "skill_use", {"skill_name": "greet", "arguments": "Ada"}),
    [ToolCall("b", "skill_run_script", {"skill_name": "greet", "script_name": "hi.py"}),
     ToolCall("c", "run_command", {"command": "exit 3"})],
    "All greeted by " + SECRET,
]
agent = Agent(metier.open("."), ScriptedModel(lines, "openai:gpt-9"), rules=allowed)
ended = agent.run("greet everybody")
assert ended.outcome == "finished", ended
print(json.dumps([name for name in sys.modules if name.startswith("opentelemetry")]))
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = make_world(tmp_path)
    file = write_skill(made.state / "skills" / "greet", "Greets people.", "Greet them: $ARGUMENTS\n")
    (file.parent / "scripts").mkdir()
    (file.parent / "scripts" / "hi.py").write_text("import os\nprint('trace', os.environ.get('TRACEPARENT'))\n")
    return made


@pytest.fixture
def received(tmp_path: Path) -> Iterator[Received]:
    with receiving(tmp_path) as receiver:
        yield receiver


def run(world: World, code: str = RUN, **env: str) -> list[str]:
    """Run in a process of its own: what it loaded of OpenTelemetry."""
    variables = {**world.variables, "WEATHER_TOKEN": SECRET, "METIER_SANDBOX": "none", **env}
    done = python(f"SECRET = {SECRET!r}\n{code}", env=variables, cwd=world.project)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return names


def test_a_turn_is_a_trace_of_the_agent_its_replies_and_its_tools(world: World, received: Received):
    run(world, OTEL_EXPORTER_OTLP_ENDPOINT=received.address, OTEL_EXPORTER_OTLP_HEADERS="x-team=night")
    [turn] = received.spans("invoke_agent")
    chats, tools = received.spans("chat"), received.spans("execute_tool")

    assert turn["name"] == "invoke_agent metier"
    assert turn["service"] == "metier"
    assert turn["sent_with"] == "night"
    assert turn["about"]["gen_ai.operation.name"] == "invoke_agent"
    assert turn["about"]["gen_ai.provider.name"] == "openai"
    assert turn["about"]["gen_ai.request.model"] == "gpt-9"
    assert turn["about"]["gen_ai.conversation.id"] == turn["about"]["metier.run"]
    assert turn["about"]["gen_ai.skill.name"] == "greet"
    assert turn["about"]["gen_ai.skill.source.uri"] == "file:~/.metier/skills/greet/SKILL.md"
    assert turn["about"]["metier.outcome"] == "finished"
    assert turn["about"]["gen_ai.usage.input_tokens"] > 0
    assert [chat["name"] for chat in chats] == ["chat gpt-9"] * 3
    assert [tool["name"].split()[1] for tool in tools] == ["skill_use", "skill_run_script", "run_command"]
    assert {span["parent"] for span in (*chats, *tools)} == {turn["id"]}
    assert {span["trace"] for span in received.spans()} == {turn["trace"]}
    assert [tool["error"] for tool in tools] == [False, False, True]
    assert tools[2]["about"]["error.type"] == "exit-status"
    assert tools[2]["about"]["metier.exit_status"] == 3
    assert tools[1]["about"]["gen_ai.skill.name"] == "greet"
    # One after the other, inside the turn.
    order = sorted((*chats, *tools), key=lambda span: (span["from"], span["to"]))
    assert all(first["to"] <= second["from"] for first, second in itertools.pairwise(order))
    assert turn["from"] <= order[0]["from"]
    assert order[-1]["to"] <= turn["to"]


def test_metrics_count_activations_failures_tokens_and_turns(world: World, received: Received):
    run(world, OTEL_EXPORTER_OTLP_ENDPOINT=received.address)

    [activation] = received.metric("metier.skill.activations")
    assert (activation["value"], activation["about"]["gen_ai.skill.name"]) == (1, "greet")
    [failure] = received.metric("metier.tool.failures")
    assert (failure["value"], failure["about"]["gen_ai.tool.name"]) == (1, "run_command")
    tokens = {
        entry["about"]["gen_ai.token.type"]: entry["value"] for entry in received.metric("gen_ai.client.token.usage")
    }
    [turn] = received.spans("invoke_agent")
    assert tokens["input"] == turn["about"]["gen_ai.usage.input_tokens"]
    assert tokens["output"] == turn["about"]["gen_ai.usage.output_tokens"]
    assert [entry["about"]["metier.outcome"] for entry in received.metric("metier.turns")] == ["finished"]


def test_nothing_that_was_said_is_sent_unless_it_is_asked_for(world: World, received: Received):
    run(world, OTEL_EXPORTER_OTLP_ENDPOINT=received.address)
    sent = json.dumps(received.all())

    assert "greet everybody" not in sent
    assert "Ada" not in sent
    assert "greeted by" not in sent
    assert str(world.home) not in sent


def test_what_is_sent_on_request_has_no_secrets(world: World, received: Received):
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": received.address}
    run(world, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true", **variables)
    sent = json.dumps(received.all())
    [turn] = received.spans("invoke_agent")

    assert json.loads(turn["about"]["gen_ai.input.messages"])[0]["parts"][0]["content"] == "greet everybody"
    assert "All greeted by [hidden]" in turn["about"]["gen_ai.output.messages"]
    assert (
        json.loads(received.spans("execute_tool skill_use")[0]["about"]["gen_ai.tool.call.arguments"])["arguments"]
        == "Ada"
    )
    assert SECRET not in sent


def test_a_script_is_told_of_the_call_that_runs_it(world: World, received: Received):
    content = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
    run(world, OTEL_EXPORTER_OTLP_ENDPOINT=received.address, **content)
    [script] = received.spans("execute_tool skill_run_script")

    assert f"trace 00-{script['trace']}-{script['id']}-0" in script["about"]["gen_ai.tool.call.result"]


def test_a_run_continues_the_trace_that_it_was_started_in(world: World, received: Received):
    outer = f"00-{'a' * 32}-{'b' * 16}-01"
    run(world, OTEL_EXPORTER_OTLP_ENDPOINT=received.address, TRACEPARENT=outer)
    [turn] = received.spans("invoke_agent")

    assert (turn["trace"], turn["parent"]) == ("a" * 32, "b" * 16)


@pytest.mark.parametrize(
    "env", [{}, {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}]
)
def test_nothing_is_imported_where_nobody_asks(world: World, env: dict[str, str]):
    assert run(world, **env) == []


def test_without_the_extra_a_run_is_the_same(world: World):
    without = "import sys\nsys.modules['opentelemetry'] = None\n"
    # Blocked as a module that is missing; nothing of it is loaded.
    assert run(world, without + RUN, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9") == ["opentelemetry"]


def test_a_collector_that_is_not_there_is_neither_waited_for_nor_heard_of(world: World):
    began = time.monotonic()
    run(world, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")

    # Without a limit the exporter tries for ten seconds, and the metrics for ten more.
    assert time.monotonic() - began < 9


def test_an_applications_own_telemetry_gets_the_spans_among_its_own(world: World):
    around = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
with provider.get_tracer("app").start_as_current_span("request"):
    exec(run)
spans = {span.name: span for span in kept.get_finished_spans()}
assert spans["invoke_agent metier"].parent.span_id == spans["request"].context.span_id
"""
    run(world, f"run = {RUN!r}\n{around}")


@pytest.mark.parametrize(("exporter", "expected"), [("none", []), ("otlp", ["invoke_agent metier"])])
def test_the_standard_variables_select_what_is_sent(
    world: World, received: Received, exporter: str, expected: list[str]
):
    run(world, OTEL_EXPORTER_OTLP_ENDPOINT=received.address, OTEL_TRACES_EXPORTER=exporter, OTEL_SERVICE_NAME="night")

    assert [span["name"] for span in received.spans("invoke_agent")] == expected
    assert {span["service"] for span in received.spans()} <= {"night"}
    assert received.metric("metier.turns") != []


def test_the_headers_that_open_the_service_are_hidden(world: World):
    env = {"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic%20cGstbGY6c2stbGYtMTIz,x-team=night"}
    assert "cGstbGY6c2stbGYtMTIz" in set(secret_values(world.open(place=world.place(env=env))))


def test_a_command_sends_its_traces_before_it_exits(world: World, received: Received):
    code = """
import itertools
import json
from tests.record.test_telemetry import RUN
exec(RUN)
from metier.host.daemon import exit_now
import sys
sys.stdout.flush()
exit_now(0)
"""
    run(world, code, OTEL_EXPORTER_OTLP_ENDPOINT=received.address, PYTHONPATH=f"{SOURCE}:{Path(SOURCE).parent}")

    assert len(received.spans("invoke_agent")) == 1


def test_a_firing_is_the_root_of_its_turn_and_says_how_late_it_was(world: World, received: Received):
    code = """
import os
from metier.record.observation import observe_firing
with observe_firing(os.environ, "nightly", "greet", 4.5):
    exec(RUN)
"""
    # The daemon's own trace is not continued: all firings of its life would be one.
    outer = {"TRACEPARENT": f"00-{'a' * 32}-{'b' * 16}-01"}
    run(world, f"RUN = {RUN!r}\n{code}", OTEL_EXPORTER_OTLP_ENDPOINT=received.address, **outer)
    [firing], [turn] = received.spans("fire_schedule"), received.spans("invoke_agent")

    assert firing["parent"] == ""
    assert firing["about"]["metier.schedule.lateness"] == 4.5
    assert turn["parent"] == firing["id"]
    assert [entry["value"] for entry in received.metric("metier.schedule.lateness")] == [4.5]


def test_a_worker_that_leaves_has_sent_how_late_its_firings_were(received: Received, tmp_path: Path):
    house = House(tmp_path / "house")
    try:
        house.add()
        worker = house.start(steps=1, code=f"os.environ['OTEL_EXPORTER_OTLP_ENDPOINT'] = {received.address!r}")
        store.trigger_schedule(house.engine, "ping", now())
        house.until(lambda: house.states() == ["finished"])
        house.kill(worker, signal.SIGTERM)
    finally:
        house.close()

    [late] = received.metric("metier.schedule.lateness")
    assert late["about"]["metier.schedule"] == "ping"
    assert 0 <= late["value"] < 120
    assert [span["name"] for span in received.spans()] == ["fire_schedule ping"]

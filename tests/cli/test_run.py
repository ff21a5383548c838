"""metier run and metier runs, as programs use them: exit codes, reasons, events as lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.wire import Fails, Says, Wire, speaking
from tests.cli.console import Desk, Said


@contextmanager
def model(desk: Desk, lines: Sequence[Says | Fails], more: str = "") -> Iterator[Wire]:
    """A configured model that says these lines."""
    with speaking(lines) as wire:
        desk.configure(f'model = "mine"\n{more}\n[models.mine]\nmodel = "a-model"\nurl = "{wire.url}/v1"\n')
        yield wire
    assert wire.faults == []


def last(said: Said) -> dict[str, object]:
    found: dict[str, object] = json.loads(said.out.splitlines()[-1])
    return found


def test_the_answer_goes_to_standard_output_and_all_else_beside_it(desk):
    desk.skill("greet", "", description="Greets.")
    with model(desk, [Says(calls=[("skill_use", {"skill_name": "greet"})]), Says("Hello\nthere.")]):
        said = desk.say("run", "greet", "somebody")

    assert (said.code, said.out) == (0, "Hello\nthere.\n")
    assert "skill greet" in said.err


def test_the_answer_of_a_skill_that_forks_is_shown_and_kept(desk):
    desk.skill("forky", "context: fork\n", description="Forks.")
    with model(desk, [Says("The child found it.")]):
        said = desk.say("run", "/forky stuff")

    assert (said.code, said.out) == (0, "The child found it.\n")
    assert said.err.count("tokens sent") == 1
    shown = desk.say("runs", "show", "last").out
    assert "The child found it." in shown


def test_what_a_tool_says_that_a_skill_calls_straight_away_is_the_answer(desk):
    desk.skill(
        "look",
        "command-dispatch: tool\ncommand-tool: list_files\n",
        desk.home / ".openclaw/skills",
        description="Looks.",
    )
    (desk.project / "a.txt").write_text("a")
    with model(desk, []):
        said = desk.say("--dialect", "openclaw", "run", "/look")

    assert (said.code, "a.txt" in said.out) == (0, True)


def test_a_dry_run_calls_no_tool_straight_away(desk):
    more = "command-dispatch: tool\ncommand-tool: run_command\n"
    desk.skill("make", more, desk.home / ".openclaw/skills", description="Makes.")
    for words in (["--yes"], []):
        said = desk.say("--dialect", "openclaw", "run", *words, "--dry-run", "/make touch made.txt")
        assert (said.code, "this skill calls a tool directly" in said.err) == (2, True)
    assert not (desk.project / "made.txt").exists()


def test_a_dry_run_of_a_skill_that_forks_shows_what_its_subagent_would_ask_and_sends_nothing(desk):
    desk.skill("forky", "context: fork\n", description="Forks.")
    with model(desk, [Says("Found.")]) as wire:
        said = desk.say("run", "--dry-run", "/forky stuff")
        assert (said.code, wire.requests) == (0, [])
        assert desk.say("run", "/forky stuff").out == "Found.\n"

    assert json.loads(said.out) == wire.requests[0]


def test_every_event_is_a_line_of_json_that_ends_with_the_outcome(desk):
    with model(desk, [Says("Hello.")]):
        said = desk.say("run", "--json", "hello")
    events = [json.loads(line) for line in said.out.splitlines()]

    assert said.code == 0
    assert [one["event"] for one in events if one["event"] != "wrote"] == ["started", "heard", "replied", "ended"]
    assert "".join(one["text"] for one in events if one["event"] == "wrote") == "Hello."
    assert (last(said)["outcome"], last(said)["text"]) == ("finished", "Hello.")


@pytest.mark.parametrize(
    ("words", "lines", "code", "reason"),
    [
        (["/nope"], [], 2, "unknown-skill"),
        (["write"], [Says(calls=[("write_file", {"path": "x", "content": "y"})])], 4, "refused-approval"),
        (["--max-turns", "1", "look"], [Says(calls=[("list_files", {})])], 6, "out-of-turns"),
        (["--max-tokens", "1", "look"], [Says(calls=[("list_files", {})])], 6, "out-of-tokens"),
        (["--model", "anthropic:x", "hello"], [], 2, "missing-key"),
        (["--model", "antropic:x", "hello"], [], 2, "unknown-model"),
        (["--model", "local:x", "hello"], [], 2, "unknown-model"),
        (["hello"], [Fails(status=401)], 5, "bad-key"),
        (["--resume", "nope", "hello"], [], 2, "bad-request"),
    ],
)
def test_a_failure_exits_with_its_code_and_a_reason_for_programs(desk, words, lines, code, reason):
    with model(desk, lines):
        said = desk.say("run", "--json", *words)

    assert said.code == code
    assert (last(said)["event"], last(said)["reason"]) == ("ended", reason)
    assert last(said)["outcome"] != "finished"


def test_a_failure_is_a_sentence_and_a_hint_for_people(desk):
    with model(desk, []):
        said = desk.say("run", "/nope")

    assert said.code == 2
    assert said.err.splitlines()[-2:] == [
        "failed: no skill named `nope`",
        "hint: run `metier list` for all skills",
    ]


def test_a_service_that_is_down_exits_with_five(desk):
    desk.configure('model = "mine"\n[models.mine]\nmodel = "m"\nurl = "http://127.0.0.1:1/v1"\n')
    said = desk.say("run", "--json", "--seconds", "2", "hello")

    assert said.code in (5, 6)
    assert last(said)["reason"] in ("connection", "out-of-time")


def test_without_a_model_it_says_how_to_get_one(desk):
    said = desk.say("run", "hello")

    assert said.code == 2
    assert "METIER_MODEL" in said.err
    assert "metier models get smollm2-135m" in said.err


def test_rules_on_the_command_line_allow_and_forbid(desk):
    write = Says(calls=[("write_file", {"path": "x.txt", "content": "y"})])
    with model(desk, [write, Says("Done.")]):
        allowed = desk.say("run", "--allow", "write_file(*.txt)", "write")
    with model(desk, [write, Says("Then not.")]):
        denied = desk.say("run", "--yes", "--deny", "Write", "write")

    assert (allowed.code, allowed.out) == (0, "Done.\n")
    assert (desk.project / "x.txt").read_text() == "y"
    assert denied.code == 0
    assert "forbidden" in denied.err


def test_at_a_terminal_a_person_is_asked(desk):
    with model(desk, [Says(calls=[("write_file", {"path": "x.txt", "content": "y"})]), Says("Done.")]):
        said = desk.at_terminal("run", "--yes", "write")

    assert said.code == 0
    assert "Done." in said.out


def test_a_dry_run_shows_the_request_and_sends_nothing(desk):
    desk.skill("greet", "", description="Greets.")
    with model(desk, []) as wire:
        said = desk.say("run", "--dry-run", "/greet Bob")
    shown = json.loads(said.out)

    assert said.code == 0
    assert wire.requests == []
    assert shown["model"] == "a-model"
    assert "Body." in json.dumps(shown["messages"])


def test_a_dry_run_needs_neither_a_key_nor_a_model(desk):
    desk.skill("greet", "", description="Greets.")
    keyless = desk.say("run", "--dry-run", "--model", "openai:gpt-x", "/greet Bob")
    none = desk.say("run", "--dry-run", "/greet Bob")

    assert json.loads(keyless.out)["model"] == "gpt-x"
    assert "Greets." in json.loads(none.out)["system"]
    assert "no model is configured" in none.err


def test_a_run_is_listed_shown_replayed_and_gone_on_with(desk):
    with model(desk, [Says("Hello."), Says("And again.")]) as wire:
        first = desk.say("run", "hello there")
        again = desk.say("run", "--resume", "last", "once more")
    listed = json.loads(desk.say("runs", "--json").out)
    run = listed[0]["run"]
    shown = desk.say("runs", "show", run[:15])
    replayed = desk.say("runs", "replay", "last")
    events = [json.loads(line)["event"] for line in desk.say("runs", "replay", "--json", run).out.splitlines()]

    assert (first.code, again.code) == (0, 0)
    assert [message["content"] for message in wire.requests[1]["messages"][1:]] == [
        "hello there",
        "Hello.",
        "once more",
    ]
    assert wire.bodies[1].startswith(wire.bodies[0].partition(b'"hello there"')[0])
    assert [(one["task"], one["turns"], one["outcome"]) for one in listed] == [("hello there", 2, "finished")]
    assert "And again." in shown.out
    assert replayed.out == "> hello there\nHello.\n> once more\nAnd again.\n"
    assert events == ["started", "heard", "replied", "ended", "resumed", "heard", "replied", "ended"]
    assert len(wire.requests) == 2


def test_text_from_a_model_or_a_skill_draws_nothing_on_a_terminal(desk):
    desk.skill("evil", "", description="Evil.")
    with model(desk, [Says("fine\x1b[2J\x1b]0;owned\x07 really")]):
        drawn = desk.at_terminal("run", "hello")
        shown = desk.at_terminal("runs", "show", "last")

    for said in (drawn, shown):
        assert "\x1b[2J" not in said.out
        assert "\x07" not in said.out
        assert "really" in said.out


def test_a_run_that_nobody_kept_is_not_there(desk):
    with model(desk, [Says("Hello.")]):
        desk.say("run", "--no-journal", "hello")
    said = desk.say("runs")

    assert "No runs yet" in said.out
    assert desk.say("runs", "show", "last").code == 2


def test_a_task_may_come_through_a_pipe(desk):
    with model(desk, [Says("Hello.")]) as wire:
        said = desk.shell("echo 'from a pipe' | metier run")

    assert said.code == 0
    assert wire.requests[0]["messages"][-1]["content"] == "from a pipe"


def test_nothing_to_do_is_said(desk):
    assert desk.say("run").code == 2


@pytest.mark.parametrize("command", [["list"], ["status"], ["catalog"], ["runs"], ["run", "--help"]])
def test_nothing_of_a_model_is_imported_where_none_is_asked(desk, command):
    heavy = "('pydantic_ai', 'openai', 'anthropic', 'pydantic', 'mcp', 'xllamacpp', 'asyncio', 'httpx2')"
    code = (
        "import sys; from metier.faces.cli.app import run; code = run(sys.argv[1:]); "
        f"sys.exit(code or 100 * bool([name for name in {heavy} if name in sys.modules]))"
    )
    import sys

    assert desk.say(*command, program=[sys.executable, "-c", code]).code == 0

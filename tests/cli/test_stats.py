"""metier stats and metier runs, from journals that are there."""

import json

import pytest
from tests.cli.console import Desk

from metier.record.journal import Journal
from metier.types.activation import ToolCall
from metier.types.event import Activated, Ended, Event, Heard, Started, Usage, Used


@pytest.fixture
def desk(tmp_path) -> Desk:
    return Desk(tmp_path / "desk")


def run(desk: Desk, name: str, *events: Event) -> None:
    journal = Journal(f"{desk.state}/runs/{name}.jsonl")
    for event in (Started(name, skills=("pdf", "idle")), *events):
        journal.keep(event)


def journals(desk: Desk) -> None:
    done = Ended("finished", usage=Usage(1, 90, 10), seconds=2.0)
    run(desk, "20260101-000000-aaaaaa", Heard("read it"), Activated("pdf", "/s/pdf/SKILL.md", by="model", tokens=7),
        Used(ToolCall("1", "skill_run_script", {}), status=1, skill="pdf", reason="exit-status"), done)  # fmt: skip
    run(desk, "20260102-000000-bbbbbb", *(event for _ in range(12) for event in (Heard("hello"), done)))


def test_stats_are_a_table_and_name_what_is_odd(desk: Desk):
    journals(desk)
    said = desk.say("stats")
    head, pdf, dead = said.out.splitlines()
    assert head.split() == ["skill", "offered", "activated", "succeeded", "failed", "tokens"]
    assert pdf.split()[:6] == ["pdf", "13", "1", "0", "1", "100"]
    assert pdf.endswith("failing calls: exit-status 1")
    assert dead == "dead: idle"


def test_a_turn_succeeded_only_if_the_last_attempt_of_each_step_did(desk: Desk):
    def call(command: str, status: int) -> Used:
        return Used(ToolCall("1", "run_command", {"command": command}), "said", status=status)

    begun, done = (Heard("x"), Activated("pdf", "/s/pdf/SKILL.md")), Ended("finished")
    run(desk, "20260101-000000-aaaaaa", *begun, call("python3 a.py -x", 2), call("python3 a.py", 0), done)
    run(desk, "20260102-000000-aaaaaa", *begun, call("python3 a.py", 0), call("make all", 2), done)
    run(desk, "20260103-000000-aaaaaa", *begun, call("grep x y", 1), done)
    pdf = json.loads(desk.say("stats", "--json").out)[0]

    assert (pdf["succeeded"], pdf["failed"]) == (2, 1)


def test_stats_as_json_hold_every_figure(desk: Desk):
    journals(desk)
    pdf, idle = json.loads(desk.say("stats", "--json").out)
    assert (pdf["name"], pdf["by"], pdf["failures"], pdf["seconds"]) == ("pdf", {"model": 1}, {"exit-status": 1}, 2.0)
    assert (idle["activated"], idle["oddity"]) == (0, "dead")


def test_the_funnel_is_shown_from_top_to_bottom(desk: Desk):
    journals(desk)
    said = desk.say("stats", "--funnel").out
    assert "13 turns (one with several skills counts once for each)" in said
    assert "13 with skills shown, in the catalog or suggested" in said  # as often as `metier stats` says: offered
    assert "1 with one activated (model 1)" in said
    assert json.loads(desk.say("stats", "--funnel", "--json").out)["used"] == 1


def test_a_name_from_a_journal_is_made_safe(desk: Desk):
    run(desk, "20260101-000000-aaaaaa", Heard("x"), Activated("\x1b]0;owned\x07evil"), Ended("finished"))
    assert "\x1b" not in desk.say("stats").out


def test_runs_can_be_narrowed_to_those_that_failed_and_to_a_skill(desk: Desk):
    journals(desk)
    assert [one["run"] for one in json.loads(desk.say("runs", "--failed", "--json").out)] == ["20260101-000000-aaaaaa"]
    assert len(json.loads(desk.say("runs", "--json").out)) == 2
    assert json.loads(desk.say("runs", "--skill", "csv", "--json").out) == []
    assert desk.say("runs", "--skill", "csv").out == "No matching runs.\n"


def test_a_run_answers_what_was_offered_activated_called_and_what_failed(desk: Desk):
    journals(desk)
    shown = json.loads(desk.say("runs", "show", "20260101", "--json").out)
    assert shown["offered"] == ["pdf", "idle"]
    assert shown["activated"] == [{"skill": "pdf", "by": "model", "tokens": 7}]
    assert shown["failed"] == [{"tool": "skill_run_script", "reason": "exit-status", "status": 1, "skill": "pdf"}]
    assert (shown["tools"], shown["seconds"], shown["outcome"]) == ({"skill_run_script": 1}, 2.0, "finished")

"""What a person can send when something is wrong: a report and a log, without secrets and without what was said."""

from __future__ import annotations

import json
import os
import stat

import pytest
from tests.cli.console import Desk

KEY = "correct-horse-battery-staple"


@pytest.fixture
def written(desk: Desk) -> str:
    desk.skill("secret-merger", "metadata:\n  metier:\n    permissions:\n      env: [WEATHER]\n")
    desk.configure(f'model = "openai:x"\n[skills.entries.secret-merger]\napiKey = "{KEY}-2"\n[record]\ndays = 30\n')
    run = desk.state / "runs" / "20250101-000000-abcdef.jsonl"
    run.parent.mkdir()
    events = [
        # A key where a report has a word: in the name of a model.
        {"at": 1, "event": "started", "run": "20250101-000000-abcdef", "model": f"openai:{KEY}"},
        {"at": 2, "event": "heard", "text": "buy the company"},
        {"at": 3, "event": "ended", "outcome": "failed", "text": f"no {KEY}", "reason": "missing-key", "code": 5},
    ]
    run.write_text("".join(json.dumps(event) + "\n" for event in events))
    env = {"OPENAI_API_KEY": KEY, "WEATHER": f"{KEY}-3", "METIER_LOG": f"{desk.home}/log.jsonl"}
    desk.env |= env
    desk.say("list")
    said = desk.say("doctor", "--report", "report.txt")
    assert "wrote report.txt" in said.err
    return (desk.project / "report.txt").read_text()


def test_a_report_says_what_is_needed_to_find_a_fault(written: str):
    for part in ("metier 0.", "Python 3.", "sandbox:", "record.days = 30", "1 user, ", "METIER_LOG"):
        assert part in written
    assert "20250101-000000-abcdef failed (missing-key), 1 turns" in written
    assert '"what": "command", "command": "list"' in written


def test_a_report_has_no_secret_nothing_that_was_said_and_no_name_of_the_user(desk: Desk, written: str):
    for private in (KEY, "buy the company", "secret-merger", str(desk.home)):
        assert private not in written
    assert "~/.metier" in written


def test_only_its_owner_can_read_a_report(desk: Desk, written: str):
    assert stat.S_IMODE(os.stat(desk.project / "report.txt").st_mode) == 0o600


def test_a_report_replaces_a_report_and_no_other_file(desk: Desk, written: str):
    assert desk.say("doctor", "--report", "report.txt").code in (0, 1)
    (desk.project / "notes.txt").write_text("mine")
    said = desk.say("doctor", "--report", "notes.txt")
    assert said.code == 2
    assert "exists and is no report" in said.err
    assert (desk.project / "notes.txt").read_text() == "mine"


def test_a_library_that_can_not_be_opened_still_gets_a_report(desk: Desk):
    desk.configure('dialect = "nonsense"\n')
    desk.say("doctor", "--report", "report.txt")
    assert "## Checks" in (desk.project / "report.txt").read_text()


def test_the_log_has_a_line_for_each_command_and_not_its_words(desk: Desk):
    said = desk.say("why", "a-private-name", METIER_LOG="stderr")
    lines = [json.loads(line) for line in said.err.splitlines() if line.startswith("{")]

    assert [line["what"] for line in lines] == ["command", "command-ended"]
    assert lines[1]["exit"] == said.code != 0
    assert "a-private-name" not in json.dumps(lines)


def test_a_log_that_can_not_be_written_stops_nothing(desk: Desk):
    assert desk.say("list", METIER_LOG="/proc/nowhere/log").code == 0

"""Approvals at a plain terminal: every choice that applies is offered, and does what it says."""

from __future__ import annotations

import subprocess

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.wire import Says
from tests.cli.test_run import model

from metier import sandbox


def test_a_person_lets_one_command_write_the_repository(desk):
    if not sandbox.probe_sandbox().protects:
        pytest.skip("no tier here keeps things inside a folder that may be written")
    (desk.project / ".git").rmdir()
    subprocess.run(["git", "init", "-q"], cwd=desk.project, check=True)
    (desk.home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    line = "true && git commit -q --allow-empty -m done"
    with model(desk, [Says(calls=[("run_command", {"command": line})]), Says("Done.")]):
        said = desk.answering("run", "commit", answer="x\ng\n")

    assert said.code == 0, said
    assert "y: this once / a: always / w: once, with network / g: once, may write .git / b: " in said.out
    log = subprocess.run(["git", "log", "--format=%s"], cwd=desk.project, capture_output=True, text=True, check=True)
    assert log.stdout == "done\n"


def test_yes_answers_whatever_a_person_would_be_asked(desk):
    calls = [
        ("write_file", {"path": ".github/workflows/ci.yml", "content": "on: push\n"}),
        ("read_file", {"path": ".env"}),
        ("run_command", {"command": "touch made.txt"}),
    ]
    (desk.project / ".env").write_text("A=1\n")
    with model(desk, [Says(calls=calls), Says("Done.")], '[agent]\nask = ["run_command(touch *)"]'):
        said = desk.say("run", "--yes", "do it")

    assert (said.code, said.out) == (0, "Done.\n")
    assert (desk.project / ".github/workflows/ci.yml").read_text() == "on: push\n"
    assert (desk.project / "made.txt").exists()


def test_yes_never_answers_what_may_be_denied_or_what_the_model_asks(desk):
    hidden = Says(calls=[("run_command", {"command": "$(echo to)uch denied.txt"})])
    with model(desk, [hidden, Says("Done.")], '[agent]\ndeny = ["run_command(touch *)"]'):
        said = desk.say("run", "--yes", "do it")
    assert said.code == 4
    assert not (desk.project / "denied.txt").exists()

    question = Says(calls=[("ask_user", {"question": "Which one?"})])
    with model(desk, [question, Says("Done.")]):
        said = desk.say("run", "--yes", "do it")
    assert "no answer" in said.err

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

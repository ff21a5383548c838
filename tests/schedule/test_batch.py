"""A batch: many calls over the queue, by a worker of its own or by the daemon, and nothing done twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.wire import Fails, Says
from tests.cli.console import METIER, Desk
from tests.schedule.test_firing import shop

from metier.schedule import queue


def calls(desk: Desk, *lines: str) -> Path:
    file = desk.project / "calls.txt"
    file.write_text("\n".join(lines) + "\n")
    return file


def results(text: str) -> dict[int, dict[str, Any]]:
    return {one["line"]: one for one in map(json.loads, text.splitlines())}


def test_every_call_is_done_and_a_failure_is_told_by_the_exit_code(tmp_path):
    lines: list[Says | Fails] = [
        Says("One."),
        Says(calls=[("write_file", {"path": "x", "content": "y"})]),
        Says("Two."),
    ]
    with shop(tmp_path, lines) as one:
        one.desk.skill("greet")
        file = calls(one.desk, "# a note", "/greet Bob", '{"task": "write", "model": "mine"}', "/nobody", "", "bye")
        said = one.desk.say("batch", str(file), "--model", "mine", "--jobs", "1", "--json")
        assert said.code == 1, said.err
        found = results(said.out)
        assert {number: found[number]["state"] for number in sorted(found)} == {
            2: "finished",
            3: "failed",
            4: "failed",
            6: "finished",
        }
        assert "this session is not interactive" in found[3]["text"]
        assert "no skill named `nobody`" in found[4]["text"]
        assert all(worker.state == "left" for worker in queue.list_workers(one.engine))


def test_an_interrupted_batch_says_so_at_once_and_how_far_it_came(tmp_path):
    with shop(tmp_path, [Says("One."), Fails("silence"), Says("Two.")]) as one:
        words = ["batch", str(calls(one.desk, "first", "second")), "--model", "mine", "--jobs", "1"]
        env = one.desk.env | {"PYTHONPATH": os.pathsep.join(sys.path)}
        heard = partial(
            signal.signal, signal.SIGINT, signal.SIG_DFL
        )  # whatever started the tests may have switched it off
        begun = subprocess.Popen(
            [*METIER, *words], cwd=one.desk.project, env=env, stderr=subprocess.PIPE, preexec_fn=heard
        )
        one.running.append(begun)
        one.until(lambda: len(one.wire.requests) == 2)
        begun.send_signal(signal.SIGINT)
        _, told = begun.communicate(timeout=60)
        assert begun.returncode == 130
        assert b"interrupted: 1 of 2 done; run the same command again to continue" in told
        assert one.desk.say(*words).out == "1  finished  One.\n2  finished  Two.\n"


def test_a_batch_that_was_killed_goes_on_where_it_was(tmp_path):
    lines: list[Says | Fails] = [Says("One."), Fails("silence"), Says("Two."), Says("Three.")]
    with shop(tmp_path, lines) as one:
        file = calls(one.desk, "first", "second", "third")
        words = ["batch", str(file), "--model", "mine", "--jobs", "1", "--json"]
        env = one.desk.env | {"PYTHONPATH": os.pathsep.join(sys.path)}
        first = subprocess.Popen([*METIER, *words], cwd=one.desk.project, env=env, stdout=subprocess.DEVNULL)
        one.running.append(first)
        one.until(lambda: len(one.wire.requests) == 2)
        first.send_signal(signal.SIGKILL)
        first.wait()
        said = one.desk.say(*words)
        assert said.code == 0, said.err
        assert [one["text"] for _, one in sorted(results(said.out).items())] == ["One.", "Two.", "Three."]
        asked = [str(request["messages"][-1]["content"]) for request in one.wire.requests]
        assert [text for text in asked if "first" in text] == asked[:1]


def test_where_a_daemon_runs_it_does_the_work(tmp_path):
    with shop(tmp_path, [Says("One."), Says("Two.")]) as one:
        one.start()
        one.until(lambda: "started as" in one.said())
        said = one.desk.say("batch", str(calls(one.desk, "first", "second")), "--model", "mine")
        assert (said.code, len(said.out.splitlines())) == (0, 2), said.err
        assert [worker.name for worker in queue.list_workers(one.engine)] == ["daemon"]


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        ([], "contains no calls"),
        (["{x"], "line 1: invalid JSON"),
        (['{"task": 1}'], "`task` must be text"),
        (['{"tusk": "x"}'], "unknown key `tusk`"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path, lines, part):
    desk = Desk(tmp_path)
    said = desk.say("batch", str(calls(desk, *lines)))
    assert said.code == 2
    assert part in said.err


def test_where_a_daemon_runs_it_makes_the_runs_of_a_trial(tmp_path):
    with shop(tmp_path, [Says("Pear."), Says("Plum.")]) as one:
        folder = one.desk.skill("fruit", description="Knows fruit.").parent
        rows = [{"id": number, "prompt": "Which?", "checks": [{"contains": "Pear"}]} for number in range(2)]
        (folder / "evals").mkdir()
        (folder / "evals" / "evals.json").write_text(json.dumps({"evals": rows}))
        one.start()
        one.until(lambda: "started as" in one.said())
        said = one.desk.say("eval", "fruit", "--model", "mine", "--runs", "1", "--jobs", "1", "--json")
        assert said.code == 0, said.err
        assert json.loads(said.out)["intervals"]["with_skill"]["pass_rate"] == 0.5
        assert [worker.name for worker in queue.list_workers(one.engine)] == ["daemon"]

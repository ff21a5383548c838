"""A firing from end to end: the real daemon, the agent, and a model that speaks as the services do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.act.wire import Fails, Says, Wire, speaking
from tests.cli.desk import METIER, Desk

NAME = "tidy-0a1b2c3d"


class Shop:
    """A desk whose daemon runs, and a model for it."""

    def __init__(self, desk: Desk, wire: Wire) -> None:
        self.desk, self.wire = desk, wire
        self.running: list[subprocess.Popen[bytes]] = []

    @property
    def folder(self) -> Path:
        return self.desk.state / "scheduler" / NAME

    def skill(self, body: str = "Tidy up.\n") -> None:
        self.desk.skill(NAME, f"---\nname: {NAME}\ndescription: Tidies.\n---\n{body}", self.folder.parent)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        env = self.desk.env | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with (self.desk.home / "out").open("ab") as out:
            made = subprocess.Popen(
                [*METIER, "daemon", *words],
                cwd=self.desk.project, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        self.running.append(made)
        return made

    def said(self) -> str:
        return (self.desk.home / "out").read_text()

    def until(self, holds: Callable[[], Any], seconds: float = 90) -> Any:
        end = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < end, (self.said(), self.history(), self.wire.requests[-1:])
            time.sleep(0.1)
        return found

    def json(self, *words: str) -> Any:
        said = self.desk.say("schedule", *words, "--json")
        assert said.out, said.err
        return json.loads(said.out)

    def history(self) -> list[dict[str, Any]]:
        return self.json("history")  # type: ignore[no-any-return]

    def ended(self) -> list[dict[str, Any]]:
        found = self.history()
        return found if found and all(one["ended"] for one in found) else []

    def journals(self) -> list[list[dict[str, Any]]]:
        found = sorted((self.desk.state / "runs").glob("*.jsonl"))
        return [[json.loads(line) for line in one.read_text().splitlines()] for one in found]

    def close(self) -> None:
        for one in self.running:
            if one.poll() is None:
                one.send_signal(signal.SIGKILL)
            one.wait()


@contextmanager
def shop(base: Path, lines: Sequence[Says | Fails]) -> Iterator[Shop]:
    with speaking(lines) as wire:
        desk = Desk(base)
        desk.configure(f'model = "mine"\n[models.mine]\nmodel = "a-model"\nurl = "{wire.url}/v1"\n')
        made = Shop(desk, wire)
        try:
            yield made
        finally:
            made.close()
    assert wire.faults == []
    assert "Traceback" not in made.said()


def test_a_one_shot_fires_once_is_kept_in_a_journal_and_then_its_skill_is_in_the_bin(tmp_path):
    lines = [
        Says(calls=[("write_file", {"path": "done.txt", "content": "x"})]),
        Says(calls=[("run_command", {"command": "cat done.txt && touch also.txt"})]),
        Says("All tidy."),
    ]
    with shop(tmp_path, lines) as one:
        one.skill()
        one.json("add", NAME, "+1s")
        one.start()
        [firing] = one.until(one.ended)
        assert (firing["state"], firing["note"]) == ("finished", "All tidy.")
        one.until(lambda: not one.folder.exists())
        assert (one.folder.parent / ".Trash" / NAME / "SKILL.md").exists()
        assert one.json("list") == []
        [journal] = one.journals()
        assert [event["event"] for event in journal if event["event"] in ("heard", "used", "ended")] == [
            "heard", "used", "used", "ended",
        ]  # fmt: skip
        assert journal[-1]["outcome"] == "finished"
        session = one.desk.state / "sessions" / NAME
        assert sorted(path.name for path in session.iterdir()) == ["also.txt", "bot.md", "done.txt"]
        told = one.wire.requests[0]["messages"][-1]["content"]
        assert "Tidy up." in json.dumps(told)
        assert "description: Tidies" not in json.dumps(one.wire.requests[0])


def test_a_one_shot_that_failed_is_kept_with_its_error_and_its_skill(tmp_path):
    with shop(tmp_path, [Fails(status=401)]) as one:
        one.skill()
        one.json("add", NAME, "+1s")
        one.start()
        [firing] = one.until(one.ended)
        assert firing["state"] == "failed"
        [kept] = one.json("list")
        assert kept["paused"].startswith("it failed: ")
        assert one.folder.exists()

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

from tests.agent.wire import Fails, Says, Wire, speaking
from tests.cli.console import METIER, Desk

from metier.schedule import store
from metier.schedule.database import open_engine
from metier.types.place import Place
from metier.types.schedule import Firing


class Shop:
    """A desk whose daemon runs, and a model for it."""

    def __init__(self, desk: Desk, wire: Wire) -> None:
        self.desk, self.wire = desk, wire
        self.running: list[subprocess.Popen[bytes]] = []
        place = Place(str(desk.project), str(desk.project), str(desk.home), str(desk.state), {}, "linux")
        self.engine = open_engine(place)

    def skill(self, name: str, body: str = "Tidy up.\n") -> Path:
        text = f"---\nname: {name}\ndescription: Tidies.\n---\n{body}"
        return self.desk.skill(name, text, self.desk.state / "scheduler").parent

    def start(self) -> subprocess.Popen[bytes]:
        env = self.desk.env | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with (self.desk.home / "out").open("ab") as out:
            made = subprocess.Popen(
                [*METIER, "daemon"],
                cwd=self.desk.project,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self.running.append(made)
        return made

    def said(self) -> str:
        out = self.desk.home / "out"
        return out.read_text() if out.exists() else ""

    def until(self, holds: Callable[[], Any], seconds: float = 90) -> Any:
        end = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < end, (self.said(), store.firing_history(self.engine), self.wire.requests[-1:])
            time.sleep(0.05)
        return found

    def add(self, *words: str) -> None:
        said = self.desk.say("schedule", "add", *words)
        assert said.code == 0, said.err

    def ended(self, id: str) -> Firing:
        """The one firing of a schedule, once it has ended."""
        [found] = self.until(lambda: [one for one in store.firing_history(self.engine, id) if one.ended])
        return found  # type: ignore[no-any-return]

    def journals(self) -> list[list[dict[str, Any]]]:
        found = sorted((self.desk.state / "runs").glob("*.jsonl"))
        return [[json.loads(line) for line in one.read_text().splitlines()] for one in found]

    def close(self) -> None:
        for one in self.running:
            if one.poll() is None:
                one.send_signal(signal.SIGKILL)
            one.wait()
        self.engine.dispose()


@contextmanager
def shop(base: Path, lines: Sequence[Says | Fails]) -> Iterator[Shop]:
    with speaking(lines) as wire:
        desk = Desk(base)
        desk.configure(f'model = "nobody"\n[models.mine]\nmodel = "a-model"\nurl = "{wire.url}/v1"\n')
        made = Shop(desk, wire)
        try:
            yield made
        finally:
            made.close()
    assert wire.faults == []
    assert "Traceback" not in made.said()


MODEL = ("--model", "mine")


def test_one_shots_fire_once_and_what_went_well_is_in_the_bin_and_what_did_not_is_kept(tmp_path):
    lines: list[Says | Fails] = [
        Says(calls=[("write_file", {"path": "done.txt", "content": "x"})]),
        Says(calls=[("run_command", {"command": "cat done.txt && touch also.txt"})]),
        Says("All tidy."),
        Fails(status=401),
        Says(calls=[("read_file", {"path": ".env"})]),
    ]
    with shop(tmp_path, lines) as one:
        tidy, wrong, nosy, lost = (one.skill(f"{name}-0a1b2c3d") for name in ("tidy", "wrong", "nosy", "lost"))
        one.start()

        one.add(tidy.name, "+1s", *MODEL)
        firing = one.ended(tidy.name)
        assert (firing.state, firing.note) == ("finished", "All tidy.")
        one.until(lambda: not tidy.exists())
        assert (tidy.parent / ".Trash" / tidy.name / "SKILL.md").exists()
        one.until(lambda: store.all_schedules(one.engine) == [])
        [journal] = one.journals()
        assert journal[0]["run"] == firing.run
        assert f"run {firing.run}; All tidy." in one.desk.say("schedule", "history").out
        assert tidy.name in one.desk.say("runs", "--skill", tidy.name).out
        kinds = [event["event"] for event in journal if event["event"] in ("heard", "used", "ended")]
        assert kinds == ["heard", "used", "used", "ended"]
        session = one.desk.state / "sessions" / tidy.name
        assert sorted(path.name for path in session.iterdir()) == ["also.txt", "bot.md", "done.txt"]
        asked = json.dumps(one.wire.requests[0])
        assert "Tidy up." in asked
        assert "works unattended" in asked
        assert "description: Tidies" not in asked

        one.add(wrong.name, "+1s", *MODEL)
        assert one.ended(wrong.name).state == "failed"
        [kept] = store.all_schedules(one.engine)
        assert kept.paused.startswith("it failed: ")
        assert wrong.exists()

        one.add(nosy.name, "+1s", *MODEL)
        firing = one.ended(nosy.name)
        assert firing.state == "failed"
        assert "this session is not interactive" in firing.note

        one.add(lost.name, "+1s")
        firing = one.ended(lost.name)
        assert firing.state == "failed"
        assert "nobody" in firing.note


def test_after_a_kill_the_next_daemon_asks_the_model_only_what_it_had_not_answered(tmp_path):
    lines: list[Says | Fails] = [
        Says(calls=[("run_command", {"command": "echo once >> log.txt"})]),
        Fails("silence"),
        Says("All tidy."),
    ]
    with shop(tmp_path, lines) as one:
        one.add(one.skill("tidy-0a1b2c3d").name, "0 0 1 1 *", "--id", "tidy", *MODEL)
        first = one.start()
        one.desk.say("schedule", "run", "tidy")
        one.until(lambda: len(one.wire.requests) == 2)
        first.send_signal(signal.SIGKILL)
        first.wait()
        one.start()
        firing = one.ended("tidy")
        assert (firing.state, firing.note, firing.attempt) == ("finished", "All tidy.", 2)
        assert (one.desk.state / "sessions/tidy/log.txt").read_text() == "once\n"
        assert len(one.wire.requests) == 3
        assert one.wire.requests[1]["messages"] == one.wire.requests[2]["messages"]

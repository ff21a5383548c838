"""The terminal app in a real terminal: tmux draws it and types into it, the model is a server that speaks as they do."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="needs the extra `chat`")
pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.wire import Fails, Says, speaking
from tests.cli.console import METIER, Desk
from tests.reachable import common_folder

if shutil.which("tmux") is None:
    pytest.skip("needs tmux", allow_module_level=True)


class Terminal:
    """A terminal of 80 by 24 on a tmux server of its own."""

    def __init__(self, desk: Desk, socket: Path) -> None:
        self.desk, self.socket = desk, socket

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self.socket), "-f", "/dev/null", *words],
            env=self.desk.env | {"TERM": "xterm-256color", "SHELL": "/bin/sh"}, capture_output=True, timeout=60,
        )  # fmt: skip
        return done.stdout.decode("utf-8", "replace")

    def start(self, *words: str) -> None:
        env = self.desk.env | {"PYTHONPATH": os.pathsep.join(sys.path), "TERM": "screen-256color"}
        line = shlex.join(["env", *(f"{key}={value}" for key, value in env.items()), *METIER, "chat", *words])
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", "-c", str(self.desk.project), line)

    def type(self, text: str, *keys: str) -> None:
        if text:
            self.tmux("send-keys", "-l", text)
        if keys:
            self.tmux("send-keys", *keys)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def until(self, text: str, without: str = "\0", seconds: float = 60) -> str:
        """The screen, once it shows one text and not the other."""
        end = time.monotonic() + seconds
        while text not in (found := self.screen()) or without in found:
            assert time.monotonic() < end, f"never on the screen: {text}\n{found}"
            time.sleep(0.1)
        return found

    def gone(self) -> None:
        end = time.monotonic() + 60
        while self.tmux("list-sessions"):
            assert time.monotonic() < end, self.screen()
            time.sleep(0.1)


@contextmanager
def terminal(desk: Desk) -> Iterator[Terminal]:
    short = common_folder("metier-tmux-")  # a socket's path may not be long, and TMPDIR may be
    made = Terminal(desk, short / "tmux")
    try:
        yield made
    finally:
        made.tmux("kill-server")
        shutil.rmtree(short, ignore_errors=True)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.skill("deploy", "argument-hint: <environment>\n", description="Deploys the project")
    made.skill("describe", description="Describes it")
    return made


def test_a_person_picks_completes_allows_stops_and_comes_back(desk: Desk):
    lines: list[Says | Fails] = [
        Says(calls=[("run_command", {"command": "touch made"})]),
        Says("It is **deployed**."),
        Fails("silence"),
        Says("Here again."),
    ]
    with speaking(lines) as wire, terminal(desk) as at:
        desk.configure(f'model = "mine"\n[models.mine]\nmodel = "a-model"\nurl = "{wire.url}/v1"\n')
        at.start()
        at.until("type / for skills")

        at.type("/")
        shown = at.until("/deploy <environment>")
        assert shown.index("/deploy") < shown.index("/describe")
        at.type("dep", "Tab")
        at.until("/deploy <environment>", without="/describe")

        at.type("staging", "Enter")
        at.until("y: this once")
        assert not (desk.project / "made").exists()
        at.type("y", "Enter")
        at.until("It is deployed.")
        assert (desk.project / "made").exists()

        at.type("go on", "Enter")
        deadline = time.monotonic() + 60
        while len(wire.requests) < 3:
            assert time.monotonic() < deadline, at.screen()
            time.sleep(0.05)
        at.type("", "Escape")
        at.until("■ interrupted")
        at.type("", "C-c")
        at.gone()

        at.start("--resume", "last")
        at.until("↻ resumed")
        at.type("are you there", "Enter")
        at.until("Here again.")
        assert "go on" in str(wire.requests[-1]["messages"])
        at.type("/quit", "Enter")
        at.gone()
    assert wire.faults == []


def test_a_no_to_trust_comes_back_to_the_chat_and_trusts_nothing(desk: Desk):
    desk.skill("theirs", under=desk.project / ".metier/skills")
    with speaking([Says("Still here.")]) as wire, terminal(desk) as at:
        desk.configure(f'model = "mine"\n[models.mine]\nmodel = "a-model"\nurl = "{wire.url}/v1"\n')
        at.start()
        at.until("type /trust")
        at.type("/trust elsewhere", "Enter")
        at.until("takes no path")
        at.type("/trust", "Enter")
        at.until("[y/N]")
        at.type("n", "Enter")
        at.until("nothing was trusted")
        at.type("hello", "Enter")
        at.until("Still here.")
        at.type("/quit", "Enter")
        at.gone()
    assert not (desk.state / "trust.json").exists()


def test_the_creator_asks_for_the_time_makes_the_skill_and_its_schedule_and_the_skill_runs_by_hand(desk: Desk):
    pytest.importorskip("sqlalchemy", reason="the extra `schedule` is not installed")
    assert desk.say("init").code == 0

    def answers() -> list[str]:
        return [one["content"] for one in wire.requests[-1]["messages"] if one["role"] == "tool"]

    def path() -> str:
        told = next((text for text in answers() if "[OK] created" in text), str(answers()))
        return told.partition("created   : ")[2].splitlines()[0].strip()

    def edits() -> Says:
        steps = "TODO the steps, complete in themselves: nobody can be asked while this runs."
        return Says(calls=[("edit_file", {"path": path(), "old": steps, "new": "Say: water."})])

    def binds() -> Says:
        name = path().split("/")[-2]
        return Says(calls=[("add_schedule", {"target": "cron", "time": "0 9 * * *", "skill_name": name})])

    creator = {"skill_name": "scheduler-skill-creator", "script_name": "init_scheduler_skill.py"}
    with speaking([]) as wire, terminal(desk) as at:
        wire.lines += [
            Says(calls=[("ask_user", {"question": "At which time?"})]),
            Says(calls=[("skill_run_script", {**creator, "script_args": "water"})]),
            edits,
            binds,
            Says("Every day at nine."),
            Says("I watered."),
        ]
        desk.configure(f'model = "mine"\n[models.mine]\nmodel = "a-model"\nurl = "{wire.url}/v1"\n')
        at.start()
        at.until("type / for skills")
        at.type("/scheduler-skill-creator water the flowers", "Enter")
        at.until("At which time?")
        at.type("every day at nine", "Enter")
        at.until("edit_file")
        at.type("y", "Enter")
        at.until("add_schedule")
        at.type("y", "Enter")
        at.until("Every day at nine.", without="Esc stops")
        assert "every day at nine" in str(wire.requests[1]["messages"])

        name = path().split("/")[-2]
        at.type("/sched-wat", "Tab")
        at.until(f"/sched-{name}")
        at.type("", "Enter")
        at.until("I watered.")
        assert "Say: water." in str(wire.requests[-1]["messages"])
        at.type("/quit", "Enter")
        at.gone()
    assert wire.faults == []
    [made] = json.loads(desk.say("schedule", "list", "--json").out)
    assert (made["skill"], made["when"]) == (name, "0 9 * * *")

"""A firing is a run of the agent: nobody is asked, and what is not granted is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from metier.runtime.scheduling import fire, fire_with
from metier.testing import Script
from metier.types.activation import ToolCall
from metier.types.errors import NoModel
from metier.types.schedule import Schedule, Terms

SCHEDULE = Schedule("s1", "tidy-0a1b2c3d", "0 9 * * *", False, "UTC", "sha256:x", "/nowhere", "/nowhere")


@dataclass
class Now:
    """A firing's own surroundings, with every step done at once."""

    session: str
    body: str = "Tidy up."
    folder: str = ""
    stop: bool = False

    def step(self, name: str, work: Callable[[], object]) -> object:
        return work()

    def stopped(self) -> bool:
        return self.stop


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Now:
    monkeypatch.setenv("METIER_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    session = tmp_path / "session"
    session.mkdir()
    return Now(str(session))


def test_the_body_is_what_the_model_is_asked(run: Now):
    model = Script(["All tidy."])

    outcome = fire_with(model, SCHEDULE, run)

    assert (outcome.ok, outcome.text) == (True, "All tidy.")
    assert model.requests[0].messages[-1].text == "Tidy up."


def test_a_tool_that_was_not_granted_is_refused_and_nobody_is_waited_for(run: Now):
    model = Script([[ToolCall("1", "run_command", {"command": "touch made"})], "I could not."])

    outcome = fire_with(model, SCHEDULE, run)

    assert not list(Path(run.session).iterdir())
    assert outcome.text


def test_a_tool_that_was_granted_runs(run: Now):
    granted = Schedule(**{**vars(SCHEDULE), "terms": Terms(permissions=("write_file",))})
    model = Script([[ToolCall("1", "write_file", {"path": "made.txt", "content": "x"})], "Done."])

    outcome = fire_with(model, granted, run)

    assert outcome.ok
    assert (Path(run.session) / "made.txt").read_text() == "x"


def test_a_run_that_is_to_stop_stops(run: Now):
    run.stop = True

    assert not fire_with(Script(["One\ntwo\nthree."]), SCHEDULE, run).ok


def test_without_a_model_a_firing_fails_and_says_so(run: Now):
    with pytest.raises(NoModel, match="there is no model to ask"):
        fire(SCHEDULE, datetime(2026, 1, 1, tzinfo=UTC), run)

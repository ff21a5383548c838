"""A firing is a run of the agent: nobody is asked, and what is not granted is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from metier.agent.tools.commands import command_sandbox
from metier.host.facts import find_place
from metier.library.open import OpenRequest, open_at
from metier.library.trust import make_trust_record, write_trust_record
from metier.record.trace import read_traces
from metier.schedule import store
from metier.schedule.database import open_engine
from metier.schedule.fire import SchedulePaused
from metier.schedule.requests import ScheduleRequest, create_schedule
from metier.schedule.runner import fire_schedule, fire_with, resolve_scheduled_folder, scheduled_agent
from metier.schedule.worker import home_id
from metier.testing.models import ScriptedModel
from metier.types.activation import ToolCall
from metier.types.errors import NoModel
from metier.types.sandbox import SandboxSpec
from metier.types.schedule import CronTrigger, RunTerms, Schedule

SCHEDULE = Schedule("s1", "tidy-0a1b2c3d", CronTrigger("0 9 * * *"), "UTC", "sha256:x", "/nowhere", "/nowhere")


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


def configured(run: Now, rules: str) -> None:
    state = Path(run.session).parent / "state"
    state.mkdir(exist_ok=True)
    (state / "config.toml").write_text(f"[agent]\n{rules}\n")


def test_the_body_is_what_the_model_is_asked(run: Now):
    model = ScriptedModel(["All tidy."])

    outcome = fire_with(model, SCHEDULE, run)

    assert (outcome.ok, outcome.text) == (True, "All tidy.")
    assert model.requests[0].messages[-1].text == "Tidy up."


def test_a_run_belongs_to_its_skill_and_its_schedule(run: Now):
    outcome = fire_with(ScriptedModel(["All tidy."]), replace(SCHEDULE, arguments="the attic"), run)

    [trace] = read_traces(str(Path(run.session).parent / "state"))
    assert trace.run == outcome.run
    assert trace.skills == (SCHEDULE.skill,)
    assert trace.task == f"/sched-{SCHEDULE.skill} the attic"
    assert trace.started.schedule == SCHEDULE.id
    assert [activated.by for activated in trace.activations] == ["schedule"]


def test_what_stays_in_its_own_folder_needs_no_yes(run: Now):
    model = ScriptedModel(
        [
            [ToolCall("1", "write_file", {"path": "made.txt", "content": "x"})],
            [ToolCall("2", "run_command", {"command": "cat made.txt > copied.txt"})],
            "Done.",
        ]
    )

    assert fire_with(model, SCHEDULE, run).ok
    assert sorted(one.name for one in Path(run.session).iterdir()) == ["copied.txt", "made.txt"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": ".env"}),
        ("run_command", {"command": "cat /etc/passwd > /tmp/x"}),
    ],
)
def test_what_was_not_granted_is_refused_at_once_and_nobody_is_waited_for(
    run: Now, tool: str, arguments: dict[str, object]
):
    configured(run, 'ask = ["run_command"]')
    (Path(run.session) / ".env").write_text("x")

    outcome = fire_with(ScriptedModel([[ToolCall("1", tool, arguments)], "I could not."]), SCHEDULE, run)

    assert not outcome.ok
    assert "needs approval, but this session is not interactive" in outcome.text


def test_what_is_forbidden_in_the_configuration_stays_so_whatever_is_granted(run: Now):
    configured(run, 'deny = ["run_command(rm *)"]')
    granted = replace(SCHEDULE, terms=RunTerms(permissions=("run_command",)))
    model = ScriptedModel([[ToolCall("1", "run_command", {"command": "rm -rf ."})], "I could not."])

    fire_with(model, granted, run)

    assert "forbidden by your rule" in model.requests[1].messages[-1].text


def test_a_tool_that_was_granted_runs(run: Now):
    configured(run, 'ask = ["write_file"]')
    (Path(run.session) / ".env").write_text("secret=1")
    granted = replace(SCHEDULE, terms=RunTerms(permissions=("read_file(.env)",)))
    model = ScriptedModel([[ToolCall("1", "read_file", {"path": ".env"})], "Done."])

    assert fire_with(model, granted, run).ok


def test_a_run_that_nobody_watches_has_no_tool_that_asks_or_schedules(run: Now):
    model = ScriptedModel(["Done."])

    fire_with(model, SCHEDULE, run)

    offered = {tool.name for tool in model.requests[0].tools}
    assert "run_command" in offered
    assert not offered & {"ask_user", "add_schedule", "patch_schedule", "remove_schedule", "list_schedule"}


def test_a_boundary_is_required_and_the_network_is_granted_by_name(run: Now):
    made: list[SandboxSpec] = []
    for grants in ((), ("network",)):
        agent = scheduled_agent(ScriptedModel([]), replace(SCHEDULE, terms=RunTerms(permissions=grants)), run)
        made.append(command_sandbox(agent.start(), writing=True))

    assert [one.need for one in made] == ["require", "require"]
    assert [one.permissions.network for one in made] == [False, True]


def test_the_scripts_of_a_pinned_skill_can_be_read_and_run(run: Now, tmp_path: Path):
    folder = tmp_path / "state/pinned/abc"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("x")
    (folder / "scripts/go.sh").write_text("echo went")
    run.folder = str(folder)
    model = ScriptedModel([[ToolCall("1", "run_command", {"command": f"bash '{folder}/scripts/go.sh'"})], "Done."])

    assert fire_with(model, SCHEDULE, run).ok
    assert f"The files of this skill are in {folder}" in model.requests[0].messages[-1].text
    assert "went" in model.requests[1].messages[-1].text


def ordinary(run: Now, body: str, under: str = ".metier") -> Schedule:
    """A schedule of a skill that is also called by hand, and its pinned copy."""
    folder = Path(run.session).parent / "state/pinned/abc"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: ord\ndescription: Does things.\n---\n{body}")
    run.folder, run.body = str(folder), body
    return replace(SCHEDULE, skill="ord", own=False, source=f"/nowhere/{under}/skills/ord", arguments="the attic")


@pytest.mark.parametrize(
    ("body", "under", "told"),
    [
        ("Tidy $ARGUMENTS, first $0.", ".metier", "Tidy the attic, first the."),
        ("Tidy $2.", ".umbra", "Tidy attic."),
        ("Tidy up.", ".metier", "Tidy up.\n\nARGUMENTS: the attic"),
        ("Tidy up.", ".umbra", "Tidy up.\n\nArguments: the attic"),
    ],
)
def test_an_ordinary_skill_is_told_as_a_call_of_it_is(run: Now, body: str, under: str, told: str):
    model = ScriptedModel(["Done."])

    assert fire_with(model, ordinary(run, body, under), run).ok
    assert model.requests[0].messages[-1].text == told


def test_commands_of_an_ordinary_skill_run_once_and_what_they_said_is_kept(run: Now):
    model = ScriptedModel(["Done."])
    steps: list[str] = []

    class Kept(Now):
        def step(self, name: str, work: Callable[[], object]) -> object:
            steps.append(name)
            return work()

    kept = Kept(run.session)
    schedule = ordinary(kept, "Now: !`echo it-ran`")

    assert fire_with(model, replace(schedule, arguments=""), kept).ok
    assert model.requests[0].messages[-1].text == "Now: it-ran"
    assert steps[0] == "render"


def test_a_scheduler_skill_is_told_as_it_stands(run: Now):
    model = ScriptedModel(["Done."])
    schedule = replace(ordinary(run, "Costs $1: !`echo it-ran`"), own=True)

    assert fire_with(model, schedule, run).ok
    assert model.requests[0].messages[-1].text == "Costs $1: !`echo it-ran`\n\nArguments: the attic"


def test_a_run_that_is_to_stop_stops(run: Now):
    run.stop = True

    assert not fire_with(ScriptedModel(["One\ntwo\nthree."]), SCHEDULE, run).ok


def test_without_a_model_a_firing_fails_and_says_so(run: Now):
    with pytest.raises(NoModel, match="there is no model to ask"):
        fire_schedule(SCHEDULE, datetime(2026, 1, 1, tzinfo=UTC), run)


def test_a_skill_that_may_not_be_used_any_more_pauses_its_schedule(run: Now, tmp_path: Path):
    folder = tmp_path / "state/skills/tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies.\n---\nTidy.\n")
    (tmp_path / "state/config.toml").write_text("[skills.entries.tidy]\nenabled = false\n")
    theirs = replace(SCHEDULE, skill="tidy", source=str(folder), home=home_id(find_place(run.session)), own=False)

    with pytest.raises(SchedulePaused, match="may not run here"):
        fire_schedule(theirs, datetime(2026, 1, 1, tzinfo=UTC), run)


def test_a_skill_that_nobody_finds_any_more_pauses_its_schedule(run: Now, tmp_path: Path):
    folder = tmp_path / "elsewhere/tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies.\n---\nTidy.\n")
    theirs = replace(SCHEDULE, skill="tidy", source=str(folder), home=home_id(find_place(run.session)), own=False)

    with pytest.raises(SchedulePaused, match="may not run here"):
        fire_schedule(theirs, datetime(2026, 1, 1, tzinfo=UTC), run)


@pytest.mark.parametrize("inside", ["p/.git", "p"])
def test_a_project_whose_trust_was_taken_back_pauses_its_schedules(run: Now, tmp_path: Path, inside: str):
    (tmp_path / inside).mkdir(parents=True)
    project = tmp_path / "p"
    folder = project / ".claude/skills/tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies.\n---\nTidy.\n")
    place = find_place(str(project))
    trusted = make_trust_record(str(project), open_at(place, OpenRequest()).skills, 1_000_000, whole=True)
    write_trust_record(place.state, str(project), trusted)
    engine = open_engine(place)
    try:
        name, source, own = resolve_scheduled_folder(open_at(place, OpenRequest()), "tidy")
        made = create_schedule(place, engine, ScheduleRequest(name, source, "0 9 * * *", "UTC", own), datetime.now(UTC))
        [kept] = store.all_schedules(engine)
    finally:
        engine.dispose()

    assert (made.project, kept.project, own) == (str(project), str(project), False)
    with pytest.raises(NoModel):  # so it would have run
        fire_schedule(kept, datetime(2026, 1, 1, tzinfo=UTC), run)
    write_trust_record(place.state, str(project), None)
    with pytest.raises(SchedulePaused, match="may not run here"):
        fire_schedule(kept, datetime(2026, 1, 1, tzinfo=UTC), run)


def test_a_run_does_not_write_what_the_next_one_is_told(run: Now):
    bot = Path(run.session) / "bot.md"
    bot.write_text("# Tidy\n")
    commands = "echo evil >> bot.md; rm -f bot.md; echo evil > x; mv -f x bot.md; ln -sfn . d; echo evil > d/bot.md"
    model = ScriptedModel(
        [
            [ToolCall("1", "write_file", {"path": "bot.md", "content": "evil"})],
            [ToolCall("2", "edit_file", {"path": "./bot.md", "old": "Tidy", "new": "evil"})],
            [ToolCall("3", "run_command", {"command": commands})],
            [ToolCall("4", "write_file", {"path": "d/bot.md", "content": "evil"})],
            "Done.",
        ]
    )
    fire_with(model, SCHEDULE, run)
    after = ScriptedModel(["Done."])
    fire_with(after, replace(SCHEDULE, id="s2", terms=RunTerms(permissions=("network",))), run)

    assert model.requests[1].messages[-1].text.startswith("Access denied")
    assert bot.read_text() == "# Tidy\n"
    assert "# Tidy" in after.requests[0].system
    assert "evil" not in after.requests[0].system

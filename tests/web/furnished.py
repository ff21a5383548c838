"""A place where things have happened: skills, runs that went well and badly, schedules, a proposal and a trial."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.agent.talking import call, spoken
from tests.home import World, make_world, write_skill
from tests.improve.failing import TOTAL

from metier.agent.agent import Agent
from metier.agent.permissions import Permission
from metier.improve.improver import ImproveOptions, improve_named
from metier.schedule import store
from metier.schedule.database import open_engine
from metier.schedule.orders import ScheduleOrder, place_order
from metier.testing.models import ScriptedModel, ScriptLine

SKILLS = {
    "changelog": ("Write the changelog of a release from its commits.", "1. Read `git log`.\n2. Group the changes.\n"),
    "csv-report": (
        "Summarise a CSV file as a short report with totals.",
        "# CSV report\n\nRead `$0` and report:\n\n- rows and columns\n- totals of **numeric** columns\n",
    ),
    "invoice": ("Draft an invoice from hours and a rate.", "Ask for the client, then fill in the template.\n"),
    "meeting-notes": ("Turn a transcript into decisions and tasks.", "List decisions first, then tasks with owners.\n"),
    "release-check": ("Check that a release is ready to ship.", "1. Run the tests.\n2. Compare the versions.\n"),
    "standup": ("Summarise yesterday's commits for the team.", "Keep it to five lines.\n"),
}
BODY = "# Report\n\n1. Run `scripts/total.py --all-of-it`.\n2. Say how many numbers there are.\n"


def furnish(folder: Path) -> World:
    world = make_world(folder)
    for name, (description, body) in SKILLS.items():
        write_skill(world.state / "skills" / name, description, body)
    write_skill(
        world.state / "skills/weather",
        "Tell the weather of a city.",
        "Ask the service.\n",
        "metadata:\n  metier:\n    requires:\n      bins: [weather-cli]\n",
    )
    write_skill(world.project / ".metier/skills/deploy", "Deploy the site to staging.", "Look first: !`git status`\n")
    (world.state / "skills/old-notes").mkdir()
    (world.state / "skills/old-notes/SKILL.md").write_text("---\nname: old-notes\ndescription: [unclosed\n---\n")
    _runs(world)
    _proposal(world)
    _schedules(world)
    _trial(world)
    return world


def _runs(world: World) -> None:
    allowed = Permission(otherwise="allow")
    finished: list[tuple[str, list[ScriptLine]]] = [
        ("/csv-report sales.csv", ["The file has **4 rows**. North sold 120, south 196."]),
        ("/standup", [call("run_command", command="git log --oneline -5"), "Three commits: two fixes, one feature."]),
        (
            "Write the changelog of 1.4",
            [call("skill_use", skill_name="changelog"), "Added: exports. Fixed: two crashes."],
        ),
        ("/csv-report costs.csv", ["Costs rose by **8 %**."]),
    ]
    for task, lines in finished:
        with Agent(world.open(), ScriptedModel(lines, "claude"), rules=allowed).start() as session:
            list(spoken(session, task))


def _proposal(world: World) -> None:
    """A run that fails because of its skill, and the change that a model proposes for it."""
    file = write_skill(world.state / "skills/report", "Report how many numbers there are.", BODY)
    (file.parent / "scripts").mkdir()
    (file.parent / "scripts/total.py").write_text(TOTAL)
    fails = call("skill_run_script", skill_name="report", script_name="total.py", script_args="--all-of-it")
    well = call("skill_run_script", skill_name="report", script_name="total.py", script_args="--everything")
    model = ScriptedModel([fails, "I could not count them."], "claude")
    with Agent(world.open(), model, rules=Permission(otherwise="allow")).start() as session:
        list(spoken(session, "/report"))
    edit = call("edit_file", path="SKILL.md", old="total.py --all-of-it", new="total.py --everything")
    writer = ScriptedModel([edit, "The script has no such option.", well, "Forty-two."])
    result = improve_named(world.open(), "report", session.run, ImproveOptions(writer))
    assert [proposal.standing for proposal in result.proposals] == ["waiting"], result


def _schedules(world: World) -> None:
    now = datetime.now(UTC)
    library = world.open()
    engine = open_engine(library.place)
    for skill, time in (("standup", "every weekday at 9am"), ("csv-report", "every monday 8:00")):
        entry = place_order(library, engine, ScheduleOrder(skill, time, "UTC"), now)
        for days in (3, 2, 1):
            store.trigger_schedule(engine, entry.id, now - timedelta(days=days))
    store.pause_schedule(engine, "csv-report", "you paused it", now)
    engine.dispose()


def _trial(world: World) -> None:
    for number, share in enumerate((0.7, 0.8, 0.9), 1):
        folder = world.state / f"evals/csv-report/00{number}"
        folder.mkdir(parents=True)
        arms = {"with_skill": (share, 1_240, 4.1), "without_skill": (0.45, 2_010, 7.9)}
        document = {
            "metadata": {"skill_name": "csv-report", "runs_per_configuration": 3, "timestamp": f"2026-11-1{number}"},
            "intervals": {
                arm: {"pass_rate": mean, "low": mean - 0.15, "high": min(1.0, mean + 0.1), "cases": 12}
                for arm, (mean, _, _) in arms.items()
            },
            "run_summary": {
                arm: {"tokens": {"mean": tokens}, "time_seconds": {"mean": seconds}}
                for arm, (_, tokens, seconds) in arms.items()
            },
            "comparison": {"verdict": "better"},
        }
        (folder / "benchmark.json").write_text(json.dumps(document))

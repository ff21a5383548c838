"""Scheduling by talking: the creator, the four tools, and a scheduler skill run by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")
pytest.importorskip("sqlalchemy", reason="the extra `schedule` is not installed")

from tests.agent.wire import Says, Wire
from tests.cli.test_run import last, model

NAME = "tidy-0a1b2c3d"
CREATE = {"skill_name": "scheduler-skill-creator", "script_name": "init_scheduler_skill.py", "script_args": "water"}


def scheduler(desk: Any) -> None:
    text = f"---\nname: {NAME}\ndescription: Tidies.\n---\nTidy up.\n"
    desk.skill(NAME, text, desk.state / "scheduler")


def answers(wire: Wire) -> list[str]:
    """What the tools answered, as the model was told."""
    return [one["content"] for one in wire.requests[-1]["messages"] if one["role"] == "tool"]


def offered(wire: Wire) -> set[str]:
    return {one["function"]["name"] for one in wire.requests[0]["tools"]}


def test_the_creator_makes_a_scheduler_skill_writes_it_and_binds_its_time(desk):
    assert desk.say("init").code == 0

    with model(desk, []) as wire:

        def path() -> str:
            told = next((text for text in answers(wire) if "[OK] created" in text), str(answers(wire)))
            return told.partition("created   : ")[2].splitlines()[0].strip()

        def edit(old: str, new: str) -> Says:
            return Says(calls=[("edit_file", {"path": path(), "old": old, "new": new})])

        wire.lines += [
            Says(calls=[("skill_use", {"skill_name": "scheduler-skill-creator", "arguments": "water at 9 daily"})]),
            Says(calls=[("skill_run_script", CREATE)]),
            lambda: edit("TODO what this does, in one sentence", "Reminds of the flowers."),
            lambda: edit("TODO the steps, complete in themselves: nobody can be asked while this runs.", "Say: water."),
            lambda: edit("TODO what the result looks like, with a short example.", "One line."),
            lambda: Says(
                calls=[
                    (
                        "add_schedule",
                        {"target": "cron", "time": "0 9 * * *", "skill_name": path().split("/")[-2]},
                    )
                ]
            ),
            Says("Every day at nine."),
        ]
        allowed = ("--allow", f"edit_file({desk.state}/scheduler/*)", "--allow", "add_schedule")
        said = desk.say("run", *allowed, "every day at 9: water the flowers")

        assert (said.code, said.out) == (0, "Every day at nine.\n"), said.err
        assert answers(wire)[-1].startswith("cron scheduled: 0 9 * * * for water-")
    [made] = json.loads(desk.say("schedule", "list", "--json").out)
    assert made["when"] == "0 9 * * *"
    assert "Say: water." in (desk.state / "scheduler" / made["skill"] / "SKILL.md").read_text()
    assert made["skill"] not in desk.say("catalog").out


def test_without_a_time_the_creator_asks_and_where_nobody_is_there_nothing_is_made(desk):
    assert desk.say("init").code == 0
    lines = [
        Says(calls=[("skill_use", {"skill_name": "scheduler-skill-creator", "arguments": "water"})]),
        Says(calls=[("ask_user", {"question": "At which time?"})]),
        Says("I need a time."),
    ]
    with model(desk, lines) as wire:
        said = desk.say("run", "remind me to water the flowers")
        assert said.out == "I need a time.\n"
        assert "call the `ask_user` tool now" in json.dumps(wire.requests[1]["messages"])
        assert "This session is not interactive" in answers(wire)[-1]
    assert json.loads(desk.say("schedule", "list", "--json").out) == []


def test_nothing_is_scheduled_without_a_yes(desk):
    scheduler(desk)
    call = ("add_schedule", {"target": "task", "time": "+5m", "skill_name": NAME})
    with model(desk, [Says(calls=[call])]):
        said = desk.say("run", "--json", "tidy up in five minutes")
    assert (said.code, last(said)["reason"]) == (4, "refused-approval")
    assert json.loads(desk.say("schedule", "list", "--json").out) == []


def test_the_four_tools_add_change_list_and_remove(desk):
    scheduler(desk)
    lines = [
        Says(calls=[("add_schedule", {"target": "task", "time": "+5m", "skill_name": "nobody-00000000"})]),
        Says(calls=[("add_schedule", {"target": "cron", "time": "0 9 * * *", "skill_name": NAME})]),
        Says(calls=[("patch_schedule", {"target": "cron", "time": "0 10 * * *", "skill_name": NAME})]),
        Says(calls=[("list_schedule", {})]),
        Says(calls=[("remove_schedule", {"target": "cron", "skill_name": NAME})]),
        Says(calls=[("list_schedule", {"target": "all"})]),
        Says("Done."),
    ]
    with model(desk, lines) as wire:
        assert desk.say("run", "--allow", "*_schedule", "go").code == 0
        unknown, added, patched, listed, removed, empty = answers(wire)
    assert "scheduler-skill-creator" in unknown
    assert added == f"cron scheduled: 0 9 * * * for {NAME}"
    assert patched == f'patched 1 cron(s) for skill "{NAME}"; new expression: 0 10 * * *'
    assert json.loads(listed)["crons"][0]["expression"] == "0 10 * * *"
    assert removed == f'removed 1 cron(s) for skill "{NAME}" and moved skill to .Trash'
    assert empty == "{}"


@pytest.mark.parametrize("dialect", ["standard", "agenvoy"])
def test_a_scheduler_skill_run_by_hand_does_its_work_and_schedules_nothing(desk, dialect):
    scheduler(desk)
    lines = [
        Says(calls=[("add_schedule", {"target": "task", "time": "+5m", "skill_name": NAME})]),
        Says("Tidied."),
    ]
    with model(desk, lines) as wire:
        said = desk.say("--dialect", dialect, "run", "--yes", f"/sched-{NAME}", "twice")
        assert (said.code, said.out) == (0, "Tidied.\n")
        begun = wire.requests[0]["messages"][-1]["content"]
        assert "nothing can be scheduled" in answers(wire)[-1]
    assert f"scheduler skill: {NAME}" in str(begun)
    assert "Tidy up." in str(begun)
    assert "twice" in str(begun)
    assert json.loads(desk.say("schedule", "list", "--json").out) == []


def test_the_next_turn_may_schedule_again(desk):
    scheduler(desk)
    call = ("add_schedule", {"target": "cron", "time": "0 9 * * *", "skill_name": NAME})
    with model(desk, [Says("Tidied."), Says(calls=[call]), Says("Done.")]) as wire:
        desk.say("run", f"/sched-{NAME}")
        desk.say("run", "--resume", "last", "--yes", "do that every day at nine")
        assert answers(wire)[-1] == f"cron scheduled: 0 9 * * * for {NAME}"
        assert offered(wire) >= {"add_schedule", "patch_schedule", "remove_schedule", "list_schedule"}

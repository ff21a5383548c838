"""Scheduler skills: their tree, their commands, the creator, and the agent's tools."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pytest
from tests.schedule.house import NAME, House

from metier.dialects import DIALECTS
from metier.library import scheduled
from metier.library.open import OpenRequest, open_at
from metier.schedule import pins, store
from metier.schedule.tools import SCHEDULE_TOOL_SPECS, ScheduleTools
from metier.types.errors import BadRequest, MetierError, Refused, UnknownSkill, Unloadable

CREATOR = Path(scheduled.__file__).parents[1] / "bundled" / "scheduler-skill-creator"
SCRIPT = CREATOR / "scripts" / "init_scheduler_skill.py"
MONDAY = datetime.fromisoformat("2026-06-08T08:00:30+08:00")


class Agent:
    def __init__(self, house: House, session: str = "") -> None:
        self.desk = ScheduleTools(house.place, house.engine, "Asia/Taipei", lambda: MONDAY, session)

    def use(self, name: str, **given: str) -> str:
        [tool] = [one for one in SCHEDULE_TOOL_SPECS if one.name == name]
        return tool.call(self.desk, given)


@pytest.fixture
def agent(house: House) -> Agent:
    house.skill()
    return Agent(house)


def test_a_time_is_bound_to_a_scheduler_skill(agent):
    assert (
        agent.use("add_schedule", target="task", time="+5m", skill_name=NAME)
        == f"task scheduled: {NAME} fires at 2026-06-08 08:05:30"
    )
    assert (
        agent.use("add_schedule", target="cron", time="每 10 分", skill_name=NAME)
        == f"cron scheduled: */10 * * * * for {NAME}"
    )
    found = json.loads(agent.use("list_schedule"))
    assert [one["skill"] for one in found["tasks"]] == [NAME]
    assert [one["expression"] for one in found["crons"]] == ["*/10 * * * *"]
    assert "crons" not in json.loads(agent.use("list_schedule", target="task"))


def test_nothing_scheduled_is_an_empty_object(agent):
    assert agent.use("list_schedule", target="all") == "{}"


def test_a_skill_that_is_not_there_is_refused_naming_the_creator(agent):
    with pytest.raises(Refused, match="scheduler-skill-creator"):
        agent.use("add_schedule", target="task", time="+5m", skill_name="nobody-00000000")
    assert agent.use("list_schedule") == "{}"


@pytest.mark.parametrize(
    ("target", "time", "part"),
    [
        ("task", "later", "time"),
        ("task", "08:00", "already gone"),
        ("task", "x", "unrecognized time format"),
        ("cron", "* * * *", "5 fields"),
        ("cron", "+5m", "that is a task, not a cron"),
        ("task", "每天 9 點", "that is a cron, not a task"),
        ("both", "+5m", "target must be task or cron"),
    ],
)
def test_what_is_no_time_for_that_target_is_refused(agent, target, time, part):
    with pytest.raises(BadRequest) as refused:
        agent.use("add_schedule", target=target, time=time, skill_name=NAME)
    assert part in refused.value.message
    assert agent.use("list_schedule") == "{}"


def test_a_duplicate_is_refused(agent):
    agent.use("add_schedule", target="task", time="09:00", skill_name=NAME)
    with pytest.raises(BadRequest, match=f"duplicate task: {NAME} already scheduled at the same time"):
        agent.use("add_schedule", target="task", time="09:00", skill_name=NAME)


def test_times_are_changed_and_schedules_removed_with_their_skill(agent, house):
    agent.use("add_schedule", target="task", time="+5m", skill_name=NAME)
    said = agent.use("patch_schedule", target="task", time="明天 9 點", skill_name=NAME)
    assert said == f'patched 1 task(s) for skill "{NAME}"; new fire time: 2026-06-09 09:00:00'
    agent.use("add_schedule", target="cron", time="* * * * *", skill_name=NAME)
    assert agent.use("remove_schedule", target="task", skill_name=NAME) == f'removed 1 task(s) for skill "{NAME}"'
    said = agent.use("remove_schedule", target="cron", skill_name=NAME)
    assert said == f'removed 1 cron(s) for skill "{NAME}" and moved skill to .Trash'
    assert (house.state / "scheduler/.Trash" / NAME / "SKILL.md").exists()
    assert scheduled.scheduler_folders(house.place) == {}


def test_a_session_sees_and_changes_only_its_own(agent, house):
    agent.use("add_schedule", target="task", time="+5m", skill_name=NAME)
    other = Agent(house, "other")
    assert other.use("list_schedule") == "{}"
    with pytest.raises(BadRequest, match="no task for skill"):
        other.use("remove_schedule", target="task", skill_name=NAME)
    assert len(store.all_schedules(house.engine)) == 1


def test_every_tool_says_what_it_takes():
    for tool in SCHEDULE_TOOL_SPECS:
        assert isinstance(tool.schema, Mapping)
        assert tool.schema["type"] == "object"
        assert tool.description


# --- The tree ---


def test_a_scheduler_skill_is_a_command_at_the_end_and_nowhere_else(house):
    house.skill()
    other = house.home / ".config/agenvoy/skills/scheduler/theirs-87654321"
    other.mkdir(parents=True)
    (other / "SKILL.md").write_text("---\nname: theirs-87654321\n---\nTheirs.\n")
    for dialect in ("standard", "agenvoy"):
        library = open_at(house.place, OpenRequest(dialect, use_index=False))
        assert [one.name for one in library.commands()] == [f"sched-{NAME}", "sched-theirs-87654321"]
        assert library.skills == () or not list(library.skills)
        assert library.catalog().entries == ()
        assert library.match(f"/{NAME}").name is None


def test_a_run_by_hand_is_told_apart_from_making_a_schedule(house):
    house.skill(body="## 任務\nPing.\n")
    agenvoy = scheduled.manual_message(house.place, f"/sched-{NAME}", "twice", DIALECTS["agenvoy"].serving.commands)
    assert agenvoy == (
        f"[執行已存在 scheduler skill: {NAME} · 此為手動 trigger,不是建立新 schedule]\n"
        "依下方 SKILL body instructions 立即執行並輸出結果。\n"
        "**禁止** activate `scheduler-skill-creator`、**禁止** 跑 `init_scheduler_skill.py`、**禁止** add_schedule"
        "\n\n---\n## 任務\nPing.\n\n---\n附加指令：twice"
    )
    english = scheduled.manual_message(house.place, NAME, "", DIALECTS["standard"].serving.commands)
    assert english.startswith(f"[Running the existing scheduler skill: {NAME} ·")
    assert "**do not** call add_schedule" in english
    assert english.endswith("\n\n---\n## 任務\nPing.")


@pytest.mark.parametrize(
    ("name", "kind"), [("/sched-", BadRequest), ("/sched-nobody", UnknownSkill), (f"/sched-{NAME}", Unloadable)]
)
def test_a_run_by_hand_of_nothing_is_refused(house, name, kind):
    house.skill(body="\n")
    with pytest.raises(kind):
        scheduled.manual_message(house.place, name, "", DIALECTS["standard"].serving.commands)


def test_a_folder_whose_frontmatter_says_another_name_is_refused(house):
    folder = house.skill()
    folder.rename(folder.parent / "other-12345678")
    with pytest.raises(Refused, match="its frontmatter says"):
        scheduled.find_scheduler_skill(house.place, "other-12345678")


@pytest.mark.parametrize("name", ["../x", "..", ".Trash", "/etc"])
def test_a_name_never_leads_out_of_the_tree(house, name):
    house.skill()
    (house.state / "x").mkdir()
    (house.state / "x/SKILL.md").write_text("---\nname: x\n---\nX.\n")
    with pytest.raises(MetierError):
        scheduled.find_scheduler_skill(house.place, name)


def test_a_pinned_copy_is_the_skill_to_the_byte_and_the_mode(house):
    folder = house.skill()
    (folder / "scripts").mkdir()
    (folder / "scripts/go.sh").write_bytes(b"#!/bin/sh\n\xff\n")
    (folder / "scripts/go.sh").chmod(0o755)
    one = pins.pin_folder(str(folder))
    copy = Path(pins.unpack_pin(house.place, one))
    assert (copy / "scripts/go.sh").read_bytes() == b"#!/bin/sh\n\xff\n"
    assert os.access(copy / "scripts/go.sh", os.X_OK)
    (copy / "scripts/go.sh").write_text("rm -rf /")
    assert (Path(pins.unpack_pin(house.place, one)) / "scripts/go.sh").read_bytes() == b"#!/bin/sh\n\xff\n"
    from metier.sources.skill_files import folder_digest

    assert one.digest == folder_digest(str(folder))


def test_a_link_in_a_skill_is_not_pinned(house):
    folder = house.skill()
    (folder / "secret").symlink_to("/etc/passwd")
    with pytest.raises(MetierError):
        pins.pin_folder(str(folder))


# --- The creator ---


def create(state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        env={"METIER_HOME": str(state), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
    )


def test_the_creator_makes_a_skill_that_can_be_scheduled(house):
    said = create(house.state, "Daily News!")
    assert said.returncode == 0, said.stdout
    assert said.stdout.startswith("note: normalized 'Daily News!' -> 'daily-news'\n[OK] created   : ")
    name = said.stdout.strip().rpartition(" ")[2]
    assert re.fullmatch(r"daily-news-[0-9a-f]{8}", name)
    folder = Path(scheduled.find_scheduler_skill(house.place, name))
    assert "## 任務" in scheduled.read_body(str(folder))
    assert "## 輸出格式" in scheduled.read_body(str(folder))
    assert Agent(house).use("add_schedule", target="task", time="+5m", skill_name=name).startswith("task scheduled")


@pytest.mark.parametrize(
    ("short", "said"), [("!!!", "must contain at least one letter or digit"), ("x" * 56, "too long (65 > 64)")]
)
def test_the_creator_refuses_names_that_cannot_be(house, short, said):
    done = create(house.state, short)
    assert done.returncode == 1
    assert said in done.stdout
    assert not (house.state / "scheduler").exists() or not list((house.state / "scheduler").iterdir())


def test_the_creator_asks_before_anything_else():
    text = (CREATOR / "SKILL.md").read_text(encoding="utf-8")
    assert text.index("## Step 0") < text.index("## Step 1") < text.index("init_scheduler_skill.py <short>")
    assert "`ask_user`" in text.partition("## Step 0")[2].partition("## Step 1")[0]
    for vague in ("等等", "之後", "找時間", "下班後", "有空時", "later", "soon"):
        assert vague in text

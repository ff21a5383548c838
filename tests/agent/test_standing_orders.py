"""What runs when nobody watches is changed by a person's word alone, whatever a skill was granted."""

import pytest
from tests.agent.talking import call, session, spoken
from tests.home import World, write_skill

from metier.agent.agent_files import parse_rules
from metier.agent.permissions import Permission
from metier.types.event import Asked, Ended, Used

TREES = (".metier/scheduler", ".config/agenvoy/skills/scheduler")


def granting(world: World, tools: str) -> None:
    write_skill(world.home / ".metier/skills/docs", more=f"allowed-tools: {tools}\n")


def questions(world: World, wanted, answer=None, **more):
    """What was asked on the way to a call, with the skill active."""
    lines = [call("skill_use", skill_name="docs"), wanted, "Done."]
    events = spoken(session(world, lines, keep=False, **more)[0], "go", answer)
    return [one.tool for one in events if isinstance(one, Asked)], events


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("tools", ["Write Edit", "write_file(*.md)", "write_file(*)"])
def test_no_grant_writes_what_a_schedule_runs(world: World, tree: str, tools: str):
    file = write_skill(world.home / tree / "daily-0a1b2c3d")
    before = file.read_text()
    granting(world, tools)
    asked, _ = questions(world, call("write_file", path=str(file), content="Upload everything."))

    assert asked == ["write_file"]
    assert file.read_text() == before


def test_a_wide_rule_of_the_users_is_no_word_about_schedules_and_the_hint_says_which_is(world: World):
    file = write_skill(world.home / TREES[0] / "daily-0a1b2c3d")
    granting(world, "Read")
    wanted = call("write_file", path=str(file), content="x")
    asked, events = questions(world, wanted, rules=Permission(parse_rules(("write_file",))))

    [hint] = [one.hint for one in events if isinstance(one, Ended)]
    rule = f"write_file({world.home}/{TREES[0]}/*)"
    assert asked == ["write_file"]
    assert f"--allow '{rule}'" in hint
    assert questions(world, wanted, rules=Permission(parse_rules((rule,))))[0] == []
    assert file.read_text() == "x"


def test_what_a_person_said_yes_to_is_written(world: World):
    file = write_skill(world.home / TREES[0] / "daily-0a1b2c3d")
    granting(world, "Write")
    questions(world, call("write_file", path=str(file), content="x"), "once")

    assert file.read_text() == "x"


@pytest.mark.parametrize("grant", ["add_schedule", "add_*", "*_schedule", "*", "[a-z]*"])
def test_no_skill_is_granted_a_schedule(world: World, grant: str):
    pytest.importorskip("sqlalchemy", reason="the extra `schedule` is not installed")
    write_skill(world.home / TREES[0] / "daily-0a1b2c3d")
    granting(world, grant)
    wanted = call("add_schedule", target="cron", time="* * * * *", skill_name="daily-0a1b2c3d")
    asked, events = questions(world, wanted, "no")

    assert asked == ["add_schedule"]
    assert [one.error for one in events if isinstance(one, Used)][-1]


@pytest.mark.parametrize("tool", ["add_schedule", "patch_schedule", "remove_schedule", "git_rollback"])
def test_what_lasts_beyond_the_conversation_is_never_granted(tool: str):
    assert Permission().says(call(tool), [tool])[0] == "ask"
    assert Permission(parse_rules((tool,))).says(call(tool))[0] == "allow"


@pytest.mark.parametrize("grant", ["*", "**", "?*", "[!x]*", "w*"])
def test_a_grant_names_its_tools(grant: str):
    for name in ("write_file", "run_command", "server__wipe"):
        assert Permission().says(call(name, path="x", command="x"), [grant])[0] == "ask"


def test_all_tools_of_one_server_can_be_granted():
    assert Permission().says(call("server__list"), ["server__*"])[0] == "allow"
    assert Permission().says(call("other__list"), ["server__*"])[0] == "ask"

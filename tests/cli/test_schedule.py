"""metier schedule, as a person uses it."""

import json
import sys

import pytest

NAME = "ping-12345678"


@pytest.fixture
def desk(desk):
    desk.skill(NAME, under=desk.state / "scheduler")
    return desk


def test_preview_prints_instants_over_a_change_of_clocks(desk):
    said = desk.say(
        "schedule", "preview", "--cron", "30 2 * * *", "--tz", "America/New_York", "--from", "2026-03-07T00:00:00-05:00",
        "--count", "3", "--json",
    )  # fmt: skip
    assert json.loads(said.out) == [
        "2026-03-07T02:30:00-05:00",
        "2026-03-08T03:00:00-04:00",
        "2026-03-09T02:30:00-04:00",
    ]


def test_preview_understands_words(desk):
    said = desk.say(
        "schedule", "preview", "每週一", "9", "點", "--tz", "Asia/Taipei", "--from", "2026-06-08", "--count", "2"
    )
    assert said.out == "2026-06-08T09:00:00+08:00\n2026-06-15T09:00:00+08:00\n"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--cron", "61 * * * *"], "61"),
        (["--cron", "0 0 30 2 *"], "0 0 30 2 *"),
        (["--cron", "* * * * *", "--tz", "Mars"], "not a time zone"),
        (["--cron", "* * * * *", "--from", "soon"], "not an ISO 8601 time"),
        (["--cron", "* * * * *", "9:00"], "pass either TIME or --cron"),
        ([], "pass either TIME or --cron"),
        (["later"], "time"),
    ],
)
def test_preview_refuses_what_it_cannot_mean(desk, words, part):
    said = desk.say("schedule", "preview", *words)
    assert said.code == 2
    assert part in said.err
    assert "Traceback" not in said.err


def test_a_schedule_is_made_shown_changed_paused_resumed_and_removed(desk):
    made = desk.say(
        "schedule",
        "add",
        NAME,
        "weekdays",
        "at",
        "9:00",
        "--tz",
        "UTC",
        "--id",
        "mine",
        "--overlap",
        "queue-one",
        "--json",
    )
    assert made.code == 0, made.err
    assert json.loads(made.out)["when"] == "0 9 * * 1-5"
    assert json.loads(made.out)["digest"].startswith("sha256:")
    assert "no daemon is running" in desk.say("schedule", "list").out
    assert [one["id"] for one in json.loads(desk.say("schedule", "list", "--json").out)] == ["mine"]
    assert "overlap queue-one" in desk.say("schedule", "show", "mine").out
    assert desk.say("schedule", "patch", "mine", "--time", "每天 9 點", "--catch-up", "none").code == 0
    shown = json.loads(desk.say("schedule", "show", "mine", "--json").out)
    assert (shown["when"], shown["rules"]["catch_up"], shown["rules"]["overlap"]) == ("0 9 * * *", "none", "queue-one")
    assert len(shown["coming"]) == 3
    assert desk.say("schedule", "pause", "mine").code == 0
    assert "you paused it" in desk.say("schedule", "list").out
    assert desk.say("schedule", "resume", "mine").code == 0
    assert "paused" not in desk.say("schedule", "list").out
    assert "Queued: " in desk.say("schedule", "run", NAME).out
    assert [one["state"] for one in json.loads(desk.say("schedule", "history", "--json").out)] == ["waiting"]
    removed = desk.say("schedule", "remove", "mine")
    assert ".Trash" in removed.out
    assert desk.say("schedule", "list").out.startswith("No schedules.")
    assert "cancelled" in desk.say("schedule", "history", "mine").out


def test_every_time_is_told_with_its_zone_and_programs_get_all_of_them_in_one(desk):
    for zone in ("UTC", "Europe/Berlin"):
        told = desk.say("schedule", "add", NAME, "0 18 * * 1-5", "--tz", zone, "--permission", "network")
        assert f"18:00:00 {zone}" in told.out
    listed = desk.say("schedule", "list").out
    assert "18:00:00 UTC" in listed
    assert "18:00:00 Europe/Berlin" in listed
    coming = json.loads(desk.say("schedule", "show", f"{NAME}.2", "--json").out)["coming"]
    assert {at[-6:] for at in coming} == {"+00:00"}
    assert "Europe/Berlin" in desk.say("schedule", "run", f"{NAME}.2").out


def test_a_one_shot_has_its_time_once_and_why_it_is_paused_is_told_whole(desk):
    desk.say("schedule", "add", NAME, "+5h", "--tz", "UTC")
    desk.say("schedule", "pause", NAME)
    first, why, *_ = desk.say("schedule", "list").out.splitlines()
    assert first.split()[:2] == [NAME, "once"]
    assert first.endswith("UTC  paused")
    assert why == "  you paused it"


def test_the_model_that_is_configured_is_agreed_to_like_everything_else(desk):
    def model(id: str, time: str, *more: str) -> str:
        said = desk.say("schedule", "add", NAME, time, "--id", id, "--json", *more)
        return str(json.loads(said.out)["terms"]["model"])

    assert model("none", "daily at 9:00") == ""
    configuration = desk.state / "config.toml"
    configuration.write_text('model = "anthropic:first"\n')
    assert model("configured", "daily at 10:00") == "anthropic:first"
    assert model("named", "daily at 11:00", "--model", "anthropic:other") == "anthropic:other"
    configuration.write_text('model = "anthropic:second"\n')
    shown = json.loads(desk.say("schedule", "show", "configured", "--json").out)
    assert shown["terms"]["model"] == "anthropic:first"


def test_an_ordinary_skill_can_be_scheduled_with_arguments(desk):
    desk.skill("report")
    made = json.loads(desk.say("schedule", "add", "report", "+5m", "--arguments", "last week", "--json").out)
    assert (made["skill"], made["arguments"], made["once"]) == ("report", "last week", True)
    desk.say("schedule", "remove", "report")
    assert (desk.skills / "report/SKILL.md").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["add", "pnig-12345678", "+5m"], f"did you mean `{NAME}`?"),
        (["add", NAME, "later"], "time"),
        (["add", NAME, "+5m", "--tz", "Mars"], "not a time zone"),
        (["add", NAME, "+5m", "--sink", "somewhere"], "is not a sink"),
        (["add", NAME, "+5m", "--id", "../x"], "is not a valid id"),
        (["add", NAME, "+5m", "--session", "a/b"], "is not a valid session"),
        (["add", NAME, "* * * * *", "--jitter", "30"], "is out of range"),
        (["add", NAME, "+5m", "--budget", "-1"], "--budget must be 0 or more"),
        (["add", NAME, "+5m", "--id", ""], "--id must not be empty"),
        (["add", NAME, "+5m", "--model", "nosuch"], "`nosuch` is not a model"),
        (["add", NAME, "+5m", "--permission", "nonsense(("], "is not a permission"),
        (["add", NAME, "+5m", "--permission", "networkk"], "did you mean `network`?"),
        (["show", "nobody"], "no schedule named `nobody`"),
        (["patch", "nobody", "--time", "9:00"], "no schedule named"),
        (["rnu"], "rnu"),
    ],
)
def test_what_can_not_be_is_refused_in_a_sentence(desk, words, part):
    said = desk.say("schedule", *words)
    assert said.code == 2
    assert part in said.err
    assert "Traceback" not in said.err


def test_no_control_character_of_a_skill_reaches_the_terminal(desk):
    folder = desk.state / "scheduler" / "evil-\x1b[31m"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: x\n---\nX.\n")
    assert "\x1b" not in desk.say("commands").out
    assert "\x1b" not in desk.say("schedule", "add", "evil-\x1b[31m", "+5m").err


def test_scheduler_skills_have_a_colour_of_their_own_in_the_table_of_commands(desk):
    desk.skill("report")
    lines = desk.at_terminal("commands").out.splitlines()
    assert lines[-1].startswith(f"\x1b[35m/sched-{NAME}")
    assert not lines[0].startswith("\x1b[35m")


def test_listing_skills_imports_nothing_heavy(desk):
    for words in ("list", "commands", "catalog"):
        done = desk.say(words, program=[sys.executable, "-X", "importtime", "-m", "metier"])
        assert done.code == 0
        for heavy in ("sqlalchemy", "dbos", "cronsim", "zoneinfo"):
            assert f" {heavy}\n" not in done.err

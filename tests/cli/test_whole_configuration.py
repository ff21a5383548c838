"""A configuration that can't be read in full: what acts stops, what looks goes on and says so."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from tests.agent.wire import Says, speaking

TOUCH = Says(calls=[("run_command", {"command": "touch denied.txt"})])


def configure(desk, url: str, rules: str) -> None:
    desk.configure(f'model = "mine"\n[models.mine]\nmodel = "a-model"\nurl = "{url}/v1"\n{rules}')


@pytest.mark.parametrize(
    ("rules", "line", "what"),
    [
        ('[agent]\ndeny = ["run_command(touch *)"]\n[oops\n', 7, "can't be read"),
        ('[agent]\ndeny = "run_command(touch *)"\n', 6, "`agent.deny` must be a list"),
        ('[agent]\ndeny = ["run_command(touch *"]\n', 6, "`agent.deny[0]` must be a tool's name"),
        ('[agent]\ndenny = ["run_command(touch *)"]\n', 6, "`agent.denny` is not a setting"),
        ('[agnet]\ndeny = ["run_command(touch *)"]\n', 5, "`agnet` is not a setting"),
        ('[sandbox]\nneed = "requier"\n', 6, "`sandbox.need` must be"),
    ],
)
def test_a_typo_takes_no_rule_away_it_ends_the_run(desk, rules, line, what):
    with speaking([TOUCH, Says("Done.")]) as wire:
        configure(desk, wire.url, rules)
        said = desk.say("run", "--yes", "do it")

    assert (said.code, wire.requests) == (2, [])
    assert f"error: {desk.state}/config.toml:{line}: " in said.err
    assert what in said.err
    assert "hint: " in said.err
    assert not (desk.project / "denied.txt").exists()


@pytest.mark.parametrize("rule", ["run_comand(touch *)", "run_comand"])
@pytest.mark.parametrize("given", ["configured", "on the line"])
def test_a_rule_that_denies_a_tool_which_is_none_ends_the_run(desk, rule, given):
    with speaking([TOUCH, Says("Done.")]) as wire:
        configure(desk, wire.url, f'[agent]\ndeny = ["{rule}"]\n' if given == "configured" else "")
        words = () if given == "configured" else ("--deny", rule)
        said = desk.say("run", "--yes", *words, "do it")

    assert (said.code, wire.requests) == (2, [])
    assert "did you mean `run_command`?" in said.err
    assert not (desk.project / "denied.txt").exists()


def test_a_misspelled_setting_that_limits_nothing_is_only_told(desk):
    with speaking([Says("Hello.")]) as wire:
        configure(desk, wire.url, "[limitz]\nlisted = 3\n")
        said = desk.say("run", "hello")

    assert (said.code, said.out) == (0, "Hello.\n")
    assert "`limitz` is not a setting" in said.err


@pytest.mark.parametrize(
    "words",
    [
        ("chat",),
        ("batch", "tasks"),
        ("script", "one", "go.sh"),
        ("render", "one"),
        ("eval", "one"),
        ("improve", "one"),
        ("mcp",),
        ("acp",),
        ("daemon",),
        ("new", "two", "Does it."),
        ("add", "./three"),
        ("update",),
        ("remove", "one"),
        ("install", "one"),
        ("trust",),
        ("schedule", "add", "one", "+5m"),
        ("schedule", "run", "x"),
        ("proposals", "accept", "x"),
        ("models", "get", "x"),
    ],
    ids=" ".join,
)
def test_every_command_that_acts_stops(desk, words):
    desk.skill("one")
    desk.configure("[oops\n")
    said = desk.say(*words)

    assert said.code == 2, said
    assert f"{desk.state}/config.toml:1: the configuration can't be read" in said.err


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("status",),
        ("status", "one"),
        ("show", "one"),
        ("search", "thing"),
        ("catalog",),
        ("commands",),
        ("why", "one"),
        ("roots",),
        ("preview", "one"),
        ("read", "one", "SKILL.md"),
        ("models", "list"),
    ],
    ids=" ".join,
)
def test_what_only_looks_goes_on_and_says_so(desk, words):
    desk.skill("one")
    desk.configure("[oops\n")
    said = desk.say(*words)

    assert said.code == 0, said
    told = said.out + said.err
    assert told.count("the configuration can't be read") == 1


def test_help_is_there_whatever_the_configuration_says(desk):
    desk.configure("[oops\n")
    assert desk.say("run", "--help").code == 0


@pytest.mark.parametrize(
    ("option", "meant"),
    [("--dryrun", "--dry-run"), ("--yse", "--yes"), ("--jsn", "--json"), ("--den=run_command", "--deny")],
)
def test_an_unknown_option_is_never_part_of_the_task(desk, option, meant):
    with speaking([Says("Hello.")]) as wire:
        configure(desk, wire.url, "")
        said = desk.say("run", option, "hello")

    assert (said.code, wire.requests) == (2, [])
    assert f"did you mean `{meant}`?" in said.err


def test_text_that_begins_with_a_dash_goes_after_two(desk):
    with speaking([Says("Hello.")]) as wire:
        configure(desk, wire.url, "")
        refused = desk.say("run", "explain", "--frobnicate")
        said = desk.say("run", "--", "explain", "--frobnicate", "-x")

    assert (refused.code, "text that begins with `-` goes after `--`" in refused.err) == (2, True)
    assert said.code == 0
    assert wire.requests[0]["messages"][-1]["content"] == "explain --frobnicate -x"

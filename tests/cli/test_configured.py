"""What the configuration and the global options do, through the real command line."""

import json

import pytest
from tests.cli.console import Desk


def names(desk: Desk, *words: str) -> list[str]:
    return [one["name"] for one in json.loads(desk.say(*words, "catalog", "--json").out)["entries"]]


def test_the_page_of_agentmd_works_from_file_to_prompt(desk):
    root = desk.project / "workspace/agents/skills"
    desk.skill("generate-report", under=root, description="Generate a formatted report")
    desk.skill("analyze-pr", 'argument-hint: "[pr-number]"\n', under=root, description="Analyze a GitHub pull request")
    desk.skill("unlisted", under=root)
    agent = desk.project / "workspace/agents/my-agent.md"
    agent.write_text(
        "---\nname: my-agent\nskills:\n  - analyze-pr\n  - generate-report\n---\n\nYou are an assistant.\n"
    )
    desk.say("trust")
    said = desk.say("--dialect", "agentmd", "--agent", "my-agent", "catalog")
    assert said.out == (
        "## Available Skills\n\n"
        "- **analyze-pr** [pr-number]: Analyze a GitHub pull request\n"
        "- **generate-report**: Generate a formatted report\n\n"
        "Use the `skill_use` tool to load a skill's full instructions when needed.\n"
    )
    agent.write_text("---\nname: my-agent\n---\n\nNo skills are named.\n")
    desk.say("trust")  # its agents are not what they were
    assert names(desk, "--dialect", "agentmd", "--agent", "my-agent") == []
    agent.write_text("---\nname: my-agent\nskills: []\n---\n")
    desk.say("trust")
    assert names(desk, "--agent", "workspace/agents/my-agent.md") == []


def test_the_page_of_umbra_works_from_file_to_prompt(desk):
    file = desk.skill(
        "deploy", under=desk.home / ".umbra/skills", description="Deploy the project to the staging environment",
        text="argument-hint: <environment>\ndisable-model-invocation: false\n",
    )  # fmt: skip
    desk.skill("test-watch", under=desk.project / ".umbra/skills")
    desk.skill("deploy", under=desk.project / ".umbra/skills", description="The copy of the project.")
    assert desk.say("--dialect", "umbra", "catalog").out == (
        "<available_skills>\n  <skill>\n    <name>deploy</name>\n"
        "    <description>Deploy the project to the staging environment</description>\n"
        f"    <location>{file}</location>\n  </skill>\n</available_skills>\n"
    )
    assert (
        desk.say("--dialect", "umbra", "commands").out
        == "/deploy <environment>  Deploy the project to the staging environment\n"
    )
    desk.say("trust")
    assert "The copy of the project." in desk.say("--dialect", "umbra", "catalog").out
    assert names(desk, "--dialect", "umbra") == ["deploy", "test-watch"]


def test_the_default_dialect_comes_from_the_configuration(desk):
    desk.skill("one", under=desk.home / ".umbra/skills")
    desk.configure('dialect = "umbra"\n')
    assert desk.say("catalog").out.startswith("<available_skills>")
    assert desk.say("--dialect", "standard", "catalog").out.startswith("These skills")


def test_a_dialect_of_ones_own_serves_and_reads(desk):
    desk.skill("one", description="word " * 50, under=desk.project / "house")
    desk.configure(
        '[dialects.house]\nlike = "umbra"\nformat = "plain"\ndescription_cut = 20\n'
        f'[[roots]]\npath = "{desk.project}/house"\ndialect = "house"\nlabel = "ours"\n'
    )
    said = desk.say("--dialect", "house", "catalog")
    assert said.out.splitlines()[-1] == "- one: word word word word…"
    assert "ours" in desk.say("roots").out


def test_limits_agents_and_settings_come_from_the_configuration(desk):
    for name in ("a", "b", "c"):
        desk.skill(name)
    desk.configure('[limits]\nlisted = 2\n[agents.reviewer]\nskills = ["c", "a"]\n[agents.nobody]\nskills = []\n')
    assert names(desk) == ["a", "b"]
    assert names(desk, "--agent", "reviewer") == ["c", "a"]
    assert names(desk, "--agent", "nobody") == []
    assert "not allowed" in desk.say("--agent", "reviewer", "list").out
    desk.configure("[skills.a]\nenabled = false\n[skills.entries.b]\nenabled = false\n")
    assert names(desk) == ["c"]
    assert "Enable via skills.a.enabled: true" in desk.say("status", "-v").out


def test_only_the_bundled_skills_that_are_allowed_are_ready(desk):
    desk.say("init")
    desk.skill("mine")
    desk.configure('[skills]\nallowBundled = ["summarise"]\n')
    assert names(desk) == ["mine", "summarise"]
    assert "Add to config.allowBundled array" in desk.say("status", "changelog").out


def test_a_configured_root_that_is_missing_is_told_and_no_more(desk):
    desk.skill("one")
    desk.configure('roots = ["~/nowhere"]\n')
    said = desk.say("list")
    assert said.code == 0
    assert f"{desk.home}/nowhere: error: the path does not exist" in said.out
    assert "one " in said.out


def test_the_profile_comes_before_what_is_managed(desk):
    desk.skill("one", under=desk.home / ".super-multica/skills", description="Managed.")
    desk.skill("one", under=desk.home / ".super-multica/agent-profiles/team/skills", description="Of the profile.")
    assert "Of the profile." in desk.say("--dialect", "multica", "--profile", "team", "catalog").out
    assert "Managed." in desk.say("--dialect", "multica", "catalog").out


@pytest.mark.parametrize("option", ["--root", "--project", "--dialect", "--agent"])
def test_an_empty_option_is_a_slip(desk, option):
    said = desk.say(option, "", "status")
    assert said.code == 2
    assert f"{option} must not be empty" in said.err


def test_no_index_reads_everything_and_writes_nothing(desk):
    desk.skill("one")
    assert desk.say("--no-index", "list").code == 0
    assert not (desk.state / "index.db").exists()


def test_the_skills_of_a_plugin_are_listed_by_the_name_that_finds_them(desk):
    plugin = desk.state / "plugins/tools"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin/plugin.json").write_text('{"name": "tools"}')
    desk.skill("cut", under=plugin / "skills")
    assert desk.say("list").out.startswith("tools:cut  ")
    assert desk.say("commands").out.startswith("/tools:cut  ")
    assert desk.say("why", "tools:cut").code == 0

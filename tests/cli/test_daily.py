"""What people meet every day at the command line."""

from __future__ import annotations

import json

import pytest
from tests.cli.console import Desk


def test_help_is_a_command_too(desk: Desk) -> None:
    assert desk.say("help").out == desk.say("--help").out
    assert desk.say("help", "run").out == desk.say("run", "--help").out
    assert desk.say("help", "schedule", "add").out == desk.say("schedule", "add", "--help").out
    assert desk.say("help", "nope").code == 2


def test_one_long_name_takes_no_description_but_its_own(desk: Desk) -> None:
    desk.skill("short", description="Says something short.")
    desk.skill("a-very-long-name-that-nobody-would-type-by-hand-every-day-again", description="Is long.")
    for columns in (60, 80):
        said = desk.at_terminal("list", columns=columns)
        assert "Says something" in said.out, columns
        assert "a-very-long-name-that-nobody-would-type-by-hand-every-day-again" in said.out.replace("\n", "")
    assert "Says something short." in desk.say("list").out


def test_a_broken_skill_is_described_with_its_details(desk: Desk) -> None:
    (desk.skills / "bad").mkdir(parents=True)
    (desk.skills / "bad/SKILL.md").write_bytes(b"---\nname: bad\ndescription: caf\xe9\n---\n")
    out = desk.say("list").out
    assert "first at byte" in out
    assert "byte it" not in out
    assert "{0}" not in out


def test_a_new_skill_says_what_it_shadows(desk: Desk) -> None:
    old = desk.skill("release-notes")
    said = desk.say("new", "release-notes", "Writes release notes.")
    assert said.code == 0
    assert f"it shadows {old}" in said.err


@pytest.mark.parametrize("dialect", ["standard", "agentmd", "umbra"])
def test_words_of_the_command_line_are_joined_with_blanks(desk: Desk, dialect: str) -> None:
    roots = {"standard": ".metier/skills", "agentmd": ".metier/skills", "umbra": ".umbra/skills"}
    text = "---\nname: one\ndescription: Does it.\n---\n[$ARGUMENTS]\n"
    if dialect == "agentmd":
        desk.skill("one", text, desk.project / "workspace/agents/skills")
        desk.say("trust")
    else:
        desk.skill("one", text, desk.home / roots[dialect])
    said = desk.say("--dialect", dialect, "render", "one", "--delivery", "body", "--", "a", "b")
    assert "[a b]" in said.out


def test_doctor_covers_extras_and_models(desk: Desk) -> None:
    checks = {check["what"]: check for check in json.loads(desk.say("doctor", "--json").out)}
    assert "agent" in checks["extras"]["note"]
    assert "none is chosen" in checks["models"]["note"]
    desk.configure('model = "mine"\n[models.mine]\nprovider = "nope"\n')
    checks = {check["what"]: check for check in json.loads(desk.say("doctor", "--json").out)}
    assert not checks["models"]["ok"]
    assert "models.mine.provider is `nope`" in checks["models"]["note"]


def test_quick_actions_offer_the_installation(desk: Desk) -> None:
    more = (
        "metadata:\n  requires:\n    bins: [frobnicate]\n"
        "install:\n  - kind: npm\n    id: npm-1\n    package: frobnicate\n"
    )
    desk.skill("frob", more, desk.home / ".super-multica/skills")
    desk.program("npm")
    said = desk.say("--dialect", "multica", "status", "frob")
    assert "run `metier install frob npm-1`" in said.out


def test_a_program_of_the_machine_needs_no_folder_of_its_own_in_the_sandbox() -> None:
    from metier.install.rules import readable_prefix

    assert readable_prefix("/usr/bin/npm", "/home/a/.metier/tools") == ""
    assert readable_prefix("/bin/go", "/home/a/.metier/tools") == ""
    assert readable_prefix("/home/a/.local/bin/uv", "/home/a/.metier/tools") in ("/home/a/.local", "/home/a/.local/bin")


def test_a_skill_that_agentmd_hides_is_listed_as_hidden(desk: Desk) -> None:
    desk.skill("secret", "user-invocable: false\n", desk.project / "workspace/agents/skills")
    desk.say("trust")
    said = desk.say("--dialect", "agentmd", "list")
    assert "hidden" in said.out
    assert "model only" not in said.out


def test_umbra_runs_a_block_on_one_line_and_nothing_that_only_shows_one(desk: Desk) -> None:
    body = "```!echo ran```\nAs in ```!echo no``` here.\n- ```!echo no```\n"
    desk.skill("one", f"---\nname: one\ndescription: Does it.\n---\n{body}", desk.home / ".umbra/skills")
    out = desk.say("--dialect", "umbra", "render", "one").out
    assert "\nran\n" in out
    assert out.count("echo no") == 2


def test_agenvoys_sample_with_stars_loads_with_name_and_description(desk: Desk) -> None:
    sample = (
        "***\nname: code-reviewer\ndescription: Deep code review covering quality, security, and architecture\n"
        "version: 1.0.0\n***\n\nYou are now a strict code reviewer...\n\n***\nA rule across the page.\n"
    )
    folder = desk.home / ".config/agenvoy/skills/code-reviewer"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(sample)
    shown = json.loads(desk.say("--dialect", "agenvoy", "show", "code-reviewer", "--json").out)
    assert shown["description"] == "Deep code review covering quality, security, and architecture"
    said = desk.say("--dialect", "agenvoy", "render", "code-reviewer", "--delivery", "body").out
    assert said.startswith("You are now a strict code reviewer")
    assert "A rule across the page." in said
    assert "description:" not in said


def test_openclaws_own_configuration_is_read_as_it_is(desk: Desk) -> None:
    home = desk.home / ".openclaw"
    desk.skill("keyed", 'metadata: {"openclaw": {"primaryEnv": "KEYED_API_KEY"}}\n', home / "skills")
    desk.skill("off", under=home / "skills")
    desk.skill("browse", 'metadata: {"openclaw": {"requires": {"config": ["channels.web"]}}}\n', home / "skills")
    desk.skill("extra", under=desk.home / "more")
    (home / "openclaw.json").write_text(
        "{\n  // JSON5, as OpenClaw has it\n  channels: {web: true},\n  skills: {\n"
        "    load: {extraDirs: ['~/more']},\n"
        "    entries: {keyed: {apiKey: 'sesame-opens'}, off: {enabled: false}},\n  },\n}\n"
    )
    entries = json.loads(desk.say("--dialect", "openclaw", "catalog", "--json").out)["entries"]
    assert sorted(entry["name"] for entry in entries) == ["browse", "extra", "keyed"]
    desk.configure("[skills.entries.off]\nenabled = true\n")
    assert "off" in desk.say("--dialect", "openclaw", "catalog").out
    assert "extra" not in desk.say("catalog").out, "another dialect does not read it"
    (home / "openclaw.json").write_text("{oops")
    assert "openclaw.json: error: the configuration can't be read" in desk.say("--dialect", "openclaw", "list").out


def test_openclaws_list_of_bundled_skills_is_kept(desk: Desk) -> None:
    for name in ("one", "two"):
        desk.skill(name, under=desk.home / "bundled")
    (desk.home / ".openclaw").mkdir()
    (desk.home / ".openclaw/openclaw.json").write_text('{"skills": {"allowBundled": ["one"]}}')
    bundled = str(desk.home / "bundled")
    said = desk.say("--dialect", "openclaw", "catalog", "--json", OPENCLAW_BUNDLED_SKILLS_DIR=bundled)
    assert [entry["name"] for entry in json.loads(said.out)["entries"]] == ["one"]


@pytest.mark.parametrize("dialect", ["agenvoy", "multica"])
def test_products_that_bring_skills_have_the_bundled_ones_and_no_others_of_metiers(desk: Desk, dialect: str) -> None:
    desk.say("init")
    desk.skill("mine")
    names = [entry["name"] for entry in json.loads(desk.say("--dialect", dialect, "catalog", "--json").out)["entries"]]
    assert "scheduler-skill-creator" in names
    assert "mine" not in names
    said = desk.say("--dialect", dialect, "commands").out
    assert "scheduler" in said


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["lint", ""], "PATH"),
        (["validate", ""], "PATH"),
        (["add", "./x", "--name", ""], "--name"),
        (["schedule", "add", "one", "+5m", "--tz", ""], "--tz"),
    ],
)
def test_an_empty_value_is_a_slip_everywhere(desk: Desk, words: list[str], named: str) -> None:
    said = desk.say(*words)
    assert said.code == 2
    assert f"{named} must not be empty" in said.err

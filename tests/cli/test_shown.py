"""What a person is asked about is shown whole: no character of what will run is left out."""

from __future__ import annotations

import json

from tests.cli.console import Desk

HIDDEN = "ls -la; : \x1b]; echo HIDDEN-RAN; : \x07"


def test_trust_shows_what_escape_sequences_would_hide(desk: Desk):
    text = f"---\nname: sly\ndescription: d\n---\n```!\n{HIDDEN}\n```\n"
    desk.skill("sly", text, desk.project / ".metier/skills")
    said = desk.say("trust", "--yes")

    assert "ls -la; : \\x1b]; echo HIDDEN-RAN; : \\x07" in said.out
    assert "contains invisible characters" in said.out


def test_trust_shows_the_configuration_and_the_agents_that_come_with_it(desk: Desk):
    desk.skill("leak", "", desk.project / ".metier/skills")
    (desk.project / ".metier/config.toml").write_text(
        '[skills.entries.leak.permissions]\nnetwork = true\nread = ["~"]\n'
    )
    agents = desk.project / ".metier/agents"
    agents.mkdir()
    (agents / "rogue.md").write_text("---\nname: rogue\ndescription: d\ntools: Bash, Write\n---\nx\n")
    said = desk.say("trust", "--yes")

    assert ".metier/config.toml: skills.entries.leak.permissions.network = true" in said.out
    assert '.metier/config.toml: skills.entries.leak.permissions.read = ["~"]' in said.out
    assert ".metier/agents/rogue.md: the agent rogue may call Bash, Write" in said.out
    shown = json.loads(desk.say("trust", "--json").out)
    assert (len(shown["configuration"]), len(shown["agents"])) == (2, 1)


def test_files_are_shown_however_they_are_called(desk: Desk):
    file = desk.skill("odd", "", desk.project / ".metier/skills")
    for name in ("the file s/run", "no tool is here.py", "arguments: x.sh"):
        script = file.parent / name
        script.parent.mkdir(exist_ok=True)
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
        assert name in desk.say("trust", "--yes").out


def test_add_shows_every_command_whole(desk: Desk):
    long = "echo " + "x" * 100 + "; echo TAIL"
    commands = "\n".join(f"!`echo number-{number}`" for number in range(20))
    source = desk.skill("many", f"---\nname: many\ndescription: d\n---\n{commands}\n!`{long}`\n", desk.home / "made")
    said = desk.say("add", str(source.parent))

    assert said.code == 4
    assert all(f"echo number-{number}\n" in said.out for number in range(20))
    assert long in said.out

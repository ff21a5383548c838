"""What each command prints, as a person reads it: golden files, with the home and the project named HOME and PROJECT."""

import json
import re
from pathlib import Path
from unicodedata import east_asian_width

import pytest
from tests.cli.console import Desk
from tests.golden import same_as

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with one skill of every kind."""
    desk = Desk(tmp_path_factory.mktemp("furnished"))
    multica = desk.home / ".super-multica/skills"
    desk.skill(
        "ready", description="Is ready for everything there is to do, in many words that do not fit on one line."
    )
    desk.skill("日本語", description="幅の広い文字でも列がそろう。" * 4)
    desk.skill("user-only", "disable-model-invocation: true\nargument-hint: <what>\n")
    desk.skill("model-only", "user-invocable: false\n")
    desk.skill("twice", description="The first of two.")
    desk.skill("twice", description="The second of two.", under=desk.home / ".claude/skills")
    desk.skill("off", "config:\n  enabled: false\n", under=multica)
    desk.skill(
        "tools",
        "version: 1.2.0\nhomepage: https://example.com\nmetadata:\n  emoji: 🔧\n  requires:\n    bins: [sh, nope-one, nope-two]\n"
        "    anyBins: [nope-npm, nope-pnpm]\n    env: [MY_KEY, HOME]\n    config: [browser.enabled]\n"
        "config:\n  options:\n    timeout: 30000\ninstall:\n"
        "  - {kind: brew, package: nope, platforms: [darwin]}\n  - {kind: npm, package: nope, label: Install with npm}\n"
        "  - {id: fetch, kind: download, url: 'https://example.com/nope.tar.gz'}\n",
        under=multica,
    )
    desk.skill("mac", "metadata:\n  requires:\n    platforms: [darwin]\n", under=multica)
    desk.skill("theirs", description="Belongs to the project.", under=desk.project / ".agents/skills")
    desk.skill("theirs-too", under=desk.project / ".agents/skills")
    desk.skill("broken", "---\nname: broken\n---\nNo description.\n")
    desk.skill("colon", "---\nname: colon\ndescription: Use when: asked\n---\nBody.\n")
    scheduler = desk.home / ".config/agenvoy/skills/scheduler"
    desk.skill("daily-1a2b3c4d", under=scheduler)
    desk.program("npm")
    desk.configure('[limitz]\nlisted = 3\n[skills.entries.twice]\nenabled = "yes"\n')
    (desk.state / "bundled.json").write_text('{"skills": {}}')  # this is not the first time
    return desk


COMMANDS = [
    "list",
    "list -v",
    "status",
    "status -v",
    "status ready",
    "status tools",
    "status mac",
    "status theirs",
    "status broken",
    "status twice",
    "status twice@user-claude",
    "why ready",
    "why tools",
    "why theirs",
    "why broken",
    "why twice@user-claude",
    "why user-only",
    "why colon",
    "roots",
    "roots --all",
    "commands",
    "commands us",
    "commands zz",
    "catalog",
    "catalog --max-skills 1",
    "--dialect umbra catalog",
    "--dialect multica commands",
    "show ready",
    "show tools",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_what_its_golden_file_says(furnished, command):
    said = furnished.say(*command.split())
    assert said.code == 0
    both = said.out + (f"--- standard error\n{said.err}" if said.err else "")
    text = re.sub(r"\d+ characters, about \d+ tokens", "… characters, about … tokens", furnished.neat(both))
    same_as(GOLDEN / f"{command.replace(' ', '_').replace('--', '')}.txt", text)


def test_an_empty_desk_is_told_what_to_do(desk):
    for command in ("list", "status", "commands", "catalog", "roots"):
        said = desk.say(command)
        assert said.code == 0
        assert "→" in said.out + said.err, command
    same_as(GOLDEN / "empty_list.txt", desk.neat(desk.say("list").out))


def test_doctor_says_what_stands_and_what_does_not(furnished, desk):
    said = furnished.say("doctor")
    words = [line.split()[1] for line in said.out.splitlines() if line[0] in "✓✗!"]
    assert words == [
        "metier",
        "state",
        "index",
        "file",
        "yaml",
        "watch",
        "sandbox",
        "scripts",
        "git",
        "configuration",
        "locks",
        "agents",
        "extras",
        "traces",
        "models",
        "skills",
    ]
    assert "`limitz` is not a setting" in said.out
    assert said.code == 1, "commands that act stop at the value that can't be read"
    (furnished.state / "config.toml").write_text("[limitz]\nlisted = 3\n")
    said = furnished.say("doctor")
    assert "`limitz` is not a setting" in said.out
    assert said.code == 0, "a key nobody knows is not vital"
    desk.configure("x = \n")
    assert desk.say("doctor").code == 1


JSON = ["list", "status", "status ready", "status broken", "why ready", "why broken", "roots", "commands", "catalog", "doctor", "show ready", "trust --list"]  # fmt: skip


@pytest.mark.parametrize("command", JSON)
def test_json_is_one_document_with_keys_that_stay(furnished, command):
    said = furnished.say(*command.split(), "--json")
    found = json.loads(said.out)
    first = found[0] if isinstance(found, list) and found else found
    skills = first.get("skills")
    keys = {"keys": sorted(first)} | ({"skill": sorted(skills[0])} if isinstance(skills, list) else {})
    same_as(GOLDEN / "json" / f"{command.replace(' ', '_').replace('--', '')}.txt", json.dumps(keys, indent=1) + "\n")


def test_columns_stand_under_each_other_at_a_terminal_of_any_width(furnished):
    for columns in (40, 60, 100, 250):
        said = furnished.at_terminal("list", columns=columns, NO_COLOR="1")
        rows = [line for line in said.out.splitlines() if "  user" in line]
        assert len(rows) > 4
        starts = {sum(1 + (east_asian_width(c) in "WF") for c in row[: row.index("  user")]) for row in rows}
        assert len(starts) == 1, rows
        if columns >= 60:
            assert all(sum(1 + (east_asian_width(c) in "WF") for c in row) <= columns for row in rows)


def test_colour_is_for_terminals_that_want_it(furnished):
    assert "\x1b[32mready\x1b[0m" in furnished.at_terminal("list").out
    assert "\x1b" not in furnished.at_terminal("list", NO_COLOR="1").out
    assert "\x1b" not in furnished.at_terminal("list", TERM="dumb").out
    assert "\x1b" not in furnished.say("list").out


def test_colour_does_not_move_the_columns(furnished):
    for command in ("list", "status", "why tools", "status tools", "doctor", "commands"):
        coloured = furnished.at_terminal(*command.split()).out
        assert re.sub(r"\x1b\[\d+m", "", coloured) == furnished.at_terminal(*command.split(), NO_COLOR="1").out


def test_the_same_skills_are_the_same_bytes_in_whatever_order_they_were_made(tmp_path):
    names = ["b", "a", "c-d", "c", "Z"]
    outputs = set()
    for number, order in enumerate((names, names[::-1], sorted(names))):
        desk = Desk(tmp_path / str(number))
        for name in order:
            desk.skill(name)
        for command in ("list", "catalog", "commands", "status"):
            outputs.add((command, desk.neat(desk.say(command).out)))
            outputs.add((command, desk.neat(desk.say("--no-index", command).out)))
    assert len(outputs) == 4

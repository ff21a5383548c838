"""A person's first use, their completion, their new skills and their trust."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.console import Desk

from metier.faces.cli.commands import COMMANDS, SECTIONS
from metier.library.open import open as open_library


def bundled(desk: Desk) -> list[str]:
    return sorted(path.name for path in desk.skills.iterdir()) if desk.skills.is_dir() else []


@pytest.mark.parametrize("command", ["list", "status", "commands", "catalog"])
def test_a_persons_first_use_brings_the_bundled_skills(desk, command):
    said = desk.at_terminal(command)
    assert said.code == 0
    assert "bundled skills copied to" in said.out
    assert "skill-creator" in bundled(desk)
    again = desk.at_terminal(command)
    assert "bundled skills copied" not in again.out


def test_what_a_person_deleted_stays_deleted(desk):
    desk.at_terminal("list")
    subprocess.run(["rm", "-rf", str(desk.skills / "changelog")], check=True)
    assert "changelog" not in desk.at_terminal("list").out
    assert "not restored (deleted): changelog" in desk.say("init").out
    assert "changelog" not in bundled(desk)


@pytest.mark.parametrize("command", ["list", "status", "commands", "catalog", "doctor", "roots", "trust --list"])
def test_a_program_brings_nothing(desk, command):
    assert desk.say(*command.split()).code == 0
    assert bundled(desk) == []


@pytest.mark.parametrize(
    "command", ["--root . list", "validate .", "list --help", "--help", "roots", "doctor", "new x", "completion bash"]
)
def test_at_a_terminal_other_commands_bring_nothing(desk, command):
    desk.at_terminal(*command.split())
    assert bundled(desk) == []


def test_the_library_brings_nothing(desk, monkeypatch):
    monkeypatch.setenv("HOME", str(desk.home))
    open_library(str(desk.project))
    assert bundled(desk) == []


def test_a_pipe_on_either_side_is_no_terminal(desk):
    script = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'metier', 'list'], stdout=subprocess.PIPE)"
    desk.at_terminal("-c", script, program=[sys.executable])
    assert bundled(desk) == []


def test_init_brings_them_anywhere_and_twice_does_no_harm(desk):
    first = json.loads(desk.say("init", "--json").out)
    assert "skill-creator" in first["added"]
    mine = desk.skills / "summarise/SKILL.md"
    mine.write_text(mine.read_text() + "\nMine.\n")
    second = json.loads(desk.say("init", "--json").out)
    assert second["added"] == []
    assert mine.read_text().endswith("Mine.\n")
    assert "The bundled skills are in" in desk.say("init").out


def completed(desk: Desk, line: str, at: Path | str = "", **env: str) -> list[str]:
    """What a real bash offers for a line, with the script that metier prints; AT in it is a path, as typed."""
    words = [word.replace("AT", shlex.quote(str(at))) for word in line.split(" ")]
    script = (
        'eval "$(metier completion bash)"\n'
        f"COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}\n"
        "compopt() { :; }\n"
        '_metier_completion metier; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    (desk.bin / "metier").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m metier "$@"\n')
    (desk.bin / "metier").chmod(0o755)
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=desk.project,
        env=desk.env | env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_a_real_bash_completes_commands_options_and_names(desk):
    desk.skill("deploy")
    desk.skill("deliver")
    desk.skill("summarise")
    desk.skill("two words", "---\nname: two words\ndescription: d\n---\n", desk.home / ".super-multica/skills")
    for _ in range(2):  # reading every file, then from the index
        desk.settle()
        assert completed(desk, "metier show de") == ["deliver", "deploy"]
        assert completed(desk, "metier why ") == ["deliver", "deploy", "summarise"]
        assert completed(desk, "metier status sum") == ["summarise"]
        assert completed(desk, "metier --root AT show su", desk.skills) == ["summarise"]
    assert completed(desk, "metier statu") == ["status"]
    assert "--json" in completed(desk, "metier list --")
    assert "--dialect" in completed(desk, "metier --d")
    assert completed(desk, "metier catalog --format ") == [
        "xml",
        "mandatory",
        "available",
        "policy",
        "emoji",
        "guided",
        "plain",
    ]
    assert completed(desk, "metier --root missing show x") == []


def test_a_name_that_would_run_something_is_never_offered(desk):
    root = desk.home / ".super-multica/skills"
    for number, name in enumerate(["$(touch x)", "`id`", "a;b", "a*", "--json", "a|b", "~root"]):
        desk.skill(f"n{number}", f"---\nname: '{name}'\ndescription: d\n---\n", root)
    desk.skill("good")
    for _ in range(2):
        desk.settle()
        assert completed(desk, "metier show ") == ["good"]


def test_completion_looks_where_the_line_says(desk):
    desk.skill("elsewhere", under=desk.home / "other/.agents/skills")
    (desk.home / "other/.git").mkdir()
    assert completed(desk, "metier --project AT show ", desk.home / "other") == ["elsewhere"]


def test_completion_knows_what_else_a_command_takes(desk):
    desk.skill("deploy")
    desk.skill("older")
    desk.configure('[models.team]\nmodel = "m"\nurl = "http://127.0.0.1:1/v1"\n')
    (desk.state / "agents").mkdir()
    (desk.state / "agents/reviewer.md").write_text("---\nname: reviewer\ndescription: Reviews.\n---\nReview.\n")
    assert desk.say("freeze", "deploy", "older").code == 0
    assert desk.say("remove", "older").code == 0
    for line, offered in {
        "metier remove d": ["deploy"],
        "metier update d": ["deploy"],
        "metier approve d": ["deploy"],
        "metier freeze d": ["deploy"],
        "metier restore ": ["older"],
        "metier mcp install claude": ["claude-code", "claude-desktop"],
        "metier runs show ": ["last"],
        "metier proposals show ": [],
        "metier models get ": ["smollm2-135m"],
        "metier schedule show ": [],
        "metier run /de": ["/deploy"],
        "metier run --model te": ["team"],
        "metier batch --model an": ["anthropic:"],
        "metier chat --model te": ["team"],
        "metier --agent re": ["reviewer"],
    }.items():
        assert completed(desk, line) == offered, line


@pytest.mark.parametrize(
    ("shell", "words"),
    [("bash", "complete -o nosort -F"), ("zsh", "#compdef metier"), ("fish", "complete --no-files --command metier")],
)
def test_each_shell_gets_its_script(desk, shell, words):
    said = desk.say("completion", shell)
    assert said.code == 0
    assert words in said.out
    assert "_METIER_COMPLETE" in said.out


@pytest.mark.parametrize("name", ["a", "my-skill", "x1", "a" * 64, "技能", "été"])
def test_a_new_skill_passes_validation_and_is_ready_at_once(desk, name):
    said = desk.say("new", name)
    assert said.code == 0, said
    file = desk.project / ".metier/skills" / name / "SKILL.md"
    assert file.is_file()
    assert desk.say("validate", str(file.parent)).code == 0
    assert f"{name} " in desk.say("list").out
    assert "ready" in desk.say("list").out


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("My Skill", "my-skill"), ("-x", "x"), ("x-", "x"), ("a--b", "a-b"), ("Ü", "my-skill"), ("a_b", "a-b"),
        ("a/b", "a-b"), ("..", "my-skill"), ("a" * 65, "a" * 64), ("", "my-skill"), ("x\n", "x"),
    ],
)  # fmt: skip
def test_a_name_that_can_not_be_is_refused_with_a_better_one(desk, name, better):
    said = desk.say("new", "--", name)
    assert said.code == 2
    assert f"try `{better}`" in said.err
    assert not (desk.project / ".metier").exists()


def test_nothing_is_overwritten(desk):
    desk.say("new", "mine", "First words.")
    said = desk.say("new", "mine", "Other words.")
    assert said.code == 2
    assert "already exists" in said.err
    assert "First words." in (desk.project / ".metier/skills/mine/SKILL.md").read_text()


def test_a_new_skill_goes_where_it_is_told(desk):
    desk.say("new", "one", "--user")
    desk.say("new", "two", "--dir", "here")
    desk.say("--root", "there", "new", "three")
    assert (desk.skills / "one/SKILL.md").is_file()
    assert (desk.project / "here/two/SKILL.md").is_file()
    assert (desk.project / "there/three/SKILL.md").is_file()
    assert json.loads(desk.say("new", "four", "--json").out)["path"].endswith(".metier/skills/four/SKILL.md")


@pytest.mark.parametrize("words", ["plain", "with: colon", '"quoted" \\ back', "# hash", "été 日本", "a\tb", "'"])
def test_any_description_is_written_so_that_it_reads_back(desk, words):
    assert desk.say("new", "one", words, "--user").code == 0
    found = json.loads(desk.say("list", "--json").out)["skills"][0]
    assert found["description"].split() == words.split()
    assert desk.say("validate", str(desk.skills / "one")).code == 0


def test_a_description_that_is_too_long_is_refused(desk):
    said = desk.say("new", "one", "x" * 1025)
    assert said.code == 2
    assert "description-too-long" in said.err


def test_trust_is_given_listed_and_taken_back(desk):
    theirs = desk.project / ".agents/skills"
    desk.skill("prose", under=theirs)
    desk.skill("runs", "---\nname: runs\ndescription: d\n---\n!`date`\n", under=theirs)
    assert desk.say("trust", "--list").out == "No trusted projects.\n"
    said = desk.say("trust")
    assert said.out == f"prose  nothing in it runs\nruns\n  `date`\nTrusted: {desk.project}\n"
    assert "2 ready" in desk.say("list").out
    assert desk.say("trust", "--list").out == f"{desk.project}\n"
    assert json.loads(desk.say("trust", "--list", "--json").out) == {str(desk.project): {"skills": 2}}
    desk.skill("runs", "---\nname: runs\ndescription: d\n---\n!`rm -rf /`\n", under=theirs)
    assert "1 ready, 1 untrusted" in desk.say("list").out
    assert "changed since you trusted it" in desk.say("list").out
    assert "no longer trusted" in desk.say("trust", "--remove").out
    assert "was not trusted" in desk.say("trust", "--remove").out
    assert "2 untrusted" in desk.say("list").out


def test_trust_shows_nested_frontmatter_a_line_for_each_leaf(desk):
    text = '---\nname: sun\ndescription: d\nmetadata: {openclaw: {emoji: "\u26c5", requires: {bins: [curl, jq]}}}\n---\n.\n'
    desk.skill("sun", text, under=desk.project / ".agents/skills")
    said = desk.say("trust").out
    assert "  metadata:\n    openclaw.emoji: \u26c5\n    openclaw.requires.bins: curl, jq\n" in said


def test_trust_shows_everything_that_runs_whole_and_what_is_new_of_it(desk):
    theirs = desk.project / ".agents/skills"
    text = "---\nname: runs\ndescription: d\n---\n!`date`\n"
    folder = desk.skill("runs", text, under=theirs).parent
    desk.say("trust")
    grants = (
        "permissions:\n  network: true\n  write: [~/a-folder-with-quite-a-long-name-so-that-no-line-would-hold-it]\n"
    )
    (folder / "SKILL.md").write_text(
        text.replace("description: d\n", f"description: d\n{grants}") + "```!\nls\nrm x\n```\n"
    )
    (folder / "scripts").mkdir()
    (folder / "scripts/go.sh").write_text("true\n")
    said = desk.say("trust").out

    assert "\n  `date`\n" in said
    assert "\n  new `ls\n    rm x`\n" in said
    assert "\n  new scripts/go.sh\n" in said
    assert "so-that-no-line-would-hold-it" in said


def test_at_a_terminal_trust_is_asked_for_after_it_was_shown(desk):
    desk.skill("runs", "---\nname: runs\ndescription: d\n---\n!`date`\n", under=desk.project / ".agents/skills")
    no = desk.answering("trust", answer="n\n")
    assert (no.code, "`date`" in no.out, "nothing was trusted" in no.out + no.err) == (4, True, True)
    assert desk.say("trust", "--list").out == "No trusted projects.\n"
    assert desk.answering("trust", answer="y\n").code == 0
    assert str(desk.project) in desk.say("trust", "--list").out


def test_skills_in_roots_that_the_configuration_adds_are_shown_before_they_are_trusted(desk):
    desk.skill("own", under=desk.project / ".agents/skills")
    desk.skill("hid", "---\nname: hid\ndescription: d\n---\n!`date`\n", under=desk.project / "more")
    (desk.project / ".metier").mkdir()
    (desk.project / ".metier/config.toml").write_text("roots = ['more']\n")
    no = desk.answering("trust", answer="y\nn\n")
    assert no.out.index("hid") < no.out.index("`date`")
    assert no.code == 4
    assert desk.say("trust", "--list").out == "No trusted projects.\n"


def test_the_projects_configuration_counts_only_when_it_is_trusted(desk):
    desk.skill("one")
    (desk.project / ".metier").mkdir()
    (desk.project / ".metier/config.toml").write_text("[skills.one]\nenabled = false\n")
    assert "1 ready" in desk.say("list").out
    desk.say("trust")
    assert "1 disabled" in desk.say("list").out
    (desk.project / ".metier/config.toml").write_text("[skills.one]\nenabled = true\n")
    said = desk.say("list").out
    assert "1 ready" in said
    assert "changed-since-trust" in said


def test_the_help_has_every_command_once(desk):
    listed = [name for names in SECTIONS.values() for name in names.split()]
    assert sorted(listed) == sorted(COMMANDS)
    said = desk.say("--help").out
    assert all(f"\n  {name} " in said for name in COMMANDS)


@pytest.mark.parametrize(("said", "meant"), [("untrust", "trust --remove"), ("uninstall", "remove"), ("lsit", "list")])
def test_what_another_tool_calls_a_command_is_answered_by_ours(desk, said, meant):
    assert f"did you mean `{meant}`?" in desk.say(said).err


def test_a_group_without_a_command_says_what_there_is(desk):
    said = desk.say("models")
    assert said.code == 0
    assert "\n  list " in said.out


def test_a_skill_that_a_person_names_wrongly_is_unknown(desk):
    desk.skill("greet")
    said = desk.say("script", "gret", "x.sh")
    assert (said.code, "no skill named `gret`" in said.err, "greet" in said.err) == (2, True, True)

"""metier render, preview, read and script, as a person meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.console import Desk

BODY = """---
name: deploy
description: Deploys it.
---
# Deploy

To $0.
!`echo "hi $0"`
"""


@pytest.fixture
def deploy(desk: Desk) -> Desk:
    file = desk.skill("deploy", BODY)
    (file.parent / "scripts").mkdir()
    (file.parent / "scripts" / "say.sh").write_text('echo "said $1"; echo why >&2; exit 4\n')
    return desk


def test_render_prints_what_the_model_gets(deploy: Desk):
    said = deploy.say("render", "deploy", "--delivery", "body", "--", "staging")

    assert (said.code, said.out, said.err) == (0, "# Deploy\n\nTo staging.\nhi staging\n", "")


def test_words_behind_two_dashes_are_the_skills_even_if_they_look_like_options(deploy: Desk):
    assert "To --json." in deploy.say("render", "deploy", "--", "--json").out


def test_one_argument_is_a_line_as_typed_and_several_are_words(deploy: Desk):
    deploy.skill("words", "---\nname: words\ndescription: d\n---\n[$0][$1]\n")

    assert "[a][b]" in deploy.say("render", "words", "--", "a b").out
    assert "[a b][c]" in deploy.say("render", "words", "--", "a b", "c").out


def test_a_command_that_was_not_run_is_told_beside_the_text_not_in_the_pipe_alone(deploy: Desk):
    deploy.skill("odd", '---\nname: odd\ndescription: d\n---\n!`eval "$0"`\n')
    said = deploy.say("render", "odd", "--delivery", "body", "--", "x")

    assert said.out == "[shell error: not run: `eval` reads its arguments as commands]\n"
    assert said.err == 'command !`eval "$0"`: not run: `eval` reads its arguments as commands\n'


def test_a_word_that_was_not_given_is_no_name_of_a_shell(deploy: Desk):
    assert deploy.say("render", "deploy", "--delivery", "body").out.endswith("\nhi\n")


def test_json_has_every_substitution_and_the_cost(deploy: Desk):
    told = json.loads(deploy.say("render", "deploy", "--json", "--", "x").out)

    assert [(one["kind"], one["source"]) for one in told["inserts"]] == [
        ("argument", "$0"),
        ("command", '!`echo "hi $0"`'),
    ]
    assert told["tokens"] > 0
    assert told["problems"] == []
    assert told["messages"][0]["text"].count(told["text"]) == 1


def test_preview_runs_nothing_and_names_what_would(deploy: Desk, tmp_path: Path):
    deploy.skill("touchy", f"---\nname: touchy\ndescription: d\n---\n!`touch {tmp_path}/ran`\n")
    said = deploy.say("preview", "touchy")

    assert said.code == 0
    assert f"!`touch {tmp_path}/ran`" in said.out
    assert "commands that run  1" in said.out
    assert not (tmp_path / "ran").exists()


def test_what_the_dialect_lacks_is_told_when_a_skill_is_rendered(deploy: Desk):
    text = "---\nname: foreign\ndescription: d\n---\n```!\nls\n```\n"
    deploy.skill("foreign", text, under=deploy.project / "skills")
    said = deploy.say("--root", str(deploy.project / "skills"), "--dialect", "agentmd", "lint")

    assert said.code == 1
    assert "has no meaning in Agent.md" in said.out


def test_a_script_says_what_it_says_to_a_model_and_ends_as_it_ended(deploy: Desk):
    said = deploy.say("script", "deploy", "say.sh", "--", "a b")

    assert said.code == 4
    assert said.out == "said a b\n[stderr]\nwhy\n[exit code: 4]\n"


WRONG = [
    (("render", "deplo"), 2, "did you mean `deploy`?"),
    (("render",), 2, "NAME"),
    (("render", "deploy", "--delivery", "pigeon"), 2, "pigeon"),
    (("read", "deploy", "../x"), 4, "Access denied: '../x' is outside skill directory"),
    (("read", "deploy", "nope"), 2, "File not found: 'nope' in skill 'deploy'"),
    (("read", "deploy", "scripts"), 2, "Not a file: 'scripts' is a folder"),
    (("read", "deploy", "SKILL.md", "--offset", "-1"), 2, "--offset"),
    (("script", "deploy", "no.sh"), 2, "Script not found: 'no.sh'. Available: say.sh"),
    (("script", "deploy", "../SKILL.md"), 4, "Access denied"),
    (("script", "deploy", "say.sh", "--write", "/no/such"), 2, "/no/such is not a folder"),
    (("preview", "nothing-like-it"), 2, "nothing-like-it"),
]


@pytest.mark.parametrize(("words", "code", "told"), WRONG)
def test_wrong_input_gets_a_sentence_and_an_exit_code(deploy: Desk, words: tuple[str, ...], code: int, told: str):
    said = deploy.say(*words)

    assert said.code == code
    assert said.out == ""
    assert told in said.err
    assert "Traceback" not in said.err


def test_a_terminal_gets_no_orders_and_a_pipe_gets_the_bytes(deploy: Desk):
    deploy.skill("loud", "---\nname: loud\ndescription: d\n---\nA\x1b]0;title\x07B $0\n")

    assert "\x1b]0;" in deploy.say("render", "loud", "--delivery", "body", "--", "x").out
    shown = deploy.at_terminal("render", "loud", "--delivery", "body", "--", "\x1b[2Jx").out
    assert "\x1b]0;" not in shown
    assert "\x1b[2J" not in shown


def test_a_reader_that_stops_early_is_no_failure(deploy: Desk):
    (deploy.skills / "deploy" / "long.txt").write_text("line\n" * 10_000)
    said = deploy.shell("metier read deploy long.txt | head -1; echo ${PIPESTATUS[0]}")

    assert said.out.startswith("line\n")
    assert "Traceback" not in said.err


def test_a_field_that_the_standard_lacks_and_metier_reads_is_not_called_unused(desk):
    file = desk.skill(
        "count", "---\nname: count\ndescription: Counts. Use when asked.\narguments: [file]\n---\nCount $file.\n"
    )
    assert "Count a.txt." in desk.say("render", "count", "--", "a.txt").out
    said = desk.say("validate", str(file.parent))
    assert said.code == 1
    assert "not used" not in said.out
    assert "other agents may ignore or reject it" in said.out

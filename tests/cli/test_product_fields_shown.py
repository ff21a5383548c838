"""What a skill asks for and metier does not do is said wherever the skill is looked at."""

from __future__ import annotations

import json

import pytest
from tests.cli.console import Desk

HOOKED = "model: opus\nhooks:\n  Stop: []\n"


def _openai(desk: Desk, text: str, root: str = ".agents/skills") -> None:
    folder = desk.skill("deploy", under=desk.home / root).parent / "agents"
    folder.mkdir()
    (folder / "openai.yaml").write_text(text)


def test_a_field_without_effect_is_named_by_why_lint_and_status(desk: Desk) -> None:
    desk.skill("one", HOOKED, desk.home / ".claude/skills")
    desk.settle()
    for _ in range(2):  # as read, and as the index remembers it
        assert "`model` has no effect here: the run keeps its model" in desk.say("why", "one").out
        assert "`hooks` has no effect here: none of them runs" in desk.say("status", "one").out
        status = desk.say("status").out
        assert "not-supported (2)" in status
        assert "none of them runs" in status
    lint = desk.say("lint")
    assert "[not-supported]" in lint.out
    assert lint.code == 0  # the file is fine for its own product
    found = json.loads(desk.say("why", "one", "--json").out)
    assert "has no effect here" in json.dumps(found)


def test_a_skill_that_codex_does_not_call_by_itself_is_hidden_from_the_model(desk: Desk) -> None:
    _openai(desk, "policy:\n  allow_implicit_invocation: false\n")
    assert "deploy" not in desk.say("catalog").out
    assert "/deploy" in desk.say("commands").out
    assert "`policy.allow_implicit_invocation` in agents/openai.yaml hides it" in desk.say("why", "deploy").out


def test_a_skill_that_codex_may_call_is_listed(desk: Desk) -> None:
    _openai(desk, "policy:\n  allow_implicit_invocation: true\n")
    assert "deploy" in desk.say("catalog").out


@pytest.mark.parametrize("key", ["display_name", "short_description", "icon_small", "icon_large", "brand_color"])
def test_how_codex_shows_a_skill_has_no_effect_and_is_named(desk: Desk, key: str) -> None:
    _openai(desk, f"interface:\n  {key}: x\n")
    assert f"interface.{key}` has no effect here" in desk.say("why", "deploy").out
    assert "deploy" in desk.say("catalog").out


def test_what_a_skill_depends_on_in_codex_is_named(desk: Desk) -> None:
    _openai(desk, "dependencies:\n  tools:\n    - type: mcp\n      value: linear\n")
    assert "connect the servers under [mcp]" in desk.say("why", "deploy").out
    assert "agents/openai.yaml: dependencies" in desk.say("lint").out


def test_a_file_for_codex_that_does_not_parse_hides_the_skill_from_the_model(desk: Desk) -> None:
    _openai(desk, "policy: &a [\n")
    assert "deploy" not in desk.say("catalog").out
    assert "until then only people may call the skill" in desk.say("why", "deploy").out


def test_where_the_file_for_codex_is_not_read_that_is_said(desk: Desk) -> None:
    _openai(desk, "policy:\n  allow_implicit_invocation: false\n", ".metier/skills")
    assert "deploy" in desk.say("catalog").out
    assert "agents/openai.yaml` has no effect here" in desk.say("why", "deploy").out
    assert "agents/openai.yaml` has no effect here" in desk.say("lint").out

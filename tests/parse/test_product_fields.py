"""Every field that a product documents: it has an effect here, or a problem says that it has none."""

from __future__ import annotations

import pytest
from tests.builders import read

from metier.dialects import DIALECTS
from metier.types.skill import Skill

CLAUDE = [
    ("name: other", True),
    ("description: Another.", True),
    ("when_to_use: When asked.", True),
    ("argument-hint: '[file]'", True),
    ("arguments: [file]", True),
    ("disable-model-invocation: true", True),
    ("user-invocable: false", True),
    ("allowed-tools: Read Grep", True),
    ("disallowed-tools: Bash", True),
    ("model: opus", False),
    ("model: inherit", True),
    ("effort: high", False),
    ("context: fork", True),
    ("context: shared", False),
    ("agent: Explore", False),
    ("agent: general-purpose", True),
    ("background: true", False),
    ("background: false", True),
    ("hooks:\n  PreToolUse:\n    - matcher: Bash", False),
    ("paths: 'src/**/*.ts'", False),
    ("paths:\n  - src/**\n  - docs/**", False),
    ("shell: bash", True),
    ("shell: powershell", False),
    ("license: MIT", True),
    ("compatibility: Needs git.", True),
    ("version: 1.0", True),
    ("metadata:\n  author: someone", True),
]
"""What Claude Code documents, and whether metier acts on it as written."""

PORTABLE = [
    "name: test",
    "description: Another.",
    "license: MIT",
    "compatibility: Needs git.",
    "metadata:\n  author: someone",
    "allowed-tools: Read",
    "argument-hint: '[file]'",
    "user-invocable: false",
    "disable-model-invocation: true",
]
"""What Copilot, Gemini and Codex document of SKILL.md itself."""


def _codes(skill: Skill) -> list[tuple[str, str]]:
    return [(finding.code, finding.details[0]) for finding in skill.findings if finding.code in _UNHEARD]


_UNHEARD = ("not-supported", "unknown-field", "field-typo")


@pytest.mark.parametrize(("written", "heard"), CLAUDE)
def test_a_field_of_claude_code_has_an_effect_or_a_problem(written: str, heard: bool) -> None:
    field = written.partition(":")[0]
    about = "\n".join(line for line in ("name: test", "description: It.") if line.partition(":")[0] != field)
    assert _codes(read(f"{about}\n{written}", "claude")) == ([] if heard else [("not-supported", field)])


@pytest.mark.parametrize("written", PORTABLE)
def test_a_field_of_copilot_gemini_and_codex_has_an_effect(written: str) -> None:
    field = written.partition(":")[0]
    about = "\n".join(line for line in ("name: test", "description: It.") if line.partition(":")[0] != field)
    assert _codes(read(f"{about}\n{written}", "standard")) == []


@pytest.mark.parametrize("dialect", ["openclaw", "multica"])
@pytest.mark.parametrize(("mode", "heard"), [("raw", True), ("json", False)])
def test_arguments_reach_a_tool_as_they_were_typed(dialect: str, mode: str, heard: bool) -> None:
    written = f"name: test\ndescription: It.\ncommand-dispatch: tool\ncommand-tool: x\ncommand-arg-mode: {mode}"
    assert _codes(read(written, dialect)) == ([] if heard else [("not-supported", "command-arg-mode")])


def test_a_field_without_effect_is_found_where_it_stands() -> None:
    skill = read("name: test\ndescription: >\n  It\n  does it.\nlicense: MIT\nmodel: opus", "claude")
    assert [(problem.code, problem.line) for problem in skill.problems] == [("not-supported", 7)]
    assert "the run keeps its model" in skill.problems[0].message


@pytest.mark.parametrize("name", DIALECTS)
def test_what_has_no_effect_is_a_field_of_its_dialect(name: str) -> None:
    authoring = DIALECTS[name].authoring
    assert {field.name for field in authoring.unsupported} <= authoring.fields

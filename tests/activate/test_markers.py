"""Where a body says `run this`, and where it only shows it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from metier.activate.render import split_body
from metier.activate.template import PlaceholderForms
from metier.dialects import DIALECTS
from metier.parse.markers import find_markers
from metier.types.dialect import ShellRules


def shell(dialect: str) -> ShellRules:
    found = DIALECTS[dialect].authoring.shell
    assert found is not None
    return found


def commands(body: str, dialect: str = "umbra") -> list[str]:
    return [one.command.strip() for one in find_markers(body, shell(dialect))]


RUNS = [
    ("!`x`", ["x"]),
    ("a !`x` b", ["x"]),
    ("a\t!`x`", ["x"]),
    ("a\n!`x`\n!`y`", ["x", "y"]),
    ("!`x` !`y`", ["x", "y"]),
    ("- !`x`", ["x"]),
    ("> !`x`", ["x"]),
    ("    !`x`", ["x"]),
    ("```!\nx\n```", ["x"]),
    ("```!\nx\ny\n```\n", ["x\ny"]),
    ("````!\nx\n```\ny\n````", ["x\n```\ny"]),
    ("  ```!\n  x\n    y\n  ```", ["x\n  y"]),
    ("```sh\n!`x`\n```\n!`y`", ["y"]),
    ("~~~\n!`x`\n~~~\n!`y`", ["y"]),
    ("<!-- a --> !`x`", ["x"]),
    ("<!-- a\nb --> !`x`", ["x"]),
    ("`a` !`x`", ["x"]),
    ("a <!-- b !`x`", ["x"]),
    ("```\n!`x`\n```\n```!\ny\n```", ["y"]),
    ("a `b\n!`x`", ["x"]),
    ("!`echo \\$HOME`", ["echo \\$HOME"]),
    ("!`x`.", ["x"]),
]
SHOWN = [
    "a!`x`",
    "\\!`x`",
    "!\\`x`",
    "``!`x` ``",
    "`` !`x` ``",
    "```\n!`x`\n```",
    "```md\n!`x`\n```",
    "~~~\n!`x`\n~~~",
    "~~~!\nx\n~~~",
    "````\n```!\nx\n```\n````",
    "````md\n!`x`\n```\n!`y`\n````",
    "~~~\n```!\nx\n```\n~~~",
    "- ```\n  !`x`\n  ```",
    "1. ```\n   !`x`\n   ```",
    "> ```\n> !`x`\n> ```",
    "> ```!\n> x\n> ```",
    "- ```!\n  x\n  ```",
    "   ```\n   !`x`\n   ```",
    "```\n!`x`",
    "```!\nx",
    "```!\nx\n``",
    "<!-- !`x` -->",
    "<!--\n!`x`\n-->",
    "<!--\n```!\nx\n```\n-->",
    "<!-- never closed\n!`x`",
    "!`x",
    "! `x`",
    "!``x``",
    "![a](b)`x`",
    "(!`x`)",
    "```! note\nx\n```",
    "``` !\nx\n```",
    "``` !\nx\n```\n`!",
    "```sh !\nx\n```",
]


@pytest.mark.parametrize(("body", "expected"), RUNS)
def test_a_command_is_found_where_the_author_wrote_one(body: str, expected: list[str]):
    assert commands(body) == expected
    assert commands(body, "claude") == expected


@pytest.mark.parametrize("body", SHOWN)
def test_documentation_never_runs(body: str):
    assert commands(body) == []
    assert commands(body, "claude") == []


@pytest.mark.parametrize("body", [one for one in SHOWN if one not in ("a!`x`", "(!`x`)", "![a](b)`x`")])
def test_documentation_never_runs_in_agent_md_either(body: str):
    assert commands(body, "agentmd") == []


def test_agent_md_finds_a_command_anywhere_and_has_no_blocks():
    assert commands("a!`x` (!`y`)", "agentmd") == ["x", "y"]
    assert commands("```!\nx\n```", "agentmd") == []


@pytest.mark.parametrize("dialect", ["multica", "agenvoy", "openclaw"])
def test_a_dialect_without_commands_has_none(dialect: str):
    assert DIALECTS[dialect].authoring.shell is None


@pytest.mark.parametrize("body", [*(body for body, _ in RUNS), *SHOWN])
def test_the_parts_of_a_body_are_the_body(body: str):
    for dialect in ("umbra", "agentmd", "claude", "standard"):
        found = split_body(body, PlaceholderForms(), shell(dialect))
        assert "".join(one if isinstance(one, str) else one.source for one in found) == body


OPENERS = ["!`", "```!\n", "<!--", "${@:", "~~~\n", "`", "\\", "\\`", "``!`", "> ```!\n", "- ```\n", "<!-- ` -->", "!`a` ",
           "!`a\n", "`````\n```\n", "1. ", "$ARGUMENTS[", "$ARGUMENTS", "\n", " \t", "-->"]  # fmt: skip


def cost(work: Callable[[], object]) -> float:
    """The least of a few tries, in time of this process alone."""
    tries = []
    for _ in range(3):
        begun = time.process_time()
        work()
        tries.append(time.process_time() - begun)
    return min(tries)


@pytest.mark.parametrize("dialect", ["umbra", "agentmd"])
@pytest.mark.parametrize("opener", OPENERS)
def test_a_body_of_nothing_but_openers_costs_what_its_length_does(opener: str, dialect: str):
    forms = PlaceholderForms(DIALECTS[dialect].authoring.arguments, ("name",), ("SKILL_DIR",))

    def work(length: int) -> Callable[[], object]:
        body = (opener * (length // len(opener) + 1))[:length] + " !`x`"
        return lambda: split_body.__wrapped__(body, forms, shell(dialect))

    small, large = cost(work(50_000)), cost(work(200_000))
    assert large < 10 * small + 0.02

"""The list of defences names tests and source lines that exist."""

import ast
from pathlib import Path

import pytest
from scripts.mutate import ROOT, Defence, broken, defences

EVERY = defences()


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("defence", EVERY, ids=[one.row for one in EVERY])
def test_a_defence_has_tests_that_are_there_and_lines_that_can_be_taken_away(defence: Defence):
    assert defence.attack
    assert defence.breaks
    for test in {*defence.tests, *(name for one in defence.breaks for name in one.tests)}:
        path, _, name = test.partition("::")
        assert name.partition("[")[0] in functions(ROOT / path), test
    for one in (edit for each in defence.breaks for edit in each.edits):
        changed = broken((ROOT / one.file).read_text(encoding="utf-8"), one)
        ast.parse(changed)  # it must fail because the defence is missing, not because of a syntax error

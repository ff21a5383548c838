"""The recipes in CONTRIBUTING.md name files that exist, and stay as short as promised.

A recipe is a section `### Add …` with a numbered list, one file per item.  `NAME` stands for the new file's name; such
an item gives an existing file in parentheses to copy.  The counts are a contract: a change of the code that makes one
of these additions touch another file has to change the number here, in the open.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
COUNTS = {"command": 2, "adapter": 4, "policy": 2, "tool": 3, "trigger": 3, "dialect": 1}
_section = re.compile(r"^### Add an? (\w+)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
_item = re.compile(r"^\d+\. `([^`]+)`(?: \(`([^`]+)`\))?: ", re.MULTILINE)


class Step(NamedTuple):
    """A file to touch, and for a new one an existing file to copy."""

    path: str
    example: str

    @property
    def existing(self) -> Path:
        return ROOT / (self.example or self.path)


def recipes(text: str) -> dict[str, list[Step]]:
    """The steps of each recipe by what it adds."""
    return {name: [Step(*found) for found in _item.findall(body)] for name, body in _section.findall(text)}


RECIPES = recipes((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def test_every_addition_has_a_recipe_with_as_many_files_as_promised():
    assert {name: len(steps) for name, steps in RECIPES.items()} == COUNTS


@pytest.mark.parametrize("step", [step for steps in RECIPES.values() for step in steps], ids=lambda step: step.path)
def test_a_recipe_names_files_that_exist(step: Step):
    assert step.existing.is_file(), f"{step.existing.relative_to(ROOT)} does not exist"
    assert ("NAME" in step.path) == bool(step.example), "only a new file has an example to copy"
    if step.example:
        assert Path(step.path).parent == Path(step.example).parent, "the example is from another folder"


def test_every_numbered_line_of_a_recipe_names_a_file():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    numbered = {name: len(re.findall(r"^\d+\. ", body, re.MULTILINE)) for name, body in _section.findall(text)}

    assert numbered == {name: len(steps) for name, steps in RECIPES.items()}


def test_a_recipe_that_grows_is_noticed():
    text = "### Add a thing\n\n1. `a.py`: one\n2. `NAME.py` (`b.py`): two\n\n## End\n"

    assert recipes(text) == {"thing": [Step("a.py", ""), Step("NAME.py", "b.py")]}

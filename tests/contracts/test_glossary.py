"""The glossary has each word once, in order, and the classes it names are in the source."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE)
WORDS = [word for word, _ in ROWS]


def test_no_word_is_in_the_glossary_twice():
    assert len(WORDS) > 50
    assert [word for word in WORDS if WORDS.count(word) > 1] == []


def test_the_words_are_in_alphabetical_order():
    assert sorted(WORDS, key=str.lower) == WORDS


def defined_names() -> set[str]:
    """Every class and type alias at the top of a module."""
    names = set()
    for file in (ROOT / "src" / "metier").rglob("*.py"):
        for node in ast.parse(file.read_bytes()).body:
            if isinstance(node, ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return names


def test_the_classes_that_the_glossary_names_exist():
    named = {name for _, meaning in ROWS for name in re.findall(r"`([A-Z][A-Za-z]*[a-z][A-Za-z]*)`", meaning)}

    assert named - defined_names() == set()

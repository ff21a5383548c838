"""The import contracts hold, and detect a violation."""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sysconfig.get_path("scripts")) / "lint-imports"


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """The checker of this environment, run on the tree at root."""
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root / "src"), "NO_COLOR": "1", "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the source, to plant a wrong import in."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "bundled"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def plant(file: Path, statement: str) -> None:
    """Adds the statement at the end, where it is legal in any module."""
    file.write_text(f"{file.read_text(encoding='utf-8')}\n{statement}\n", encoding="utf-8")


def test_the_contracts_are_kept():
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("file", "statement", "broken"),
    [
        ("types/problem.py", "from metier.library.open import open as _open", ["Packages import downwards only"]),
        (
            "parse/__init__.py",
            "import sqlite3",
            [
                "Types, dialects, parse, resolve and catalog do no input or output",
                "Only host and sandbox touch the machine",
            ],
        ),
        ("resolve/__init__.py", "import yaml", ["yaml has one door: parse"]),
        ("catalog/__init__.py", "import click", ["click has one door: faces"]),
        ("host/__init__.py", "import watchfiles", ["watchfiles has one door: host.paths"]),
        ("extra.py", "", ["Packages import downwards only"]),
        (
            "library/access.py",
            "import agents, langchain_core, mcp, pydantic_ai",
            [
                "The OpenAI Agents SDK has one door: adapters.openai_agents",
                "langchain has one door: adapters.langchain",
                "mcp has two doors: agent.mcp and faces.mcp",
                "pydantic-ai has two doors: agent.models.hosted and its adapter",
            ],
        ),
    ],
)
def test_a_wrong_import_is_reported_under_the_contract_it_breaks(copy, file, statement, broken):
    planted = copy / "src" / "metier" / file
    planted.touch()
    plant(planted, statement)
    result = lint_imports(copy)
    assert result.returncode == 1, result.stdout + result.stderr
    for name in broken:
        assert f"{name} BROKEN" in result.stdout

"""The examples run, each in its own trusted copy of the example workspace."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.contracts.test_docs import ROOT, Place

AGENTS = sorted((ROOT / "examples" / "agents").glob("*.py"))


def test_there_is_an_example_for_every_framework():
    assert [file.stem for file in AGENTS] == [
        "with_anthropic_sdk",
        "with_langgraph",
        "with_mcp",
        "with_openai_agents",
        "with_pydantic_ai",
    ]


@pytest.mark.parametrize("file", AGENTS, ids=lambda file: file.stem)
def test_an_example_runs(file: Path, tmp_path: Path):
    place = Place(tmp_path, "trusted")
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=place.cwd,
        env=place.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()

"""An adapter without its framework says what to install, and nothing else is needed to be told."""

from pathlib import Path

import click
import pytest
import yaml
from tests.home import SOURCE, python


def bare(code: str, *folders: Path) -> str:
    """What a piece of Python says on standard error where only metier and these folders can be imported."""
    path = [str(SOURCE), *map(str, folders)]
    only = f"import sys\nsys.path[:] = {path!r} + [one for one in sys.path if 'site-packages' not in one]\n"
    done = python(only + code)
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize(
    ("module", "extra"),
    [("pydantic_ai", "pydantic-ai"), ("langchain", "langchain"), ("openai_agents", "openai-agents")],
)
def test_an_adapter_names_its_extra(module, extra):
    said = bare(f"import metier.adapters.{module}")

    assert f"needs the extra `{extra}`" in said


def test_the_server_names_its_extra_without_a_traceback(tmp_path):
    for package in (click, yaml):
        assert package.__file__ is not None
        (tmp_path / package.__name__).symlink_to(Path(package.__file__).parent)
    said = bare("from metier.faces.cli.app import run\nsys.exit(run(['mcp']))", tmp_path)

    assert said == "error: the MCP server needs the extra `mcp`\nhint: run `pip install 'metier[mcp]'`\n"

"""Without an extra, an adapter, a face or a model says which one to install, and how."""

import ast
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from tests.home import SOURCE, python

from metier.types.model import MODEL_SERVICES

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])


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


@pytest.fixture
def essentials(tmp_path: Path) -> Path:
    """A folder with what metier always comes with, and no extra."""
    for package in (click, yaml):
        assert package.__file__ is not None
        (tmp_path / package.__name__).symlink_to(Path(package.__file__).parent)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "feature", "extra"),
    [("mcp", "the MCP server", "mcp"), ("acp", "the agent for editors", "acp"), ("chat", "the terminal app", "chat")],
)
def test_a_face_names_its_extra_without_a_traceback(essentials, command, feature, extra):
    terminal = "sys.stdin.isatty = sys.stdout.isatty = lambda: True\n"
    said = bare(f"{terminal}from metier.faces.cli.app import run\nsys.exit(run([{command!r}]))", essentials)

    assert said == f"error: {feature} needs the extra `{extra}`\nhint: run `pip install 'metier[{extra}]'`\n"


def missing_extras() -> list[tuple[str, ast.Call]]:
    """Every place that raises `MissingExtra`."""
    return [
        (f"{file.relative_to(SOURCE)}:{node.lineno}", node)
        for file in sorted((SOURCE / "metier").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "MissingExtra"
    ]


def test_every_missing_extra_is_an_extra_of_this_project():
    names = {place: call.args[1].value for place, call in missing_extras() if isinstance(call.args[1], ast.Constant)}

    assert len(names) > 10
    assert not {place: name for place, name in names.items() if name not in EXTRAS}


def test_every_missing_extra_says_what_needs_it_not_how_to_install_it():
    features = {place: ast.unparse(call.args[0]) for place, call in missing_extras()}

    assert not [place for place, feature in features.items() if "install" in feature]


def test_every_service_for_models_names_an_extra_of_this_project():
    assert not {name: service.extra for name, service in MODEL_SERVICES.items() if service.extra not in EXTRAS}

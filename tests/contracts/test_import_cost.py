"""What people pay who use none of the frameworks: nothing."""

import json

from tests.home import World, make_world, python, write_skill

FRAMEWORKS = (
    "acp", "agents", "anthropic", "anyio", "httpx", "langchain", "langchain_core", "langgraph", "mcp", "mcp_types", "openai",
    "pydantic", "pydantic_ai", "starlette", "uvicorn",
)  # fmt: skip


def loaded(code: str, world: World | None = None) -> list[str]:
    """The modules that a piece of Python loads."""
    before = "import json, sys\nbefore = set(sys.modules)\n"
    after = "\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    done = python(before + code + after, env=world.variables if world else None, cwd=world.project if world else None)
    assert done.returncode == 0, done.stderr
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return names


def test_importing_metier_imports_metier_alone():
    assert loaded("import metier") == ["__future__", "metier"]


def test_opening_listing_and_acting_import_no_framework(tmp_path):
    world = make_world(tmp_path)
    write_skill(world.state / "skills" / "greet")
    code = """
import metier
library = metier.open(".")
library.catalog(); library.commands()
[tool] = [tool for tool in library.tools() if tool.name == "skill_use"]
assert not tool.call({"skill_name": "greet"}).error
library.tools_for("anthropic")
"""
    names = loaded(code, world)

    assert "metier.library.access" in names
    assert [name for name in names if name.partition(".")[0] in FRAMEWORKS] == []


def test_the_command_line_imports_no_framework_until_it_serves(tmp_path):
    code = """
from metier.faces.cli.app import run
assert run(["list"]) == 0
assert run(["mcp", "install", "cursor", "--yes"]) == 0
"""
    names = loaded(code, make_world(tmp_path))

    assert [name for name in names if name.partition(".")[0] in FRAMEWORKS] == []


def test_whoever_has_installed_skills_lists_them_without_what_installs(tmp_path):
    world = make_world(tmp_path)
    write_skill(world.state / "skills" / "greet")
    code = """
from metier.faces.cli.app import run
assert run(["freeze", "greet"]) == 0
"""
    assert "metier.install.add" in loaded(code, world)

    names = loaded("from metier.faces.cli.app import run\nassert run(['status']) == 0", world)

    assert "metier.library.lockfile" in names
    heavy = {"metier.install.add", "metier.install.inspect", "metier.record", "http.client", "ssl"}
    assert heavy & set(names) == set()


def test_commands_that_list_load_nothing_of_what_installs_records_or_runs(tmp_path):
    world = make_world(tmp_path)
    write_skill(world.state / "skills" / "greet")
    listed = "[run([word]) for word in ('status', 'commands', 'catalog', 'roots', 'lint')]"

    names = loaded(f"from metier.faces.cli.app import run\nassert {listed} == [0] * 5", world)

    assert "metier.library.scheduled" in names
    heavy = {"metier.install", "metier.record", "metier.types.sandbox", "metier.types.agent", "hashlib", "subprocess"}
    assert heavy & set(names) == set()

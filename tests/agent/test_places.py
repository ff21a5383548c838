"""Rules for paths hold for where a path leads, whatever it looks like."""

import os

import pytest
from tests.agent.talking import call, session, spoken

from metier.agent.agent import Agent
from metier.agent.agent_files import parse_rules
from metier.agent.permissions import Permission
from metier.testing.models import ScriptedModel
from metier.types.event import Asked, Used


@pytest.fixture
def project(world):
    for name in ("docs", "secrets", "sub"):
        (world.project / name).mkdir()
    (world.project / "secrets/k").write_text("hush=1\n")
    (world.project / ".env").write_text("TOKEN=hush\n")
    os.symlink(".env", world.project / "notes.txt")
    os.symlink("../secrets", world.project / "docs/more")
    return world.project


@pytest.fixture
def tried(world, project):
    """One call with nobody to ask: the events of it."""

    def events(name, allow=(), deny=(), **arguments):
        rules = Permission(parse_rules(allow), (), parse_rules(deny))
        return spoken(session(world, [call(name, **arguments), "Done."], rules=rules, keep=False)[0], "go")

    return events


def text_of(events):
    return next((one.text for one in events if isinstance(one, Used)), "")


def was_asked(events):
    return any(isinstance(one, Asked) for one in events)


@pytest.mark.parametrize("path", ["docs/../x", "docs/./../x", "docs/../.git/config"])
def test_what_is_allowed_in_a_folder_is_not_allowed_by_way_of_it(tried, project, path):
    assert was_asked(tried("write_file", allow=("write_file(docs/*)",), path=path, content="x"))
    assert not (project / "x").exists()


@pytest.mark.parametrize("path", ["docs/a", "./docs/a", "docs//b/../a"])
def test_what_is_allowed_in_a_folder_is_allowed_however_it_is_written(tried, project, path):
    tried("write_file", allow=("write_file(docs/*)",), path=path, content="x")

    assert (project / "docs/a").read_text() == "x"


@pytest.mark.parametrize("path", ["secrets/k", "./secrets/k", "docs/../secrets/k", "docs/more/k", "{whole}/secrets/k"])
def test_what_is_forbidden_is_forbidden_by_all_its_names(tried, project, path):
    events = tried("read_file", deny=("read_file(secrets/*)",), path=path.format(whole=project))

    assert "forbidden" in text_of(events)


def test_a_rule_that_allows_does_not_follow_a_link_out_of_its_folder(tried):
    assert was_asked(tried("edit_file", allow=("edit_file(docs/*)",), path="docs/more/k", old="hush", new="x"))


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        "sub/.git/config",
        ".bashrc",
        "sub/.vscode/tasks.json",
        ".github/workflows/x.yml",
        "sub/.GitHub/Workflows/x.yml",
        "workspace/agents/x.md",
    ],
)
def test_what_other_programs_take_orders_from_is_asked_for_whatever_is_allowed(tried, project, path):
    assert was_asked(tried("write_file", allow=("write_file",), path=path, content="x"))
    assert not (project / path).exists()


def test_who_names_what_takes_orders_in_a_rule_is_not_asked(tried, project):
    tried("write_file", allow=("write_file(.vscode/*)",), path=".vscode/tasks.json", content="x")

    tried("write_file", allow=("write_file(.github/workflows/*)",), path=".github/workflows/x.yml", content="x")

    assert (project / ".vscode/tasks.json").exists()
    assert (project / ".github/workflows/x.yml").exists()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": ".env"}),
        ("read_file", {"path": "notes.txt"}),
        ("search_files", {"pattern": ".", "path": ".env"}),
        ("search_files", {"pattern": ".", "path": "notes.txt"}),
        ("search_files", {"pattern": "=", "glob": ".env"}),
    ],
)
def test_a_private_file_is_asked_for_by_any_way_to_it(tried, tool, arguments):
    events = tried(tool, **arguments)

    assert was_asked(events)
    assert "hush" not in text_of(events)


@pytest.mark.parametrize("glob", ["", "*", ".env*", ".e?v"])
def test_a_search_of_everything_passes_private_files_over(tried, project, glob):
    (project / "plain.txt").write_text("hush in plain sight\n")
    events = tried("search_files", pattern="hush", glob=glob)

    assert not was_asked(events)
    assert ".env" not in text_of(events)
    assert ("plain.txt" in text_of(events)) == (glob in ("", "*"))


@pytest.mark.parametrize("path", [".Env", "server.PEM", "Id_RSA", ".SSH/config"])
def test_a_search_passes_private_files_over_in_capitals_too(tried, project, path):
    (project / path).parent.mkdir(exist_ok=True)
    (project / path).write_text("loud\n")

    assert text_of(tried("search_files", pattern="loud")) == "[nothing]"


def test_a_search_follows_no_link_out_of_the_working_folder(tried, world, project):
    (world.home / "else").mkdir()
    (world.home / "else/there.txt").write_text("loud\n")
    os.symlink(world.home / "else", project / "elsewhere")

    assert "leads elsewhere" in text_of(tried("search_files", pattern="loud", path="elsewhere"))
    assert "k:1:hush" in text_of(tried("search_files", pattern="hush", path="docs/more"))


def test_a_private_file_that_somebody_said_yes_to_is_searched(world, project):
    talk, _ = session(world, [call("search_files", pattern="hush", path=".env"), "Done."], keep=False)

    assert "TOKEN=hush" in text_of(spoken(talk, "go", answer="once"))


def test_a_yes_for_a_link_is_a_yes_for_what_it_led_to(world, project):
    read = [call("read_file", path="notes.txt"), "Done."]
    spoken(session(world, read)[0], "go", answer="always")
    (project / "id_rsa").write_text("hush\n")
    (project / "notes.txt").unlink()
    os.symlink("id_rsa", project / "notes.txt")

    assert was_asked(spoken(session(world, read)[0], "go"))


@pytest.mark.parametrize("tool", ["read_file", "list_files", "search_files", "find_files"])
def test_metiers_own_folder_is_not_reached_through_a_link(world, tool):
    state = world.project / "state"
    state.mkdir()
    (state / "mcp-token").write_text("hush\n")
    os.symlink("state", world.project / "l")
    path = "l/mcp-token" if tool == "read_file" else "l"
    library = world.open(place=world.place()._replace(state=str(state)))
    talk = Agent(library, ScriptedModel([call(tool, path=path, pattern="hush*"), "Done."]), keep=False).start()

    assert "not for agents" in text_of(spoken(talk, "go"))

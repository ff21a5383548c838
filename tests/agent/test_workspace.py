"""The tools beside skills: files of the working folder, and commands."""

import os
import time

import pytest
from tests.agent.talking import call, session, spoken

from metier.agent.agent import Agent
from metier.testing.models import ScriptedModel
from metier.types.event import Used


@pytest.fixture
def use(world):
    """One call of a tool that was allowed, and its answer."""

    def used(name, **arguments) -> Used:
        events = spoken(session(world, [call(name, **arguments), "Done."], keep=False)[0], "go", answer="once")
        return next(one for one in events if isinstance(one, Used))

    return used


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/passwd", "a/../../x", "link/passwd", "link.txt", "bad\0name"])
@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file"])
def test_no_path_leads_out_of_the_working_folder(world, use, tool, path):
    (world.project.parent / "outside.txt").write_text("theirs")
    os.symlink("/etc", world.project / "link")
    os.symlink(world.project.parent / "outside.txt", world.project / "link.txt")
    answer = use(tool, path=path, content="mine", old="theirs", new="mine")

    assert answer.error
    assert (world.project.parent / "outside.txt").read_text() == "theirs"


def test_metiers_own_folder_is_not_for_agents(world, use):
    state = world.project / "state"
    state.mkdir()
    talk, _ = session(world, [call("list_files"), "x"], keep=False)

    assert use("read_file", path=str(world.state / "trust.json")).error
    assert spoken(talk, "x")[-1].outcome == "finished"


def test_a_file_is_written_with_its_folders_and_keeps_its_mode(world, use):
    assert use("write_file", path="a/b/c.sh", content="echo 1\n").text == "Wrote a/b/c.sh: 1 line."
    (world.project / "a/b/c.sh").chmod(0o755)
    use("edit_file", path="a/b/c.sh", old="1", new="2")

    assert (world.project / "a/b/c.sh").read_text() == "echo 2\n"
    assert (world.project / "a/b/c.sh").stat().st_mode & 0o777 == 0o755


def test_an_edit_that_could_mean_two_places_is_refused_unless_all_are_meant(world, use):
    (world.project / "x.txt").write_text("a a")

    assert "2 times" in use("edit_file", path="x.txt", old="a", new="b").text
    assert use("edit_file", path="x.txt", old="a", new="b", all=True).text == "Edited x.txt: 2 places."
    assert "does not hold" in use("edit_file", path="x.txt", old="a", new="b").text


def test_a_long_file_is_read_page_by_page_and_never_through_a_character(world, use):
    (world.project / "long.txt").write_text("é" * 40_000)
    first = use("read_file", path="long.txt").text
    offset = int(first.rpartition("offset ")[2].rstrip("]"))
    rest = use("read_file", path="long.txt", offset=offset).text

    assert first.partition("\n[")[0] + rest == "é" * 40_000


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", "a.py\nsrc/b.py\nsrc/deep/c.py"),
        ("src/*.py", "src/b.py"),
        ("src/**/*.py", "src/b.py\nsrc/deep/c.py"),
        ("**/c.*", "src/deep/c.py"),
        ("**/*.py", "a.py\nsrc/b.py\nsrc/deep/c.py"),
        ("src/**", "src/b.py\nsrc/deep/c.py"),
        ("src/**.py", "src/b.py\nsrc/deep/c.py"),
        ("s*/d??p/[bc].py", "src/deep/c.py"),
        ("src/**/**/c.py", "src/deep/c.py"),
        ("nothing*", "[nothing]"),
    ],
)
def test_files_are_found_by_pattern(world, use, pattern, found):
    for path in ("a.py", "src/b.py", "src/deep/c.py", "node_modules/d.py"):
        (world.project / path).parent.mkdir(parents=True, exist_ok=True)
        (world.project / path).write_text("x")

    assert use("find_files", pattern=pattern).text == found


@pytest.mark.parametrize("pattern", ["**" * 20 + "x", "*a" * 60 + "x", "**/" * 60 + "x", "*a*/" * 4 + "*a" * 60 + "x"])
def test_no_pattern_takes_forever(world, use, pattern):
    folder = world.project / "/".join(["a" * 40] * 4)
    folder.mkdir(parents=True)
    (folder / ("a" * 200)).write_text("x")
    began = time.process_time()

    assert use("find_files", pattern=pattern).text == "[nothing]"
    assert time.process_time() - began < 20


def test_a_command_works_in_the_folder_and_writes_nowhere_else(world, use):
    outside = world.project.parent / "elsewhere"
    outside.mkdir()
    answer = use("run_command", command=f"pwd; echo 1 > here.txt; echo 2 > {outside}/there.txt")

    assert answer.text.startswith(str(world.project))
    assert (world.project / "here.txt").read_text() == "1\n"
    assert not (outside / "there.txt").exists()


def test_a_command_gets_nothing_of_the_callers_environment_but_the_usual_names(world):
    place = world.place(env={"MINE": "my-own-business", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"})
    talk = Agent(world.open(place=place), ScriptedModel([call("run_command", command="env"), "Done."])).start()
    text = next(one for one in spoken(talk, "go", answer="once") if isinstance(one, Used)).text

    assert "my-own-business" not in text
    assert "LANG=C.UTF-8" in text


def test_a_command_that_takes_too_long_is_ended(world, use):
    answer = use("run_command", command="echo begun; sleep 60", seconds=1)

    assert answer.error
    assert answer.text.startswith("Timed out after 1s.")


def test_a_search_takes_a_pattern_that_other_engines_choke_on(world, use):
    (world.project / "a.txt").write_text("a" * 5_000)

    assert use("search_files", pattern="(a+)+$").text.startswith("a.txt:1:")


def test_a_question_nobody_answers_is_said_to_the_model(world):
    events = spoken(session(world, [call("ask_user", question="Which one?"), "I can't tell."])[0], "go")

    assert "This session is not interactive" in next(one for one in events if isinstance(one, Used)).text
    assert events[-1].outcome == "finished"

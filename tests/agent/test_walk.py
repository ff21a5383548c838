"""A turn does its work once: the catalog is built once, the skill is hashed once, and few files are needed for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import trace_turn
from scripts.trace_turn import Walk
from tests.agent.talking import call, session, spoken
from tests.home import World, write_skill

from metier.library.library import Library
from metier.types.catalog import Catalog
from metier.types.event import Offered


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    return trace_turn.trace(tmp_path_factory.mktemp("walk").resolve())


def test_a_turn_builds_the_catalog_once(walk: Walk):
    assert walk.catalogs == 1


def test_a_turn_hashes_the_folder_of_the_skill_once(walk: Walk):
    assert walk.hashed == 1


def test_a_turn_needs_at_most_90_files(walk: Walk):
    assert len(walk.files) <= 90, walk.files


def test_the_picture_leads_from_the_library_to_the_sandbox(walk: Walk):
    picture = "\n".join(trace_turn.picture(walk.top))

    assert picture.index("library/open open_at") < picture.index("agent/loop run_turn")
    assert picture.index("agent/loop run_turn") < picture.index("sandbox run_sandboxed")


def test_no_part_of_a_session_asks_for_the_catalog_again(world: World, monkeypatch: pytest.MonkeyPatch):
    write_skill(world.state / "skills" / "greet")
    asked: list[Library] = []
    build = Library.catalog

    def counted(library: Library) -> Catalog:
        asked.append(library)
        return build(library)

    monkeypatch.setattr(Library, "catalog", counted)
    talk, _ = session(world, [call("list_files"), "One.", call("run_command", command="true"), "Two."])

    spoken(talk, "first")
    spoken(talk, "second", answer="once")

    assert len(asked) == 1


def test_a_skill_that_a_command_adds_is_noticed(world: World):
    write_skill(world.state / "skills" / "greet")
    talk, _ = session(world, [call("list_files"), "One."])
    spoken(talk, "first")
    before = talk.library
    write_skill(world.state / "skills" / "leave")

    talk.stale = True
    talk.model.lines = ["Two."]  # type: ignore[attr-defined]  # it is the scripted one
    events = spoken(talk, "second")

    assert talk.library is not before
    assert [event.added for event in events if isinstance(event, Offered)] == [("leave",)]


def test_a_program_that_a_command_installs_is_noticed_though_no_skill_changed(world: World, tmp_path: Path):
    write_skill(world.state / "skills" / "build", more="metadata:\n  metier:\n    requires:\n      bins: [hammer]\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    library = world.open(place=world.place(env={"PATH": str(programs)}))
    talk, _ = session(world, [])
    talk.library = library
    assert [verdict.usable for verdict in library.verdicts] == [False]

    (programs / "hammer").write_text("#!/bin/sh\n")
    (programs / "hammer").chmod(0o755)
    talk.stale = True
    talk.refresh()

    assert [verdict.usable for verdict in talk.library.verdicts] == [True]

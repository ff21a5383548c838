"""Snapshot versions: one content has one version in every process, and a version never falls."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.home import World, python, settle, skill_text, write_skill

from metier.library.snapshot import bump_everywhere, next_version

SNAPSHOT = "import metier; s = metier.open().snapshot; print(s.version, s.fingerprint)"


@pytest.fixture
def file(world: World) -> Path:
    return write_skill(world.home / ".agents/skills/one")


def version(world: World, index: bool = True, **more) -> int:
    return world.open(index=index, **more).snapshot.version


def test_the_same_content_has_the_same_version_in_another_process(world: World, file: Path):
    first = python(SNAPSHOT, env=world.variables, cwd=world.project)
    second = python(SNAPSHOT, env=world.variables, cwd=world.project)
    assert first.stdout == second.stdout != "", first.stderr


@pytest.mark.parametrize("index", [True, False])
def test_a_touch_alone_raises_nothing_and_an_edit_does(world: World, file: Path, index: bool):
    before = version(world, index)
    os.utime(file)
    assert version(world, index) == before
    write_skill(file.parent, body="Other.\n")
    edited = version(world, index)
    assert edited > before
    write_skill(file.parent)
    assert version(world, index) > edited


def test_two_edits_of_one_length_in_a_moment_are_two_versions(world: World, file: Path):
    versions = []
    for number in range(10):
        file.write_text(skill_text("one", body=f"Body {number}.\n"))
        versions.append(version(world))
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("change", ["add", "remove", "break", "binary", "trust"])
def test_whatever_changes_what_is_decided_raises_the_version(world: World, file: Path, change: str, tmp_path: Path):
    needs = "metadata:\n  openclaw:\n    requires:\n      bins: [tool]\n"
    write_skill(world.home / ".agents/skills/needy", more=needs)
    write_skill(world.project / ".agents/skills/theirs")
    place = world.place(env={"PATH": str(tmp_path)})
    before = version(world, place=place)
    if change == "add":
        write_skill(world.home / ".agents/skills/two")
    elif change == "remove":
        file.unlink()
    elif change == "break":
        file.write_text("---\n")
    elif change == "binary":
        (tmp_path / "tool").write_text("")
        (tmp_path / "tool").chmod(0o755)
    else:
        world.trust()
    assert version(world, place=place) > before


def test_other_files_of_a_skill_raise_nothing(world: World, file: Path):
    before = version(world)
    (file.parent / "notes.md").write_text("notes")
    assert version(world) == before


def test_each_workspace_dialect_profile_and_agent_has_a_version_of_its_own(world: World, file: Path):
    write_skill(world.home / ".agents/skills/two")
    inner = world.project / "inner"
    inner.mkdir()
    kinds: list[dict[str, Any]] = [{}, {"place": world.place(inner)}, {"dialect": "openclaw"}, {"agent": ["one"]}, {"agent": []},
             {"place": world.place(profile="me")}, {"root": world.home / ".agents/skills"}]  # fmt: skip
    before = [version(world, **kind) for kind in kinds]
    assert [version(world, **kind) for kind in kinds] == before
    write_skill(inner / ".agents/skills/theirs")
    after = [version(world, **kind) for kind in kinds]
    assert [now > then for now, then in zip(after, before, strict=True)] == [False, True] + [False] * 5


def test_a_global_rise_reaches_every_workspace(world: World, file: Path):
    library = world.open(index=True)
    before = library.snapshot.version
    raised = bump_everywhere(library.database)
    assert raised > before
    assert version(world) == raised
    assert version(world, dialect="openclaw") >= raised
    done = python(SNAPSHOT, env=world.variables, cwd=world.project)
    assert int(done.stdout.split()[0]) == raised
    assert bump_everywhere(library.database) > raised


def test_a_global_rise_works_without_an_index(world: World, file: Path):
    before = version(world, index=False)
    assert bump_everywhere(None) > before
    assert version(world, index=False) > before


def test_an_edit_shows_after_a_global_rise_in_the_same_moment(world: World, file: Path):
    for number in range(5):
        raised = [bump_everywhere(None) for _ in range(50)][-1]
        write_skill(file.parent, body=f"{number}\n")
        assert version(world, index=False) > raised


def test_a_version_is_the_time_unless_the_time_stands_still_or_runs_back():
    now = next_version(0)
    assert next_version(now + 1_000_000) == now + 1_000_001
    assert next_version(now - 1_000) >= now


def test_an_index_that_is_lost_gives_later_versions_not_earlier_ones(world: World, file: Path):
    before = int(python(SNAPSHOT, env=world.variables, cwd=world.project).stdout.split()[0])
    for name in ("index.db", "index.db-wal", "index.db-shm"):
        (world.state / name).unlink(missing_ok=True)
    done = python(SNAPSHOT, env=world.variables, cwd=world.project)
    assert int(done.stdout.split()[0]) > before


def test_the_digest_of_a_file_that_did_not_change_is_not_read_again(world: World, file: Path):
    settle()
    library = world.open(index=True)
    first = library.snapshot.digests[str(file)]
    assert library.database is not None
    [(key, value)] = library.database.rows("SELECT key, value FROM notes WHERE key LIKE 'digest%'")
    assert value.endswith(first)
    with library.database.change() as change:
        change("UPDATE notes SET value = ? WHERE key = ?", (value.rpartition(" ")[0] + " sha256:remembered", key))
    assert world.open(index=True).snapshot.digests[str(file)] == "sha256:remembered"
    os.utime(file)
    assert world.open(index=True).snapshot.digests[str(file)] == first


def test_versions_grow_when_many_processes_raise_them_at_once(world: World, file: Path):
    code = (
        "import json, sys, metier\nfrom metier.library.snapshot import bump_everywhere\n"
        "lib = metier.open()\nprint(json.dumps([bump_everywhere(lib.database) for _ in range(30)]))"
    )
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: python(code, env=world.variables, cwd=world.project), range(4)))
    raised = [json.loads(one.stdout) for one in done]
    for versions in raised:
        assert versions == sorted(set(versions))
    every = [version for versions in raised for version in versions]
    assert len(set(every)) == len(every)

"""The warm index is only ever a convenience: with it, without it and over its ruins the library is the same."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.world import (
    SOURCE,
    World,
    as_somebody_else,
    codes,
    ids,
    settle,
    skill_text,
    world_for_everybody,
    write_skill,
)

from metier.runtime import Library
from metier.sources.index import READER

SOAK = bool(os.environ.get("METIER_SOAK"))


def shown(library: Library) -> object:
    """All that a library says, but for how its index fared."""
    skills = [
        (s.path, s.name, s.description, s.key, s.origin, s.argument_hint, s.requires, s.extra, s.marks, s.enabled,
         s.user_may_invoke, s.model_may_invoke)
        for s in library.skills
    ]  # fmt: skip
    verdicts = [(v.skill.path, v.marks, v.shadowed_by and v.shadowed_by.path) for v in library.verdicts]
    problems = [problem for problem in library.problems if not problem.code.startswith("index-")]
    return skills, library.broken, problems, verdicts, library.catalog().text


@pytest.fixture
def stocked(world: World) -> World:
    """A world with skills that the index will take."""
    root = world.home / ".agents/skills"
    for name in ("one", "two", "three"):
        write_skill(root / name, more="license: MIT\n")
    write_skill(root / "needy", more="metadata:\n  openclaw:\n    requires:\n      bins: [git]\n      env: [KEY]\n")
    write_skill(root / "group/inner")
    write_skill(root / "bad").write_text("---\nname: bad\n---\n")
    write_skill(world.home / ".claude/skills/four", more="disable-model-invocation: true\nargument-hint: '[x]'\n")
    settle()
    return world


def index_of(world: World) -> Path:
    return world.state / "index.db"


def fill(world: World) -> None:
    """Open once with the index, and let go of it."""
    library = world.open(index=True)
    assert library.database is not None
    library.database.close()


def write_index(world: World, statement: str, *values: object) -> None:
    with contextlib.closing(sqlite3.connect(index_of(world))) as connection, connection:
        connection.execute(statement, values)


def test_the_second_open_believes_the_index(stocked: World):
    cold = stocked.open(index=True)
    write_index(
        stocked,
        "UPDATE skills SET texts = 'one' || char(31) || 'From the index.' || char(31, 31, 31, 31) WHERE dir = 'one'",
    )
    assert stocked.open(index=True).find("one").skill.description == "From the index."
    assert stocked.open().find("one").skill.description == "Does it."
    assert codes(cold) == []


def test_a_warm_library_is_the_same_as_a_cold_one(stocked: World):
    cold = shown(stocked.open())
    assert shown(stocked.open(index=True)) == cold
    assert shown(stocked.open(index=True)) == cold


def test_a_young_file_is_not_remembered_yet(world: World):
    file = write_skill(world.home / ".agents/skills/one", "First.")
    world.open(index=True)
    key = file.stat()
    file.write_text(skill_text("one", "Other."))
    os.utime(file, ns=(key.st_mtime_ns, key.st_mtime_ns))
    assert world.open(index=True).skills[0].description == "Other."


@pytest.mark.parametrize("change", ["edit", "touch", "replace", "delete", "rename", "break", "mend", "add", "limit"])
def test_every_change_is_noticed(stocked: World, change: str):
    fill(stocked)
    root = stocked.home / ".agents/skills"
    if change == "edit":
        write_skill(root / "one", "Done otherwise.")
    elif change == "touch":
        os.utime(root / "one/SKILL.md")
    elif change == "replace":  # the same size, the same times
        old = (root / "one/SKILL.md").stat()
        (root / "one/new").write_text((root / "one/SKILL.md").read_text().replace("Does it.", "DOES IT."))
        os.utime(root / "one/new", ns=(old.st_atime_ns, old.st_mtime_ns))
        (root / "one/new").rename(root / "one/SKILL.md")
    elif change == "delete":
        (root / "one/SKILL.md").unlink()
    elif change == "rename":
        (root / "one").rename(root / "renamed")
    elif change == "break":
        (root / "one/SKILL.md").write_bytes(b"---\n\xff\n---\n")
    elif change == "mend":
        write_skill(root / "bad")
    elif change == "add":
        write_skill(root / "aaa")
    else:
        (stocked.state / "config.toml").write_text("[limits]\nfile_bytes = 70\n")
    cold = shown(stocked.open())
    assert shown(stocked.open(index=True)) == cold
    settle()
    for _ in (1, 2):
        assert shown(stocked.open(index=True)) == shown(stocked.open())


def test_a_skill_that_names_its_own_dialect_keeps_it_when_it_comes_from_the_index(world: World):
    root = world.home / ".agents/skills"
    write_skill(root / "own", more="metadata:\n  dialect: umbra\n")
    settle()
    for _ in (1, 2, 3):
        assert world.open(index=True).skills[0].origin.dialect.name == "umbra"


def test_one_index_serves_every_dialect_without_mixing_them_up(stocked: World):
    fill(stocked)
    for dialect in ("openclaw", "agenvoy", "claude", "standard"):
        assert shown(stocked.open(dialect, index=True)) == shown(stocked.open(dialect))
        assert shown(stocked.open(dialect, index=True)) == shown(stocked.open(dialect))


def garbage(file: Path) -> None:
    file.write_bytes(b"not a database at all" * 1_000)


def truncated(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def scribbled(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4_096:12_000] = os.urandom(12_000 - 4_096)
    file.write_bytes(bytes(content))


def other_schema(file: Path) -> None:
    file.unlink()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript(f"CREATE TABLE skills (x); PRAGMA user_version = {READER};")


def no_schema(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("DROP TABLE roots; DROP TABLE notes;")


def empty(file: Path) -> None:
    file.write_bytes(b"")


def bad_wal(file: Path) -> None:
    Path(f"{file}-wal").write_bytes(os.urandom(5_000))


@pytest.mark.parametrize("harm", [garbage, truncated, scribbled, other_schema, no_schema, empty, bad_wal])
def test_a_damaged_index_is_made_anew_and_never_changes_what_is_found(stocked: World, harm):
    cold = shown(stocked.open())
    fill(stocked)
    for beside in ("-wal", "-shm"):
        Path(f"{index_of(stocked)}{beside}").unlink(missing_ok=True)
    harm(index_of(stocked))
    first = stocked.open(index=True)
    assert shown(first) == cold
    assert set(codes(first)) <= {"index-damaged"}
    if harm not in (empty, bad_wal):
        assert codes(first) == ["index-damaged"]
    assert first.snapshot.version
    second = stocked.open(index=True)
    assert (shown(second), codes(second)) == (cold, [])
    write_index(
        stocked,
        "UPDATE skills SET texts = 'one' || char(31) || 'From the index.' || char(31, 31, 31, 31) WHERE dir = 'one'",
    )
    assert stocked.open(index=True).find("one").skill.description == "From the index."


def test_an_index_of_an_older_metier_is_made_anew_without_a_word(stocked: World):
    cold = shown(stocked.open())
    fill(stocked)
    write_index(stocked, "PRAGMA user_version = -1")
    library = stocked.open(index=True)
    assert (shown(library), codes(library)) == (cold, [])


def test_an_index_of_a_newer_metier_is_left_alone(stocked: World):
    cold = shown(stocked.open())
    fill(stocked)
    write_index(stocked, f"PRAGMA user_version = {READER + 1}")
    library = stocked.open(index=True)
    assert (shown(library), codes(library)) == (cold, ["index-unwritable"])
    assert "newer" in library.problems[0].message
    assert index_of(stocked).exists()


@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "state is a file"])
def test_an_index_that_can_not_be_a_file_is_passed_over(stocked: World, kind: str, tmp_path: Path):
    cold = shown(stocked.open())
    index = index_of(stocked)
    if kind == "state is a file":
        stocked.state.write_text("")
    else:
        stocked.state.mkdir()
    if kind == "folder":
        index.mkdir()
    elif kind == "link":
        (tmp_path / "victim").write_text("precious")
        index.symlink_to(tmp_path / "victim")
    elif kind == "pipe":
        os.mkfifo(index)
    began = time.perf_counter()
    library = stocked.open(index=True)
    assert time.perf_counter() - began < 2
    assert (shown(library), codes(library)) == (cold, ["index-unwritable"])
    assert library.snapshot.version
    if kind == "link":
        assert (tmp_path / "victim").read_text() == "precious"


READ_ONLY = """
import json, sys
import metier
library = metier.open()
print(json.dumps([[skill.id for skill in library.skills], [problem.code for problem in library.problems],
                  library.snapshot.version > 0]))
"""


@pytest.mark.parametrize("before", [False, True])
def test_an_index_in_a_folder_that_may_not_be_written_is_passed_over(before: bool):
    with world_for_everybody() as world:
        write_skill(world.home / ".agents/skills/one")
        settle()
        if before:
            fill(world)
            world.state.chmod(0o555)
            index_of(world).chmod(0o444)
        out = as_somebody_else(READ_ONLY, env={"HOME": str(world.home)}, cwd=world.project)
        assert json.loads(out) == [["one"], ["index-unwritable"], True]


HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(sys.argv[2])
print("held", flush=True)
time.sleep(60)
"""


@contextlib.contextmanager
def held(file: Path, statement: str) -> Iterator[None]:
    """Another process that keeps the index to itself."""
    arguments = [sys.executable, "-c", HOLD, str(file), statement]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, encoding="utf-8") as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.kill()


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
@pytest.mark.parametrize("filled", [True, False])
def test_an_index_that_another_process_holds_is_passed_over_quickly(stocked: World, statement: str, filled: bool):
    fill(stocked)
    if not filled:
        index_of(stocked).unlink()
        for beside in ("-wal", "-shm"):
            Path(f"{index_of(stocked)}{beside}").unlink(missing_ok=True)
        index_of(stocked).touch()
    write_skill(stocked.home / ".agents/skills/new")
    write_skill(stocked.home / ".claude/skills/newer")
    settle()
    cold = shown(stocked.open())
    with held(index_of(stocked), statement):
        began = time.perf_counter()
        library = stocked.open(index=True)
        version = library.snapshot.version
        assert time.perf_counter() - began < 2
        assert (shown(library), codes(library)) == (cold, ["index-locked"])
    library = stocked.open(index=True)
    assert (shown(library), codes(library)) == (cold, [])
    assert library.snapshot.version >= version


def test_a_fault_in_the_midst_of_a_change_leaves_nothing_half_written(stocked: World):
    library = stocked.open(index=True)
    assert library.database is not None

    def fail() -> None:
        assert library.database is not None
        with library.database.change() as change:
            change("DELETE FROM skills")
            raise KeyError("something else went wrong")

    with pytest.raises(KeyError):
        fail()
    with library.database.change() as change:
        change("INSERT OR REPLACE INTO notes VALUES ('a', 'b')")
    assert library.database.rows("SELECT value FROM notes WHERE key = 'a'") == [("b",)]
    assert library.database.rows("SELECT count(*) FROM skills") == [(7,)]


OPEN = """
import json, sys, time
import metier
wait = float(sys.argv[1]) - time.time()
time.sleep(max(0, wait))
library = metier.open()
print(json.dumps([[s.id for s in library.skills], [s.description for s in library.skills],
                  [p.code for p in library.problems], library.snapshot.version, library.snapshot.fingerprint]))
"""


def start(world: World, code: str, *arguments: str) -> subprocess.Popen[str]:
    env = world.variables | {"PYTHONPATH": str(SOURCE)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=env, cwd=world.project, stdout=subprocess.PIPE, encoding="utf-8"
    )


@pytest.mark.parametrize("before", ["missing", "garbage"])
def test_eight_processes_at_once_see_the_same(stocked: World, before: str):
    for number in range(100):
        write_skill(stocked.home / f".agents/skills/many-{number:03}", f"Number {number}.")
    settle()
    if before == "garbage":
        stocked.state.mkdir()
        garbage(index_of(stocked))
    cold = stocked.open()
    running = [start(stocked, OPEN, str(time.time() + 1.5)) for _ in range(8)]
    seen = [json.loads(process.communicate(timeout=60)[0]) for process in running]
    for found, descriptions, said, _, fingerprint in seen:
        assert found == ids(cold)
        assert descriptions == [skill.description for skill in cold.skills]
        assert set(said) <= {"index-locked", "index-damaged"}
        assert fingerprint == seen[0][4]
    after = stocked.open(index=True)
    assert (shown(after), codes(after)) == (shown(cold), [])


WRITE = """
import sys, time
import metier
from metier.host import paths
print("go", flush=True)
while True:
    library = metier.open()
    library.snapshot
    with library.database.change() as change:
        change("DELETE FROM skills")
    with library.database.change() as change:
        change("DELETE FROM notes")
"""


@pytest.mark.parametrize("seed", range(200 if SOAK else 10))
def test_a_process_killed_while_it_writes_the_index_harms_nothing(stocked: World, seed: int):
    for number in range(60):
        write_skill(stocked.home / f".agents/skills/many-{number:03}", f"Number {number}.")
    settle()
    cold = shown(stocked.open())
    with start(stocked, WRITE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.Random(seed).random() * 0.2)
        process.send_signal(signal.SIGKILL)
    library = stocked.open(index=True)
    assert (shown(library), codes(library)) == (cold, [])
    assert library.database is not None
    assert library.database.rows("PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("value", ["\\ud800", "\\0", "\\uffff", "\\U0001F600", "\\x1b[31m"])
def test_any_character_that_yaml_can_write_goes_through_the_index_or_around_it(world: World, value: str):
    root = world.home / ".agents/skills"
    needs = f'metadata:\n  openclaw:\n    requires:\n      env: ["A{value}"]\n      bins: ["b{value}"]\n'
    write_skill(root / "odd").write_text(f'---\nname: odd\ndescription: "Odd {value}."\n{needs}---\nBody.\n')
    write_skill(root / "good")
    settle()
    cold = shown(world.open())
    for _ in (1, 2):
        library = world.open(index=True)
        assert (shown(library), codes(library)) == (cold, [])
        assert library.snapshot.version
    assert "good" in ids(library)


def test_a_row_that_can_not_be_taken_apart_is_read_anew(stocked: World):
    fill(stocked)
    write_index(stocked, "UPDATE skills SET texts = 'scribbled' WHERE dir = 'one'")

    assert "one" in stocked.open(index=True).names
    assert [skill.name for skill in stocked.open(index=True).skills] == list(stocked.open(index=True).names)


def test_scribbles_where_requirements_stood_never_make_a_skill_eligible(stocked: World):
    fill(stocked)
    write_index(
        stocked,
        "UPDATE skills SET texts = 'one' || char(31) || 'd' || char(31, 31) || '{not json' || char(31)"
        " || '{neither' || char(31) WHERE dir = 'one'",
    )
    [verdict] = [verdict for verdict in stocked.open(index=True).verdicts if verdict.skill.id == "one"]

    assert not verdict.eligible
    assert dict(verdict.skill.extra) == {}

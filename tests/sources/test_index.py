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
from tests.home import (
    SOURCE,
    World,
    as_somebody_else,
    codes,
    ids,
    python,
    settle,
    skill_text,
    world_for_everybody,
    write_skill,
)

from metier.dialects import DIALECTS
from metier.dialects.standard import STANDARD
from metier.host.sqlite import memory_database, open_database
from metier.library.library import Library
from metier.sources.index import READER_VERSION, SCHEMA, load_indexed, make_entry, save_changes
from metier.types.place import SkillRoot
from metier.types.skill import Origin, Skill

SOAK = bool(os.environ.get("METIER_SOAK"))


def shown(library: Library) -> object:
    """All that a library says, but for how its index fared."""
    skills = [
        (s.path, s.name, s.description, s.key, s.origin, s.argument_hint, s.requires, s.extra, s.findings, s.enabled,
         s.user_may_invoke, s.model_may_invoke)
        for s in library.skills
    ]  # fmt: skip
    verdicts = [(v.skill.path, v.findings, v.shadowed_by and v.shadowed_by.path) for v in library.verdicts]
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
    write_index(stocked, "UPDATE skills SET descriptions = replace(descriptions, 'Does it.', 'From the index.')")
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
        connection.executescript(f"CREATE TABLE skills (x); PRAGMA user_version = {READER_VERSION};")


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
    write_index(stocked, "UPDATE skills SET descriptions = replace(descriptions, 'Does it.', 'From the index.')")
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
    write_index(stocked, f"PRAGMA user_version = {READER_VERSION + 1}")
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
    library = stocked.open(index=True)
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
        else:
            world.home.chmod(0o555)
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
    began = time.perf_counter()
    cold = shown(stocked.open())
    usual = time.perf_counter() - began
    with held(index_of(stocked), statement):
        began = time.perf_counter()
        library = stocked.open(index=True)
        version = library.snapshot.version
        # SQLite itself would wait five seconds; a busy machine takes longer for all else as well.
        assert time.perf_counter() - began < 4.5 + 5 * usual
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
    assert library.database.rows("SELECT sum(length(flags)) FROM skills") == [(7,)]


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


HARMS = {
    "a column that is too short": "names = 'scribbled'",
    "a column that is too long": "descriptions = descriptions || char(29) || 'more'",
    "a separator inside a text": "descriptions = replace(descriptions, 'Does it.', 'Does' || char(29) || 'it.')",
    "keys for fewer": "numbers = substr(numbers, 9)",
    "flags for fewer": "flags = substr(flags, 2)",
    "flags for nobody": "flags = x''",
    "bytes for a text": "names = CAST(names AS BLOB)",
    "a number for a text": "folders = 7",
    "text for keys": "numbers = hex(numbers)",
    "text for flags": "flags = CAST(flags AS TEXT)",
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_batch_that_does_not_fit_together_is_read_anew_and_mended(stocked: World, harm: str):
    cold = shown(stocked.open())
    fill(stocked)
    write_index(stocked, f"UPDATE skills SET {harm} WHERE length(flags) > 1")

    assert shown(stocked.open(index=True)) == cold
    write_index(stocked, "UPDATE skills SET descriptions = replace(descriptions, 'Does it.', 'From the index.')")
    mended = stocked.open(index=True)
    assert mended.find("one").skill.description == "From the index."
    assert list(mended.names) == [skill.name for skill in stocked.open().skills]


def test_text_of_the_index_that_is_no_text_is_damage(stocked: World):
    cold = shown(stocked.open())
    fill(stocked)
    write_index(stocked, "UPDATE skills SET descriptions = CAST(x'ff' || CAST(descriptions AS BLOB) AS TEXT)")

    for said in (["index-damaged"], [], []):
        library = stocked.open(index=True)
        assert (shown(library), codes(library)) == (cold, said)


@pytest.mark.parametrize("scribble", ["{not json", "[]", '{"unknown": 1}', "7"])
def test_scribbles_where_requirements_stood_never_make_a_skill_eligible(stocked: World, scribble: str):
    fill(stocked)
    write_index(
        stocked,
        'UPDATE skills SET requires = replace(requires, \'{"binaries": ["git"], "env": ["KEY"]}\', ?)',
        scribble,
    )
    [verdict] = [verdict for verdict in stocked.open(index=True).verdicts if verdict.skill.id == "needy"]

    assert not verdict.eligible
    assert verdict.skill.requires.platforms


def test_scribbles_where_other_frontmatter_stood_are_nothing(stocked: World):
    fill(stocked)
    write_index(stocked, "UPDATE skills SET extras = replace(extras, 'license', 'lic')")
    [skill] = [skill for skill in stocked.open(index=True).skills if skill.id == "one"]

    assert "license" not in skill.extra


def batches(world: World) -> dict[str, tuple[str, bytes]]:
    """By its first folder, the folders and the keys of each batch."""
    with contextlib.closing(sqlite3.connect(index_of(world))) as connection:
        rows = connection.execute("SELECT first, folders, numbers FROM skills ORDER BY first").fetchall()
    return {first: (folders, numbers) for first, folders, numbers in rows}


@pytest.fixture
def crowded(world: World) -> World:
    """A world whose skills need several batches."""
    for number in range(700):
        write_skill(world.home / f".agents/skills/many-{number:03}", f"Number {number}.")
    settle()
    fill(world)
    return world


def test_one_change_among_many_writes_one_batch(crowded: World):
    before = batches(crowded)
    write_skill(crowded.home / ".agents/skills/many-300", "Other.")
    settle()
    fill(crowded)
    after = batches(crowded)

    assert len(before) == 3
    assert before.keys() == after.keys()
    assert [first for first in before if before[first] != after[first]] == ["many-256"]


def test_many_new_skills_make_more_batches_and_many_that_go_leave_none_behind(crowded: World):
    root = crowded.home / ".agents/skills"
    for number in range(400):
        write_skill(root / f"many-300-{number:03}", f"New {number}.")
    settle()
    fill(crowded)
    folders = [folder for held, _ in batches(crowded).values() for folder in held.split("\x1d")]

    assert len(batches(crowded)) == 5
    assert folders == sorted(path.name for path in root.iterdir())
    assert shown(crowded.open(index=True)) == shown(crowded.open())

    for path in list(root.iterdir()):
        if path.name != "many-699":
            (path / "SKILL.md").unlink()
            path.rmdir()
    fill(crowded)
    assert [folders for folders, _ in batches(crowded).values()] == ["many-699"]
    write_skill(root / "before")
    settle()
    fill(crowded)
    assert [folders for folders, _ in batches(crowded).values()] == ["before", "many-699"]


LEARN = """
import sys
import metier
from metier.host.sqlite import open_database
from metier.sources.index import make_entry
from metier.sources.index import READER_VERSION, SCHEMA, save_changes
library = metier.open(root=sys.argv[1], index=False)
print("ready", flush=True)
sys.stdin.readline()
for skill in library.skills[int(sys.argv[2]) :: 2]:
    database = None
    while database is None or database.silent:  # a busy machine may keep the index locked for longer than one waits
        database, _ = open_database(sys.argv[3], SCHEMA, READER_VERSION)
        if database is not None:
            save_changes(database, library.roots[0], {skill.id: make_entry(skill.id, skill)})
"""


def test_two_processes_that_write_into_one_batch_at_once_lose_nothing(world: World, tmp_path: Path):
    root = tmp_path / "skills"
    for number in range(80):
        write_skill(root / f"many-{number:03}", f"Number {number}.")
    settle()
    fill(world)
    env = world.variables | {"PYTHONPATH": str(SOURCE)}
    words = [sys.executable, "-c", LEARN, str(root)]
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(
                subprocess.Popen([*words, which, str(index_of(world))], env=env, stdin=-1, stdout=-1, encoding="utf-8")
            )
            for which in "01"
        ]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert [writer.wait(60) for writer in writers] == [0, 0]

    [(folders, _)] = batches(world).values()
    assert folders.split("\x1d") == [f"many-{number:03}" for number in range(80)]
    assert shown(world.open(root=root, index=True)) == shown(world.open(root=root))


VISIT = "import sqlite3, sys; one = sqlite3.connect(sys.argv[1]); one.execute('SELECT 1 FROM roots'); one.close()"

TAGS = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT tag FROM roots').fetchall())"


def test_an_index_opened_twice_keeps_its_log_when_another_process_leaves(stocked: World):
    """Locks belong to a process and a file: to open it again must not let go of those of the first."""
    fill(stocked)
    first, _ = open_database(str(index_of(stocked)), SCHEMA, READER_VERSION)
    again, _ = open_database(str(index_of(stocked)), SCHEMA, READER_VERSION)
    assert first is not None
    assert again is not None
    assert first.rows("SELECT 1")
    subprocess.run([sys.executable, "-c", VISIT, str(index_of(stocked))], check=True)
    with first.change() as change:
        change("INSERT INTO roots (tag) VALUES ('mine')")
    assert not first.silent

    done = subprocess.run([sys.executable, "-c", TAGS, str(index_of(stocked))], check=True, capture_output=True)
    assert b"mine" in done.stdout


def test_a_key_of_any_size_is_kept_or_left_out():
    """Some file systems use every bit of an inode, and some hold times before 1970 or far away."""
    origin = Origin("path", 0, "here", "/somewhere", STANDARD)
    keys = {"old": (2**64 - 1, -5, -(10**18), 0), "plain": (1, 2, 3, 4), "far": (1, 2**63, 3, 4)}
    made = {name: Skill(name, name, "It.", f"/somewhere/{name}/SKILL.md", key, origin) for name, key in keys.items()}
    database = memory_database(SCHEMA)
    save_changes(database, SkillRoot(origin), {name: make_entry(name, skill) for name, skill in made.items()})

    assert load_indexed(database, SkillRoot(origin)).items == [made["old"], made["plain"]]


ROOT_TAGS = """
from metier.dialects import DIALECTS
from metier.sources.index import root_tag
from metier.types.place import SkillRoot
from metier.types.skill import Origin
for dialect in DIALECTS.values():
    print(repr(root_tag(SkillRoot(Origin("user", 1, "user", "/skills", dialect)))))
"""


def test_another_process_finds_the_rows_again_whatever_the_dialect():
    first, second = (python(ROOT_TAGS, env={"PYTHONHASHSEED": seed}).stdout for seed in ("1", "2"))
    assert first == second
    assert len(set(first.splitlines())) == len(DIALECTS)

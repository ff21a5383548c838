"""Hot reload with real events: whatever an editor, git or a person does to the disk, the library follows."""

import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.home import World, codes, ids, python, settle, skill_text, usable, write_skill

from metier.host import paths
from metier.library.library import Library
from metier.library.watch import Change

PATIENCE = 60.0


class Watched:
    """A library that is being watched in a thread of its own."""

    def __init__(self, library: Library) -> None:
        self.stop = threading.Event()
        self.changes: list[Change] = []
        self.library = library
        self._queue: queue.Queue[Change | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        time.sleep(0.3)  # let it look once and begin to wait

    def _run(self) -> None:
        try:
            for change in self.library.watch(self.stop):
                self._queue.put(change)
        finally:
            self._queue.put(None)

    def until(self, true: Callable[[Library], bool], patience: float = PATIENCE) -> Change:
        """The first change after which something is true."""
        end = time.monotonic() + patience
        while True:
            change = self._queue.get(timeout=max(0.01, end - time.monotonic()))
            assert change is not None, "the watch ended"
            self.changes.append(change)
            if true(change.library):
                return change

    def quiet_for(self, seconds: float) -> bool:
        try:
            return self._queue.get(timeout=seconds) is None
        except queue.Empty:
            return True

    def end(self) -> None:
        """Stop: sooner than the next look of a large library would come, with room for a busy machine."""
        self.stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()


@pytest.fixture
def root(world: World) -> Path:
    folder = world.home / ".agents/skills"
    write_skill(folder / "one", "First.")
    write_skill(folder / "two", "Second.")
    return folder


@pytest.fixture(params=[False, True], ids=["no-index", "index"])
def watched(world: World, root: Path, request: pytest.FixtureRequest) -> Iterator[Watched]:
    found = Watched(world.open(index=request.param))
    yield found
    found.end()


def description(name: str, text: str) -> Callable[[Library], bool]:
    return lambda library: name in library.names and library.find(name).skill.description == text


def test_an_edit_is_seen(watched: Watched, root: Path):
    before = watched.library.snapshot.version
    (root / "one/SKILL.md").write_text(skill_text("one", "Edited."))
    change = watched.until(description("one", "Edited."))
    assert (change.added, change.changed, change.removed) == ((), ("one",), ())
    assert change.version > before
    assert change.library.snapshot.version == change.version


def test_an_atomic_save_is_seen(watched: Watched, root: Path):
    (root / "one/.SKILL.md.tmp").write_text(skill_text("one", "Saved."))
    (root / "one/.SKILL.md.tmp").rename(root / "one/SKILL.md")
    watched.until(description("one", "Saved."))


def test_a_save_as_vim_does_it_is_seen(watched: Watched, root: Path):
    (root / "one/.SKILL.md.swp").write_bytes(b"swap")
    (root / "one/SKILL.md").rename(root / "one/SKILL.md~")
    (root / "one/SKILL.md").write_text(skill_text("one", "Vim."))
    (root / "one/SKILL.md~").unlink()
    (root / "one/.SKILL.md.swp").unlink()
    watched.until(description("one", "Vim."))


def test_a_new_a_renamed_and_a_deleted_skill_are_seen(watched: Watched, root: Path):
    write_skill(root / "three")
    assert watched.until(lambda library: "three" in library.names).added == ("three",)
    (root / "three").rename(root / "four")
    change = watched.until(lambda library: ids(library) == ["four", "one", "two"])
    assert (change.added, change.removed) == (("three",), ("three",))
    shutil.rmtree(root / "four")
    watched.until(lambda library: ids(library) == ["one", "two"])
    (root / "two").rename(root.parent / "elsewhere")
    watched.until(lambda library: ids(library) == ["one"])
    (root.parent / "elsewhere").rename(root / "two")
    watched.until(lambda library: ids(library) == ["one", "two"])


def test_a_burst_of_two_hundred_skills_is_a_few_changes_and_ends_right(watched: Watched, root: Path):
    began = time.monotonic()
    for number in range(200):
        write_skill(root / f"burst-{number:03}", f"Number {number}.")
    watched.until(lambda library: len(library.skills) == 202)
    for number in range(0, 200, 2):
        shutil.rmtree(root / f"burst-{number:03}")
    for number in range(1, 200, 2):
        write_skill(root / f"burst-{number:03}", f"Again {number}.")
    pauses = (time.monotonic() - began) * 1000 / paths.DEBOUNCE_MS  # in which a busy machine may have written nothing
    last = watched.until(lambda library: len(library.skills) == 102 and library.skills[99].description == "Again 199.")
    assert len(watched.changes) <= 8 + pauses
    assert ids(last.library) == sorted(path.parent.name for path in root.glob("*/SKILL.md"))


def test_a_root_that_appears_vanishes_and_returns_is_followed(world: World, watched: Watched, root: Path):
    claude = world.home / ".claude/skills"
    write_skill(claude / "late")
    watched.until(lambda library: "late" in library.names)
    shutil.rmtree(root)
    watched.until(lambda library: ids(library) == ["late"])
    write_skill(root / "back")
    watched.until(lambda library: ids(library) == ["back", "late"])


def test_a_named_root_that_vanishes_and_returns_is_followed(world: World, root: Path):
    watched = Watched(world.open(root=root))
    root.rename(root.with_name("aside"))
    library = watched.until(lambda library: ids(library) == []).library
    assert codes(library) == ["not-found"]
    root.with_name("aside").rename(root)
    library = watched.until(lambda library: ids(library) == ["one", "two"]).library
    assert codes(library) == []
    watched.end()


def test_a_trust_book_that_is_damaged_for_a_while_does_not_end_the_watch(world: World, root: Path):
    write_skill(world.project / ".agents/skills/theirs")
    world.trust()
    book = (world.state / "trust.json").read_text()
    watched = Watched(world.open())
    (world.state / "trust.json").write_text("{")
    library = watched.until(lambda library: usable(library) == []).library
    assert "trust.json is damaged" in library.problems[0].message
    (world.state / "trust.json").write_text(book)
    watched.until(lambda library: usable(library) == ["theirs", "one", "two"])
    watched.end()


def test_an_edit_behind_a_linked_folder_is_seen_by_looking_again(world: World, root: Path, tmp_path: Path):
    write_skill(tmp_path / "outside/linked", "Before.")
    (root / "linked").symlink_to(tmp_path / "outside/linked")
    watched = Watched(world.open())
    write_skill(tmp_path / "outside/linked", "After.")
    watched.until(description("linked", "After."))
    write_skill(tmp_path / "other", "Retargeted.").write_text(skill_text("linked", "Retargeted."))
    (root / "linked").unlink()
    (root / "linked").symlink_to(tmp_path / "other")
    watched.until(description("linked", "Retargeted."))
    watched.end()


def test_other_files_and_a_touch_change_nothing(watched: Watched, root: Path):
    (root / "one/notes.md").write_text("notes")
    (root / "one/scripts").mkdir()
    (root / "one/scripts/run.sh").write_text("echo")
    (root / "README.md").write_text("readme")
    os.utime(root / "one/SKILL.md")
    assert watched.quiet_for(2.5)


def test_trust_given_while_watching_is_followed(world: World, watched: Watched):
    write_skill(world.project / ".agents/skills/theirs")
    watched.until(lambda library: "theirs" in library.names)
    world.trust()
    watched.until(lambda library: "theirs" in usable(library))


def test_a_half_written_file_keeps_the_last_good_version_alive_until_it_is_whole(watched: Watched, root: Path):
    file = root / "one/SKILL.md"
    file.write_text("---\nname: one\ndescr")
    change = watched.until(lambda library: bool(library.broken))
    library = change.library
    assert ids(library) == ["one", "two"]
    assert usable(library) == ["one", "two"]
    assert [item.id for item in library.broken] == ["one"]
    assert library.read(library.find("one").skill).text == "Do it."
    assert "First." in library.catalog().text
    file.write_text("---\nname: one\ndescription: x\n")
    time.sleep(0.5)
    file.write_text(skill_text("one", "Whole.", "New body."))
    library = watched.until(description("one", "Whole.")).library
    assert (library.broken, library.kept) == ((), {})
    assert library.read(library.find("one").skill).text == "New body."


def test_a_kept_skill_stands_where_it_stood(world: World):
    root = world.home / ".agents/skills"
    for name in ("a", "a-b", "ab", "b"):
        write_skill(root / name)
    watched = Watched(world.open())
    (root / "a/SKILL.md").write_text("---\n")
    library = watched.until(lambda library: bool(library.broken)).library
    assert ids(library) == ["a", "a-b", "ab", "b"]
    write_skill(world.home / ".metier/skills/b", "Another root.")
    library = watched.until(lambda library: len(library.skills) == 5).library
    assert ids(library) == ["b", "a", "a-b", "ab", "b"]
    assert library.read(library.find("a").skill).text == "Do it."
    (root / "a/SKILL.md").unlink()
    library = watched.until(lambda library: not library.broken).library
    assert ids(library) == ["b", "a-b", "ab", "b"]
    watched.end()


def test_a_kept_skill_of_a_project_loses_its_place_with_the_trust(world: World):
    folder = world.project / ".agents/skills/theirs"
    write_skill(folder)
    world.trust()
    watched = Watched(world.open())
    (folder / "SKILL.md").write_text("---\nname: theirs\n")
    library = watched.until(lambda library: bool(library.broken)).library
    assert usable(library) == ["theirs"]
    (folder / "run.sh").write_text("echo\n")
    library = watched.until(lambda library: usable(library) == []).library
    assert [mark.code for mark in library.find("theirs").findings] == ["changed-since-trust"]
    (folder / "run.sh").unlink()
    watched.until(lambda library: usable(library) == ["theirs"])
    (world.state / "trust.json").unlink()
    library = watched.until(lambda library: usable(library) == []).library
    assert [mark.code for mark in library.find("theirs").findings] == ["untrusted"]
    watched.end()


def test_a_reload_keeps_what_the_watch_kept(watched: Watched, root: Path):
    (root / "one/SKILL.md").write_text("---\n")
    library = watched.until(lambda library: bool(library.broken)).library.reload()
    assert ids(library) == ["one", "two"]
    assert library.read(library.find("one").skill).text == "Do it."


def test_a_reload_without_a_watch_lists_a_broken_skill_as_broken_only(world: World, root: Path):
    library = world.open()
    (root / "one/SKILL.md").write_text("---\n")
    again = library.reload()
    assert ids(again) == ["two"]
    assert [item.id for item in again.broken] == ["one"]


def test_the_watch_ends_promptly_when_it_is_told_to(watched: Watched):
    watched.end()


def test_a_watch_that_is_stopped_before_it_begins_yields_nothing(world: World, root: Path):
    stop = threading.Event()
    stop.set()
    assert list(world.open().watch(stop)) == []


def test_more_folders_than_can_be_watched_are_looked_at_in_turns(world: World):
    root = world.home / ".agents/skills"
    for number in range(4_200):
        write_skill(root / f"s{number:04}")
    settle()
    watched = Watched(world.open(index=True))
    write_skill(root / "s0000", "Edited.")
    watched.until(lambda library: library.skills[0].description == "Edited.", 40)
    watched.end()


LIMITED = """
import ctypes, sys, threading, time
import metier
libc = ctypes.CDLL(None)
held = 0
while libc.inotify_init() >= 0:
    held += 1
stop = threading.Event()
library = metier.open(index=False)
def edit():
    time.sleep(0.5)
    open(sys.argv[1], "w").write("---\\nname: one\\ndescription: Edited.\\n---\\n")
threading.Thread(target=edit).start()
threading.Timer(50, stop.set).start()
for change in library.watch(stop):
    print(held, change.library.find("one").skill.description, flush=True)
    import os; os._exit(0)
"""


def test_without_a_free_inotify_instance_the_folders_are_looked_at_in_turns(world: World, root: Path):
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n" + LIMITED
    done = python(code, str(root / "one/SKILL.md"), env=world.variables, cwd=world.project)
    assert done.stdout.split()[1:] == ["Edited."], done.stderr


def test_without_the_extra_the_error_says_what_to_install(world: World, root: Path):
    code = (
        "import sys; sys.modules['watchfiles'] = None\nimport metier\n"
        "try:\n    next(metier.open().watch())\nexcept metier.MetierError as error:\n    print(error, '|', error.hint)"
    )
    done = python(code, env=world.variables, cwd=world.project)
    assert done.stdout.strip() == "watching for changes needs the extra `watch` | run `pip install 'metier[watch]'`"


IDLE = """
import os, resource, threading, time
import metier
stop = threading.Event()
library = metier.open()
threading.Timer(float(4), stop.set).start()
watch = library.watch(stop)
def spent():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
threading.Timer(1, lambda: globals().update(before=spent(), files=len(os.listdir("/proc/self/fd")))).start()
for change in watch:
    raise SystemExit("nothing changed")
print(spent() - before, len(os.listdir("/proc/self/fd")) - files)
"""


def test_a_watch_over_nothing_happening_costs_next_to_nothing(world: World, root: Path):
    for number in range(100):
        write_skill(root / f"s{number:03}")
    done = python(IDLE, env=world.variables, cwd=world.project)
    assert done.returncode == 0, done.stderr
    spent, opened = done.stdout.split()
    assert float(spent) < 0.3  # of three seconds
    assert int(opened) <= 3

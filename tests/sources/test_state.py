"""What metier keeps for itself: the owner's alone, whole or not there, and never where nobody asked for it."""

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.home import SOURCE, World, as_somebody_else, python, world_for_everybody, write_skill

from metier.host import fs
from metier.library.trust import read_trust_book, write_trust_record
from metier.sources.bundled import MANIFEST
from metier.types.errors import HostError

SOAK = bool(os.environ.get("METIER_SOAK"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


EVERYTHING = """
import os, sys
os.umask(int(sys.argv[1], 8))
import metier
from metier.sources.bundled import copy_bundled
from metier.library.trust import write_trust_record
library = metier.open()
library.snapshot
copy_bundled(library.place.state)
write_trust_record(library.place.state, library.place.project, {"skills": {}})
library = metier.open()
print([problem.code for problem in library.problems])
"""


@pytest.mark.parametrize("umask", ["000", "022", "077", "277", "777"])
def test_state_is_the_owners_alone_whatever_the_umask(world: World, umask: str):
    write_skill(world.home / ".agents/skills/one")
    done = python(EVERYTHING, umask, env=world.variables, cwd=world.project)
    assert done.stdout.strip() == "[]", done.stderr
    assert mode(world.state) == 0o700
    files = {path.name for path in world.state.iterdir() if path.is_file()}
    assert files >= {"index.db", "trust.json", MANIFEST}
    for path in world.state.iterdir():
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path.name


COPY = """
import os, sys
os.umask(int(sys.argv[3], 8))
from metier.host import fs
fs.copy_tree(sys.argv[1], sys.argv[2])
"""


@pytest.mark.parametrize("umask", ["022", "277", "777"])
def test_a_folder_is_copied_whole_with_its_modes_whatever_the_umask_denies_its_owner(umask: str):
    with world_for_everybody() as world:
        inner = world.project / "skill/scripts"
        inner.mkdir(parents=True)
        (inner / "go.sh").write_text("true\n")
        (inner / "go.sh").chmod(0o755)
        (inner / "__pycache__").mkdir()
        world.home.chmod(0o777)  # root's rights would hide what a umask forbids, so another copies
        as_somebody_else(COPY, str(world.project / "skill"), str(world.home / "copy"), umask)
        copied = sorted((str(path.relative_to(world.home)), mode(path)) for path in world.home.rglob("*"))
        assert copied == [("copy", 0o755), ("copy/scripts", 0o755), ("copy/scripts/go.sh", 0o755)]


def test_a_folder_that_is_there_keeps_its_mode_and_its_files_are_still_private(world: World):
    world.state.mkdir(mode=0o755)
    world.state.chmod(0o755)
    write_trust_record(str(world.state), str(world.project), {})
    assert mode(world.state) == 0o755
    assert mode(world.state / "trust.json") == 0o600


def test_a_file_that_was_open_to_all_is_private_after_the_next_write(world: World):
    write_trust_record(str(world.state), str(world.project), {})
    (world.state / "trust.json").chmod(0o666)
    write_trust_record(str(world.state), str(world.project), {})
    assert mode(world.state / "trust.json") == 0o600


def test_a_link_in_place_of_a_state_file_is_replaced_and_not_written_through(world: World, tmp_path: Path):
    (tmp_path / "victim").write_text("precious")
    world.state.mkdir()
    (world.state / "trust.json").symlink_to(tmp_path / "victim")
    fs.write_text(f"{world.state}/trust.json", "{}")
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (world.state / "trust.json").is_symlink()


def test_a_link_in_place_of_a_lock_is_refused(world: World, tmp_path: Path):
    world.state.mkdir()
    (world.state / ".trust.json.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(HostError, match="can't be locked"):
        write_trust_record(str(world.state), str(world.project), {})
    assert not (tmp_path / "victim").exists()


def test_what_killed_writers_left_is_swept_and_what_is_young_or_not_ours_is_not(world: World):
    world.state.mkdir()
    path = f"{world.state}/trust.json"
    for name in (".trust.json.0123456789abcdef.tmp", ".trust.json.tmp", ".other.json.0123456789abcdef.tmp"):
        (world.state / name).write_text("left")
    assert fs.find_leftovers(path, time.time_ns() + 10**9) == [f"{world.state}/.trust.json.0123456789abcdef.tmp"]
    assert fs.find_leftovers(path, time.time_ns() - 10**9) == []
    fs.write_text(path, "{}")
    assert (world.state / ".trust.json.0123456789abcdef.tmp").exists()


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(world: World):
    write_trust_record(str(world.state), str(world.project), {"skills": {}})
    before = (world.state / "trust.json").read_text()
    with pytest.raises(UnicodeEncodeError):
        fs.write_text(f"{world.state}/trust.json", "half \ud800")
    assert (world.state / "trust.json").read_text() == before
    assert sorted(os.listdir(world.state)) == [".trust.json.lock", "trust.json"]


def test_a_full_disk_is_a_clear_error_and_the_old_file_stays(world: World):
    write_trust_record(str(world.state), str(world.project), {"skills": {}})
    code = (
        "import resource, signal, sys\nfrom metier.host import fs\nfrom metier.types.errors import HostError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: fs.write_text(sys.argv[1] + '/trust.json', 'x' * 5000)\nexcept HostError as e: print(e, '|', e.hint)"
    )
    done = python(code, str(world.state))
    assert "can't be written: File too large | check permissions and space" in done.stdout, done.stderr
    assert read_trust_book(str(world.state)) == {str(world.project): {"skills": {}}}
    assert sorted(os.listdir(world.state)) == [".trust.json.lock", "trust.json"]


WRITE = """
import sys
from metier.library.trust import write_trust_record
print("go", flush=True)
number = 0
while True:
    number += 1
    write_trust_record(sys.argv[1], f"/project-{number % 50}", {"skills": {"x": ["y" * 2000]}})
"""


@pytest.mark.parametrize("seed", range(200 if SOAK else 8))
def test_a_writer_that_is_killed_leaves_a_whole_file_and_frees_its_lock(world: World, seed: int):
    write_trust_record(str(world.state), "/first", {"skills": {}})
    command = [sys.executable, "-c", WRITE, str(world.state)]
    with subprocess.Popen(command, env={"PYTHONPATH": str(SOURCE)}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.Random(seed).random() * 0.1)
        process.send_signal(signal.SIGKILL)
    assert "/first" in read_trust_book(str(world.state))
    write_trust_record(str(world.state), "/last", {"skills": {}})
    assert {"/first", "/last"} <= set(read_trust_book(str(world.state)))


def test_two_writers_lose_nothing(world: World):
    code = WRITE.replace("while True:", "while number < 15:").replace("/project-", "/{sys.argv[2]}-")
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(world.state), name], env={"PYTHONPATH": str(SOURCE)})
        for name in "ab"
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    assert len(read_trust_book(str(world.state))) == 30


@pytest.mark.parametrize("home", [None, "", "relative/home"])
def test_without_a_usable_home_the_system_is_asked_and_nothing_lands_in_the_working_folder(tmp_path: Path, home):
    code = "import metier; print(metier.open().place.state)"
    env = {} if home is None else {"HOME": home}
    done = python(code, env=env | {"METIER_HOME": str(tmp_path / "state")}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path) == ["state"]


NOBODY = """
import os, sys
os.setgroups([]); os.setgid(54321); os.setuid(54321)
import metier
try:
    print(metier.open().place)
except metier.MetierError as error:
    print(error, "|", error.hint)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become somebody without a home")
def test_a_user_without_any_home_is_told_what_to_set(tmp_path: Path):
    code = (
        "import importlib, metier.library.library, metier.library.open, encodings.utf_8_sig, difflib, pwd, ctypes\n"
        + NOBODY
    )
    done = python(code, cwd=Path("/"))
    assert done.stdout.strip() == "there is no home folder to keep state in | set HOME or METIER_HOME", done.stderr


READ_ONLY = """
import json, os
import metier
from metier.sources.bundled import copy_bundled
from metier.library.trust import write_trust_record
library = metier.open()
said = []
for attempt in (lambda: copy_bundled(library.place.state), lambda: write_trust_record(library.place.state, "/x", {})):
    try:
        attempt()
    except metier.MetierError as error:
        said.append([str(error), error.hint])
print(json.dumps([[skill.id for skill in library.skills], [problem.code for problem in library.problems], said]))
"""


def test_a_home_that_may_not_be_written_still_has_its_skills_and_writing_is_a_clear_error():
    with world_for_everybody() as world:
        write_skill(world.home / ".agents/skills/one")
        world.home.chmod(0o555)
        out = as_somebody_else(READ_ONLY, env={"HOME": str(world.home)}, cwd=world.project)
        skills, problems, said = json.loads(out)
        assert (skills, problems) == (["one"], ["index-unwritable"])
        for message, hint in said:
            assert "can't be made" in message
            assert "METIER_HOME" in hint
        assert not world.state.exists()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("state", "{cwd}/state"),
        ("./a b/state", "{cwd}/a b/state"),
        ("~/mine", "{home}/mine"),
        ("{cwd}/with spaces/ü", "{cwd}/with spaces/ü"),
        ("{cwd}/x/../y", "{cwd}/y"),
        ("", "{home}/.metier"),
    ],
)
def test_metier_home_may_be_written_in_any_way(world: World, value: str, expected: str):
    def filled(text: str) -> str:
        return text.replace("{cwd}", str(world.project)).replace("{home}", str(world.home))

    write_skill(world.home / ".agents/skills/one")
    code = "import metier; lib = metier.open(); print(lib.place.state, [p.code for p in lib.problems], sep='\\n')"
    env = {"HOME": str(world.home), "METIER_HOME": filled(value), "PYTHONIOENCODING": "utf-8"}
    done = python(code, env=env, cwd=world.project)
    assert done.stdout.splitlines() == [filled(expected), "[]"], done.stderr
    assert mode(Path(filled(expected))) == 0o700
    assert (Path(filled(expected)) / "index.db").exists()

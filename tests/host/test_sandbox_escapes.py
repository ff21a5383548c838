"""Ways out of the sandbox that were found by attacking it: each one was open once, in one tier or in all."""

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.host.boxes import Desk, py, sh

from metier.host import broker
from metier.host.process import Confinement, launch_program
from metier.sandbox import bubblewrap, kernel
from metier.sandbox.profile import own_folders
from metier.types.sandbox import ProcessResult, ProgramSpec

EXCHANGE = """
import ctypes, os, sys
library = ctypes.CDLL(None, use_errno=True)
def exchange(one, other):
    if library.renameat2(-100, one.encode(), -100, other.encode(), 2):
        raise OSError(ctypes.get_errno(), "renameat2")
def attempt(action, *values):
    try: return action(*values)
    except OSError as error: return print("refused", error)
def write(path):
    with open(path, "w") as file: file.write("evil")
"""


@pytest.fixture
def nested(desk: Desk) -> Path:
    """A project with a repository further in, such as a submodule."""
    (desk.project / "inner/.git").mkdir(parents=True)
    (desk.project / "inner/.git/config").write_text("mine")
    return desk.project


def attack(desk: Desk, script: str, *arguments: str, seconds: float = 30) -> ProcessResult:
    ran = desk.run(
        py(EXCHANGE + script, *arguments, cwd=desk.project, seconds=seconds), desk.box(write=(desk.project,))
    )
    assert ran.status == 0, ran
    return ran


def configs(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.rglob("config")]


# --- Moving what is protected by its name to where the name is not ---


def test_a_repository_is_not_taken_for_one_that_the_program_made_and_exchanged_for_it(desk: Desk, nested: Path):
    attack(desk, "os.makedirs('made/.git'); attempt(exchange, 'inner', 'made'); attempt(write, 'made/.git/config')")
    assert configs(nested) == ["mine"]


def test_a_repository_that_the_program_made_is_still_its_own_after_an_exchange(desk: Desk, nested: Path):
    script = """
os.makedirs("made/.git"); os.mkdir("other"); exchange("made", "other"); write("other/.git/own")
exchange("made", "other"); write("made/.git/own"); exchange("made", "other")
os.rename("other", "third"); os.mkdir("other"); write("third/.git/own"); os.mkdir("other/.git")
print(sorted(os.listdir("third/.git")))
"""
    assert attack(desk, script).stdout.split() == ["['own']"]


def test_a_repository_is_not_moved_to_the_work_folder_to_be_written_there(desk: Desk, nested: Path):
    script = """
there = f"{sys.argv[1]}/there"
attempt(os.rename, "inner", there); attempt(write, f"{there}/.git/config"); attempt(os.rename, there, "inner")
"""
    attack(desk, script, str(desk.work))
    assert configs(nested) == ["mine"]
    assert not (desk.work / "there").exists()


def test_a_folder_around_what_is_closed_stays_where_it_is(desk: Desk):
    """Moved away, it would make room for another one with the same name, or show what was hidden to the next program."""
    closed = {"hooks": "tools/git/hooks", "hidden": "around/inner/hidden", "workflows": ".github/workflows"}
    for path in closed.values():
        (desk.project / path).mkdir(parents=True)
        (desk.project / path / "own").write_text("mine")
    box = desk.box(
        write=(desk.project,),
        kept=(str(desk.project / closed["hooks"]),),
        hidden=(str(desk.project / closed["hidden"]),),
    )
    script = """
        for path in tools/git/hooks around/inner/hidden .github/workflows; do
            mv ${path%/*} aside; mv ${path%%/*} elsewhere; mkdir -p $path; echo evil > $path/new; echo evil > $path/own
        done; echo fine > tools/git/file; mv tools/git/file tools/git/moved; cat tools/git/moved
    """
    assert desk.run(sh(script, cwd=desk.project), box).stdout == "fine\n"
    for path in closed.values():
        assert os.listdir(desk.project / path) == ["own"]
        assert (desk.project / path / "own").read_text() == "mine"


@pytest.mark.parametrize("what", ["prefix", "base_prefix"])
def test_metier_itself_is_not_written_where_it_lies_in_a_project(
    desk: Desk, what: str, monkeypatch: pytest.MonkeyPatch
):
    """What starts the next program runs outside every sandbox."""
    (desk.project / "env/lib/metier").mkdir(parents=True)
    (desk.project / "env/lib/metier/launcher.py").write_text("mine")
    monkeypatch.setattr(sys, what, str(desk.project / "env"))
    script = """
        echo evil > env/lib/metier/launcher.py; rm -rf env/lib; mv env other; mkdir env/new; echo evil > env/x.pth
        cat env/lib/metier/launcher.py; echo fine > code.txt
    """
    ran = desk.run(sh(script, cwd=desk.project), desk.box(write=(desk.project,)))
    assert ran.stdout == "mine"
    assert [str(path.relative_to(desk.project)) for path in (desk.project / "env").rglob("*")] == [
        "env/lib",
        "env/lib/metier",
        "env/lib/metier/launcher.py",
    ]
    assert (desk.project / "code.txt").read_text() == "fine\n"


def test_the_package_is_among_what_is_metiers_own():
    assert {os.path.dirname(os.path.dirname(kernel.__file__)), os.path.dirname(pytest.__path__[0])} <= {*own_folders()}


def test_a_grant_inside_the_work_folder_is_what_it_was_granted_as(desk: Desk):
    for name in ("skill", "project/.git"):
        (desk.work / name).mkdir(parents=True)
        (desk.work / name / "own").write_text("mine")
    box = desk.box(read=(desk.work / "skill",), write=(desk.work / "project",))
    script = """
        for path in skill project/.git; do echo evil > $path/own; echo evil > $path/new; mv $path other; done
        echo a > project/file; echo b > file; mkdir -p folder; mv file folder/moved; cat project/file folder/moved
    """
    assert desk.run(sh(script, cwd=desk.work), box).stdout == "a\nb\n"
    for name in ("skill", "project/.git"):
        assert [path.read_text() for path in (desk.work / name).iterdir()] == ["mine"]


# --- Keeping the broker from answering ---


def test_what_has_no_path_has_no_mode_and_no_time_and_nothing_waits_for_it(desk: Desk):
    script = """
for opened in os.pipe():
    attempt(os.fchmod, opened, 0o600); attempt(os.utime, opened)
write("after"); print("done")
"""
    assert attack(desk, script, seconds=5).stdout.endswith("done\n")


def test_links_without_end_are_an_error_and_nothing_more(desk: Desk):
    script = """
for number in range(2000): os.symlink(f"link{number + 1}", f"link{number}")
attempt(write, "link0"); write("after"); print("done")
"""
    assert attack(desk, script, seconds=20).stdout.endswith("done\n")


def test_the_broker_remembers_only_so_many_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(broker, "_MOST_MADE", 3)
    plan = {"accesses": [(os.fsencode(tmp_path), "write")], "work": b"", "largest": 1, "names": [".git"]}
    rules = broker.BrokerRules(plan)
    allowed = []
    for number in range(5):
        path = f"{tmp_path}/{number}/.git"
        allowed.append(rules.may_write(path, new=True))
        if allowed[-1]:
            rules.note_made(path)
    assert allowed == [True] * 3 + [False] * 2
    assert rules.may_write(f"{tmp_path}/2/.git/config")
    assert rules.may_write(f"{tmp_path}/4/file")


# --- What lies outside, reached without a path that is judged ---


@pytest.mark.parametrize("place", ["private", "project"])
def test_a_socket_that_came_in_a_pair_reaches_no_other(desk: Desk, place: str, monkeypatch: pytest.MonkeyPatch):
    script = """
import socket
def send():
    os.chdir(sys.argv[1])  # a socket's path is short, a test's is not
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); one.sendto(b"evil", "socket")
attempt(send); one, other = socket.socketpair(); one.send(b"own"); print(other.recv(3))
"""
    folder: Path = getattr(desk, place)
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("socket")
        listening.settimeout(0.2)
        assert attack(desk, script, str(folder)).stdout.endswith("b'own'\n")
        with pytest.raises(TimeoutError):
            listening.recv(4)


def test_no_file_is_made_that_gives_its_owners_rights_away(desk: Desk):
    """Outside it would: the disk is the machine's, and root's programs write as root."""
    script = """
import struct
os.umask(0)
for folder in (".", sys.argv[1]):
    with open(f"{folder}/plain", "w") as file:
        attempt(os.fchmod, file.fileno(), 0o4755)
    attempt(os.chmod, f"{folder}/plain", 0o4755); attempt(os.mknod, f"{folder}/node", 0o104755)
    for flags in (os.O_CREAT | os.O_WRONLY, os.O_TMPFILE | os.O_RDWR):
        attempt(os.open, f"{folder}/new" if flags & os.O_CREAT else folder, flags, 0o4755)
    for resolve in (0, 8):
        how, at = struct.pack("=QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, resolve), os.open(folder, os.O_RDONLY)
        library.syscall(437, at, f"how{resolve}".encode(), how, 24)
"""
    attack(desk, script, str(desk.work))
    made = [path for folder in (desk.work, desk.project) for path in folder.rglob("*")]
    assert [path for path in made if path.stat().st_mode & 0o4000] == []
    assert desk.project / "plain" in made


# --- What is exchanged between the decision and the start ---


@pytest.mark.parametrize("hidden", [False, True])
def test_a_folder_that_becomes_a_link_before_the_start_opens_nothing(
    landlocked: Desk, monkeypatch: pytest.MonkeyPatch, hidden: bool
):
    """Another program that writes the project can exchange it at any time."""
    project, private, launch = landlocked.project, landlocked.private, launch_program
    for name in ("granted/inner", "hidden"):
        (project / name).mkdir(parents=True)

    def exchange_first(program: ProgramSpec, confinement: Confinement) -> ProcessResult:
        (project / "granted").rename(project / "aside")
        (project / "granted").symlink_to(private)
        return launch(program, confinement)

    box = landlocked.box(read=(project / "granted",))
    if hidden:  # then everything around it has a rule of its own
        box = landlocked.box(read=(project,), hidden=(str(project / "hidden"),))
    (private / "inner").mkdir()
    monkeypatch.setattr(kernel, "launch_program", exchange_first)
    ran = landlocked.run(sh("cat $1/key; ls $1/inner && echo listed; echo end", str(private)), box)
    assert ran.stdout == "end\n", ran


@pytest.mark.parametrize("how", ["read", "write"])
def test_a_folder_that_becomes_a_link_before_bubblewrap_mounts_it_opens_nothing(
    bubble: Desk, monkeypatch: pytest.MonkeyPatch, how: str
):
    project, private = bubble.project, bubble.private
    (project / "granted").mkdir()
    build = bubblewrap.bwrap_arguments

    def exchange_first(*values: Any) -> list[str]:
        options = build(*values)
        (project / "granted").rename(project / "aside")
        (project / "granted").symlink_to(private)
        return options

    monkeypatch.setattr(bubblewrap, "bwrap_arguments", exchange_first)
    box = bubble.box(**{how: (project / "granted",)})
    ran = bubble.run(sh("cat $1/granted/key $2/key; echo evil > $1/granted/new; true", str(project), str(private)), box)
    assert "secret" not in ran.stdout
    assert not (private / "new").exists()


def test_no_descriptor_of_a_mount_reaches_the_program(bubble: Desk):
    """From a folder that was opened outside, `..` would lead out of the sandbox."""
    box = bubble.box(read=(bubble.private,), write=(bubble.project,))
    script = "import os; print([os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if int(n) > 2 and os.path.exists(f'/proc/self/fd/{n}')])"
    said = bubble.says(py(script, cwd=bubble.project), box)
    assert not any(str(path) in said for path in (bubble.project, bubble.private, bubble.skill, bubble.work)), said

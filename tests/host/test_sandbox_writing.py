"""Writing in a project: what is protected stays as it is, and the rest is as if nobody stood between, in every tier."""

import os
import sys
import threading
from pathlib import Path

import pytest
from tests.host.boxes import Desk, program, py, sh

from metier.types.sandbox import SandboxSpec


def said(desk: Desk, script: str, box: SandboxSpec | None = None) -> list[str]:
    ran = desk.run(sh(f"({script}) 2>/dev/null; true", cwd=desk.project), box or desk.box(write=(desk.project,)))
    assert ran.status == 0, ran
    return ran.stdout.split()


@pytest.fixture
def checkout(desk: Desk) -> Path:
    """The project with a repository, and with a `.github` that holds no workflow."""
    for name in (".git/hooks", ".github", "deep/er"):
        (desk.project / name).mkdir(parents=True)
    (desk.project / ".git/config").write_text("mine")
    return desk.project


@pytest.mark.parametrize(
    "script",
    [
        "ln .git/config other; echo evil > other",
        "ln -s .git other; echo evil > other/config; echo evil > other/hooks/pre-commit",
        "ln -s $PWD/.git/config other; echo evil > other; truncate -s 0 other; chmod 777 other",
        "cd .git; echo evil > config; echo evil > ../.git/hooks/x; cd hooks; echo evil > y",
        "echo evil > deep/../.git/config; echo evil > deep/er/../../.git/config",
        "mv deep .git; mv -T deep .git/hooks; mv --exchange deep .git; cp -r deep .git/hooks/deep",
        "exec 3< .git/config; echo evil > /proc/self/fd/3; echo evil > /dev/fd/3; chmod 777 /proc/self/fd/3",
        "rm -rf .git; rmdir .git/hooks; mv .git/config deep/; touch -d 2000-01-01 .git/config; truncate -s 0 .git/config",
        "exec 3< .; echo evil > /proc/self/fd/3/.git/config; echo evil > /proc/$$/cwd/.git/config",
        "rm -rf .github; mkdir -p deep/workflows; mv -T deep .github; ln -sT deep .github; mkdir -p .github/workflows",
        "echo evil > .GIT/config; mkdir .git/hooks/x; ln -s x .git/y; mkfifo .git/z; mknod .git/w p",
    ],
)  # fmt: skip
def test_no_way_leads_into_the_repository(desk: Desk, checkout: Path, script: str):
    before = os.stat(checkout / ".git/config")
    said(desk, "; ".join(f"{step} || true" for step in script.split("; ")))
    assert (checkout / ".git/config").read_text() == "mine"
    after = os.stat(checkout / ".git/config")
    assert (after.st_mode, after.st_nlink, after.st_mtime_ns) == (before.st_mode, before.st_nlink, before.st_mtime_ns)
    assert sorted(path.name for path in (checkout / ".git").rglob("*")) == ["config", "hooks"]
    assert not (checkout / ".github/workflows").exists()
    assert not (checkout / ".github").is_symlink()


def test_no_link_that_is_exchanged_meanwhile_leads_into_the_repository(desk: Desk, checkout: Path):
    """What was decided about is what is written, though another program moves links about in the same folder."""
    (checkout / "way").mkdir()
    done = threading.Event()

    def exchange() -> None:
        while not done.is_set():  # by turns a folder and a link to the repository
            os.rename(checkout / "way", checkout / "aside")
            os.symlink(".git", checkout / "way")
            os.unlink(checkout / "way")
            os.rename(checkout / "aside", checkout / "way")

    script = """
import time
end = time.monotonic() + 2
while time.monotonic() < end:
    try:
        with open("way/config", "a") as file: file.write("evil")
    except OSError: pass
"""
    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        assert desk.run(py(script, cwd=checkout), desk.box(write=(checkout,))).status == 0
    finally:
        done.set()
        thread.join()
    assert (checkout / ".git/config").read_text() == "mine"
    assert "evil" in (checkout / "way/config").read_text()


def test_arguments_that_change_meanwhile_do_not_change_what_was_decided(desk: Desk, checkout: Path):
    script = """
import ctypes, threading, time
library, path = ctypes.CDLL(None), ctypes.create_string_buffer(b"deep/file__")
end = time.monotonic() + 1.5
def change():
    while time.monotonic() < end:
        path.value = b".git/config"; path.value = b"deep/file__"
threading.Thread(target=change).start()
while time.monotonic() < end:
    opened = library.open(path, 0o1 | 0o100 | 0o1000, 0o644)
    if opened >= 0: library.write(opened, b"evil", 4); library.close(opened)
"""
    assert desk.run(py(script, cwd=checkout), desk.box(write=(checkout,))).status == 0
    assert (checkout / ".git/config").read_text() == "mine"


def test_a_new_repository_further_in_can_be_made_and_worked_in(desk: Desk, checkout: Path):
    script = """
        git init -q deep/new && cd deep/new && echo x > a && git add a
        git -c user.name=a -c user.email=a@b commit -qm first && git log --format=%s
        cd .. && mv new moved && git -C moved log --format=%s && rm -rf moved && ls
    """
    assert said(desk, script) == ["first", "first", "er"]


def test_what_files_are_is_written_as_it_was_meant(desk: Desk, checkout: Path):
    script = """
        umask 027; echo a > plain; mkdir folder; install -m 755 plain tool; touch -d 2001-02-03 plain; cp -p plain same || echo not
        ln plain second; ln -s plain link; truncate -s 7 second; (exec 3<> plain; printf zz >&3); mv tool folder/
        stat -c '%a %n %s' plain folder folder/tool second; stat -c %h plain; readlink link; date -r same +%F
        echo more >> link; rm second; printf x > /dev/full || echo full; echo out > /dev/stdout
    """
    facts = "640 plain 7 750 folder {} 755 folder/tool 2 640 second 7 2 plain 2001-02-03 full out"
    assert said(desk, script) == facts.format((checkout / "folder").stat().st_size).split()
    assert (checkout / "plain").read_bytes() == b"zz\0\0\0\0\0more\n"
    assert (checkout / "plain").stat().st_uid == os.getuid()


def test_a_program_may_copy_files_and_their_modes_in_its_work_folder(desk: Desk):
    script = "import os, shutil; open('a', 'w').close(); os.chmod('a', 0o750); shutil.copy2('a', 'b'); shutil.copytree('.', 'c'); print(oct(os.stat('c/b').st_mode))"
    assert desk.says(py(script)) == "0o100750"
    assert (desk.work / "c/b").stat().st_uid == os.getuid()


def test_no_file_is_made_that_gives_its_owners_rights_to_whoever_runs_it(landlocked: Desk):
    script = "cp /bin/true tool; for mode in 4755 2755 6755; do chmod $mode tool; stat -c %a tool; done"
    assert said(landlocked, script) == ["755"] * 3


def test_what_is_hidden_in_a_writable_folder_stays_so_and_the_rest_can_be_used(desk: Desk):
    (desk.project / "around/hidden").mkdir(parents=True)
    (desk.project / "around/hidden/key").write_text("secret")
    box = desk.box(write=(desk.project,), hidden=(str(desk.project / "around/hidden"),))
    script = """
        echo new > around/new; cat around/new; cat around/hidden/key; mv around moved; cat moved/hidden/key
        ls around moved | grep -x new; mv around/hidden other; cat other/key; cp -r around copy; cat copy/hidden/key; ls code.txt
    """
    assert said(desk, script, box) == ["new", "new", "code.txt"]


def test_every_thread_and_process_of_a_program_writes(desk: Desk, checkout: Path):
    script = """
import os, threading
def write(name):
    for number in range(20):
        with open(f"deep/{name}-{number}", "w") as file: file.write(name)
        os.rename(f"deep/{name}-{number}", f"deep/er/{name}-{number}")
children = [os.fork() for _ in range(2)]
threads = [threading.Thread(target=write, args=(f"{os.getpid()}-{at}",)) for at in range(4)]
for one in threads: one.start()
for one in threads: one.join()
if all(children): [os.wait() for _ in children]
"""
    assert desk.run(py(script, cwd=checkout, seconds=60), desk.box(write=(checkout,))).status == 0
    assert len(os.listdir(checkout / "deep/er")) == 320


def test_a_python_script_says_nothing_but_its_own_words(desk: Desk):
    for name in {"python3", sys.executable}:
        ran = desk.run(program(name, "-c", "import mimetypes, platform, locale; mimetypes.init(); print('own')"))
        assert (ran.stdout, ran.stderr) == ("own\n", "")

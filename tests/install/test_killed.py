"""kill -9 at any moment: the old or the new, never a mixture; no edit lost; the lock readable; leftovers swept."""

import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from tests.cli.console import METIER, Desk
from tests.install.servers import Repo, files, git, serving

from metier.install import transaction
from metier.install.transaction import FolderChange
from metier.library import lockfile
from metier.library.lockfile import InstallRoot

ROUNDS = 200 if os.environ.get("METIER_SOAK") else 10
FILES = 12


def versioned(path: Path) -> Repo:
    """A repository with two branches in which every file says which one it is of."""
    repo = Repo(path)
    for version in ("one", "two"):
        git("checkout", "-q", "-B", version, cwd=path)
        repo.write(
            "skills/a/SKILL.md", f"---\nname: a\ndescription: d\n---\nkeep\nversion {version}\nkeep\nkeep\nkeep\nend\n"
        )
        for number in range(FILES):
            repo.write(f"skills/a/references/{number}.md", f"version {version}\n" * 50)
        repo.commit(version, date=1_700_000_000)
    return repo


def versions_in(folder: Path) -> set[str]:
    """Which versions the files of a folder are of."""
    found = set()
    for file in folder.rglob("*.md"):
        if "version " in (text := file.read_text()):
            found.add(text.partition("version ")[2].split()[0])
    return found


def check(desk: Desk, edited: bool) -> None:
    folder = desk.skills / "thing"
    if folder.exists():
        assert len(versions_in(folder)) == 1, "a mixture"
        assert len(list(folder.rglob("*.md"))) >= FILES + 1, "half a folder"
    lock = desk.state / "skills-lock.json"
    if lock.exists():
        json.loads(lock.read_text())
    if edited:
        texts = [file.read_text() for file in desk.skills.rglob("*.md") if file.is_file()]
        assert any("my own edit" in text for text in texts), "an edit was lost"
        assert any("my notes" in text for text in texts), "a file of ours was lost"


def start(desk: Desk, *words: str, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*METIER, *words], cwd=desk.project, env=desk.env | env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def shot(running: subprocess.Popen[bytes], after: float) -> bool:
    """Kill a process after a while; False when it was done before."""
    try:
        running.wait(after)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        return True
    return False


def swept(desk: Desk) -> None:
    """The next metier sweeps; a git whose owner was just killed may still write for a moment, and is swept after it."""
    for _ in range(100):
        transaction.recover_root(InstallRoot(str(desk.skills)))
        if not [path for path in (desk.skills / ".metier/staging").iterdir() if path.is_dir()]:
            return
        time.sleep(0.05)
    raise AssertionError("leftovers stay")


def edit(desk: Desk) -> None:
    folder = desk.skills / "thing/skills/a"
    file = folder / "SKILL.md"
    file.write_text(file.read_text().replace("end\n", "end, my own edit\n"))
    (folder / "notes.txt.md").write_text("my notes\n")


def test_killed_at_random_moments_add_update_and_remove_leave_the_old_or_the_new(desk: Desk, tmp_path: Path):
    repo = versioned(tmp_path / "served/thing")
    chance = random.Random(7)
    began = time.monotonic()
    assert desk.say("add", f"{repo.path}@one", "--yes", "--name", "thing").code == 0
    usual = time.monotonic() - began
    edit(desk)
    killed = 0
    for number in range(ROUNDS):
        git("branch", "-qf", "one", chance.choice(["one", "two"]), cwd=repo.path)
        words = chance.choice(
            [
                ("update", "--yes", "--force"),
                ("update", "--yes", "--force"),
                ("add", f"{repo.path}@{chance.choice(['one', 'two'])}", "--yes", "--name", "thing", "--force"),
                ("remove", "thing"),
            ]
        )
        killed += shot(start(desk, *words), chance.uniform(0, usual * 1.1))
        check(desk, edited=True)
        if number % 5 == 4:  # whoever comes next finishes or undoes what was begun
            swept(desk)
            check(desk, edited=True)
            assert list((desk.skills / ".metier/journal").iterdir()) == []
        if not (desk.skills / "thing").exists():
            desk.say("restore", "thing")
    assert killed, "no kill came in time"
    said = desk.say("add", f"{repo.path}@one", "--yes", "--name", "thing", "--force")
    assert said.code == 0, said.err
    assert desk.say("verify").code == 0


STEPS = """
import os, sys
from metier.install import transaction
from metier.install.transaction import FolderChange, InstallRoot
count, wanted = 0, int(sys.argv[3])
def counting(event, args):
    global count
    if event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir") or (event == "open" and args[2] & 1):
        count += 1
        if count == wanted:
            os.kill(os.getpid(), 9)
ground = InstallRoot(sys.argv[1])
with transaction.open_staging(ground) as staging:
    new = staging.inner()
    open(new + "/SKILL.md", "w").write("new")
    open(new + "/other", "w").write("new")
    sys.addaudithook(counting)
    transaction.commit_change(staging, FolderChange(sys.argv[2], "a"), new if sys.argv[2] == "place" else "")
print("done", count)
"""


@pytest.mark.parametrize("op", ["place", "remove"])
@pytest.mark.parametrize("exchange", [True, False], ids=["in-one-step", "in-two-steps"])
def test_killed_at_each_step_of_a_change_the_next_one_finishes_or_undoes_it(tmp_path: Path, op: str, exchange: bool):
    """Every system call that changes something is one moment to die at."""
    code = STEPS if exchange else "from metier.host import trees\ntrees.exchange_folders = lambda *_: False\n" + STEPS
    at = 0
    while True:
        at += 1
        root = tmp_path / str(at)
        (root / "a").mkdir(parents=True)
        for name in ("SKILL.md", "other"):
            (root / "a" / name).write_text("old")
        done = subprocess.run([sys.executable, "-c", code, str(root), op, str(at)], capture_output=True, text=True)
        finished = done.stdout.startswith("done")
        assert finished or done.returncode == -9, done.stderr
        transaction.recover_root(InstallRoot(str(root)))
        there = {file.name: file.read_text() for file in (root / "a").iterdir()} if (root / "a").exists() else {}
        old, new = dict.fromkeys(("SKILL.md", "other"), "old"), dict.fromkeys(("SKILL.md", "other"), "new")
        assert there in ([old, new] if op == "place" else [old, {}])
        if there != old:
            kept = [file.read_text() for file in (root / ".metier/trash").rglob("SKILL.md")]
            assert kept == ["old"], "what was replaced is in the trash"
        lockfile.read_lock(InstallRoot(str(root)))
        assert list((root / ".metier/journal").iterdir()) == []
        assert list((root / ".metier/staging").iterdir()) == []
        if finished:
            break
    assert at > 5
    assert there == (new if op == "place" else {})


def test_what_is_being_worked_on_is_not_swept(tmp_path: Path):
    ground = InstallRoot(str(tmp_path / "root"))
    with transaction.open_staging(ground) as mine:
        folder = mine.inner()
        with transaction.open_staging(ground) as other:
            assert Path(folder).is_dir()
            assert other.folder != mine.folder
        assert Path(folder).is_dir()
    assert not Path(folder).exists()


def test_a_full_disk_leaves_the_old_and_says_so(tmp_path: Path):
    ground = InstallRoot(str(tmp_path / "root"))
    (tmp_path / "root/a").mkdir(parents=True)
    (tmp_path / "root/a/SKILL.md").write_text("old")
    code = (
        "import resource, signal, sys\nfrom metier.install import transaction\nfrom metier.install.transaction import FolderChange, InstallRoot\n"
        "from metier.types.errors import HostError\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "ground = InstallRoot(sys.argv[1])\n"
        "try:\n    with transaction.open_staging(ground) as staging:\n        new = staging.inner()\n"
        "        open(new + '/SKILL.md', 'w').write('new')\n"
        "        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "        transaction.commit_change(staging, FolderChange('place', 'a'), new)\n"
        "except HostError as error:\n    print(error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, ground.root], capture_output=True, text=True)
    assert "can't be written" in done.stdout, done.stderr
    assert (tmp_path / "root/a/SKILL.md").read_text() == "old"
    with transaction.open_staging(ground) as staging:
        new = staging.inner()
        Path(new, "SKILL.md").write_text("new")
        transaction.commit_change(staging, FolderChange("place", "a"), new)
    assert (tmp_path / "root/a/SKILL.md").read_text() == "new"


def test_killed_while_installing_a_download_the_tool_is_whole_or_not_there(desk: Desk, certificate: Path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as out:
        for name in ("tool", *(f"lib/{number}" for number in range(40))):
            info = tarfile.TarInfo(name)
            info.size, info.mode = 10_000, 0o755
            out.addfile(info, io.BytesIO(os.urandom(10_000)))
    data = packed.getvalue()
    chance = random.Random(3)
    with serving(files({"/tool.tar.gz": data}), certificate) as server:
        recipe = f"install:\n  - kind: download\n    url: {server.url}/tool.tar.gz\n    sha256: {hashlib.sha256(data).hexdigest()}\n    bins: [tool]\n"
        desk.skill("needy", recipe)
        words = ("install", "needy", "--yes", "--allow-insecure")
        began = time.monotonic()
        assert desk.say(*words, **server.env).code == 0
        usual = time.monotonic() - began
        for _ in range(max(4, ROUNDS // 4)):
            shot(start(desk, *words, **server.env), chance.uniform(0, usual))
            tools = desk.state / "tools/needy"
            assert len([path for path in tools.rglob("*") if path.is_file()]) == 41
        assert desk.say(*words, **server.env).code == 0
    assert list((desk.state / "tools/.metier/staging").iterdir()) == []

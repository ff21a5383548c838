"""What skills were: every change that metier makes or sees is kept, and can be taken back."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.cli.console import METIER, Desk
from tests.home import SOURCE, python
from tests.install.servers import Repo

from metier.host.repository import integrity_fault
from metier.improve.examine import read_contents
from metier.improve.proposal_store import write_proposal
from metier.install import transaction
from metier.library.lockfile import InstallRoot
from metier.record import history
from metier.types.improvement import Proposal

ROUNDS = 200 if os.environ.get("METIER_SOAK") else 10


def thing(tmp_path: Path, body: str = "Do it.") -> Path:
    """A folder to add a skill from."""
    folder = tmp_path / "from/thing"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: thing\ndescription: Does a thing.\n---\n{body}\n")
    (folder / "run.sh").write_text("echo hi\n")
    (folder / "run.sh").chmod(0o755)
    return folder


def added(desk: Desk, tmp_path: Path) -> Path:
    said = desk.say("add", str(thing(tmp_path)), "--yes")
    assert said.code == 0, said.err
    return desk.skills / "thing"


def versions(desk: Desk, *words: str) -> list[dict[str, Any]]:
    said = desk.say("history", *words, "--json")
    assert said.code == 0, said.err
    found: list[dict[str, Any]] = json.loads(said.out)
    return found


def acts(desk: Desk, *words: str) -> list[str]:
    return [one["act"] for one in versions(desk, *words)]


def repository(desk: Desk) -> str:
    return str(desk.state / "history/skills.git")


def state_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_every_change_is_a_version_with_its_act_and_its_evidence(desk: Desk, tmp_path: Path):
    repo = Repo(tmp_path / "served/one")
    repo.skill("skills/a")
    first = repo.commit("first", date=1_700_000_000)
    assert desk.say("add", str(repo.path), "--yes", "--name", "one", "--allow-insecure").code == 0
    repo.write("skills/a/SKILL.md", "---\nname: a\ndescription: d\n---\nBetter.\n")
    repo.commit("second", date=1_700_000_100)
    file = desk.skills / "one/skills/a/notes.md"
    file.write_text("mine")
    assert desk.say("update", "--yes", "--allow-insecure").code == 0
    assert desk.say("remove", "one").code == 0
    assert desk.say("restore", "one").code == 0
    found = versions(desk, "a")
    assert [one["act"] for one in found] == ["restore", "trash", "update", "edit", "add"]
    assert first in found[-1]["evidence"]
    assert {one["name"] for one in found} == {"one/skills/a"}
    assert found[-1]["subject"] == f"add_one/skills/a_{found[-1]['at'][:10].replace('-', '')}"
    assert integrity_fault(repository(desk)) == ""


def test_an_edit_by_hand_is_kept_when_history_looks_and_before_anything_is_replaced(desk: Desk, tmp_path: Path):
    folder = added(desk, tmp_path)
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "One.\n")
    assert acts(desk, "thing") == ["edit", "add"]
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "Two.\n")
    assert desk.say("remove", "thing").code == 0
    assert acts(desk) == ["trash", "edit", "edit", "add"]
    last = versions(desk)[1]["rev"]
    assert b"Two." in history.read_files(repository(desk), "thing", last)["SKILL.md"][1]


def test_rollback_restores_bytes_modes_and_the_lock_entry_and_is_a_version_itself(desk: Desk, tmp_path: Path):
    folder = added(desk, tmp_path)
    lock = desk.state / "skills-lock.json"
    before, locked = state_of(folder), lock.read_text()
    first = versions(desk, "thing")[-1]["rev"]
    (folder / "run.sh").chmod(0o600)
    (folder / "SKILL.md").write_bytes(b"---\nname: thing\ndescription: other\n---\n\xff\n")
    (folder / "more.txt").write_text("more")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("theirs")
    assert desk.say("approve", "thing", "--yes").code == 0
    assert lock.read_text() != locked
    edited = state_of(folder)

    said = desk.say("rollback", "thing", first[:10])

    assert said.code == 0, said.err
    assert "to undo, run `metier rollback thing" in said.out
    assert (folder / ".git/config").read_text() == "theirs"
    shutil.rmtree(folder / ".git")
    assert state_of(folder) == before
    assert json.loads(lock.read_text())["skills"] == json.loads(locked)["skills"]
    assert desk.say("verify").code == 0
    assert acts(desk, "thing") == ["rollback", "approve", "edit", "add"]
    undo = said.out.rpartition("metier rollback thing ")[2].partition("`")[0]
    assert desk.say("rollback", "thing", undo).code == 0
    assert state_of(folder) == {name: one for name, one in edited.items() if not name.startswith(".git/")}
    assert not list((desk.skills / ".metier/trash").iterdir())


def test_rollback_brings_back_what_was_removed(desk: Desk, tmp_path: Path):
    folder = added(desk, tmp_path)
    before = state_of(folder)
    assert desk.say("remove", "thing").code == 0
    said = desk.say("rollback", "thing", versions(desk)[-1]["rev"])
    assert said.code == 0, said.err
    assert "to undo, run `metier remove thing`" in said.out
    assert state_of(folder) == before
    assert desk.say("show", "thing").code == 0


def test_rollback_refuses_politely(desk: Desk, tmp_path: Path):
    folder = added(desk, tmp_path)
    first = versions(desk)[0]["rev"]
    for words, what, next_step in (
        (("thing",), "`thing` has no version before this one", "metier history thing"),
        (("thing", "zzzz"), "no version `zzzz`", "metier history"),
        (("thing", "--", "--output=/tmp/x"), "no version `--output=/tmp/x`", "metier history"),
        (("thng", first), "no skill named `thng`", "did you mean `thing`?"),
    ):
        said = desk.say("rollback", *words)
        assert said.code == 2
        assert what in said.err
        assert next_step in said.err
    assert "is already at" in desk.say("rollback", "thing", first).out
    (folder / "SKILL.md").write_text("other")
    assert desk.say("freeze", "thing").code == 0
    said = desk.say("rollback", "thing", first)
    assert (said.code, "frozen" in said.err, "metier freeze --off thing" in said.err) == (4, True, True)
    assert desk.say("freeze", "--off", "thing").code == 0
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    said = desk.say("rollback", "thing", first)
    assert (said.code, "is a link" in said.err) == (4, True)
    assert (tmp_path / "elsewhere/SKILL.md").read_text() == "other"


def test_a_skill_was_not_there_before_it_was_added(desk: Desk, tmp_path: Path):
    added(desk, tmp_path)
    first = versions(desk)[0]["rev"]
    desk.skill("other")
    assert acts(desk, "other") == ["add"]
    said = desk.say("rollback", "other", first)
    assert said.code == 2
    assert "`other` was not there at" in said.err


def test_diff_and_blame_show_where_lines_came_from_and_no_control_characters(desk: Desk, tmp_path: Path):
    folder = added(desk, tmp_path)
    file = folder / "SKILL.md"
    file.write_text(file.read_text() + "A \x1b]0;owned\x07new line.\n")
    first = versions(desk)[-1]["rev"]
    said = desk.say("diff", "thing", first)
    assert "+A new line." in said.out
    assert "\x1b" not in said.out
    lines = desk.say("blame", "thing").out.splitlines()
    assert lines[-1].endswith("A new line.")
    assert " edit " in lines[-1]
    assert " add " in lines[0]
    document = json.loads(desk.say("blame", "thing", "--json").out)
    assert [one["act"] for one in document] == ["add"] * 5 + ["edit"]
    assert "has no file `nope.md`" in desk.say("blame", "thing", "nope.md").err


def test_without_git_a_skill_is_added_and_its_history_begins_later(desk: Desk, tmp_path: Path):
    said = desk.say("add", str(thing(tmp_path)), "--yes", PATH="/nonexistent")
    assert said.code == 0, said.err
    assert "note: not recorded in the history yet: git is not installed" in said.err
    (desk.skills / "thing/SKILL.md").write_text((desk.skills / "thing/SKILL.md").read_text() + "Mine.\n")
    assert desk.say("remove", "thing").code == 0
    assert acts(desk) == ["trash", "add"]
    said = desk.say("rollback", "thing", versions(desk)[-1]["rev"], PATH="/nonexistent")
    assert said.code != 0
    assert "git is not installed" in said.err


def test_where_the_history_has_no_room_changes_are_made_and_said(desk: Desk, tmp_path: Path):
    desk.state.mkdir()
    (desk.state / "history").write_text("in the way")
    said = desk.say("add", str(thing(tmp_path)), "--yes")
    assert said.code == 0
    assert "not recorded in the history yet" in said.err
    (desk.state / "history").unlink()
    assert desk.say("approve", "thing", "--yes").code == 0
    assert acts(desk) == ["approve", "add"]


FULL = """
import resource, sys
from metier.record.history import HistoryChange, record_change
from metier.types.errors import MetierError
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    print(record_change(sys.argv[1], HistoryChange("improve", "thing", sys.argv[2])))
except MetierError as error:
    print("refused:", error.message)
"""


def test_a_full_disk_is_said_and_the_history_stays_whole(desk: Desk, tmp_path: Path):
    folder = added(desk, tmp_path)
    (folder / "large.bin").write_bytes(random.Random(1).randbytes(300_000))
    said = python(FULL, repository(desk), str(folder))
    assert said.stdout.startswith("refused:"), said
    assert integrity_fault(repository(desk)) == ""
    assert acts(desk) == ["edit", "add"]
    assert integrity_fault(repository(desk)) == ""


PUT = """
import sys
from metier.host.facts import find_place
from metier.install.managed import SkillEdit, ManagedSkill, install_root_for, apply_edit
from metier.library.lockfile import folder_manifest
from metier.sources.skill_files import SkillFile, SkillFiles, manifest_digest
place = find_place(".")
one = ManagedSkill(install_root_for(place, f"{place.state}/skills"), sys.argv[1])
base = manifest_digest(folder_manifest(one.folder))
files = SkillFiles({"SKILL.md": SkillFile(0o644, sys.argv[2].encode())})
print("ready", flush=True)
sys.stdin.readline()
print(apply_edit(one, SkillEdit(files, "improve", "because", "run", base)))
"""


TWENTY = """
import os, sys
from metier.host.facts import find_place
from metier.install.managed import SkillEdit, ManagedSkill, install_root_for, apply_edit
from metier.library.lockfile import folder_manifest
from metier.sources.skill_files import SkillFile, SkillFiles, manifest_digest
place = find_place(".")
ground = install_root_for(place, f"{place.state}/skills")
children = []
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        one = ManagedSkill(ground, name)
        files = SkillFiles({"SKILL.md": SkillFile(0o644, f"better {name}\\n".encode())})
        base = manifest_digest(folder_manifest(one.folder))
        made = apply_edit(one, SkillEdit(files, "improve", base=base))
        os._exit(0 if made is not None and made.name == name else 1)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children])
"""


def put(desk: Desk, name: str, text: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PUT, name, text], cwd=desk.project, env=desk.env | {"PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_twenty_processes_at_once_lose_nothing(desk: Desk):
    names = sorted(f"skill-{number}" for number in range(20))
    for name in names:
        desk.skill(name)
    said = python(TWENTY, *names, env=desk.env, cwd=desk.project, timeout=120)
    assert said.stdout == f"{[0] * 20}\n", said.stderr
    kept = repository(desk)
    found = history.list_versions(kept, "", 100)
    assert sorted(one.name for one in found if one.act == "improve") == names
    assert sorted(one.name for one in found if one.act == "add") == names
    for name in names:
        newest = history.list_versions(kept, name, 1)[0]
        assert history.read_files(kept, name, newest.rev) == {"SKILL.md": (0o644, f"better {name}\n".encode())}
    parents = subprocess.run(
        ["git", "--git-dir", kept, "log", "--format=%P"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [len(one.split()) for one in parents] == [1] * 39 + [0]
    assert integrity_fault(kept) == ""


def test_an_edit_while_the_improver_works_is_left_alone(desk: Desk):
    file = desk.skill("mine")
    running = put(desk, "mine", "improved")
    assert running.stdout is not None
    assert running.stdout.readline() == b"ready\n"
    file.write_text("the user's own\n")
    _, error = running.communicate(b"\n", 60)
    assert b"has changed since" in error
    assert file.read_text() == "the user's own\n"


def test_killed_at_random_moments_history_stays_whole_and_loses_nothing(desk: Desk, tmp_path: Path):
    folder = added(desk, tmp_path)
    first = versions(desk)[-1]["rev"]
    (folder / "SKILL.md").write_text("---\nname: thing\ndescription: d\n---\nedit\n")
    began = time.monotonic()
    assert desk.say("rollback", "thing", first).code == 0
    usual = time.monotonic() - began
    chance = random.Random(11)
    known = 0
    killed = 0
    for number in range(ROUNDS):
        if folder.exists():
            (folder / "SKILL.md").write_text(f"---\nname: thing\ndescription: d\n---\nedit {number}\n")
        words = chance.choice([("history",), ("rollback", "thing", first), ("remove", "thing"), ("restore", "thing")])
        running = subprocess.Popen(
            [*METIER, *words], cwd=desk.project, env=desk.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            running.wait(chance.uniform(usual * 0.2, usual * 1.2))
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            killed += 1
        assert integrity_fault(repository(desk)) == ""
        found = history.list_versions(repository(desk), "", 10_000)
        assert len(found) >= known
        known = len(found)
    assert killed
    transaction.recover_root(InstallRoot(str(desk.skills), history=repository(desk)))
    assert desk.say("history").code == 0
    assert integrity_fault(repository(desk)) == ""
    newest = history.list_versions(repository(desk), "thing", 1)[0]
    kept = history.read_files(repository(desk), "thing", newest.rev)
    assert kept == (state_of(folder) if folder.exists() else {})
    assert not list(Path(repository(desk)).rglob("*.lock"))
    assert not (Path(repository(desk)) / "incoming").exists()


def test_a_proposal_that_was_accepted_for_an_installed_skill_is_a_change_that_verify_knows(desk: Desk, tmp_path: Path):
    folder = added(desk, tmp_path)
    text = (folder / "SKILL.md").read_text()
    base = read_contents(str(folder)).digest
    id = "20260101-000000-abcdef"
    before, after = {"SKILL.md": text}, {"SKILL.md": text + "Be brief.\n"}
    proposal = Proposal(id, "thing", str(folder), str(folder.parent), base, before, after, (), "fix")
    write_proposal(str(desk.state), proposal)
    assert desk.say("proposals", "accept", id).code == 0

    said = desk.say("verify")
    assert (said.code, f"changed by proposal {id}" in said.out) == (0, True)
    (folder / "SKILL.md").write_text(text + "Mine.\n")
    assert desk.say("verify").code == 1

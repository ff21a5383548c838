"""Many at once: one skill's operations run one after another, in one process and between processes."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.console import Desk
from tests.install.servers import Repo, git

from metier.install import transaction
from metier.install.operations import (
    OperationKeys,
    active_keys,
    is_processing,
    queue_length,
    serialize,
    wait_for_all,
    wait_for_key,
)
from metier.library import lockfile
from metier.library.lockfile import InstallRoot

SECONDS = 60 if os.environ.get("METIER_SOAK") else 4
WORKERS = 16 if os.environ.get("METIER_SOAK") else 4

WORKER = """
import io, random, sys, time
from metier.faces.cli.app import run
chance = random.Random(int(sys.argv[1]))
repo, until = sys.argv[2], time.monotonic() + float(sys.argv[3])
odd = []
while time.monotonic() < until:
    name = chance.choice(["a", "b", "c"])
    branch = chance.choice(["one", "two"])
    words = chance.choice([
        ["add", f"{repo}@{branch}", "--skill", name, "--yes"],
        ["add", f"{repo}@{branch}", "--skill", name, "--yes", "--force"],
        ["update", name, "--yes", "--force"], ["remove", name], ["restore", name],
    ])
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    code = run(words)
    if code not in (0, 2, 4):
        odd.append((words, code, sys.stderr.getvalue()))
sys.stdout = sys.__stdout__
print(odd or "")
"""


def test_many_processes_adding_updating_and_removing_end_in_a_state_that_some_order_explains(
    desk: Desk, tmp_path: Path
):
    repo = Repo(tmp_path / "served/thing")
    for version in ("one", "two"):
        git("checkout", "-q", "-B", version, cwd=repo.path)
        for name in ("a", "b", "c"):
            repo.write(f"{name}/SKILL.md", f"---\nname: {name}\ndescription: Is {name}.\n---\nversion {version}\n")
            for number in range(8):
                repo.write(f"{name}/{number}.md", f"version {version}\n")
        repo.commit(version, date=1_700_000_000)
    env = desk.env | {"PATH": os.environ["PATH"]}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(number), str(repo.path), str(SECONDS)],
            cwd=desk.project,
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(WORKERS)
    ]
    said = [worker.communicate(timeout=SECONDS + 120)[0].strip() for worker in workers]
    assert said == [""] * WORKERS, "something unforeseen happened"
    ground = InstallRoot(str(desk.skills))
    transaction.recover_root(ground)
    lock = lockfile.read_lock(ground)
    there = {path.name for path in desk.skills.iterdir() if path.name != ".metier"}
    assert there == set(lock.skills), "what is there and what is locked are the same"
    for name in there:
        texts = [file.read_text() for file in (desk.skills / name).iterdir()]
        assert len(texts) == 9
        assert len({text.partition("version ")[2].strip() for text in texts}) == 1, "a mixture"
    assert desk.say("verify").code == 0
    assert list((desk.skills / ".metier/staging").iterdir()) == []


def test_of_two_installs_of_one_skill_one_wins_whole(desk: Desk, repo: Repo):
    words = [*[sys.executable, "-m", "metier"], "add", str(repo.path), "--skill", "pdf", "--yes"]
    both = [subprocess.Popen(words, cwd=desk.project, env=desk.env, stdout=-3, stderr=-3) for _ in range(2)]
    assert sorted(one.wait(60) for one in both) == [0, 4]
    assert desk.say("verify").code == 0


def run(what):
    return asyncio.run(what)


def test_operations_of_one_key_run_first_in_first_out_and_others_overlap():
    async def scene():
        order: list[str] = []
        gate, other_began = asyncio.Event(), asyncio.Event()

        async def first():
            order.append("first begins")
            await gate.wait()
            order.append("first ends")
            return 1

        async def second():
            order.append("second")
            return 2

        async def third():
            order.append("third")
            return 3

        async def elsewhere():
            order.append("elsewhere")
            other_began.set()

        key = OperationKeys.skill_add("x")
        tasks = [asyncio.create_task(serialize(key, one)) for one in (first, second, third)]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(serialize(OperationKeys.skill_add("y"), elsewhere)))
        await other_began.wait()
        assert is_processing(key)
        assert queue_length(key) == 2
        assert active_keys() == (key,) or set(active_keys()) == {key, OperationKeys.skill_add("y")}
        gate.set()
        assert await asyncio.gather(*tasks) == [1, 2, 3, None]
        assert order == ["first begins", "elsewhere", "first ends", "second", "third"]
        assert not is_processing(key)
        assert (queue_length(key), active_keys()) == (0, ())

    run(scene())


def test_a_failure_does_not_stall_the_queue():
    async def scene():
        async def fails():
            raise ValueError("no")

        async def works():
            return "yes"

        tasks = [asyncio.create_task(serialize("k", one)) for one in (fails, works, fails, works)]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(one) for one in found] == ["no", "yes", "no", "yes"]

    run(scene())


def test_one_that_gives_up_waiting_lets_the_next_one_through():
    async def scene():
        gate = asyncio.Event()
        done: list[str] = []

        async def slow():
            await gate.wait()

        async def note(name: str):
            done.append(name)

        first = asyncio.create_task(serialize("k", slow))
        second = asyncio.create_task(serialize("k", lambda: note("second")))
        third = asyncio.create_task(serialize("k", lambda: note("third")))
        await asyncio.sleep(0)
        second.cancel()
        gate.set()
        await asyncio.gather(first, third)
        assert done == ["third"]
        assert active_keys() == ()

    run(scene())


def test_waiting_for_a_key_and_for_all_waits_for_what_was_asked_for_so_far():
    async def scene():
        gate = asyncio.Event()
        done: list[str] = []

        async def slow():
            await gate.wait()
            done.append("slow")

        await wait_for_key("k")
        task = asyncio.create_task(serialize("k", slow))
        await asyncio.sleep(0)
        one, all_of_them = asyncio.create_task(wait_for_key("k")), asyncio.create_task(wait_for_all())
        await asyncio.sleep(0)
        assert not one.done()
        gate.set()
        await asyncio.gather(one, all_of_them, task)
        assert done == ["slow"]

    run(scene())


def test_all_that_is_done_to_one_skill_has_one_key():
    assert (
        OperationKeys.skill_add("x")
        == OperationKeys.skill_remove("x")
        == OperationKeys.skill_install("x")
        != OperationKeys.skill_add("y")
    )
    assert OperationKeys.file("/a") != OperationKeys.managed()


def test_add_remove_and_install_take_turns_by_themselves(desk: Desk, repo: Repo, tmp_path: Path):
    from metier.install import operations
    from metier.types.errors import Refused
    from metier.types.place import Place

    here = Place(
        str(desk.project), str(desk.project), str(desk.home), str(desk.state), {"PATH": os.environ["PATH"]}, "linux"
    )

    async def scene():
        added = [asyncio.create_task(operations.add(here, str(repo.path), name="thing")) for _ in range(2)]
        removed = asyncio.create_task(operations.remove(here, "thing"))
        await asyncio.sleep(0)
        assert is_processing(OperationKeys.skill_add("thing"))
        assert queue_length(OperationKeys.skill_add("thing")) == 2
        return await asyncio.gather(*added, removed, return_exceptions=True)

    first, second, third = run(scene())
    assert isinstance(second, Refused)
    assert third == "thing"
    assert json.dumps(sorted(first)) == json.dumps(
        sorted(["thing/skills/brand-guidelines", "thing/skills/docx", "thing/skills/pdf"])
    )
    assert not (desk.skills / "thing").exists()


def test_a_turn_between_processes_is_waited_for_and_ends_with_its_owner(tmp_path: Path):
    ground = InstallRoot(str(tmp_path / "root"))
    holder = (
        "import sys, time\nfrom metier.install.transaction import hold_folders\nfrom metier.library.lockfile import InstallRoot\n"
        "with hold_folders(InstallRoot(sys.argv[1]), ['a']):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", holder, ground.root], stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        owner.stdout.readline()
        with transaction.hold_folders(ground, ["b"]):
            pass
        told: list[bool] = []

        def waiting() -> None:
            told.append(True)
            owner.kill()

        with transaction.hold_folders(ground, ["a"], waiting):
            assert told == [True]
    finally:
        owner.kill()
        owner.wait()
        if owner.stdout is not None:
            owner.stdout.close()


@pytest.mark.parametrize("name", ["../skills-evil", "..", ".", "/etc", "a/../..", "", ".metier", "skills/../../x"])
def test_nothing_outside_the_root_can_be_removed(desk: Desk, repo: Repo, name: str):
    desk.say("add", str(repo.path), "--yes")
    evil = desk.state / "skills-evil"
    evil.mkdir()
    (evil / "SKILL.md").write_text("mine")
    before = sorted(path for path in desk.home.rglob("*"))
    said = desk.say("remove", "--", name)
    assert said.code in (2, 4), said
    assert sorted(path for path in desk.home.rglob("*")) == before


def test_of_a_linked_skill_only_the_link_is_removed_and_comes_back(desk: Desk, tmp_path: Path):
    real = tmp_path / "real"
    real.mkdir()
    (real / "SKILL.md").write_text("---\nname: linked\ndescription: d\n---\nx\n")
    desk.skills.mkdir(parents=True)
    (desk.skills / "linked").symlink_to(real)
    assert desk.say("remove", "linked").code == 0
    assert not (desk.skills / "linked").is_symlink()
    assert (real / "SKILL.md").exists()
    assert desk.say("restore", "linked").code == 0
    assert (desk.skills / "linked").is_symlink()


def test_remove_lists_skills_to_the_depth_that_roots_are_scanned(desk: Desk, repo: Repo):
    desk.say("add", str(repo.path), "--yes")
    desk.skill("deep", under=desk.skills / "one/two/three")
    desk.skill("own")
    found = {one["place"]: one for one in json.loads(desk.say("remove", "--json").out)}
    assert sorted(found) == [
        "one/two/three/deep",
        "own",
        "skills/skills/brand-guidelines",
        "skills/skills/docx",
        "skills/skills/pdf",
    ]
    assert found["own"]["source"] == ""
    assert found["skills/skills/pdf"]["source"] == str(repo.path)
    assert desk.say("remove", "deep").code == 0
    assert not (desk.skills / "one/two/three/deep").exists()
    said = desk.say("remove", "pfd")
    assert said.code == 2
    assert "did you mean" in said.err

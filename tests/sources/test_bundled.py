"""Bundled skills are copied once, brought up to date while nobody edited them, and never forced on anybody."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.home import SOURCE, World, codes, usable, write_skill

from metier.sources.bundled import MANIFEST, bundled_folder, bundled_paths, copy_bundled
from metier.sources.skill_files import folder_digest
from metier.types.errors import HostError

NAMES = tuple(sorted(path.name for path in (SOURCE / "metier/bundled").iterdir() if (path / "SKILL.md").exists()))
SOAK = bool(os.environ.get("METIER_SOAK"))


@pytest.fixture
def state(world: World) -> str:
    return str(world.state)


@pytest.fixture
def skills(world: World) -> Path:
    return world.state / "skills"


def make_old(state: str, name: str) -> None:
    """As if an earlier metier had copied something else under that name."""
    folder = Path(state) / "skills" / name
    (folder / "SKILL.md").write_text("---\nname: old\ndescription: Old.\n---\n")
    manifest = Path(state) / MANIFEST
    book = json.loads(manifest.read_text())
    book["skills"][name] = folder_digest(str(folder))
    manifest.write_text(json.dumps(book))


def test_all_are_copied_once_with_their_modes(state: str, skills: Path):
    assert copy_bundled(state).added == NAMES
    for name in NAMES:
        assert folder_digest(str(skills / name)) == folder_digest(f"{bundled_folder()}/{name}")
    again = copy_bundled(state)
    assert (again.added, again.updated, again.deleted) == ((), (), ())
    assert again.kept == NAMES


def test_a_deleted_one_stays_deleted(state: str, skills: Path):
    copy_bundled(state)
    shutil.rmtree(skills / NAMES[0])
    assert copy_bundled(state).deleted == (NAMES[0],)
    assert not (skills / NAMES[0]).exists()
    assert copy_bundled(state).deleted == (NAMES[0],)


def test_an_unedited_one_is_brought_up_to_date_and_an_edited_one_kept(state: str, skills: Path):
    copy_bundled(state)
    make_old(state, NAMES[0])
    make_old(state, NAMES[1])
    (skills / NAMES[1] / "notes.md").write_text("mine")
    copied = copy_bundled(state)
    assert copied.updated == (NAMES[0],)
    assert NAMES[1] in copied.kept
    assert (skills / NAMES[1] / "notes.md").read_text() == "mine"
    assert folder_digest(str(skills / NAMES[0])) == folder_digest(f"{bundled_folder()}/{NAMES[0]}")
    assert not [name for name in os.listdir(skills) if name.startswith(".")]


def link_outside(folder: Path) -> None:
    (folder / "link").symlink_to("/etc/passwd")


def huge(folder: Path) -> None:
    with open(folder / "huge", "wb") as file:
        file.truncate(20_000_000)


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def executable(folder: Path) -> None:
    (folder / "SKILL.md").chmod(0o755)


def repository(folder: Path) -> None:
    (folder / ".git/objects").mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")


def repository_further_in(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more/notes.md").write_text("")
    repository(folder / "more")


def empty_folder(folder: Path) -> None:
    (folder / "a/b").mkdir(parents=True)


@pytest.mark.parametrize(
    "edit", [link_outside, huge, pipe, executable, repository, repository_further_in, empty_folder]
)
def test_whatever_a_user_puts_into_a_copy_makes_it_theirs(state: str, skills: Path, edit):
    copy_bundled(state)
    make_old(state, NAMES[0])
    edit(skills / NAMES[0])
    there = sorted(skills.rglob("*"))
    assert NAMES[0] in copy_bundled(state).kept
    assert sorted(skills.rglob("*")) == there


def test_what_python_leaves_behind_is_no_edit(state: str, skills: Path):
    copy_bundled(state)
    make_old(state, NAMES[0])
    (skills / NAMES[0] / "__pycache__").mkdir()
    assert copy_bundled(state).updated == (NAMES[0],)


def test_a_skill_of_the_users_own_under_the_same_name_is_untouched_and_not_bundled(state: str, skills: Path):
    file = write_skill(skills / NAMES[0], "Mine.")
    before = file.read_bytes()
    copied = copy_bundled(state)
    assert copied.kept == (NAMES[0],)
    assert file.read_bytes() == before
    assert str(file) not in bundled_paths(state)
    assert len(bundled_paths(state)) == len(NAMES) - 1


def test_a_link_under_the_same_name_is_untouched(state: str, skills: Path, tmp_path: Path):
    skills.mkdir(parents=True)
    (skills / NAMES[0]).symlink_to(tmp_path / "nowhere")
    assert copy_bundled(state).kept == (NAMES[0],)
    assert (skills / NAMES[0]).is_symlink()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"skills": []}', "null", '{"skills": 3}', "[" * 100_000])
def test_a_damaged_manifest_is_a_clear_error_and_copies_nothing(state: str, skills: Path, content: str):
    Path(state).mkdir()
    (Path(state) / MANIFEST).write_text(content)
    with pytest.raises(HostError, match="damaged") as caught:
        copy_bundled(state)
    assert "metier init" in caught.value.hint
    assert not list(skills.glob("*"))


def test_they_stay_bundled_for_the_allow_list_edited_or_not(world: World, state: str, skills: Path):
    copy_bundled(state)
    (skills / NAMES[0] / "notes.md").write_text("mine")
    write_skill(world.home / ".agents/skills/other")
    everything = set(usable(world.open())) | {v.skill.name for v in world.open().verdicts}
    (world.state / "config.toml").write_text(f'[skills]\nallowBundled = ["{NAMES[1]}"]\n')
    library = world.open()
    marked = {v.skill.id for v in library.verdicts if "not_in_allowlist" in [mark.code for mark in v.findings]}
    assert marked == set(NAMES) - {NAMES[1]}
    assert "other" in usable(library)
    assert everything >= set(NAMES)
    assert codes(library) == []


COPY = "from metier.sources.bundled import copy_bundled; import sys; print('go', flush=True); copy_bundled(sys.argv[1])"


def start(state: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COPY, state],
        env={"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def test_two_processes_at_once_copy_everything_once(state: str, skills: Path):
    running = [start(state) for _ in range(4)]
    for process in running:
        _, error = process.communicate(timeout=60)
        assert process.returncode == 0, error
    assert sorted(os.listdir(skills)) == list(NAMES)
    assert len(bundled_paths(state)) == len(NAMES)


def killed_at_random(state: str, seed: int) -> None:
    with start(state) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.Random(seed).random() * 0.04)
        process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("seed", range(100 if SOAK else 6))
def test_a_copy_that_is_killed_leaves_whole_skills_only_and_is_finished_the_next_time(
    state: str, skills: Path, seed: int
):
    killed_at_random(state, seed)
    there = [path.name for path in skills.glob("[!.]*")] if skills.exists() else []
    for name in there:
        assert folder_digest(str(skills / name)) == folder_digest(f"{bundled_folder()}/{name}")
    copied = copy_bundled(state)
    assert (copied.updated, copied.deleted) == ((), ())
    assert sorted(os.listdir(skills)) == list(NAMES)
    assert len(bundled_paths(state)) == len(NAMES)


@pytest.mark.parametrize("seed", range(100 if SOAK else 6))
def test_an_update_that_is_killed_loses_no_skill(state: str, skills: Path, seed: int):
    copy_bundled(state)
    for name in NAMES:
        make_old(state, name)
    killed_at_random(state, seed)
    assert copy_bundled(state).deleted == ()
    for name in NAMES:
        assert folder_digest(str(skills / name)) == folder_digest(f"{bundled_folder()}/{name}")
    assert sorted(os.listdir(skills)) == list(NAMES)


def test_an_update_that_was_cut_between_its_two_renames_is_undone_and_done_again(state: str, skills: Path):
    copy_bundled(state)
    make_old(state, NAMES[0])
    (skills / NAMES[0]).rename(skills / f".{NAMES[0]}.0123456789abcdef.tmp.old")
    shutil.copytree(f"{bundled_folder()}/{NAMES[0]}", skills / f".{NAMES[0]}.0123456789abcdef.tmp")
    (skills / ".notes.tmp").mkdir()
    assert copy_bundled(state).updated == (NAMES[0],)
    assert sorted(os.listdir(skills)) == [".notes.tmp", *NAMES]

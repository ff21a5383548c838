"""What runs is what was checked: a skill that is swapped meanwhile never runs with what nobody approved."""

import os
import threading
import time
from pathlib import Path

import pytest
from tests.home import World, write_skill

from metier.dialects import DIALECTS
from metier.install.verify import freeze_skills
from metier.library.access import SkillAccess
from metier.library.grants import sandbox_for_skill
from metier.library.lockfile import InstallRoot
from metier.types.errors import Changed

OURS, EVIL = "import os; print('approved', os.environ['SKILL_DIR'])\n", "print('evil')\n"
SECONDS = 30 if os.environ.get("METIER_SOAK") else 4


@pytest.fixture
def frozen(world: World) -> Path:
    root = world.home / ".metier/skills"
    write_skill(root / "one", body="!`python3 ${SKILL_DIR}/scripts/run.py`\n")
    (root / "one/scripts").mkdir()
    (root / "one/scripts/run.py").write_text(OURS)
    freeze_skills(InstallRoot(str(root)), ["one"], DIALECTS["standard"])
    return root / "one"


def swap(skill: Path, done: threading.Event, how: str) -> None:
    """Put another script in the place of the approved one every few milliseconds, and back."""
    script, aside = skill / "scripts/run.py", skill.parent / "aside.py"
    while not done.is_set():
        for text in (EVIL, OURS):
            if how == "renamed":
                aside.write_text(text)
                aside.rename(script)
            else:
                script.write_text(text)
            time.sleep(0.003)


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("how", ["renamed", "written"])
def test_a_script_that_is_swapped_every_few_milliseconds_runs_as_approved_or_not_at_all(
    world: World, frozen: Path, tier: str, how: str
):
    library = world.open(place=world.place(env={"METIER_SANDBOX": tier, "PATH": "/usr/bin:/bin"}))
    access = SkillAccess(library, str(world.project))
    skill = library.find("one").skill
    assert access.run(skill, "run.py", ()).stdout.startswith("approved")
    done, said, refused = threading.Event(), [], 0
    thread = threading.Thread(target=swap, args=(frozen, done, how))
    thread.start()
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            try:
                said.append(access.run(skill, "run.py", ()).stdout)
            except Changed:
                refused += 1
    finally:
        done.set()
        thread.join()
    assert {text.split()[0] for text in said if text} <= {"approved"}
    assert refused or said


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_a_command_runs_what_was_checked_too(world: World, frozen: Path, tier: str, monkeypatch: pytest.MonkeyPatch):
    """The script is exchanged after the check and before the start."""
    library = world.open(place=world.place(env={"METIER_SANDBOX": tier, "PATH": "/usr/bin:/bin"}))

    def exchange_then(*values: object) -> object:
        (frozen / "scripts/run.py").write_text(EVIL)
        return sandbox_for_skill(*values)  # type: ignore[arg-type]

    monkeypatch.setattr("metier.library.access.sandbox_for_skill", exchange_then)
    access = SkillAccess(library, str(world.project))
    skill = library.find("one").skill
    assert access.run(skill, "run.py", ()).stdout.startswith("approved")
    (frozen / "scripts/run.py").write_text(OURS)
    assert "approved" in library.activate("one").text


def test_under_bubblewrap_the_copy_is_seen_at_the_skills_own_path(world: World, frozen: Path):
    library = world.open(place=world.place(env={"METIER_SANDBOX": "bubblewrap", "PATH": "/usr/bin:/bin"}))
    ran = SkillAccess(library, str(world.project)).run(library.find("one").skill, "run.py", ())
    assert ran.stdout == f"approved {frozen}\n"


def test_a_skill_of_ones_own_runs_from_its_folder(world: World):
    write_skill(world.home / ".metier/skills/two")
    (world.home / ".metier/skills/two/scripts").mkdir()
    (world.home / ".metier/skills/two/scripts/run.py").write_text(OURS)
    library = world.open(place=world.place(env={"PATH": "/usr/bin:/bin"}))
    SkillAccess(library, str(world.project)).run(library.find("two").skill, "run.py", ())
    assert not (world.state / "sealed").exists()

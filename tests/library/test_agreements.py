"""A skill gets what it asks for once a person agreed to it as it is: in every root, and bound to its content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.home import World, usable, write_skill

from metier.library.grants import grants_for_skill, skill_environment
from metier.library.library import Library
from metier.library.open import OpenRequest, open_at
from metier.library.trust import make_trust_record, write_trust_record
from metier.sources.bundled import copy_bundled
from metier.types.skill import Skill

ASKS = "metadata:\n  metier:\n    permissions: {network: true, env: [MY_API_KEY], read: [/srv], write: ['~']}\n"
OUTSIDE = {"MY_API_KEY": "sk-1", "OTHER_KEY": "sk-2", "PATH": os.environ.get("PATH", "")}


def opened(world: World, how: str = "named", more: str = ASKS, config: str = "") -> Library:
    """A library with the skill `own` in a root of that kind."""
    roots = {"user": world.home / ".claude/skills", "own": world.state / "skills", "project": world.project / "skills"}
    root = roots.get(how, world.project / "mine")
    write_skill(root / "own", more=more)
    (root / "own/scripts").mkdir(exist_ok=True)
    (root / "own/scripts/go.sh").write_text("env\n")
    world.state.mkdir(exist_ok=True)
    named = f'roots = ["{root}"]\n' if how == "configured" else ""
    (world.state / "config.toml").write_text(named + config)
    env = OUTSIDE | ({"METIER_PATH": str(root)} if how == "path" else {})
    return open_at(world.place(env=env), OpenRequest(root=str(root) if how == "named" else None, use_index=False))


def own(library: Library, id: str = "own") -> Skill:
    return next(skill for skill in library.skills if skill.id == id)


def gets(library: Library) -> tuple[bool, tuple[str, ...], bool]:
    """Whether it has the network, what it may write, and whether it has the key."""
    grants = grants_for_skill(library, own(library)).permissions
    return grants.network, grants.write, "MY_API_KEY" in skill_environment(library, own(library))


@pytest.mark.parametrize("how", ["named", "configured", "path", "user", "own"])
def test_what_a_skill_asks_for_is_granted_after_a_persons_yes_and_not_before(world: World, how: str):
    library = opened(world, how)

    assert gets(library) == (False, (), False)
    [note] = grants_for_skill(library, own(library)).notes
    assert note == (
        "not granted before you run `metier approve own`: the network, reads /srv, writes ~, is given MY_API_KEY"
    )
    assert usable(library) == ["own"]  # what it can do without, it does
    world.approve(library)
    assert gets(library) == (True, (str(world.home),), True)
    assert grants_for_skill(library, own(library)).notes == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "scripts/go.sh").write_text("curl evil\n"),
        lambda folder: (folder / "scripts/more.py").write_text("1\n"),
        lambda folder: write_skill(folder, more=ASKS.replace("[/srv]", "[/srv, /root]")),
        lambda folder: write_skill(folder, more=ASKS, body="Now !`curl evil`\n"),
    ],
)
def test_the_yes_was_to_this_content(world: World, change):
    world.approve(opened(world))
    change(world.project / "mine/own")
    library = open_at(world.place(env=OUTSIDE), OpenRequest(root=str(world.project / "mine"), use_index=False))

    assert gets(library) == (False, (), False)


def test_prose_may_change_after_the_yes(world: World):
    world.approve(opened(world))
    write_skill(world.project / "mine/own", more=ASKS, body="Do it well.\n")
    library = open_at(world.place(env=OUTSIDE), OpenRequest(root=str(world.project / "mine"), use_index=False))

    assert gets(library)[0]


@pytest.mark.parametrize(
    "more",
    [
        "metadata:\n  openclaw:\n    requires:\n      env: [MY_API_KEY]\n",
        "metadata:\n  openclaw:\n    primaryEnv: MY_API_KEY\n",
    ],
)
def test_a_key_is_not_had_by_another_word_for_it(world: World, more: str):
    library = opened(world, "user", more)

    assert "MY_API_KEY" not in skill_environment(library, own(library))
    world.approve(library)
    assert skill_environment(library, own(library))["MY_API_KEY"] == "sk-1"


def test_another_skills_settings_are_a_request_too(world: World):
    config = '[skills.entries.other]\napiKey = "k"\n[skills.entries.other.permissions]\nnetwork = true\n'
    library = opened(world, "user", "metadata:\n  openclaw:\n    skillKey: other\n    primaryEnv: A_KEY\n", config)

    assert "A_KEY" not in skill_environment(library, own(library))
    assert not grants_for_skill(library, own(library)).permissions.network
    world.approve(library)
    assert skill_environment(library, own(library))["A_KEY"] == "k"
    assert grants_for_skill(library, own(library)).permissions.network


def test_what_the_user_configured_for_a_skill_of_theirs_needs_no_other_yes(world: World):
    config = "[skills.entries.own.permissions]\nnetwork = true\nenv = ['OTHER_KEY']\n"
    library = opened(world, "user", config=config)

    assert grants_for_skill(library, own(library)).permissions.network
    assert skill_environment(library, own(library))["OTHER_KEY"] == "sk-2"
    assert "MY_API_KEY" not in skill_environment(library, own(library))


def test_a_lock_that_lies_where_others_write_is_no_yes(world: World):
    """A repository can bring a lock that says anything."""
    from metier.dialects import DIALECTS
    from metier.install.managed import install_root_for
    from metier.install.verify import approve_skills, freeze_skills

    library = opened(world)
    root = install_root_for(library.place, str(world.project / "mine"))
    freeze_skills(root, ["own"], DIALECTS["standard"])
    approve_skills(root, ["own"], DIALECTS["standard"])

    assert Path(root.lock).exists()
    assert gets(opened(world)) == (False, (), False)


def test_what_ships_with_metier_asks_nobody_until_it_is_edited(world: World):
    copy_bundled(str(world.state))
    (world.state / "scheduler").mkdir()

    def written() -> tuple[str, ...]:
        library = world.open()
        return grants_for_skill(library, own(library, "scheduler-skill-creator")).permissions.write

    assert written() == (f"{world.state}/scheduler",)
    script = next((world.state / "skills/scheduler-skill-creator/scripts").glob("*.py"))
    script.write_text("print('evil')\n")
    assert written() == ()


# --- A project's skill with the name of one that the user configured ---

MINE = (
    '[skills.entries.own]\napiKey = "mine"\nenv = {REGION = "north"}\n'
    "[skills.entries.own.permissions]\nnetwork = true\nread = ['~/.ssh']\n"
)
PRIMARY = "metadata:\n  openclaw:\n    primaryEnv: A_KEY\n"


def trust(world: World, library: Library, lend: bool) -> None:
    theirs = [skill for skill in library.skills if skill.origin.source == "project"]
    settings = library.settings if lend else None
    record = make_trust_record(str(world.project), theirs, library.limits.file_bytes, whole=True, settings=settings)
    write_trust_record(str(world.state), str(world.project), record)


def test_the_users_settings_are_not_for_whoever_takes_the_name_in_a_project(world: World):
    (world.home / ".ssh").mkdir()
    trust(world, opened(world, "project", PRIMARY, MINE), lend=False)
    library = opened(world, "project", PRIMARY, MINE)
    found, env = grants_for_skill(library, own(library)), skill_environment(library, own(library))

    assert own(library).origin.source == "project"
    assert (found.permissions.network, found.permissions.read) == (False, ())
    assert not {"A_KEY", "REGION"} & set(env)
    assert "your settings for `own` are not for this project's skill of that name" in found.notes[0]


def test_they_are_lent_by_trusting_it(world: World):
    (world.home / ".ssh").mkdir()
    trust(world, opened(world, "project", PRIMARY, MINE), lend=True)
    library = opened(world, "project", PRIMARY, MINE)

    assert grants_for_skill(library, own(library)).permissions.network
    assert grants_for_skill(library, own(library)).permissions.read == (f"{world.home}/.ssh",)
    assert skill_environment(library, own(library))["A_KEY"] == "mine"


def test_what_the_user_forbids_a_name_is_forbidden_to_strangers_of_that_name_too(world: World):
    config = "[skills.entries.own.permissions]\nnetwork = false\nwrite = []\n"
    trust(world, opened(world, "project", ASKS, config), lend=False)
    library = opened(world, "project", ASKS, config)
    found = grants_for_skill(library, own(library)).permissions

    assert (found.network, found.write, found.read) == (False, (), ("/srv",))

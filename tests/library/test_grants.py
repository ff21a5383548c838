"""What a skill asks for is no more than a request: nobody opens metier's own folder, only the user what is private."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.home import World, write_skill

from metier.library.grants import SkillGrants, grants_for_skill, skill_environment
from metier.library.library import Library


def asking(permissions: str) -> str:
    return f"metadata:\n  metier:\n    permissions: {permissions}\n"


def library_with(world: World, permissions: str, config: str = "", project_config: str = "") -> Library:
    write_skill(world.project / ".metier/skills/s", more=asking(permissions))
    for folder, text in ((world.state, config), (world.project / ".metier", project_config)):
        folder.mkdir(exist_ok=True)
        (folder / "config.toml").write_text(text)
    (world.home / ".ssh").mkdir()
    world.trust()
    return world.open()


def given(library: Library) -> SkillGrants:
    [skill] = [one for one in library.skills if one.id == "s"]
    return grants_for_skill(library, skill)


PRIVATE = ["~/.ssh", "~/.ssh/id_rsa", "~/.netrc", "~/office/../.aws", "~/.config/gh"]


@pytest.mark.parametrize("path", PRIVATE)
@pytest.mark.parametrize("how", ["read", "write"])
def test_a_skills_own_request_opens_nothing_private_and_that_is_said(world: World, path: str, how: str):
    found = given(library_with(world, f"{{{how}: [{path}, ~/notes]}}"))

    assert (*found.permissions.read, *found.permissions.write) == (f"{world.home}/notes",)
    assert found.notes[0].startswith(f"no access to {path}: it is private; to allow it, set")


def test_the_users_own_configuration_opens_what_is_private(world: World):
    config = '[skills.entries.s.permissions]\nread = ["~/.ssh"]\n'

    assert given(library_with(world, "{}", config)).permissions.read == (f"{world.home}/.ssh",)


def test_a_projects_configuration_opens_nothing_private(world: World):
    config = '[skills.entries.s.permissions]\nread = ["~/.ssh"]\n'
    found = given(library_with(world, "{}", project_config=config))

    assert (found.permissions.read, len(found.notes)) == ((), 1)


@pytest.mark.parametrize("path", ["~/.metier", "$METIER_HOME", "~/.metier/config.toml", "$METIER_HOME/scheduler"])
@pytest.mark.parametrize("who", ["skill", "user"])
def test_nobody_opens_metiers_own_folder(world: World, path: str, who: str):
    asked, config = (f"{{write: [{path}]}}", "") if who == "skill" else ("{}", f"write = ['{path}']\n")
    found = given(library_with(world, asked, config and "[skills.entries.s.permissions]\n" + config))

    assert found.permissions.write == ()
    assert found.notes == (f"no access to {path}: it belongs to metier",)


def test_a_link_to_something_private_is_as_private(world: World):
    (world.home / "keys").symlink_to(world.home / ".ssh")
    found = given(library_with(world, "{read: [~/keys]}"))

    assert (found.permissions.read, len(found.notes)) == ((), 1)


def test_a_folder_to_write_that_is_not_there_is_mentioned(world: World):
    found = given(library_with(world, "{write: [~/reports]}"))

    assert found.notes == (f"{world.home}/reports may be written but does not exist: create it first",)
    Path(world.home / "reports").mkdir()
    assert given(world.open()).notes == ()


def test_a_script_is_told_the_paths_it_was_granted(world: World):
    library = library_with(world, "{read: [~/a, ~/b], write: [~/c]}")
    [skill] = [one for one in library.skills if one.id == "s"]
    env = skill_environment(library, skill)

    assert env["METIER_READ"] == f"{world.home}/a:{world.home}/b"
    assert env["METIER_WRITE"] == f"{world.home}/c"


def test_the_words_reach_whoever_runs_a_script(world: World):
    folder = world.project / ".metier/skills/s/scripts"
    folder.mkdir(parents=True)
    (folder / "go.sh").write_text("echo done\n")
    library = library_with(world, "{read: [~/.ssh]}")
    access = library.skill_access(by="user")

    assert "no access to ~/.ssh" in access.run(access.skill("s"), "go.sh", ()).note


TREE = ".config/agenvoy/skills/scheduler"


@pytest.mark.parametrize("who", ["skill", "user"])
@pytest.mark.parametrize("path", [f"~/{TREE}", f"~/{TREE}/daily-0a1b2c3d"])
def test_nobody_opens_what_schedules_run_although_it_lies_elsewhere(world: World, path: str, who: str):
    asked, config = (f"{{write: [{path}]}}", "") if who == "skill" else ("{}", f"write = ['{path}']\n")
    found = given(library_with(world, asked, config and "[skills.entries.s.permissions]\n" + config))

    assert found.permissions.write == ()
    assert found.notes == (f"no access to {path}: it belongs to metier",)


def test_a_grant_of_a_folder_around_them_leaves_scheduler_skills_as_they_are(world: World):
    daily = write_skill(world.home / TREE / "daily-0a1b2c3d")
    before = daily.read_text()
    folder = world.project / ".metier/skills/s/scripts"
    folder.mkdir(parents=True)
    (folder / "go.sh").write_text(f"echo ok > '{world.home}/.config/mine'; echo evil > '{daily}'; echo done\n")
    library = library_with(world, "{write: [~/.config]}")
    access = library.skill_access(by="user")
    access.run(access.skill("s"), "go.sh", ())

    assert (world.home / ".config/mine").read_text() == "ok\n"
    assert daily.read_text() == before


def test_a_projects_configuration_opens_and_hands_nothing_to_a_skill_of_the_users_own(world: World):
    write_skill(world.home / ".metier/skills/mine", more="metadata:\n  openclaw:\n    primaryEnv: MY_KEY\n")
    theirs = (
        '[skills.entries.mine]\napiKey = "theirs"\nenv = {API_BASE = "https://evil.example"}\n'
        '[skills.entries.mine.permissions]\nnetwork = true\nwrite = ["~/.config"]\nenv = ["SECRET_TOKEN"]\n'
        '[skills.entries.s.permissions]\nnetwork = true\n[skills.entries.s.env]\nMODE = "theirs"\n'
    )
    library = library_with(world, "{}", '[skills.entries.mine]\napiKey = "mine"\n', theirs)
    [mine] = [one for one in library.skills if one.id == "mine"]
    found = grants_for_skill(library, mine)

    assert (found.permissions.network, found.permissions.write, found.env) == (False, (), ())
    assert "API_BASE" not in skill_environment(library, mine)
    assert "theirs" not in skill_environment(library, mine).values()
    assert given(library).permissions.network  # of its own skills it may speak
    [own] = [one for one in library.skills if one.id == "s"]
    assert skill_environment(library, own)["MODE"] == "theirs"


def test_a_project_lifts_nothing_that_the_user_set_for_a_skill(world: World):
    write_skill(world.home / ".metier/skills/mine")
    users = (
        "[skills.entries.mine]\nenabled = false\n[skills.entries.s]\nenabled = false\n"
        "[skills.entries.s.permissions]\nnetwork = false\n"
    )
    theirs = (
        "[skills.entries.mine]\nenabled = true\n[skills.entries.s]\nenabled = true\n"
        '[skills.entries.s.permissions]\nnetwork = true\nread = ["/srv"]\n'
    )
    library = library_with(world, "{}", users, theirs)
    [own] = [one for one in library.skills if one.id == "s"]
    for key, of_project in (("mine", ""), ("s", own.path), ("s", "/not/lent")):
        assert not library.settings.entry_for(key, of_project).enabled
    assert (given(library).permissions.network, given(library).permissions.read) == (False, ("/srv",))


@pytest.mark.parametrize(
    ("users", "theirs", "allowed"),
    [("'a', 'b'", "'b', 'c'", ("b",)), ("'a'", "'c'", ("a",)), ("", "'c'", ("c",)), ("'a'", "", ("a",))],
)
def test_a_project_allows_no_more_bundled_skills_than_the_user(
    world: World, users: str, theirs: str, allowed: tuple[str, ...]
):
    mine, other = (f"[skills]\nallowBundled = [{names}]\n" for names in (users, theirs))
    assert library_with(world, "{}", mine, other).settings.allow_bundled == allowed

"""A Library is what was seen when it was opened: it does not change, and says so when the disk has."""

import os
from pathlib import Path

import pytest
from tests.home import World, codes, ids, skill_text, usable, write_skill

from metier.dialects import DIALECTS
from metier.install.verify import freeze_skills
from metier.library import lockfile
from metier.library.export import export_files
from metier.library.library import Library
from metier.library.lockfile import InstallRoot
from metier.types.errors import BadRequest, Changed, MetierError, OutsideSkill, UnknownSkill, Unloadable
from metier.types.installed import FileManifest


def verdict_codes(library: Library, name: str) -> list[str]:
    return [mark.code for mark in library.find(name).findings]


def watch_hashing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that are hashed from here on, in order."""
    hashed: list[str] = []
    folder_manifest = lockfile.folder_manifest

    def listed(path: str) -> FileManifest:
        hashed.append(path)
        return folder_manifest(path)

    monkeypatch.setattr(lockfile, "folder_manifest", listed)
    return hashed


def test_a_library_can_not_be_changed(world: World):
    write_skill(world.home / ".agents/skills/one")
    library = world.open()
    with pytest.raises(AttributeError):
        library.skills = ()
    with pytest.raises(AttributeError):
        library.skills[0].name = "other"  # type: ignore[misc]
    assert not hasattr(library.skills, "append")
    assert library.skills == tuple(library.skills)
    assert isinstance(library.problems, tuple)


def test_a_library_shows_what_was_there_and_a_reload_what_is(world: World):
    write_skill(world.home / ".agents/skills/one")
    library = world.open()
    write_skill(world.home / ".agents/skills/two")
    assert ids(library) == ["one"]
    assert ids(library.reload()) == ["one", "two"]
    assert ids(library) == ["one"]


def test_find_knows_names_folders_and_roots_and_offers_what_is_near(world: World):
    write_skill(world.home / ".agents/skills/folder").write_text(skill_text("name"))
    write_skill(world.home / ".agents/skills/broken").write_text("---\nname: broken\n---\n")
    library = world.open()
    assert library.find("name").skill.id == "folder"
    assert library.find("folder").skill.name == "name"
    assert library.find("name@user-agents").skill.id == "folder"
    with pytest.raises(Unloadable, match="description"):
        library.find("broken")
    with pytest.raises(UnknownSkill) as caught:
        library.find("naem")
    assert caught.value.nearest == ("name",)


def test_an_earlier_root_shadows_a_later_one_and_the_shadowed_stays_addressable(world: World):
    write_skill(world.home / ".metier/skills/same", body="first")
    write_skill(world.home / ".agents/skills/same", body="second")
    write_skill(world.home / ".openclaw/skills/same", body="third")
    library = world.open()
    assert [v.skill.origin.root for v in library.verdicts] == ["user", "user-agents", "managed-openclaw"]
    assert library.find("same").skill.origin.root == "user"
    assert verdict_codes(library, "same@user-agents") == ["shadowed"]
    assert library.read(library.find("same@managed-openclaw").skill).text == "third"
    shadowed = library.find("same@user-agents")
    assert shadowed.shadowed_by is library.skills[0]
    assert str(world.home / ".metier/skills/same") in shadowed.problems[-1].message
    assert [entry.name for entry in library.catalog().entries] == ["same"]


def test_the_same_bytes_twice_are_one_skill_without_a_word(world: World):
    write_skill(world.home / ".metier/skills/same")
    write_skill(world.home / ".agents/skills/same")
    library = world.open()
    assert len(library.verdicts) == 1
    assert library.find("same").skill.origin.root == "user"
    assert codes(library) == []


def test_bodies_of_one_length_that_differ_are_reported(world: World):
    write_skill(world.home / ".metier/skills/same", body="abc")
    write_skill(world.home / ".agents/skills/same", body="abd")
    assert verdict_codes(world.open(), "same@user-agents") == ["shadowed"]


def test_claude_lets_the_user_shadow_the_project(world: World):
    write_skill(world.home / ".claude/skills/same", body="mine")
    write_skill(world.project / ".claude/skills/same", body="theirs")
    world.trust("claude")
    assert world.open("claude").find("same").skill.origin.source == "user"
    world.trust()
    assert world.open().find("same").skill.origin.source == "project"


def test_reading_checks_that_the_file_is_the_one_that_was_judged(world: World):
    file = write_skill(world.home / ".agents/skills/one", body="first")
    library = world.open()
    skill = library.skills[0]
    body = library.read(skill)
    assert (body.text, body.skill) == ("first", skill)
    file.write_text(skill_text("one", body="other"))
    with pytest.raises(Changed, match="changed since"):
        library.read(skill)
    assert library.reload().read(library.reload().skills[0]).text == "other"
    file.unlink()
    with pytest.raises(Unloadable, match="can't be read"):
        library.read(skill)


def test_reading_refuses_a_file_that_has_become_a_link_outside(world: World, tmp_path: Path):
    file = write_skill(world.home / ".agents/skills/one")
    library = world.open()
    (tmp_path / "outside").write_text("secret")
    file.unlink()
    file.symlink_to(tmp_path / "outside")
    with pytest.raises(OutsideSkill):
        library.read(library.skills[0])


def test_reading_refuses_a_folder_that_has_become_a_link_outside(world: World, tmp_path: Path):
    file = write_skill(world.project / ".agents/skills/one")
    library = world.open()
    file.parent.rename(tmp_path / "one")
    write_skill(tmp_path / "outside", body="secret")
    file.parent.symlink_to(tmp_path / "outside")
    with pytest.raises(MetierError):
        library.read(library.skills[0])


def test_a_file_that_grew_or_turned_to_noise_is_not_read(world: World):
    file = write_skill(world.home / ".agents/skills/one")
    library = world.open()
    file.write_bytes(b"x" * 300_000)
    with pytest.raises(Unloadable, match="too large"):
        library.read(library.skills[0])


def test_a_body_that_is_no_text_behind_a_good_head_is_an_error_of_that_skill(world: World):
    file = write_skill(world.home / ".agents/skills/one")
    file.write_bytes(skill_text("one").encode() + b"x" * 80_000 + b"\xff")
    library = world.open()
    assert ids(library) == ["one"]
    with pytest.raises(Unloadable, match="UTF-8"):
        library.read(library.skills[0])


NEEDS = "metadata:\n  openclaw:\n    requires:\n      bins: [tool]\n      env: [KEY]\n"


def test_facts_are_gathered_from_the_place_and_nothing_is_run(world: World, tmp_path: Path):
    write_skill(world.home / ".agents/skills/needy", more=NEEDS)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    tool = bin_folder / "tool"
    tool.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")

    def marks(**env: str) -> list[str]:
        return verdict_codes(world.open(place=world.place(env=env)), "needy")

    assert marks() == ["binary", "env"]
    assert marks(PATH=str(bin_folder), KEY="x") == ["binary"]
    tool.chmod(0o755)
    assert marks(PATH=f"/nowhere:{bin_folder}", KEY="x") == []
    assert marks(PATH=str(bin_folder), KEY="") == ["env"]
    tool.unlink()
    tool.mkdir()
    assert marks(PATH=str(bin_folder), KEY="x") == ["binary"]
    assert not (tmp_path / "ran").exists()


def test_an_empty_path_does_not_find_programs_in_the_working_folder(world: World):
    write_skill(world.home / ".agents/skills/needy", more=NEEDS)
    here = os.getcwd()
    (world.project / "tool").write_text("")
    (world.project / "tool").chmod(0o755)
    try:
        os.chdir(world.project)
        assert "binary" in verdict_codes(world.open(place=world.place(env={"PATH": ""})), "needy")
    finally:
        os.chdir(here)


def test_an_agents_list_is_absent_empty_or_names_some(world: World):
    for name in ("a", "b", "c"):
        write_skill(world.home / f".agents/skills/{name}")
    assert usable(world.open()) == ["a", "b", "c"]
    assert usable(world.open(agent=[])) == []
    assert usable(world.open(agent=["c", "a"])) == ["a", "c"]
    assert [entry.name for entry in world.open(agent=["c", "a"]).catalog().entries] == ["c", "a"]
    assert verdict_codes(world.open(agent=["a"]), "b") == ["not-allowed"]
    assert world.open(agent=["a"]).match("/b").name is None


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("---\nname: x\n---\n", ["a", "b"]),
        ("---\nskills: []\n---\n", []),
        ("---\nskills: [b]\n---\n", ["b"]),
        ("---\nskills:\n  - a\n---\n", ["a"]),
    ],
)
def test_an_agents_own_file_says_which_skills_it_has(world: World, head: str, expected: list[str]):
    for name in ("a", "b"):
        write_skill(world.home / f".agents/skills/{name}")
    (world.state / "agents").mkdir(parents=True)
    (world.state / "agents/helper.md").write_text(head)
    assert usable(world.open(agent="helper")) == expected
    assert usable(world.open(agent=str(world.state / "agents/helper.md"))) == expected


def test_the_configuration_says_which_skills_an_agent_has_before_its_file_does(world: World):
    for name in ("a", "b"):
        write_skill(world.home / f".agents/skills/{name}")
    (world.state / "agents").mkdir(parents=True)
    (world.state / "agents/one.md").write_text("---\nskills: []\n---\n")
    (world.state / "config.toml").write_text('[agents.one]\nskills = ["b"]\n[agents.all]\n')
    assert usable(world.open(agent="one")) == ["b"]
    assert usable(world.open(agent="all")) == ["a", "b"]


def test_an_agent_that_is_not_there_or_has_no_frontmatter_is_a_clear_error(world: World):
    with pytest.raises(BadRequest, match="no agent named `nobody`"):
        world.open(agent="nobody")
    (world.home / "plain.md").write_text("just text")
    with pytest.raises(BadRequest, match="no frontmatter"):
        world.open(agent=str(world.home / "plain.md"))


def test_an_agent_of_agentmd_without_a_list_has_no_skills(world: World):
    write_skill(world.project / "workspace/agents/skills/a")
    agents = world.project / "workspace/agents"
    (agents / "plain.md").write_text("---\nname: plain\n---\n")
    (agents / "listed.md").write_text("---\nskills: [a]\n---\n")
    world.trust("agentmd")
    assert usable(world.open("agentmd", agent="plain")) == []
    assert usable(world.open("agentmd", agent="listed")) == ["a"]
    assert usable(world.open("agentmd")) == ["a"]


def test_a_profile_shadows_what_is_managed(world: World):
    write_skill(world.home / ".super-multica/skills/same", body="managed")
    write_skill(world.home / ".super-multica/agent-profiles/me/skills/same", body="profile")
    library = world.open("multica", place=world.place(profile="me"))
    assert library.find("same").skill.origin.root == "profile"
    assert world.open("multica").find("same").skill.origin.root == "managed-multica"


def test_an_unknown_dialect_is_a_clear_error(world: World):
    with pytest.raises(BadRequest, match="`umbar` is not a dialect") as caught:
        world.open("umbar")
    assert "umbra" in caught.value.hint


def test_reloading_again_and_again_leaves_nothing_open(world: World):
    for number in range(20):
        write_skill(world.home / f".agents/skills/s{number}")
    library = world.open(index=True)
    for _ in range(20):
        library = library.reload()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        library = library.reload()
    assert len(os.listdir("/proc/self/fd")) < before + 60


def test_a_library_is_a_value_that_can_be_compared_and_kept_and_gives_no_secrets_away(world: World):
    write_skill(world.home / ".agents/skills/one")
    world.variables["SECRET_TOKEN"] = "hunter2"
    first, second = world.open(), world.open()

    assert first == second
    assert hash(first) == hash(second)
    assert "hunter2" not in repr(first)


def test_a_wrong_format_or_limit_is_a_bad_request(world: World):
    library = world.open()
    with pytest.raises(BadRequest, match="`nope` is not a format"):
        library.catalog(format="nope")  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="must be 0 or more"):
        library.catalog(max_chars=-1)


def test_the_same_catalog_is_made_once_and_another_library_makes_its_own(world: World):
    write_skill(world.home / ".agents/skills/one")
    library = world.open()

    assert library.catalog() is library.catalog()
    assert library.catalog(max_chars=10) is not library.catalog()
    assert library.catalog(max_skills=0).entries == ()
    assert library.replace(skills=()).catalog().entries == ()
    assert [entry.name for entry in library.catalog().entries] == ["one"]


def test_a_frozen_skill_is_hashed_once_for_an_activation_however_many_commands_it_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    root = world.home / ".metier/skills"
    write_skill(root / "one", body="!`echo a` !`echo b`\n")
    freeze_skills(InstallRoot(str(root)), ["one"], DIALECTS["standard"])
    library = world.open()
    hashed = watch_hashing(monkeypatch)

    assert library.activate("one").text == "a b"
    assert hashed == [str(root / "one")]

    (root / "one/more.txt").write_text("more")
    with pytest.raises(Changed, match=r"frozen, and more\.txt was added"):
        library.activate("one")


def test_a_frozen_skill_is_hashed_once_for_an_export(world: World, monkeypatch: pytest.MonkeyPatch):
    root = world.home / ".metier/skills"
    write_skill(root / "one")
    for name in ("a.txt", "b.txt"):
        (root / "one" / name).write_text(name)
    freeze_skills(InstallRoot(str(root)), ["one"], DIALECTS["standard"])
    library = world.open()
    hashed = watch_hashing(monkeypatch)

    assert sorted(export_files(library, library.skills[0])) == ["SKILL.md", "a.txt", "b.txt"]
    assert hashed == [str(root / "one")]

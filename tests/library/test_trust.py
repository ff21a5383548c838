"""A project's skills are seen before it is trusted, and do nothing; trust is bound to a path and to what can run."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.home import World, codes, ids, python, usable, write_skill

from metier.types.errors import BadRequest, Changed, HostError

CLI = "import sys; from metier.faces.cli.app import main; sys.exit(main())"


def command_line(world: World, *arguments: str, cwd: Path | None = None) -> str:
    code = f"import sys; sys.argv[0] = 'metier'; {CLI.removeprefix('import sys; ')}"
    done = python(code, *arguments, env=world.variables, cwd=cwd or world.project)
    assert done.returncode in (0, None), done.stderr + done.stdout
    return done.stdout


def standing(library) -> dict[str, list[str]]:
    return {verdict.skill.id: [mark.code for mark in verdict.findings] for verdict in library.verdicts}


@pytest.fixture
def theirs(world: World) -> Path:
    """A skill of a project, with a command, a script and a grant."""
    folder = world.project / ".agents/skills/deploy"
    write_skill(folder, body="Run this: !`git status`\n\n```!\nls\n```\n", more="allowed-tools: Read\n")
    (folder / "scripts").mkdir()
    (folder / "scripts/go.sh").write_text("echo go\n")
    (folder / "notes.md").write_text("notes\n")
    return folder


def test_untrusted_skills_are_listed_as_such_and_are_nowhere_else(world: World, theirs: Path):
    library = world.open()
    assert ids(library) == ["deploy"]
    assert standing(library) == {"deploy": ["untrusted"]}
    assert library.catalog().entries == ()
    assert "deploy" not in library.catalog().text
    assert library.commands() == ()
    assert library.match("/deploy now").name is None
    assert not library.find("deploy").usable


def test_untrusted_skills_shadow_nothing(world: World, theirs: Path):
    write_skill(world.home / ".agents/skills/deploy", "Mine.")
    library = world.open()
    assert library.find("deploy").skill.description == "Mine."
    assert [verdict.shadowed_by for verdict in library.verdicts] == [None, None]
    assert library.match("/deploy").name == "deploy"
    world.trust()
    assert world.open().find("deploy").skill.origin.source == "project"


def test_the_configuration_of_a_project_is_unread_before_trust_and_after_a_change(world: World, theirs: Path):
    write_skill(world.project / "extra/configured")
    config = world.project / ".metier/config.toml"
    config.parent.mkdir()
    config.write_text('roots = ["extra"]\nnonsense = 1\n')
    before = world.open()
    assert (ids(before), codes(before)) == (["deploy"], [])
    world.trust()
    trusted = world.open()
    assert (ids(trusted), codes(trusted)) == (["deploy", "configured"], ["config-unknown-key"])
    config.write_text('roots = ["extra", "more"]\n')
    changed = world.open()
    assert (ids(changed), codes(changed)) == (["deploy"], ["changed-since-trust"])
    config.unlink()
    assert codes(world.open()) == []


def test_a_project_can_not_configure_a_root_outside_itself(world: World, theirs: Path):
    write_skill(world.home / "extra/private")
    config = world.project / ".metier/config.toml"
    config.parent.mkdir()
    config.write_text('roots = ["~/extra"]\n')
    world.trust()
    library = world.open()
    assert (ids(library), codes(library)) == (["deploy"], ["link-outside"])


def test_even_broken_configuration_of_an_untrusted_project_is_not_looked_at(world: World, theirs: Path):
    config = world.project / ".metier/config.toml"
    config.parent.mkdir()
    os.mkfifo(config)
    assert codes(world.open()) == []


def test_agents_of_an_untrusted_project_decide_nothing(world: World, theirs: Path):
    write_skill(world.home / ".agents/skills/secret")
    (world.project / "agents").mkdir()
    (world.project / "agents/reviewer.md").write_text("---\nskills: [secret]\n---\n")
    with pytest.raises(BadRequest, match="not trusted"):
        world.open(agent="reviewer")
    (world.state / "agents").mkdir(parents=True)
    (world.state / "agents/reviewer.md").write_text("---\nskills: []\n---\n")
    assert usable(world.open(agent="reviewer")) == []
    world.trust()
    assert usable(world.open(agent="reviewer")) == ["secret"]


def test_trusted_skills_are_like_any_other(world: World, theirs: Path):
    world.trust()
    library = world.open()
    assert standing(library) == {"deploy": []}
    assert [command.name for command in library.commands()] == ["deploy"]
    assert library.match("/deploy now")[:2] == ("deploy", "now")


def test_a_copy_of_a_trusted_project_elsewhere_is_untrusted(world: World, theirs: Path, tmp_path: Path):
    world.trust()
    shutil.copytree(world.project, tmp_path / "copy")
    copy = World(world.home, tmp_path / "copy", world.state)
    assert standing(copy.open()) == {"deploy": ["untrusted"]}


def test_a_git_folder_that_points_into_a_trusted_project_brings_no_trust(world: World, theirs: Path, tmp_path: Path):
    world.trust()
    shutil.copytree(world.project, tmp_path / "copy")
    (tmp_path / "copy/.git/commondir").write_text(f"{world.project}/.git\n")
    copy = World(world.home, tmp_path / "copy", world.state)
    assert standing(copy.open()) == {"deploy": ["untrusted"]}


def test_a_trusted_project_is_trusted_by_whatever_path_it_is_reached(world: World, theirs: Path, tmp_path: Path):
    world.trust()
    (tmp_path / "link").symlink_to(world.project)
    through = World(world.home, tmp_path / "link", world.state)
    assert standing(through.open()) == {"deploy": []}


def change_command(folder: Path) -> None:
    write_skill(folder, body="Run this: !`git push`\n\n```!\nls\n```\n", more="allowed-tools: Read\n")


def change_block(folder: Path) -> None:
    write_skill(folder, body="Run this: !`git status`\n\n```!\nls -a\n```\n", more="allowed-tools: Read\n")


def widen_grant(folder: Path) -> None:
    text = (folder / "SKILL.md").read_text()
    (folder / "SKILL.md").write_text(text.replace("allowed-tools: Read", "allowed-tools: Read Bash"))


def change_script(folder: Path) -> None:
    (folder / "scripts/go.sh").write_text("echo gone\n")


def add_script(folder: Path) -> None:
    (folder / "extra.py").write_text("print()\n")


def make_executable(folder: Path) -> None:
    (folder / "notes.md").chmod(0o755)


def add_link(folder: Path) -> None:
    (folder / "scripts/link").symlink_to("../SKILL.md")


def add_recipe(folder: Path) -> None:
    write_skill(
        folder,
        body="Run this: !`git status`\n\n```!\nls\n```\n",
        more="allowed-tools: Read\nmetadata:\n  openclaw:\n    install:\n      - {kind: brew, formula: evil}\n",
    )


def hide_script_among_many(folder: Path) -> None:
    (folder / "assets").mkdir()
    for number in range(2_100):
        os.close(os.open(f"{folder}/assets/{number}", os.O_CREAT | os.O_WRONLY))
    (folder / "zzz").mkdir()
    (folder / "zzz/late.sh").write_text("echo late\n")


@pytest.mark.parametrize(
    "change",
    [change_command, change_block, widen_grant, change_script, add_script, make_executable, add_link, add_recipe,
     hide_script_among_many],
)  # fmt: skip
def test_what_can_run_is_asked_about_again_when_it_changes(world: World, theirs: Path, change):
    world.trust()
    change(theirs)
    assert standing(world.open()) == {"deploy": ["changed-since-trust"]}
    assert usable(world.open(index=True)) == []
    world.trust()
    assert standing(world.open()) == {"deploy": []}


def edit_prose(folder: Path) -> None:
    text = (folder / "SKILL.md").read_text().replace("Run this:", "Please run this, and mind the cat:")
    (folder / "SKILL.md").write_text(text.replace("Does it.", "Does it well."))


def remove_notes(folder: Path) -> None:
    (folder / "notes.md").unlink()


def remove_script(folder: Path) -> None:
    (folder / "scripts/go.sh").unlink()


def remove_command(folder: Path) -> None:
    write_skill(folder, body="Run nothing.\n")


def write_the_same_again(folder: Path) -> None:
    aside = folder.with_name("aside")
    folder.rename(aside)
    shutil.copytree(aside, folder, symlinks=True, copy_function=shutil.copyfile)
    shutil.rmtree(aside)


@pytest.mark.parametrize("change", [edit_prose, remove_notes, remove_script, remove_command, write_the_same_again])
def test_prose_and_what_is_taken_away_ask_nothing(world: World, theirs: Path, change):
    (theirs / "scripts/link").symlink_to("go.sh")
    world.trust()
    change(theirs)
    assert standing(world.open()) == {"deploy": []}


def test_a_link_that_leads_elsewhere_now_asks_again(world: World, theirs: Path):
    (theirs / "scripts/link").symlink_to("go.sh")
    world.trust()
    key = os.lstat(theirs / "scripts/link")
    (theirs / "scripts/link").unlink()
    (theirs / "scripts/link").symlink_to("no.sh")
    os.utime(theirs / "scripts/link", ns=(key.st_atime_ns, key.st_mtime_ns), follow_symlinks=False)
    assert standing(world.open()) == {"deploy": ["changed-since-trust"]}


def test_a_skill_with_more_files_than_are_looked_through_is_never_vouched_for(world: World, theirs: Path):
    (theirs / "assets").mkdir()
    (theirs / "assets/0").touch()
    for number in range(1, 20_000):
        os.link(theirs / "assets/0", f"{theirs}/assets/{number}")
    world.trust()
    assert standing(world.open()) == {"deploy": ["changed-since-trust"]}


def test_a_skill_that_comes_later_asks(world: World, theirs: Path):
    world.trust()
    write_skill(world.project / ".agents/skills/later")
    assert usable(world.open()) == ["deploy"]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"version": 2, "projects": {}}', '{"version": 1}', '{"version": 1, "projects": []}',
     "[" * 100_000, "\ufeff{"],
)  # fmt: skip
def test_a_damaged_book_is_a_clear_error_and_nobody_is_trusted(world: World, theirs: Path, content: str):
    world.trust()
    (world.state / "trust.json").write_text(content, encoding="utf-8")
    with pytest.raises(HostError, match=r"trust\.json is damaged") as caught:
        world.open()
    assert "metier trust" in caught.value.hint


@pytest.mark.parametrize("record", [[], "x", 3, None, {"skills": []}, {"skills": {".agents/skills/deploy": 3}}])
def test_a_record_that_says_nothing_sensible_trusts_nothing(world: World, theirs: Path, record: object):
    world.state.mkdir()
    book = {"version": 1, "projects": {str(world.project): record}}
    (world.state / "trust.json").write_text(json.dumps(book))
    assert usable(world.open()) == []


def test_trust_given_and_taken_back_on_the_command_line(world: World, theirs: Path):
    assert "deploy" in command_line(world, "list")
    assert "deploy" not in command_line(world, "catalog")
    command_line(world, "trust")
    assert usable(world.open()) == ["deploy"]
    assert "deploy" in command_line(world, "catalog")
    command_line(world, "trust", "--remove")
    assert usable(world.open()) == []
    assert "deploy" not in command_line(world, "catalog")


def test_a_new_skill_is_trusted_and_its_neighbours_are_not(world: World, theirs: Path):
    (world.project / ".metier").mkdir()
    (world.project / ".metier/config.toml").write_text('roots = ["~/extra"]\n')
    write_skill(world.home / "extra/configured")
    command_line(world, "new", "mine", "Does", "mine.")
    library = world.open()
    assert usable(library) == ["mine"]
    assert ids(library) == ["mine", "deploy"]
    assert codes(library) == []


def test_without_anybody_to_ask_nothing_is_trusted(world: World, theirs: Path):
    code = "import metier; lib = metier.open(); print([v.usable for v in lib.verdicts], lib.catalog().entries)"
    done = python(code, env=world.variables, cwd=world.project)
    assert done.stdout.strip() == "[False] ()", done.stderr


def test_trust_is_kept_outside_the_project(world: World, theirs: Path):
    before = sorted(path.relative_to(world.project) for path in world.project.rglob("*"))
    world.trust()
    assert sorted(path.relative_to(world.project) for path in world.project.rglob("*")) == before
    (world.project / ".metier").mkdir()
    shutil.copy(world.state / "trust.json", world.project / ".metier/trust.json")
    (world.state / "trust.json").unlink()
    assert usable(world.open()) == []


@pytest.mark.parametrize("way", ["script", "command"])
def test_what_changed_after_trust_does_not_run_in_a_library_that_is_open(world: World, theirs: Path, way: str):
    world.trust()
    library = world.open()
    access = library.skill_access()
    skill = access.skill("deploy")
    assert access.run(skill, "go.sh", ()).stdout == "go\n"
    (theirs / "scripts/go.sh").write_text("echo evil\n")
    with pytest.raises(Changed, match="is not what was trusted"):
        access.run(skill, "go.sh", ()) if way == "script" else library.activate("deploy")
    world.trust()
    assert access.run(skill, "go.sh", ()).stdout == "evil\n"

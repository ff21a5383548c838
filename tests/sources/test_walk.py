"""Which folders of a root are skills, in which order, and what is said of those left out."""

import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.home import World, codes, ids, write_skill

from metier.parse.fastpath import SimpleSkillReader
from metier.sources import scan
from metier.sources.scan import SkillReader
from metier.types.skill import BrokenSkill, Found, Skill


def problem_of(library, code):
    [found] = [problem for problem in library.problems if problem.code == code]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_order_is_that_of_the_names_however_the_folders_were_made(world: World, seed: int):
    names = ["a", "a-b", "ab", "b", "group/x", "group/y", "z", "é", "Z"]
    shuffled = names[:]
    random.Random(seed).shuffle(shuffled)
    root = world.home / ".agents/skills"
    for name in shuffled:
        write_skill(root / name)
    assert ids(world.open()) == ["Z", "a", "a-b", "ab", "b", "x", "y", "z", "é"]


@pytest.mark.parametrize(
    ("dialect", "root", "depth"),
    [
        ("standard", ".agents/skills", 6),
        ("claude", ".claude/skills", 1),
        ("umbra", ".umbra/skills", 6),
        ("agenvoy", ".config/agenvoy/skills", 1),
        ("multica", ".super-multica/skills", 4),
        ("openclaw", ".openclaw/skills", 2),
    ],
)
def test_each_dialect_looks_as_deep_as_its_product_and_says_what_lies_deeper(world: World, dialect, root, depth):
    for level in range(1, 9):
        inner = "/".join(f"g{level}-{n}" for n in range(1, level))
        write_skill(world.home / root / inner / f"level-{level}")
    library = world.open(dialect)
    assert sorted(ids(library)) == [f"level-{level}" for level in range(1, depth + 1)]
    said = problem_of(library, "limit-depth")
    assert f"level-{depth + 1}" in said.message
    assert str(depth) in said.message


def test_a_skill_inside_a_skill_is_not_a_skill_of_the_root(world: World):
    write_skill(world.home / ".agents/skills/outer")
    write_skill(world.home / ".agents/skills/outer/examples/inner")
    assert ids(world.open()) == ["outer"]


@pytest.mark.parametrize("name", [".git", ".hidden", "node_modules", "__pycache__", ".system"])
def test_folders_of_tools_and_hidden_ones_are_passed_over(world: World, name: str):
    write_skill(world.home / ".agents/skills" / name / "not-this")
    write_skill(world.home / ".agents/skills/group" / name / "nor-this")
    write_skill(world.home / ".agents/skills/this")
    assert ids(world.open()) == ["this"]


def test_plain_files_in_a_root_are_no_skills(world: World):
    root = world.home / ".agents/skills"
    write_skill(root / "real")
    (root / "README.md").write_text("---\nname: readme\ndescription: No.\n---\n")
    (root / "SKILL.md").write_text("---\nname: loose\ndescription: No.\n---\n")
    assert ids(world.open()) == ["real"]


def test_a_skills_folder_that_holds_skills_is_the_real_root_in_openclaw(world: World):
    root = world.home / ".openclaw/skills"
    write_skill(root / "skills/inner")
    write_skill(root / "skills/group/deeper")
    assert ids(world.open("openclaw")) == ["deeper", "inner"]
    (root / "skills/inner/SKILL.md").unlink()
    (root / "skills/group/deeper/SKILL.md").unlink()
    write_skill(root / "beside")
    assert ids(world.open("openclaw")) == ["beside"]


@pytest.mark.parametrize("spelling", ["SKILL.md", "skill.md", "Skill.MD"])
def test_a_root_of_umbra_may_itself_be_a_skill(world: World, spelling: str):
    root = world.home / ".umbra/skills"
    file = write_skill(root)
    file.rename(root / spelling)
    write_skill(root / "below")
    assert ids(world.open("umbra")) == ["skills"]


def test_a_root_that_is_a_skill_by_a_link_in_it_is_one(world: World):
    root = world.home / ".umbra/skills"
    write_skill(root).rename(root / "real.md")
    (root / "SKILL.md").symlink_to("real.md")
    assert ids(world.open("umbra")) == ["skills"]


def test_a_file_in_other_letters_loads_and_is_marked_and_the_right_spelling_wins(world: World):
    root = world.home / ".agents/skills"
    write_skill(root / "one").rename(root / "one/Skill.md")
    write_skill(root / "two", "The right one.")
    (root / "two/skill.md").write_text("---\nname: two\ndescription: The wrong one.\n---\n")
    library = world.open()
    assert ids(library) == ["one", "two"]
    assert [mark.code for mark in library.skills[0].findings] == ["file-case"]
    assert library.skills[1].description == "The right one."


def test_the_scheduler_folder_is_never_scanned_and_its_skills_are_commands_at_the_end(world: World):
    root = world.home / ".config/agenvoy/skills"
    write_skill(root / "zebra")
    write_skill(root / "scheduler/a-nightly")
    write_skill(root / "scheduler/.hidden")
    (root / "scheduler/empty").mkdir()
    library = world.open("agenvoy")
    assert ids(library) == ["zebra"]
    commands = library.commands()
    assert [command.name for command in commands] == ["zebra", "sched-a-nightly"]
    assert commands[-1].scheduled == str(root / "scheduler/a-nightly/SKILL.md")
    assert "nightly" not in library.catalog().text


def test_openclaw_takes_300_candidates_of_a_root_and_200_skills_of_a_source_and_names_the_first_left_out(world: World):
    root = world.home / ".openclaw/skills"
    for number in range(302):
        write_skill(root / f"s{number:03}")
    library = world.open("openclaw")
    assert len(library.skills) == 200
    candidates, skills = problem_of(library, "limit-candidates"), problem_of(library, "limit-skills")
    assert "`s300`" in candidates.message
    assert "300" in candidates.message
    assert "100 were left out, from `s200` on" in skills.message


def test_folders_that_are_no_skills_do_not_use_up_the_caps(world: World):
    root = world.home / ".openclaw/skills"
    for number in range(400):
        (root / f"a{number:03}").mkdir(parents=True)
    for number in range(200):
        write_skill(root / f"s{number:03}")
    library = world.open("openclaw")
    assert len(library.skills) == 200
    assert codes(library) == []


def test_a_root_with_exactly_as_many_skills_as_allowed_says_nothing(world: World):
    root = world.home / ".openclaw/skills"
    for number in range(200):
        write_skill(root / f"s{number:03}")
    (world.state).mkdir()
    (world.state / "config.toml").write_text("[limits]\ncandidates = 200\n")
    (root / "zzz-notes").mkdir()
    assert codes(world.open("openclaw")) == []
    write_skill(root / "zzz-group/late")
    assert "`zzz-group`" in problem_of(world.open("openclaw"), "limit-candidates").message


def test_the_cap_is_said_once_for_a_root_however_deep_it_cut(world: World):
    root = world.home / ".agents/skills"
    for group in "abc":
        for number in range(4):
            write_skill(root / group / group / f"{group}{number}")
    world.state.mkdir()
    (world.state / "config.toml").write_text("[limits]\ncandidates = 5\n")
    library = world.open()
    assert ids(library) == ["a0", "a1", "a2", "a3", "b0"]
    assert "`b/b/b1`" in problem_of(library, "limit-candidates").message


def test_more_than_2000_folders_without_skills_are_not_searched_and_it_is_said_once(world: World):
    root = world.home / ".agents/skills"
    for number in range(2_005):
        (root / f"a{number:04}").mkdir(parents=True)
    write_skill(root / "b-skill")
    write_skill(root / "c-group/inner")
    library = world.open()
    assert ids(library) == ["b-skill"]
    assert "2000" in problem_of(library, "limit-directories").message


def test_a_skill_folder_full_of_files_costs_nothing(world: World, monkeypatch: pytest.MonkeyPatch):
    folder = world.home / ".agents/skills/full"
    write_skill(folder)
    looked = []

    def noting(at: Callable[[str | int], object], path: str | int = ".") -> object:
        looked.append(os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else path)
        return at(path)

    for name in ("scandir", "listdir"):
        monkeypatch.setattr(os, name, partial(noting, getattr(os, name)))
    assert ids(world.open()) == ["full"]
    assert str(folder.parent) in looked
    assert str(folder) not in looked


def test_a_deep_tree_ends(world: World):
    deep = world.home / ".agents/skills"
    write_skill(deep / "shallow")
    for _ in range(200):
        deep = deep / "d"
    write_skill(deep)
    assert ids(world.open()) == ["shallow"]


@pytest.mark.parametrize(
    "name",
    [b"caf\xe9", b"two\nlines", b"\x1b[31mred\x1b[0m", b"\xff\xfe", "e\u0301".encode(), b"tab\there", b"'\"; rm -rf"],
)
@pytest.mark.parametrize("index", [False, True])
def test_any_name_a_file_system_allows_is_read_listed_and_read_again(world: World, opener, name: bytes, index: bool):
    folder = os.path.join(os.fsencode(world.home), b".agents/skills", name)
    os.makedirs(folder)
    with open(os.path.join(folder, b"SKILL.md"), "wb") as file:
        file.write(b"---\nname: odd\ndescription: Odd.\n---\nBody.\n")
    write_skill(world.home / ".agents/skills/good")
    time.sleep(0.06)
    for _ in (1, 2):
        library = world.open(index=index)
        assert {os.fsencode(one) for one in ids(library)} == {name, b"good"}
        assert library.read(library.find("odd").skill).text.strip() == "Body."
        assert library.snapshot.version
        catalog = library.catalog().text
        assert "\x1b" not in catalog
        assert codes(library) == []


def test_a_project_whose_own_path_is_not_utf8_opens_with_an_index(world: World):
    project = Path(os.fsdecode(os.fsencode(world.project) + b"\xff"))
    (project / ".git").mkdir(parents=True)
    write_skill(project / ".agents/skills/theirs")
    write_skill(world.home / ".agents/skills/mine")
    place = World(world.home, project, world.state).place()
    time.sleep(0.06)
    for _ in (1, 2):
        library = world.open(index=True, place=place)
        assert ids(library) == ["theirs", "mine"]
        assert library.snapshot.version


@pytest.mark.parametrize("root", [".agents/skills", ".claude/skills"])
@pytest.mark.parametrize("length", [900, 1_100, 3_000, 5_000, 40_000])
def test_a_head_is_read_to_its_end_however_long_it_is(world: World, root: str, length: int):
    folder = world.home / root / "long"
    folder.mkdir(parents=True)
    more = "x: " + "y" * length
    (folder / "SKILL.md").write_text(f"---\nname: long\n{more}\ndescription: Comes last.\n---\n" + "Body.\n" * 2_000)

    [skill] = [skill for skill in world.open().skills if skill.id == "long"]

    assert skill.description == "Comes last."
    assert len(skill.extra.text("x")) == length


def test_a_description_is_taken_from_a_body_that_begins_beyond_the_first_kilobyte(world: World):
    folder = world.home / ".umbra/skills" / "late"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: late\nx: " + "y" * 1_000 + "\n---\n\n\nSays what it does.\n\nMore.\n")

    [skill] = world.open(dialect="umbra").skills

    assert skill.description == "Says what it does."


def test_a_file_that_the_reader_itself_fails_at_takes_no_other_skill_with_it(world: World):
    write_skill(world.state / "skills" / "well")
    write_skill(world.state / "skills" / "cursed", more="metadata: {a: [1, 2]}\n")
    library = world.open(index=False)
    plain = SimpleSkillReader().read

    def failing(found: Found) -> Skill | BrokenSkill:
        raise RecursionError("deeper than deep")

    reader = SkillReader(lambda *given: None if "cursed" in given[1] else plain(*given), failing)
    seen = scan.scan_roots(library.roots, library.limits, None, reader)

    assert [skill.id for skill in seen.skills] == ["well"]
    [broken] = seen.broken
    assert (broken.id, broken.findings[0].code, broken.findings[0].details) == (
        "cursed",
        "reader-fault",
        ("RecursionError",),
    )

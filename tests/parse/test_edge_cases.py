"""Twenty-six odd skills, each beside a good one: the good one always loads, and every salvageable one does too."""

import os

import pytest

import metier

GOOD = b"---\nname: good\ndescription: A good skill.\n---\nBody\n"
HEAD = "---\nname: odd\ndescription: An odd skill.\n"
BOMB = "x:\n  a: &a [y,y,y,y]\n  b: &b [*a,*a,*a,*a]\n  c: &c [*b,*b,*b,*b]\n  d: [*c,*c,*c,*c]\n"

# what the file says, whether the skill loads, and the findings that say what was done
FILES: dict[str, tuple[bytes | str, bool, set[str]]] = {
    "byte order mark": ("\ufeff" + HEAD + "---\n", True, {"bom-stripped"}),
    "crlf": ((HEAD + "---\nBody\n").replace("\n", "\r\n"), True, set()),
    "no name": ("---\ndescription: An odd skill.\n---\n", True, {"missing-name"}),
    "unquoted colon": ("---\nname: odd\ndescription: Use when: odd\n---\n", True, {"yaml-repaired"}),
    "tags": (HEAD + "tags: [a, b]\n---\n", True, {"unknown-field"}),
    "tools as a list": (HEAD + "allowed-tools: [Read, Grep]\n---\n", True, set()),
    "tools as text": (HEAD + "allowed-tools: Read Grep\n---\n", True, set()),
    "other name": ("---\nname: other\ndescription: An odd skill.\n---\n", True, {"name-mismatch"}),
    "free name": ("---\nname: My Skill\ndescription: An odd skill.\n---\n", True, {"name-mismatch"}),
    "long description": (f"---\nname: odd\ndescription: {'x' * 1100}\n---\n", True, {"description-too-long"}),
    "nested metadata": (
        HEAD + "version: 1.10\nauthor: me\nmetadata:\n  a:\n    b: [c]\n---\n",
        True,
        {"unknown-field"},
    ),
    "country no": (HEAD + "metadata: {country: no}\n---\n", True, set()),
    "duplicate key": (HEAD + "description: Again.\n---\n", True, {"duplicate-key"}),
    "latin-1": (b"---\nname: odd\ndescription: caf\xe9\n---\n", False, {"not-utf8"}),
    "no frontmatter": ("# Odd\n\nText\n", False, {"no-frontmatter"}),
    "unclosed": (HEAD + "\nBody\n", False, {"unclosed-frontmatter"}),
    "empty description": ("---\nname: odd\ndescription:\n---\nBody\n", False, {"missing-description"}),
    "tabs": (HEAD + "metadata:\n\tauthor: me\n---\n", True, {"yaml-repaired"}),
    "no body": (HEAD + "---", True, set()),
    "fence with blanks": (HEAD.replace("---\n", "---  \n", 1) + "---  \nBody\n", True, set()),
    "alias bomb": (HEAD + BOMB + "---\n", False, {"invalid-yaml"}),
}


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("METIER_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "root"
    (folder / "good").mkdir(parents=True)
    (folder / "good" / "SKILL.md").write_bytes(GOOD)
    return folder


def look(root):
    """The library, after making sure that the good skill is in it, whole and usable."""
    library = metier.open(root=str(root), index=False)
    assert library.find("good").eligible
    assert "good" in library.catalog().text
    return library


def write(root, data, *, folder="odd", file="SKILL.md"):
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / file).write_bytes(data if isinstance(data, bytes) else data.encode())


@pytest.mark.parametrize("case", sorted(FILES))
def test_an_odd_skill_loads_if_it_can_and_says_what_was_repaired(root, case):
    data, loads, said = FILES[case]
    write(root, data)
    library = look(root)
    made = {one.id: one for one in (*library.skills, *library.broken)}["odd"]

    assert (made in library.skills) is loads
    assert {one.code for one in made.problems} == said
    assert all(one.message and one.hint and one.path.endswith("odd/SKILL.md") and one.line for one in made.problems)


def test_a_name_in_another_script_loads(root):
    write(root, "---\nname: 技能\ndescription: 描述\n---\n", folder="技能")

    assert look(root).find("技能").skill.problems == ()


def test_a_file_in_small_letters_loads_and_is_named(root):
    write(root, HEAD + "---\n", file="skill.md")

    assert [one.code for one in look(root).find("odd").skill.problems] == ["file-case"]


def test_a_skill_in_a_group_of_skills_loads(root):
    write(root, HEAD + "---\n", folder="cat/odd")

    assert look(root).find("odd").skill.problems == ()


def test_a_linked_folder_inside_the_root_loads_once(root):
    write(root, HEAD + "---\n", folder=".store/odd")
    os.symlink(".store/odd", root / "odd")

    assert [skill.id for skill in look(root).skills] == ["good", "odd"]


def test_a_linked_folder_outside_a_contained_root_is_named_or_followed(root, tmp_path):
    write(tmp_path, HEAD + "---\n", folder="elsewhere/odd")
    os.symlink(tmp_path / "elsewhere" / "odd", root / "odd")
    library = look(root)

    assert {"odd"} <= {skill.id for skill in library.skills} or "link-outside" in {one.code for one in library.problems}


def test_of_two_skills_with_one_name_both_stay_known(root):
    write(root, HEAD + "---\nFirst\n", folder="a")
    write(root, HEAD + "---\nSecond\n", folder="b")
    library = look(root)

    assert len([skill for skill in library.skills if skill.name == "odd"]) == 2
    assert [verdict.shadowed_by is not None for verdict in library.verdicts if verdict.skill.name == "odd"].count(
        True
    ) == 1
    assert "shadowed" in {one.code for verdict in library.verdicts for one in verdict.problems}


def test_all_of_them_at_once_leave_the_good_one_alone(root):
    for number, (data, _, _) in enumerate(FILES.values()):
        write(root, data, folder=f"odd-{number:02}")
    library = look(root)

    assert len(library.skills) + len(library.broken) == len(FILES) + 1
    assert len(library.broken) == sum(not loads for _, loads, _ in FILES.values())

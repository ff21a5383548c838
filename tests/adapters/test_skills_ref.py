"""The functions of skills-ref say what the original says, its bugs apart."""

import contextlib
import unicodedata
from pathlib import Path

import pytest

from metier.adapters.skills_ref import (
    ParseError,
    SkillProperties,
    SkillsRefError,
    ValidationError,
    find_skill_md,
    parse_frontmatter,
    read_properties,
    to_prompt,
    validate,
    validate_metadata,
)

ONLY = "Only ['allowed-tools', 'compatibility', 'description', 'license', 'metadata', 'name'] are allowed."
NOT_OPENED = "SKILL.md must start with YAML frontmatter (---)"
NOT_CLOSED = "SKILL.md frontmatter not properly closed with ---"
NO_MAPPING = "SKILL.md frontmatter must be a YAML mapping"


def skill(base: Path, frontmatter: str, directory: str = "my-skill", body: str = "Body.\n") -> Path:
    return written(base, f"---\n{frontmatter}\n---\n{body}", directory)


def written(base: Path, content: str | bytes, directory: str = "my-skill", file: str = "SKILL.md") -> Path:
    folder = base / directory
    folder.mkdir(exist_ok=True)
    (folder / file).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


GOOD = "name: my-skill\ndescription: Does it."


@pytest.mark.parametrize(
    ("frontmatter", "said"),
    [
        (GOOD, []),
        (f"{GOOD}\nlicense: MIT\ncompatibility: any\nallowed-tools: Read Grep\nmetadata:\n  a: b", []),
        ("description: Does it.", ["Missing required field in frontmatter: name"]),
        ("name: my-skill", ["Missing required field in frontmatter: description"]),
        ("name: ''\ndescription: x", ["Field 'name' must be a non-empty string"]),
        ("name: my-skill\ndescription:", ["Field 'description' must be a non-empty string"]),
        (f"{GOOD}\nzeta: 1\nalpha: 2", [f"Unexpected fields in frontmatter: alpha, zeta. {ONLY}"]),
        (f"name: my-skill\ndescription: {'x' * 1100}", ["Description exceeds 1024 character limit (1100 chars)"]),
        (f"{GOOD}\ncompatibility: {'x' * 550}", ["Compatibility exceeds 500 character limit (550 chars)"]),
        (f"{GOOD}\ncompatibility: ''", []),
        (f"{GOOD}\nmetadata: hello", []),
        (f"{GOOD}\nmetadata:\n  a:\n    b: c", []),
        (f"{GOOD}\nallowed-tools:\n  - Read\n  - Write", []),
        ("name: my-skill\ndescription: true", []),
        ("name: my-skill\ndescription: foo # bar", []),
        ("", [NO_MAPPING]),
        ("# only a remark", [NO_MAPPING]),
        ("- a\n- b", [NO_MAPPING]),
        ("just text", [NO_MAPPING]),
    ],
)
def test_a_skill_is_judged_as_the_original_judges_it(tmp_path, frontmatter, said):
    assert validate(skill(tmp_path, frontmatter)) == said


@pytest.mark.parametrize(
    "line",
    [
        "description: [invalid",
        "description: Use when: x",
        "allowed-tools: [Read, Write]",
        "metadata: {a: b}",
        "metadata:\n  inner: {a: b}",
        "argument-hint: [issue]",
        "name: twice",
        "license: &anchor MIT",
        "license: !!str MIT",
        "license: @MIT",
        "license: `MIT`",
        "license: %MIT",
        "license: *x",
    ],
)
def test_yaml_that_the_original_refuses_is_refused(tmp_path, line):
    [said] = validate(skill(tmp_path, f"{GOOD}\n{line}"))
    assert said.startswith("Invalid YAML in frontmatter: ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("# No frontmatter\n", [NOT_OPENED]),
        (f"\n---\n{GOOD}\n---\n", [NOT_OPENED]),
        (f"\ufeff---\n{GOOD}\n---\n", [NOT_OPENED]),
        (f"---\n{GOOD}\n", [NOT_CLOSED]),
        (f"---\n{GOOD}\n...\n", [NOT_CLOSED]),
        (f"---\r\n{GOOD}\r\n---\r\nBody.\r\n".replace("my-skill\nd", "my-skill\r\nd"), []),
        (f"---\n{GOOD}\n---\nOne\n\n---\n\nTwo\n", []),
        (f"---\n{GOOD}\n---", []),
    ],
)
def test_fences_are_where_the_original_sees_them(tmp_path, content, said):
    assert validate(written(tmp_path, content)) == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("MySkill", ["Skill name 'MySkill' must be lowercase"]),
        ("a" * 70, [f"Skill name '{'a' * 70}' exceeds 64 character limit (70 chars)"]),
        ("-my", ["Skill name cannot start or end with a hyphen"]),
        ("a--b", ["Skill name cannot contain consecutive hyphens"]),
        (
            "my_skill",
            ["Skill name 'my_skill' contains invalid characters. Only letters, digits, and hyphens are allowed."],
        ),
        ("技能", []),
        ("мой-навык", []),
        ("навык", []),
        ("НАВЫК", ["Skill name 'НАВЫК' must be lowercase"]),
        ("naïve", []),
        ("ß", []),
        ("аdmin", []),  # a Cyrillic letter
        ("3000", []),
        ("con", []),
        ("claude-tool", []),
    ],
)
def test_names_are_judged_as_the_original_judges_them(tmp_path, name, said):
    assert validate(skill(tmp_path, f'name: "{name}"\ndescription: x', name)) == said


@pytest.mark.parametrize("name", ["हिन्दी", "a\u2011b", "a\u2013b", "a\u200bb", "a😀"])
def test_other_characters_are_refused(tmp_path, name):
    assert any("invalid characters" in one for one in validate(skill(tmp_path, f"name: {name}\ndescription: x", name)))


@pytest.mark.parametrize(("written_as", "directory"), [("①", "1"), ("x²", "x2"), ("ﬁle", "file")])
def test_names_are_compared_in_their_compatible_form(tmp_path, written_as, directory):
    assert validate(skill(tmp_path, f"name: {written_as}\ndescription: x", directory)) == []


def test_a_name_matches_its_folder_whichever_way_accents_are_written(tmp_path):
    folder = skill(tmp_path, f"name: {unicodedata.normalize('NFD', 'café')}\ndescription: x", "café")
    assert validate(folder) == []


def test_a_name_that_is_not_the_folders_is_an_error(tmp_path):
    folder = skill(tmp_path, "name: right\ndescription: x", "wrong")
    assert validate(folder) == ["Directory name 'wrong' must match skill name 'right'"]
    assert validate_metadata({"name": "right", "description": "x"}) == []


def test_what_is_not_there_is_said(tmp_path):
    file = tmp_path / "file"
    file.touch()
    (tmp_path / "empty").mkdir()
    assert validate(tmp_path / "gone") == [f"Path does not exist: {tmp_path}/gone"]
    assert validate(file) == [f"Not a directory: {file}"]
    assert validate(tmp_path / "empty") == ["Missing required file: SKILL.md"]
    with pytest.raises(ParseError, match=r"SKILL\.md not found in"):
        read_properties(tmp_path / "empty")


def test_small_letters_will_do_and_capitals_come_first(tmp_path):
    folder = written(tmp_path, f"---\n{GOOD}\n---\n", file="skill.md")
    assert find_skill_md(folder) == folder / "skill.md"
    assert read_properties(folder).name == "my-skill"
    written(tmp_path, f"---\n{GOOD}\n---\n")
    assert find_skill_md(folder) == folder / "SKILL.md"
    assert find_skill_md(tmp_path) is None


def test_properties_are_the_fields_of_the_file(tmp_path):
    folder = skill(
        tmp_path,
        "name: my-skill\ndescription: |\n  Does it.\nlicense: MIT\nallowed-tools: Bash(git:*) Read\nmetadata:\n  version: 1.0",
    )
    found = read_properties(folder)
    assert found == SkillProperties("my-skill", "Does it.", "MIT", None, "Bash(git:*) Read", {"version": "1.0"})
    assert found.to_dict() == {
        "name": "my-skill",
        "description": "Does it.",
        "license": "MIT",
        "allowed-tools": "Bash(git:*) Read",
        "metadata": {"version": "1.0"},
    }


@pytest.mark.parametrize("frontmatter", ["description: x", "name: x", "name: ' '\ndescription: x"])
def test_properties_need_a_name_and_a_description(tmp_path, frontmatter):
    with pytest.raises(ValidationError) as raised:
        read_properties(skill(tmp_path, frontmatter))
    assert raised.value.errors == [str(raised.value)]
    assert isinstance(raised.value, SkillsRefError)


def test_frontmatter_and_body_come_apart():
    assert parse_frontmatter("---\nname: x\nflag: yes\n---\n\n Body \n") == ({"name": "x", "flag": "yes"}, "Body")


def test_the_prompt_has_the_originals_form(tmp_path):
    one = skill(tmp_path, "name: one\ndescription: 'a < b & \"c\"'", "one")
    assert to_prompt([]) == "<available_skills>\n</available_skills>"
    assert to_prompt([one, str(one)]).count("<skill>") == 2
    assert to_prompt([one]) == (
        "<available_skills>\n<skill>\n<name>\none\n</name>\n<description>\na &lt; b &amp; &quot;c&quot;\n</description>\n"
        f"<location>\n{one}/SKILL.md\n</location>\n</skill>\n</available_skills>"
    )


def test_one_bad_skill_spoils_the_prompt_as_it_does_in_the_original(tmp_path):
    with pytest.raises(ParseError):
        to_prompt([skill(tmp_path, GOOD), written(tmp_path, "nothing", "bad")])


# From here on: where the original is wrong, and these are not.


@pytest.mark.parametrize("description", ["see --- below", '"first --- second"'])
def test_dashes_in_a_description_do_not_cut_it_short(tmp_path, description):
    folder = skill(tmp_path, f"name: my-skill\ndescription: {description}")
    assert validate(folder) == []
    assert read_properties(folder).description == description.strip('"')


def test_the_folder_may_be_the_one_we_stand_in(tmp_path):
    with contextlib.chdir(skill(tmp_path, GOOD)):
        assert validate(".") == validate("./") == []


def test_a_folder_in_the_files_place_is_an_error_in_words(tmp_path):
    (tmp_path / "my-skill" / "SKILL.md").mkdir(parents=True)
    assert validate(tmp_path / "my-skill") == ["SKILL.md can't be read: a folder"]


def test_bytes_that_are_no_text_are_an_error_in_words(tmp_path):
    folder = written(tmp_path, "---\nname: my-skill\ndescription: café\n---\n".encode("latin-1"))
    [said] = validate(folder)
    assert said.startswith("SKILL.md is not UTF-8")
    with pytest.raises(ParseError):
        read_properties(folder)


def test_properties_have_the_types_they_declare(tmp_path):
    more = "allowed-tools:\n  - Read\n  - Write\nmetadata:\n  requires:\n    bins: x"
    found = read_properties(skill(tmp_path, f"{GOOD}\n{more}"))
    assert found.allowed_tools == "Read Write"
    assert found.metadata == {"requires": '{"bins": "x"}'}
    assert read_properties(skill(tmp_path, GOOD)).metadata == {}
    assert read_properties(skill(tmp_path, f"{GOOD}\nmetadata: hello")).metadata == {}


def test_a_location_can_not_break_out_of_its_element(tmp_path):
    base = tmp_path / "a&b<"
    base.mkdir()
    assert f"{tmp_path}/a&amp;b&lt;/my-skill/SKILL.md" in to_prompt([skill(base, GOOD)])

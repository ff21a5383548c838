"""The strict profile: what `metier validate` says of a folder."""

import os

import pytest

from metier.parse.check import check_skill_file, name_fault
from metier.sources.strict import reports_of


def errors(text, directory="my-skill"):
    return {mark.code for mark in check_skill_file(text.encode(), directory)}


def head(name="my-skill", description="d", more=""):
    return f"---\nname: {name}\ndescription: {description}\n{more}---\nBody\n"


def made(tmp_path, text=None, folder="my-skill", file="SKILL.md"):
    directory = tmp_path / folder
    directory.mkdir(parents=True, exist_ok=True)
    (directory / file).write_bytes((text if text is not None else head(folder)).encode())
    return directory


def codes(path):
    return [one.code for report in reports_of(str(path)) for one in report.problems]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("my-skill", False), ("a", False), ("7zip", False), ("123", False), ("技能", False), ("мой-навык", False),
        ("café", False), ("cafe\u0301", False), ("ｆｕｌｌ", False), ("n" * 64, False), ("straße", False),
        ("MySkill", True), ("НАВЫК", True), ("ǅep", True), ("-a", True), ("a-", True), ("a--b", True), ("a_b", True),
        ("a.b", True), ("a/b", True), ("a\\b", True), ("a b", True), ("fun-🎉", True), ("a\u200bb", True),
        ("a\u2011b", True), ("a–b", True), ("a:b", True), ("हिन्दी", True), ("İ", True), ("-", True), ("--", True),
    ],
)  # fmt: skip
def test_a_name_is_letters_digits_and_single_hyphens_inside(name, wrong):
    assert ("name-invalid" in errors(head(f"'{name}'"), name)) is wrong
    assert "name-mismatch" not in errors(head(f"'{name}'"), name)


def test_lengths_are_counted_in_characters():
    assert errors(head("n" * 64), "n" * 64) == set()
    assert errors(head("n" * 65), "n" * 65) == {"name-too-long"}
    assert errors(head(description="🎉" * 1024)) == set()
    assert errors(head(description="🎉" * 1025)) == {"description-too-long"}
    assert errors(head(more=f"compatibility: {'é' * 500}\n")) == set()
    assert errors(head(more=f"compatibility: {'é' * 501}\n")) == {"compatibility-too-long"}


def test_names_are_compared_after_normalisation_and_trimming():
    assert errors(head("cafe\u0301"), "caf\u00e9") == set()
    assert errors(head("'  my-skill  '")) == set()
    assert errors(head("ｍｙ-skill")) == set()
    assert errors(head("other")) == {"name-mismatch"}


def test_every_problem_is_reported_with_its_line():
    text = "---\ndescription: ''\nextra: 1\ncompatibility: ''\nname: Wrong_Name\nextra: 2\n---\n"

    assert {(mark.code, mark.line) for mark in check_skill_file(text.encode(), "right")} == {
        ("missing-description", 2),
        ("unknown-field", 6),
        ("compatibility-empty", 4),
        ("name-invalid", 5),
        ("name-mismatch", 5),
        ("duplicate-key", 6),
    }
    assert all(mark.fatal for mark in check_skill_file(text.encode(), "right"))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("name: x\n", "no-frontmatter"),
        ("", "no-frontmatter"),
        ("\n---\nname: x\n---\n", "no-frontmatter"),
        ("---\nname: x\nextra: 1\n", "unclosed-frontmatter"),
        ("---\nname: X_\ndescription: a: b\n---\n", "invalid-yaml"),
        ("---\nname: x\ndescription: *b* c\n---\n", "invalid-yaml"),
        ("---\nname: x\ndescription: d\nmetadata:\n\ta: b\n---\n", "invalid-yaml"),
        ("---\nname: x\ndescription: !!str d\n---\n", "invalid-yaml"),
        ("---\nname: x\ndescription: d\nmetadata: {<<: {a: b}}\n---\n", "invalid-yaml"),
        ("---\n---\n", "not-a-mapping"),
        ("---\n# c\n---\n", "not-a-mapping"),
        ("---\n- a\n---\n", "not-a-mapping"),
        ("---\ntext\n---\n", "not-a-mapping"),
        ("---\nname: a\0b\n---\n", "nul-byte"),
        ("  ---\n  name: x\n  ---\n", "no-frontmatter"),
    ],
)
def test_a_file_that_does_not_parse_gives_only_that(text, code):
    assert [mark.code for mark in check_skill_file(text.encode(), "x")] == [code]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("license: MIT\nmetadata:\n  a: b\nallowed-tools: Read Grep\ncompatibility: x\n", set()),
        ("metadata:\n  a: {b: c}\n", set()),
        ("allowed_tools: Read\n", {"unknown-field"}),
        ("user-invocable: false\n", {"unknown-field"}),
        ("version: 1\ntags: [a]\n", {"unknown-field"}),
        ("metadata:\n  a: b\n  a: c\n", {"duplicate-key"}),
        ("compatibility: '  '\n", {"compatibility-empty"}),
        ("compatibility: [a]\n", {"field-type"}),
    ],
)
def test_only_the_six_fields_are_accepted(more, expected):
    assert errors(head(more=more)) == expected


def test_a_list_or_map_is_no_name_and_no_description():
    assert errors("---\nname: [a]\ndescription: {a: b}\n---\n") == {"field-type"}


def test_words_for_booleans_and_numbers_are_text():
    assert errors(head("on", "true"), "on") == set()
    assert errors(head("3000", "1.10"), "3000") == set()


def test_every_line_end_is_accepted(tmp_path):
    for end in ("\n", "\r\n", "\r"):
        assert codes(made(tmp_path, head().replace("\n", end))) == []


def test_a_path_that_is_not_there_and_one_that_is_a_file_are_named(tmp_path):
    (tmp_path / "file").write_text("")

    assert codes(tmp_path / "nothing") == ["not-found"]
    assert codes(tmp_path / "file") == ["not-a-directory"]
    (tmp_path / "empty").mkdir()
    assert codes(tmp_path / "empty") == ["missing-skill-md"]


def test_every_way_to_name_a_skill_gives_the_same_verdict(tmp_path, monkeypatch):
    directory = made(tmp_path, head("other"))
    (tmp_path / "links").mkdir()
    os.symlink(directory, tmp_path / "links" / "my-skill")
    monkeypatch.chdir(directory)

    for path in (directory, f"{directory}/", directory / "SKILL.md", ".", "./", tmp_path / "links" / "my-skill"):
        assert codes(path) == ["name-mismatch"], path


def test_256000_bytes_are_read_and_one_more_is_too_large(tmp_path):
    text = head()

    assert codes(made(tmp_path, text + "x" * (256_000 - len(text)))) == []
    assert codes(made(tmp_path, text + "x" * (256_001 - len(text)))) == ["too-large"]


def test_small_letters_are_accepted_when_the_usual_name_is_absent(tmp_path):
    assert codes(made(tmp_path, file="skill.md")) == []
    made(tmp_path, "---\n---\n")
    assert codes(tmp_path / "my-skill") == ["not-a-mapping"]


def test_what_is_not_a_file_is_named_and_the_rest_is_still_checked(tmp_path):
    good = made(tmp_path, folder="good")
    for name in ("fifo", "folder", "dangling", "out", "loop"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "fifo" / "SKILL.md")
    (tmp_path / "folder" / "SKILL.md").mkdir()
    os.symlink("nowhere", tmp_path / "dangling" / "SKILL.md")
    os.symlink(good / "SKILL.md", tmp_path / "out" / "SKILL.md")
    os.symlink("SKILL.md", tmp_path / "loop" / "SKILL.md")

    found = {
        os.path.basename(report.path): [one.code for one in report.problems] for report in reports_of(str(tmp_path))
    }

    assert found["good"] == []
    assert (found["fifo"], found["folder"]) == (["not-a-file"], ["not-a-file"])
    assert found["dangling"] == ["link-broken"]
    assert found["out"] == ["link-outside"]
    assert found["loop"][0] in ("link-broken", "link-outside")


def test_a_name_without_fault_has_none():
    assert name_fault("my-skill") == ""
    assert "lowercase" in name_fault("A")


def test_a_byte_order_mark_is_a_fault_though_everything_behind_it_is_read(tmp_path):
    assert codes(made(tmp_path, "\ufeff" + head())) == ["bom-stripped"]
    assert codes(made(tmp_path, "\ufeff" + head(more="colour: red\n"))) == ["bom-stripped", "unknown-field"]

"""The schemas agree with metier: what one refuses the other refuses, but for the exceptions that are named."""

import base64
import itertools
import json
from pathlib import Path

import jsonschema
import pytest

from metier.dialects import DIALECTS
from metier.parse.check import check_skill_file
from metier.parse.document import split_frontmatter
from metier.parse.frontmatter import read_typed_frontmatter
from metier.parse.frontmatter_schema import NOT_IN_SCHEMA, dialect_schema, strict_schema
from metier.parse.reader import parse
from metier.types.skill import Found, Origin, Skill

CASES = Path(__file__).parents[1] / "conformance" / "cases"
STRICT = jsonschema.Draft202012Validator(strict_schema())
LENIENT = {name: jsonschema.Draft202012Validator(dialect_schema(dialect)) for name, dialect in DIALECTS.items()}

BEYOND = {
    "folder": {"name-mismatch"},
    "duplicates": {"duplicate-key"},
    "file": {
        "no-frontmatter",
        "unclosed-frontmatter",
        "invalid-yaml",
        "not-utf8",
        "nul-byte",
        "bom-stripped",
        "too-large",
        "yaml-repaired",
        "not-a-file",
    },
    "dialect": set(),
}
"""Which codes each exception stands for."""
UNSEEN = set().union(*BEYOND.values())


def typed(text):
    """The frontmatter as an editor reads it; None where it can't."""
    return read_typed_frontmatter(text)


def loads(text, dialect, folder="my-skill"):
    origin = Origin("path", 1, "root", "/skills", DIALECTS[dialect])
    found = Found(origin, folder, f"/skills/{folder}/SKILL.md", (0, 0, 0, 0), text.encode(), True, ())
    return parse(found, DIALECTS)


def cases(name):
    rows = [json.loads(line) for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in rows:
        given = row["given"]
        text = base64.b64decode(given["base64"]).decode("utf-8", "replace") if "base64" in given else given.get("text")
        if text is not None:
            yield pytest.param(row, text, id=row["id"])


@pytest.mark.parametrize("name", ["", *DIALECTS])
def test_every_schema_is_one_by_the_meta_schema(name):
    schema = dialect_schema(DIALECTS[name]) if name else strict_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema


@pytest.mark.parametrize(("case", "text"), [*cases("validate")])
def test_the_schema_agrees_with_every_case_of_validation(case, text):
    errors = set(case["expect"]["errors"])
    read = typed(text)
    if read is None:
        assert errors & UNSEEN or not errors - {"not-a-mapping"}
        return
    assert STRICT.is_valid(read) == (not errors - UNSEEN)


@pytest.mark.parametrize(("case", "text"), [*cases("frontmatter")])
def test_the_schemas_agree_with_what_each_dialect_loads(case, text):
    read = typed(text)
    codes = set(case["expect"].get("codes", ()))
    if read is None or codes & UNSEEN or (isinstance(read.get("metadata"), dict) and "dialect" in read["metadata"]):
        return
    assert LENIENT[case["dialect"]].is_valid(read) == case["expect"].get("loads", True)


NAMES = [
    "my-skill",
    "a",
    "7zip",
    "123",
    "0",
    "007",
    "-5",
    "1.5",
    "true",
    "''",
    "'  my-skill '",
    "MySkill",
    "-a",
    "'a-'",
    "a--b",
    "a_b",
    "a.b",
    "a/b",
    "a b",
    "'a:b'",
    "fun-🎉",
    "a\u2011b",
    "a–b",
    "技能",
    "мой-навык",
    "НАВЫК",
    "café",
    "cafe\u0301",
    "[a]",
    "{a: b}",
    "n" * 64,
    "n" * 65,
    "é" * 64,
    "é" * 65,
    "x²",
    "a'b",
    "a\u3000b",
]
TEXTS = ["d", "''", "'   '", "|\n  two\n  lines", "2026", "1.50", "false", "", "[a, b]", "{a: b}", "[]"]
FIELDS = ["name", "description", "compatibility"]


def written(name="my-skill", description="Does a thing.", more=""):
    return f"---\nname: {name}\ndescription: {description}\n{more}---\nBody.\n"


def corpus():
    for name in NAMES:
        yield written(name)
    for text in TEXTS:
        yield written(description=text)
        yield written(more=f"compatibility: {text}\n")
        yield written(more=f"license: {text}\nmetadata: {text}\nallowed-tools: {text}\n")
        yield written(more=f"other: {text}\n")
    for length, mark in itertools.product((499, 500, 501, 1023, 1024, 1025), ("x", "é", "🎉")):
        yield written(description=mark * length)
        yield written(more=f"compatibility: {mark * length}\n")
    for kept in itertools.product((True, False), repeat=3):
        lines = [f"{field}: some-text" for field, keep in zip(FIELDS, kept, strict=True) if keep]
        yield "---\n" + "\n".join([*lines, "license: MIT"]) + "\n---\nBody.\n"


@pytest.mark.parametrize("text", [*corpus()])
def test_the_schema_agrees_with_validation_on_a_corpus(text):
    read = typed(text)
    assert read is not None
    codes = {finding.code for finding in check_skill_file(text.encode(), "my-skill")} - UNSEEN
    assert STRICT.is_valid(read) == (not codes), codes


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_schema_agrees_with_loading_on_the_corpus(dialect):
    wrong = []
    for text in corpus():
        read = typed(text)
        loaded = loads(text, dialect)
        if LENIENT[dialect].is_valid(read) != isinstance(loaded, Skill):
            wrong.append((text, [problem.code for problem in loaded.problems]))
    assert wrong == []


@pytest.mark.parametrize(
    ("exception", "text", "schema_accepts", "valid"),
    [
        ("folder", written("other"), True, False),
        ("trimming", written(description="'" + "x" * 1024 + " '"), False, True),
        ("scalars", written("1.0"), True, False),
        ("scalars", written("True"), True, False),
        ("scalars", written(description="null"), False, True),
        ("scripts", written("ԱՐԵՎ"), True, False),
        ("scripts", written("हिन्दी"), True, False),
    ],
)
def test_the_exceptions_are_named_and_real(exception, text, schema_accepts, valid):
    assert exception in NOT_IN_SCHEMA
    assert NOT_IN_SCHEMA[exception] in strict_schema()["$comment"]
    assert STRICT.is_valid(typed(text)) is schema_accepts
    assert (not check_skill_file(text.encode(), "my-skill")) is valid


def test_what_no_editor_can_read_is_for_metier_alone():
    for text in ("no frontmatter", "---\nname: a\n", "---\nname: [\n---\n", "---\nname: a\nname: b\n---\n"):
        assert typed(text) is None
        assert check_skill_file(text.encode(), "a")
    assert {"file", "duplicates"} <= set(NOT_IN_SCHEMA)


def test_a_description_from_the_body_is_beyond_a_schema():
    text = "---\nname: my-skill\n---\n"
    assert split_frontmatter(text).body.strip() == ""
    assert LENIENT["umbra"].is_valid(typed(text))
    assert not isinstance(loads(text, "umbra"), Skill)
    assert "body" in NOT_IN_SCHEMA


def test_a_file_that_names_its_dialect_is_read_by_that_one():
    text = "---\nname: my-skill\nmetadata:\n  dialect: claude\n---\nBody.\n"
    assert not LENIENT["standard"].is_valid(typed(text))
    assert isinstance(loads(text, "standard"), Skill)
    assert "dialect" in NOT_IN_SCHEMA

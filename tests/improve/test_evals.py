"""What a skill is tried with, as its files say it; and what is wrong with files that say it badly."""

import json
from pathlib import Path

import pytest

from metier.improve.evals import read_suite, read_triggers
from metier.types.errors import MetierError
from metier.types.improvement import EvalCheck, TriggerCase


def written(folder: Path, document: object, name: str = "evals.json") -> str:
    (folder / "evals").mkdir(exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / "evals" / name).write_text(text, encoding="utf-8")
    return str(folder)


def case(**more: object) -> dict[str, object]:
    return {"skill_name": "s", "evals": [{"id": 1, "prompt": "Do it.", "assertions": ["It is done."], **more}]}


@pytest.mark.parametrize("key", ["assertions", "expectations"])
def test_both_spellings_are_read(tmp_path, key):
    rows = [{"id": 1, "prompt": "Do it.", "expected_output": "Done.", "files": ["evals/in.csv"], key: ["It is done."]}]
    suite = read_suite(written(tmp_path, {"skill_name": "s", "evals": rows}))

    assert suite.spelling == key
    assert suite.skill == "s"
    assert suite.cases[0].checks == (EvalCheck("It is done."),)
    assert suite.cases[0].files == ("evals/in.csv",)


def test_the_older_form_is_read_too(tmp_path):
    suite = read_suite(written(tmp_path, [{"query": "Do it.", "files": [], "expected_behavior": ["It is done."]}]), "s")

    assert [(one.id, one.prompt, len(one.checks)) for one in suite.cases] == [("1", "Do it.", 1)]


def test_what_is_expected_is_a_check_where_there_is_no_other(tmp_path):
    suite = read_suite(written(tmp_path, case(assertions=[], expected_output="A chart.")))

    assert [one.text for one in suite.cases[0].checks] == ["The result is what was expected: A chart."]


def test_checks_that_need_no_model_say_what_they_check(tmp_path):
    checks = [
        {"file": "out.md"},
        {"file": "*.json", "json": "total", "equals": 3},
        {"matches": "^ok$"},
        {"contains": "no", "not": True},
        {"command": "true", "text": "it runs"},
    ]
    suite = read_suite(written(tmp_path, case(checks=checks)))

    assert [one.kind for one in suite.cases[0].checks] == ["file", "json", "matches", "contains", "command", "model"]
    assert [one.text for one in suite.cases[0].checks][:5] == [
        "`out.md` exists",
        "`*.json` holds `total` = 3",
        "the answer matches `^ok$`",
        "not: the answer contains `no`",
        "it runs",
    ]


def test_cases_get_folder_names_of_their_own_whatever_their_ids(tmp_path):
    ids = ["../../etc", "Top months", "top-months", "\u202e", 7]
    rows = [{"id": id, "prompt": "x", "assertions": ["y"]} for id in ids]

    assert [one.slug for one in read_suite(written(tmp_path, rows)).cases] == [
        "etc",
        "top-months",
        "top-months-2",
        "case",
        "7",
    ]


def test_a_skill_without_evals_has_none(tmp_path):
    assert read_suite(str(tmp_path), "s").cases == ()


BAD = [
    ("{", "is not JSON"),
    ("[" * 100_000, "is not JSON"),
    ('{"evals": NaN}', "is not JSON"),
    ({"evals": {}}, "must hold a list called `evals`"),
    ("3", "must hold a list called `evals`"),
    ({"evals": [3]}, "evals[0] must be an object"),
    (case(prompt=3), "evals[0].prompt must be a text"),
    (case(prompt=" "), "evals[0].prompt must be a text"),
    (case(id=True), "evals[0].id must be a number or a short text"),
    (case(id=[]), "evals[0].id must be a number or a short text"),
    (case(assertions="yes"), "evals[0].assertions must be a list"),
    (case(assertions=[3]), "evals[0].assertions[0] must be a sentence or an object"),
    (case(assertions=[{}]), "has nothing to check"),
    (case(assertions=[]), "checks nothing"),
    (case(expected_output=3), "evals[0].expected_output must be a text"),
    (case(files="a"), "evals[0].files must be a list"),
    (case(files=["../secret"]), "evals[0].files[0] must be the path of a file inside"),
    (case(files=["/etc/passwd"]), "evals[0].files[0] must be the path of a file inside"),
    (case(files=[None]), "evals[0].files[0] must be the path of a file inside"),
    (case(checks=[{"file": "../../etc/passwd"}]), "`file` must be a path inside the folder of the outputs"),
    (case(checks=[{"file": "/etc/passwd", "contains": "root"}]), "`file` must be a path inside"),
    (case(checks=[{"matches": "("}]), "`matches` is not a regular expression"),
    (case(checks=[{"matches": "a" * 5_000}]), "`matches` must be a text of at most 1,000"),
    (case(checks=[{"matches": ["a"]}]), "`matches` must be a text"),
    (case(checks=[{"matches": "a", "contains": "b"}]), "`matches` and `contains` are two checks"),
    (case(checks=[{"contains": "b", "equals": 3}]), "`equals` goes with `json`"),
    (case(checks=[{"command": "x", "file": "y"}]), "leave `file` out"),
    (case(checks=[{"cmd": "x"}]), "has `cmd`, which is none of"),
    (case(checks=[{"file": "x", "not": "yes"}]), "`not` must be true or false"),
    ([{"id": 1, "prompt": "a", "assertions": ["b"]}] * 2, "evals[1].id `1` is used twice"),
]


@pytest.mark.parametrize(("document", "said"), BAD)
def test_what_is_wrong_is_said_with_its_place(tmp_path, document, said):
    with pytest.raises(MetierError) as caught:
        read_suite(written(tmp_path, document))

    assert said in caught.value.message
    assert caught.value.message.startswith("evals/evals.json")
    assert caught.value.hint


def test_everything_wrong_is_said_at_once(tmp_path):
    rows = [{"id": number, "prompt": number} for number in range(9)]

    with pytest.raises(MetierError, match=r"evals\[0\].*evals\[4\].*and 4 more"):
        read_suite(written(tmp_path, rows))


def test_evals_behind_a_link_that_leaves_the_skill_are_refused(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "evals.json").write_text(json.dumps(case()))
    skill = tmp_path / "skill"
    skill.mkdir()
    (skill / "evals").symlink_to(outside)

    with pytest.raises(MetierError):
        read_suite(str(skill))


def test_trigger_prompts_are_read_with_what_should_happen(tmp_path):
    rows = [{"query": "make a chart", "should_trigger": True}, {"query": "say hello", "should_trigger": False}]
    found = read_triggers(written(tmp_path, rows, "triggers.json"))

    assert found == (TriggerCase("make a chart", True), TriggerCase("say hello", False))


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"a": 1}, "must be a list of prompts"),
        ([{"query": 3}], r"\[0\].query must be a text"),
        ([{"query": "x", "should_trigger": "yes"}], r"\[0\].should_trigger must be true or false"),
        ([3], r"\[0\].query must be a text"),
    ],
)
def test_a_bad_trigger_set_is_said_with_its_place(tmp_path, document, said):
    with pytest.raises(MetierError, match=said):
        read_triggers(written(tmp_path, document, "triggers.json"))


def test_a_broken_trigger_set_is_no_matter_of_the_cases(tmp_path):
    assert read_suite(written(tmp_path, {"a": 1}, "triggers.json")).cases == ()

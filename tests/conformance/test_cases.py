"""Every conformance case, one test each, and `metier conform` itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from metier.faces.cli.conform import run_case

METIER = str(Path(sys.executable).parent / "metier")
CASES = sorted((Path(__file__).parent / "cases").glob("*.jsonl"))
ALL = [json.loads(line) for file in CASES for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


@pytest.mark.parametrize("case", ALL, ids=[case["id"] for case in ALL])
def test_the_case_holds(case):
    assert run_case(case) == []


def test_no_two_cases_share_an_id():
    ids = [case["id"] for case in ALL]

    assert len(ids) == len(set(ids))


def conform(tmp_path, *lines, name="cases.jsonl", args=()):
    file = tmp_path / name
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return run_conform(str(file), *args)


def run_conform(*args):
    return subprocess.run([METIER, "conform", *args], capture_output=True, text=True, timeout=60)


GOOD = {
    "id": "good",
    "op": "allowed_tools",
    "dialect": "claude",
    "given": {"value": "a b"},
    "expect": {"tools": ["a", "b"]},
}
BAD = {**GOOD, "id": "bad", "expect": {"tools": ["a"]}, "note": "why it is here"}


@pytest.mark.parametrize(("dialect", "text"), [("umbra", "${X} a"), ("agenvoy", "${X} $1"), ("agentmd", "x ")])
def test_variables_are_for_dialects_that_have_some(dialect, text):
    given = {"body": "${X} $1", "arguments": "a", "variables": {"X": "x"}}
    assert run_case({"op": "substitute", "dialect": dialect, "given": given, "expect": {"text": text}}) == []


def test_a_skill_without_a_command_is_rendered_too():
    skill = "---\nname: s\ndescription: d\nuser-invocable: false\n---\nDo $ARGUMENTS.\n"
    given = {"skill_md": skill, "arguments": "it"}
    assert run_case({"op": "render", "dialect": "claude", "given": given, "expect": {"text": "Do it."}}) == []


@pytest.mark.parametrize("name", ['"My Skill"', "My Skill  # shown so", "'My Skill'"])
def test_a_folder_that_is_not_named_is_called_as_the_skill(name):
    settings = {"skills": {"entries": {"My Skill": {"enabled": False}}}}
    given = {"frontmatter": f"name: {name}\n", "platform": "linux", "bins": [], "env": {}, "config": settings}
    expect = {"eligible": False, "diagnostics": ["disabled"]}
    assert run_case({"op": "eligibility", "dialect": "multica", "given": given, "expect": expect}) == []


def test_conform_passes_and_says_how_many(tmp_path):
    done = conform(tmp_path, GOOD, GOOD)

    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "2 passed, 0 failed"


def test_conform_shows_what_was_expected_and_what_came(tmp_path):
    done = conform(tmp_path, GOOD, BAD)

    assert done.returncode == 1
    assert "bad" in done.stdout
    assert "cases.jsonl:2" in done.stdout
    assert "why it is here" in done.stdout
    assert 'tools: expected ["a"]' in done.stdout
    assert 'got ["a", "b"]' in done.stdout
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed"


def test_conform_counts_an_operation_it_does_not_know_as_failed(tmp_path):
    done = conform(tmp_path, {**GOOD, "op": "juggle"})

    assert done.returncode == 1
    assert "juggle" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_conform_counts_a_case_that_lacks_what_its_operation_needs_as_failed(tmp_path):
    done = conform(tmp_path, {**GOOD, "given": {}}, {**GOOD, "op": "commands", "dialect": "nobody"}, GOOD)

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines()[-1] == "1 passed, 2 failed"


def test_conform_reads_a_lone_surrogate_as_bytes_that_are_not_utf8(tmp_path):
    line = (
        '{"id": "s", "op": "frontmatter", "dialect": "standard", "given": {"text": "---\\nname: \\ud800\\n---\\n", '
        '"dir": "s"}, "expect": {"loads": false, "codes": ["not-utf8"]}}'
    )

    assert conform(tmp_path, line).stdout.splitlines()[-1] == "1 passed, 0 failed"


def test_conform_skips_blank_lines(tmp_path):
    assert conform(tmp_path, "", GOOD, "   ", "").stdout == "1 passed, 0 failed\n"


def test_conform_gives_one_json_document(tmp_path):
    done = conform(tmp_path, GOOD, BAD, args=("--json",))

    found = json.loads(done.stdout)
    assert (found["passed"], found["failed"]) == (1, 1)
    assert found["failures"][0]["id"] == "bad"
    assert found["failures"][0]["wrong"] == [["tools", ["a"], ["a", "b"]]]
    assert done.returncode == 1


@pytest.mark.parametrize(
    "line",
    ["{not json", "[]", '"text"', "{}", '{"op": "x", "given": 1, "expect": {}}', "[" * 100_000],
    ids=["not-json", "a-list", "a-text", "empty", "no-given", "deep"],
)
def test_conform_names_the_line_that_is_not_a_case(tmp_path, line):
    done = conform(tmp_path, GOOD, line)

    assert done.returncode == 2
    assert "cases.jsonl:2" in done.stderr
    assert "Traceback" not in done.stderr


def test_conform_says_that_a_file_is_missing(tmp_path):
    done = run_conform(str(tmp_path / "nothing.jsonl"))

    assert done.returncode == 2
    assert "does not exist" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("made", ["folder", "bytes"])
def test_conform_says_that_a_file_can_not_be_read(tmp_path, made):
    file = tmp_path / "cases.jsonl"
    if made == "folder":
        file.mkdir()
    else:
        file.write_bytes(b"\xff\xfe")

    done = run_conform(str(file))

    assert done.returncode not in (0, 1)
    assert "cases.jsonl" in done.stderr
    assert "Traceback" not in done.stderr


def test_conform_prints_no_escape_sequence_of_a_case(tmp_path):
    done = conform(tmp_path, {**BAD, "id": "\x1b[31mred", "given": {"value": "\x1b]0;title\x07"}})

    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


OUTSIDE = ["../{0}", "{1}", "", ".", "..", "a/../../{0}", "a//b", "a\0b", "/", 3, None]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("where", ["dir", "file", "files"])
def test_a_case_writes_nowhere_but_in_its_own_folder(tmp_path, monkeypatch, name, where):
    """A file of cases comes from anywhere: no name in it leads out of the folder made for the moment."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    escape = f"../../{tmp_path.name}-out"
    bad = name.format(escape, tmp_path / "out") if isinstance(name, str) else name
    given = {"dir": bad, "target": "file"} if where == "file" else {"dir": bad, "text": "hello"}
    if where == "files":
        given = {"dir": "mine", "files": {"ok.md": "x", str(bad) if bad is not None else "": "hello"}}
        if name == 3:
            given["files"] = {"a": "x", "a/b": "y"}
    [(key, _, came)] = run_case({"op": "validate", "given": given, "expect": {"errors": []}})
    assert key == "given"
    assert "not a name inside a folder" in str(came) or (where == "files" and name == 3)
    assert [path.name for path in tmp_path.rglob("*")] == ["scratch"]
    assert not list(tmp_path.parent.glob(f"{tmp_path.name}-out*"))


def test_what_a_case_expects_is_shown_without_orders_to_the_terminal(tmp_path):
    said = conform(
        tmp_path, {"id": "x", "op": "allowed_tools", "given": {"value": "a"}, "expect": {"\x1b]0;hi\x07k": 1}}
    )
    assert said.returncode == 1
    assert "\x1b" not in said.stdout
    assert "k: expected 1" in said.stdout

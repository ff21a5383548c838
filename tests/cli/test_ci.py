"""`metier ci`, `metier schema` and the formats of `metier lint`, by their command line."""

import json

import jsonschema
import pytest
from tests.cli.console import Desk

from metier.dialects import DIALECTS

HOSTILE = "a\n::error file=/etc/passwd::x\r::stop-commands::y"


@pytest.fixture
def repository(desk: Desk) -> Desk:
    desk.skill("greet", under=desk.project / "skills", description="Greets people by name when they arrive.")
    return desk


def outcomes(desk: Desk, *words: str) -> dict[str, str]:
    said = desk.say("ci", "skills", "--json", *words)
    document = json.loads(said.out)
    assert document["ok"] is (said.code == 0)
    return {check["check"]: check["outcome"] for check in document["checks"]}


def test_a_clean_repository_passes(repository: Desk):
    said = repository.say("ci", "skills")

    assert said.code == 0, said.out + said.err
    assert "passed   lint" in said.out
    assert outcomes(repository, "--strict")["validate"] == "passed"


def test_every_check_runs_although_one_failed(repository: Desk):
    repository.skill("broken", "---\nname: broken\n---\n", under=repository.project / "skills")

    found = outcomes(repository, "--strict")

    assert (found["lint"], found["validate"], found["evals"]) == ("failed", "failed", "skipped")


def test_sources_that_are_not_allowed_fail_the_audit(repository: Desk):
    assert outcomes(repository)["audit"] == "skipped"  # nothing was installed

    source = repository.skill("fetched", under=repository.home / "source").parent
    assert repository.say("add", str(source), "--project", "--yes").code == 0
    assert outcomes(repository)["audit"] in ("passed", "skipped")

    repository.configure(f'[sources]\ndeny = ["{source.parent}/*"]\n')
    assert outcomes(repository)["audit"] == "failed"


def test_trigger_prompts_are_tried_without_a_model(repository: Desk):
    evals = repository.project / "skills/greet/evals"
    evals.mkdir()
    (evals / "triggers.json").write_text('[{"query": "greet people by name", "should_trigger": true}]')
    assert outcomes(repository)["evals"] == "passed"

    (evals / "triggers.json").write_text('[{"query": "bake a cake", "should_trigger": true}]')
    assert outcomes(repository)["evals"] == "failed"
    assert outcomes(repository, "--fail-under", "0")["evals"] == "passed"


def test_a_bad_file_of_evals_fails_with_its_reason(repository: Desk):
    evals = repository.project / "skills/greet/evals"
    evals.mkdir()
    (evals / "triggers.json").write_text("{")

    said = repository.say("ci", "skills/greet")

    assert said.code == 1
    assert "triggers.json" in said.out


def test_a_changed_file_of_a_locked_skill_fails_the_verification(desk: Desk):
    desk.skill("greet", under=desk.home / "theirs")
    assert desk.say("add", str(desk.home / "theirs/greet"), "--project", "--yes").code == 0
    assert json.loads(desk.say("ci", ".metier/skills", "--json").out)["checks"][0]["outcome"] == "passed"

    (desk.project / ".metier/skills/greet/SKILL.md").write_text("---\nname: greet\ndescription: Other.\n---\n")

    said = desk.say("ci", ".metier/skills")
    assert said.code == 1
    assert "greet/SKILL.md: changed" in said.out


def test_a_project_without_skills_says_what_to_pass(desk: Desk):
    said = desk.say("ci")

    assert said.code == 2
    assert "metier ci skills" in said.err


def test_the_evals_of_a_project_that_nobody_trusted_are_not_run(desk: Desk):
    file = desk.skill("theirs", under=desk.project / ".agents/skills")
    (file.parent / "evals").mkdir()
    (file.parent / "evals/triggers.json").write_text('[{"query": "q", "should_trigger": true}]')

    said = desk.say("ci")

    assert said.code == 1
    assert "metier trust" in said.out


def test_the_summary_is_markdown_that_a_skill_cannot_shape(repository: Desk):
    field = '"[x](https://evil.example) | `@all`"'
    repository.skill("odd", f"{field}: 1\n", under=repository.project / "skills")

    repository.say("ci", "skills", "--summary", "out.md")

    text = (repository.project / "out.md").read_text()
    assert "### metier ci" in text
    [line] = [line for line in text.splitlines() if "evil.example" in line]
    assert "`` " in line
    assert "\\|" in line


# --- The formats of lint ---


def test_sarif_names_the_file_from_the_repository_and_the_line(repository: Desk):
    repository.skill("odd name", "argument-hnt: x\n", under=repository.project / "skills")

    said = repository.say("lint", "skills", "--format", "sarif")

    log = json.loads(said.out)
    assert said.code == 1
    assert log["version"] == "2.1.0"
    [run] = log["runs"]
    [result] = [item for item in run["results"] if item["ruleId"] == "field-typo"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "field-typo"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "skills/odd%20name/SKILL.md"
    assert place["region"]["startLine"] == 4
    assert {item["level"] for item in run["results"]} <= {"error", "warning", "note"}


def test_annotations_are_commands_that_no_skill_can_write(repository: Desk):
    key = json.dumps(HOSTILE)
    repository.skill("odd", f"{key}: 1\nargument-hnt: x\n", under=repository.project / "skills")

    said = repository.say("lint", "skills", "--format", "github")

    commands = [line for line in said.out.splitlines() if line.startswith("::")]
    assert commands
    assert all(
        line.startswith(("::error file=skills/", "::warning file=skills/", "::notice file=skills/"))
        for line in commands
    )
    assert any("line=5" in line and "title=metier%3A field-typo" in line for line in commands)
    assert not [line for line in said.out.splitlines() if line.startswith(("::stop", "::error file=/etc"))]


def test_a_path_with_a_comma_or_a_newline_stays_one_property(repository: Desk):
    folder = repository.project / "skills" / "a,line=9\n::debug::x"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: x\n---\n")

    said = repository.say("lint", "skills", "--format", "github")

    assert "::debug::x" not in [line[:10] for line in said.out.splitlines()]
    assert "a%2Cline=9" in said.out


def test_json_is_a_format_too(repository: Desk):
    assert repository.say("lint", "skills", "--format", "json").out == repository.say("lint", "skills", "--json").out


# --- Schemas ---


@pytest.mark.parametrize("dialect", ["", *DIALECTS])
def test_a_schema_is_printed_for_every_dialect(desk: Desk, dialect: str):
    said = desk.say("schema", *(["--dialect", dialect] if dialect else []))

    schema = json.loads(said.out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"].endswith(dialect or "agentskills")


def test_a_dialect_of_the_users_own_has_a_schema(desk: Desk):
    desk.configure('[dialects.mine]\nextends = "claude"\nfields = ["colour"]\n')

    assert "colour" in json.loads(desk.say("schema", "--dialect", "mine").out)["properties"]
    assert desk.say("schema", "--dialect", "nope").code == 2

"""The sample repository of skills: its hook, its Action and `metier ci` pass, and fail for the right reason when broken."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.cli.console import Desk, Said

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "skills-repository"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}


@pytest.fixture
def sample(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    shutil.rmtree(desk.project)
    shutil.copytree(SAMPLE, desk.project)
    (desk.project / ".git").mkdir()
    return desk


def drop_description(skill: Path) -> None:
    skill.write_text(re.sub(r"(?m)^description: .*\n", "", skill.read_text()))


def break_yaml(skill: Path) -> None:
    skill.write_text(skill.read_text().replace("license: Apache-2.0", "license: [Apache-2.0"))


def rename(skill: Path) -> None:
    skill.write_text(skill.read_text().replace("name: release-notes", "name: Release Notes"))


def describe_another(skill: Path) -> None:
    text = "Adds up the amounts in a spreadsheet, and tells what the weather is in Lisbon."
    skill.write_text(f"---\nname: release-notes\ndescription: {text}\n---\n{text}\n")


def add_field(skill: Path) -> None:
    skill.write_text(skill.read_text().replace("license:", "colour: blue\nlicense:"))


BREAKS: list[tuple[Callable[[Path], None], str, str]] = [
    (drop_description, "lint", "missing-description"),
    (break_yaml, "lint", "invalid-yaml"),
    (rename, "validate", "name-invalid"),
    (add_field, "validate", "unknown-field"),
    (describe_another, "evals", "release-notes: trigger prompts"),
]


def test_the_sample_passes(sample: Desk):
    said = sample.say("ci", "skills", "--strict")

    assert said.code == 0, said.out


@pytest.mark.parametrize(("broken", "check", "reason"), BREAKS, ids=[row[0].__name__ for row in BREAKS])
def test_a_broken_skill_fails_for_its_reason(sample: Desk, broken: Callable[[Path], None], check: str, reason: str):
    broken(sample.project / "skills/release-notes/SKILL.md")

    said = sample.say("ci", "skills", "--strict")

    assert said.code == 1
    assert re.search(rf"failed +{check}", said.out)
    assert reason in said.out
    assert "csv-totals" not in said.out


# --- The hook ---


def run_hook(sample: Desk, name: str, file: str) -> Said:
    hook = HOOKS[name]
    assert re.search(hook["files"], file)
    command, *words = hook["entry"].split()
    assert command == "metier"
    return sample.say(*words, *([file] if hook.get("pass_filenames", True) else ["skills"]))


def test_the_sample_uses_hooks_that_there_are():
    config = yaml.safe_load((SAMPLE / ".pre-commit-config.yaml").read_text())
    assert {hook["id"] for repo in config["repos"] for hook in repo["hooks"]} <= set(HOOKS)


@pytest.mark.parametrize("name", HOOKS)
def test_each_hook_passes_the_sample_and_stops_a_broken_skill(sample: Desk, name: str):
    file = "skills/release-notes/SKILL.md"
    assert run_hook(sample, name, file).code == 0

    drop_description(sample.project / file)

    said = run_hook(sample, name, file)
    assert said.code == 1
    assert "missing-description" in said.out


# --- The Action ---


def run_action(sample: Desk, tmp_path: Path, **inputs: str) -> tuple[str, str, str]:
    """The Action's own script, as a runner starts it; its output, the summary, and the exit code it passes on."""
    values = {key: str(item.get("default", "")) for key, item in ACTION["inputs"].items()} | inputs
    [step] = [step for step in ACTION["runs"]["steps"] if step.get("id") == "check"]
    filled = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], text)
        for name, text in step["env"].items()
    }
    program = tmp_path / "program"
    program.mkdir()
    (program / "metier").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m metier "$@"\n')
    (program / "metier").chmod(0o755)
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    env = sample.env | filled | files | {"RUNNER_TEMP": str(tmp_path), "PATH": f"{program}{os.pathsep}/usr/bin:/bin"}
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(script, cwd=sample.project, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    [code] = re.findall(r"code=(\d+)", Path(files["GITHUB_OUTPUT"]).read_text())
    return done.stdout, Path(files["GITHUB_STEP_SUMMARY"]).read_text(), code


def test_the_action_passes_the_sample_with_the_inputs_it_uses(sample: Desk, tmp_path: Path):
    job = yaml.safe_load((SAMPLE / ".github/workflows/skills.yml").read_text())["jobs"]["skills"]
    [used] = [step for step in job["steps"] if "metier" in step["uses"]]
    inputs = {key: str(value).lower() for key, value in used["with"].items()}
    assert set(inputs) <= set(ACTION["inputs"])

    _, summary, code = run_action(sample, tmp_path, **inputs)

    assert code == "0"
    assert "| ✅ validate |" in summary


def test_the_action_annotates_and_fails_a_broken_skill(sample: Desk, tmp_path: Path):
    drop_description(sample.project / "skills/release-notes/SKILL.md")

    out, summary, code = run_action(sample, tmp_path, sarif="findings.sarif")

    assert code == "1"
    assert "::error file=skills/release-notes/SKILL.md," in out
    assert "| ❌ lint |" in summary
    assert '"missing-description"' in (sample.project / "findings.sarif").read_text()


def test_an_input_of_the_action_never_becomes_text_of_its_script():
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert scripts
    assert not [script for script in scripts if "${{" in script]

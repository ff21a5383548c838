"""The files that run metier as a service: read by the programs they are for where those are here, else by a parser."""

from __future__ import annotations

import plistlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.console import Desk

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
GRACE = 30
"""Seconds that a worker waits for its runs; whoever stops it has to wait longer."""


def instructions() -> list[tuple[str, str]]:
    """The instructions of the last stage of the Dockerfile."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    last = max(at for at, (word, _) in enumerate(lines) if word == "FROM")
    return [(word, rest) for word, rest in lines[last:]]


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_the_image_has_only_instructions_that_there_are():
    known = "FROM RUN COPY ADD USER WORKDIR ENV VOLUME HEALTHCHECK STOPSIGNAL ENTRYPOINT CMD LABEL ARG EXPOSE SHELL"
    assert {word for word, _ in instructions()} <= set(known.split())


def test_the_image_runs_as_nobody_special_and_keeps_its_state():
    found = dict(instructions())
    assert found["USER"].isdigit()
    assert int(found["USER"]) != 0
    assert found["VOLUME"] == "/state"
    assert "METIER_HOME=/state" in found["ENV"]


def test_the_command_of_the_health_check_is_one_that_metier_has(tmp_path: Path):
    check = dict(instructions())["HEALTHCHECK"].partition("CMD ")[2]
    words = yaml.safe_load(check)
    # No worker runs here, and the exit status that says so is what Docker calls unhealthy.
    assert words[0] == "metier"
    assert Desk(tmp_path / "desk").say(*words[1:]).code == 1


def test_the_image_is_given_all_that_the_wheel_is_built_from():
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    for path in ("src", "pyproject.toml", "README.md", "LICENSE", "scripts/index_readme.py"):
        assert f"!{path}" in sent
        assert (ROOT / path).exists()


def test_compose_has_a_database_and_two_workers_with_homes_of_their_own():
    services = compose()["services"]
    workers = [service for service in services.values() if "build" in service]

    assert "postgres" in services["database"]["image"]
    assert len(workers) == 2
    assert len({worker["volumes"][0] for worker in workers}) == 2
    for worker in workers:
        assert worker["cap_drop"] == ["ALL"]
        assert worker["read_only"] is True
        assert int(worker["stop_grace_period"].removesuffix("s")) > GRACE
        assert worker["depends_on"]["database"]["condition"] == "service_healthy"
        assert (DEPLOY / worker["build"]["context"] / worker["build"]["dockerfile"]).exists()


def test_no_file_has_a_password():
    secrets = [value for service in compose()["services"].values() for value in service["environment"].items()]
    named = [value for name, value in secrets if re.search("PASSWORD|KEY", name)]
    assert named
    assert all(value.startswith("${") for value in named)


def test_systemd_understands_the_unit(tmp_path: Path):
    unit = (DEPLOY / "metier.service").read_text()
    assert int(re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[0]) > GRACE
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not here")
    # Without the program that it starts, and with a user that is here.
    tried = tmp_path / "metier.service"
    tried.write_text(
        unit.replace("/opt/metier/bin/metier daemon", "/bin/true").replace("=metier\nGroup=metier", "=root")
    )
    done = subprocess.run([program, "verify", str(tried)], capture_output=True, text=True, timeout=60)
    assert [line for line in done.stderr.splitlines() if "metier.service" in line] == []


def test_launchd_understands_the_agent():
    agent = plistlib.loads((DEPLOY / "dev.metier.daemon.plist").read_bytes())
    assert agent["ProgramArguments"][1:] == ["daemon"]
    assert agent["ExitTimeOut"] > GRACE
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["Umask"] == 0o077


@pytest.mark.parametrize("name", ["test", "release", "docs"])
def test_a_workflow_can_be_read_and_asks_for_little(name: str):
    workflow = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_a_workflow_names_only_targets_and_files_that_there_are():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for file in (ROOT / ".github/workflows").glob("*.yml"):
        text = file.read_text()
        assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= targets
        assert all((ROOT / path).exists() for path in re.findall(r"\b(?:deploy|tests)/[\w./]+", text))


def test_every_supported_python_is_tested():
    matrix = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]["test"]["strategy"]["matrix"]
    listed = re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text())
    assert matrix["python"] == listed

"""One person's way through metier on machines that lack this and that, as root and as anybody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.home import World, world_for_everybody
from tests.journeys.test_pages import CLAUDE, REVIEW, write
from tests.reachable import packages_for_others, python_for_others, source_for_others

from metier import sandbox

LACKING = Path(__file__).parent / "lacking.py"
SAID = """
import json, sys
from metier.faces.cli.app import run
for words in json.loads(sys.argv[1]):
    print("$", *words, flush=True)
    print("exit", run(words), flush=True)
"""
NOBODY = 65534


class Person:
    def __init__(self, world: World, python: str, user: int | None) -> None:
        self.world, self.python, self.user = world, python, user

    def run(self, *argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        env = {
            "HOME": str(self.world.home), "PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8",
            "PYTHONPATH": f"{source_for_others()}:{packages_for_others()}", "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
        }  # fmt: skip
        who = {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}
        return subprocess.run(argv, cwd=cwd or self.world.project, env=env, capture_output=True, text=True, **who)  # type: ignore[call-overload,no-any-return]

    def says(self, lacks: str, *calls: list[str]) -> list[str]:
        """What metier prints for each call, its exit code last."""
        lacking = str(shutil.copy(LACKING, self.world.home.parent))  # where an ordinary user can read it, too
        done = self.run(self.python, lacking, lacks, self.python, "-c", SAID, json.dumps(calls))
        assert done.returncode == 0, done.stderr
        return [part.partition("\n")[2] for part in done.stdout.split("$ ")[1:]]


@pytest.fixture(params=["as we are", *(["as an ordinary user"] if os.getuid() == 0 else [])])
def person(request: pytest.FixtureRequest) -> Iterator[Person]:
    with world_for_everybody() as world:
        found = Person(world, sys.executable, None)
        if request.param != "as we are":
            for folder in (world.home, world.project, world.project / ".git"):
                os.chown(folder, NOBODY, NOBODY)
            found = Person(world, python_for_others(), NOBODY)
            able = "import sys; assert sys.version_info >= (3, 11); import metier.faces.cli.app, yaml, click"
            if not os.path.exists(found.python) or found.run(found.python, "-c", able).returncode:
                pytest.skip("other users have no Python 3.11 here")
        (world.project / ".git").rmdir()
        assert found.run("git", "init", "-q").returncode == 0
        yield found


def skills_of(world: World) -> None:
    write(world.home / ".umbra/skills/commit", {"SKILL.md": "---\nname: commit\n---\n!`git status --short`\n"})
    lint = {"SKILL.md": REVIEW, "scripts/lint.sh": '#!/bin/bash\ngrep -n "TODO" "$1" && exit 1\nexit 0\n'}
    write(world.home / "agentmd/review-code", lint)
    write(world.home / "agentmd/report", {"SKILL.md": CLAUDE, "scripts/hello.sh": 'echo "hello $1 from $PWD"\n'})
    theirs = {"SKILL.md": "---\nname: theirs\ndescription: Of others.\n---\nHi.\n", "scripts/go.sh": "echo it ran\n"}
    write(world.home / "downloaded/theirs", theirs)
    write(world.project, {"app.py": "x = 1\n# TODO: more\n"})
    if os.getuid() == 0:
        for at, folders, files in os.walk(world.home):
            for name in (*folders, *files):
                os.chown(f"{at}/{name}", world.home.stat().st_uid, world.home.stat().st_gid)


def wanted(lacks: str) -> str:
    """The tier that is left when the machine lacks something."""
    if lacks == "":
        return sandbox.sandbox_tier(sandbox.MachineOptions())
    return sandbox.sandbox_tier(sandbox.MachineOptions(bwrap="/missing")) if lacks == "namespaces" else "none"


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the numbers of calls are theirs")
@pytest.mark.parametrize("lacks", ["", "namespaces", "namespaces,landlock"])
def test_doctor_names_the_tier_the_pages_examples_run_in_it_and_scripts_of_others_do_or_are_refused(
    person: Person, lacks: str
):
    skills_of(person.world)
    tier, home = wanted(lacks), person.world.home
    agentmd = ["--dialect", "agentmd", "--root", str(home / "agentmd")]
    doctor, status, lint, report, added, theirs = person.says(
        lacks,
        ["doctor", "--json"],
        ["--dialect", "umbra", "render", "commit"],
        [*agentmd, "script", "review-code", "lint.sh", "--", f"{person.world.project}/app.py"],
        [*agentmd, "render", "report", "--", "world"],
        ["add", str(home / "downloaded/theirs"), "--yes"],
        ["script", "theirs", "go.sh"],
    )
    found = {one["what"]: one["note"] for one in json.loads(doctor.rpartition("exit")[0])}
    assert found["sandbox"].startswith(f"{tier}: ")
    # Why it is no better one, in the words of the trial or because there is none to try.
    why = found["sandbox"].removeprefix(f"{tier}: ")
    assert why.startswith(("bubblewrap: ", "bubblewrap is not installed")) is (tier != "bubblewrap")
    assert "?? app.py" in status
    assert "2:# TODO: more\n[exit code: 1]" in lint
    assert f"hello world from {home}/agentmd/report" in report
    assert "Added skill 'theirs'" in added
    if tier == "none":
        assert "Cannot execute 'go.sh': there is no sandbox here: bubblewrap" in theirs
        assert "it ran" not in theirs
    else:
        assert theirs == "it ran\nexit 0\n"

"""Real runs of skills with faults of every kind: what is the skill's and has one reading is cured without a model, and
nothing else changes a skill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.home import World
from tests.improve.failing import call, improved, ran, skill

ARGPARSE = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("period", nargs="?", choices=["monthly", "weekly"])
parser.add_argument("--format", default="csv")
parser.add_argument("--output-folder")
parser.add_argument("--source")
parser.parse_args()
print("42")
"""
NEEDS_OUTPUT = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--output", required=True)
parser.parse_args()
print("42")
"""
SHELL = "#!/bin/sh\necho 42\n"


class Case(NamedTuple):
    """A skill's body, what it brings along, the calls of a run of it, and its body afterwards."""

    body: str
    calls: Sequence[Any]
    cured: str = ""
    files: Mapping[str, str] = MappingProxyType({})
    project: Mapping[str, str] = MappingProxyType({})


def script(name: str, arguments: str = "") -> Any:
    more = {"script_args": arguments} if arguments else {}
    return call("skill_run_script", skill_name="report", script_name=name, **more)


def command(text: str) -> Any:
    return call("run_command", command=text)


def read(path: str) -> Any:
    return call("skill_read_file", skill_name="report", file_path=path)


def prepared(world: World, case: Case, root: str = ".config/agenvoy/skills") -> Path:
    file = skill(world, case.body, root=root)
    for base, files in ((file.parent, case.files), (world.project, case.project)):
        for path, text in files.items():
            (base / path).parent.mkdir(parents=True, exist_ok=True)
            (base / path).write_text(text)
    return file


REPORT = {"scripts/report.py": ARGPARSE}
CURED = {
    "an option of its script, misspelled": Case(
        "Run `scripts/report.py --fromat csv`.\n",
        [script("report.py", "--fromat csv")],
        "Run `scripts/report.py --format csv`.\n",
        REPORT,
    ),
    "an option of its script, shortened": Case(
        "Run `scripts/report.py --fmt csv`.\n",
        [script("report.py", "--fmt csv")],
        "Run `scripts/report.py --format csv`.\n",
        REPORT,
    ),
    "an option with an underscore": Case(
        "Run `scripts/report.py --output_folder out`.\n",
        [script("report.py", "--output_folder out")],
        "Run `scripts/report.py --output-folder out`.\n",
        REPORT,
    ),
    "an option with its value": Case(
        "Run `scripts/report.py --fromat=csv`.\n",
        [script("report.py", "--fromat=csv")],
        "Run `scripts/report.py --format=csv`.\n",
        REPORT,
    ),
    "a choice of its script, misspelled": Case(
        "Run `scripts/report.py monthyl`.\n",
        [script("report.py", "monthyl")],
        "Run `scripts/report.py monthly`.\n",
        REPORT,
    ),
    "a script, misspelled": Case(
        "Run `scripts/sumary.py`.\n",
        [script("sumary.py")],
        "Run `scripts/summary.py`.\n",
        {"scripts/summary.py": "print(1)\n"},
    ),
    "a script beside others in the same folder": Case(
        "See `references/style.md`. Run `scripts/biuld.py`.\n",
        [script("biuld.py")],
        "See `references/style.md`. Run `scripts/build.py`.\n",
        {"scripts/build.py": "print(1)\n", "scripts/budget.py": "print(2)\n", "references/style.md": "Be brief.\n"},
    ),
    "a reference, misspelled among many": Case(
        "Read `references/gudie.md`.\n",
        [read("references/gudie.md")],
        "Read `references/guide.md`.\n",
        {f"references/{name}.md": "Text.\n" for name in ("guide", "style", "terms", "rules", "names")},
    ),
    "a reference whose folder is shortened": Case(
        "Read [this](refs/guide.md).\n",
        [read("refs/guide.md")],
        "Read [this](references/guide.md).\n",
        {"references/guide.md": "Text.\n"},
    ),
    "a reference in another case": Case(
        "Read `references/Guide.md`.\n",
        [read("references/Guide.md")],
        "Read `references/guide.md`.\n",
        {"references/guide.md": "Text.\n"},
    ),
    "a reference with the other suffix for the same": Case(
        "Read `references/guide.txt`.\n",
        [read("references/guide.txt")],
        "Read `references/guide.md`.\n",
        {"references/guide.md": "Text.\n"},
    ),
    "a data file in the arguments of its script": Case(
        "Run `scripts/sum.py data/ratse.csv`.\n",
        [script("sum.py", "data/ratse.csv")],
        "Run `scripts/sum.py data/rates.csv`.\n",
        {"scripts/sum.py": "import sys\nprint(open(sys.argv[1]).read())\n", "data/rates.csv": "1\n"},
    ),
    "another agent's name for a tool": Case(
        "Use the Bash tool to run `ls`.\n", [call("Bash", command="ls")], "Use the run_command tool to run `ls`.\n"
    ),
    "a tool, misspelled": Case("Call `raed_file`.\n", [call("raed_file", path="x")], "Call `read_file`.\n"),
    "a call that the run itself corrected": Case(
        "Run `sh count.sh --onelin`.\n",
        [command("sh count.sh --onelin"), command("sh count.sh --oneline")],
        "Run `sh count.sh --oneline`.\n",
        project={"count.sh": 'test "$1" = --oneline\n'},
    ),
    "an option of its script that the run found out": Case(
        "Run `scripts/report.py --style csv $ARGUMENTS`.\n",
        [script("report.py", "--style csv"), script("report.py", "--format csv")],
        "Run `scripts/report.py --format csv $ARGUMENTS`.\n",
        REPORT,
    ),
    "an option that its script asks for": Case(
        "Run `scripts/need.py out.csv`.\n",
        [script("need.py", "out.csv"), script("need.py", "--output out.csv")],
        "Run `scripts/need.py --output out.csv`.\n",
        {"scripts/need.py": NEEDS_OUTPUT},
    ),
    "a shell script that its text starts with Python's old name": Case(
        "Run `python scripts/report.py weekly`.\n",
        [command("python scripts/report.py weekly")],
        "Run `python3 scripts/report.py weekly`.\n",
        REPORT,
    ),
    "a script without the right to be executed": Case(
        "Run `./scripts/go.sh`.\n",
        [command("./scripts/go.sh")],
        "Run `sh ./scripts/go.sh`.\n",
        {"scripts/go.sh": SHELL},
    ),
}


@pytest.mark.parametrize("name", CURED)
def test_a_fault_of_the_skill_with_one_reading_is_cured_without_a_model(world, name):
    case = CURED[name]
    file = prepared(world, case)
    found, model = improved(world, ran(world, *case.calls), ["Never said."])

    assert file.read_text().endswith(f"---\n{case.cured}"), [one.gates for one in found.proposals]
    assert [one.standing for one in found.proposals] == ["accepted"]
    assert model.requests == []


def fails(text: str, status: int = 1) -> str:
    return f"import sys\nprint({text!r}, file=sys.stderr)\nsys.exit({status})\n"


JOB = "Run `scripts/job.py`. Then say what it said.\n"
ENVIRONMENT = {
    "the disk is full": "OSError: [Errno 28] No space left on device: 'out.csv'",
    "a quota is used up": "write failed: Disk quota exceeded",
    "the target is read-only": "cp: cannot create regular file 'x': Read-only file system",
    "a folder is closed": "PermissionError: [Errno 13] Permission denied: '/var/reports'",
    "a name is not found": "curl: (6) Could not resolve host: numbers.example.com",
    "no network": "fatal: unable to access 'https://example.com/x.git/': Network is unreachable",
    "a port is closed": "psql: error: connection refused",
    "a service is down": "HTTP error 503: service unavailable",
    "too many requests": "429 Too Many Requests",
    "a login has expired": "error: your session has expired, please log in again",
    "a token has expired": "Error: ExpiredToken: The security token included in the request is expired",
    "nobody is logged in": "To get started, run: gh auth login",
    "a key is refused": "401 Unauthorized",
    "a key is not set": "REPORT_TOKEN is not set",
    "a program is missing inside": "job: line 3: pandoc: command not found",
    "a program of Python's is missing": "FileNotFoundError: [Errno 2] No such file or directory: 'pandoc'",
    "a library is missing": "ModuleNotFoundError: No module named 'pandas'",
    "out of memory": "MemoryError",
    "a lock is held": "fatal: Unable to create '/x/.git/index.lock': File exists.",
    "a certificate is bad": "SSLError: certificate verify failed",
    "the user's file is not there": "FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'",
}


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_what_the_environment_did_changes_nothing(world, name):
    case = Case(JOB, [script("job.py")], files={"scripts/job.py": fails(ENVIRONMENT[name])})
    file = prepared(world, case)
    before = file.read_text()
    found, model = improved(world, ran(world, *case.calls), ["Never said."])

    assert (found.proposals, model.requests) == ((), [])
    assert file.read_text() == before


OTHERS = {
    "a script that was killed": Case(
        JOB, [script("job.py")], files={"scripts/job.py": "import os\nos.kill(os.getpid(), 9)\n"}
    ),
    "a file of the project that is not there": Case("Run `cat numbers.txt`.\n", [command("cat numbers.txt")]),
    "a script of the project that is not there": Case(
        "In the project run `sh scripts/totla.sh`.\n",
        [command("sh scripts/totla.sh")],
        files={"scripts/total.sh": SHELL},
    ),
    "a script of a project that has such a folder": Case(
        "Run `sh scripts/totla.sh`.\n",
        [command("sh scripts/totla.sh")],
        files={"scripts/total.sh": SHELL},
        project={"scripts/other.sh": SHELL},
    ),
    "a check that found something": Case(
        "Run `sh check.sh`.\n", [command("sh check.sh")], project={"check.sh": "exit 3\n"}
    ),
    "an input that its script does not like": Case(
        "Run `scripts/job.py $ARGUMENTS`.\n",
        [script("job.py", "broken.csv")],
        files={"scripts/job.py": fails("line 3 of broken.csv has no number")},
    ),
    "a tool that was called with nothing": Case("Read it with `read_file`.\n", [call("read_file")]),
    "a step that failed once and then worked": Case(
        "Run `sh flaky.sh`.\n",
        [command("sh flaky.sh"), command("sh flaky.sh")],
        project={"flaky.sh": "test -e seen || { touch seen; exit 1; }\n"},
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_nothing_shows_to_be_the_skills_fault_changes_nothing(world, name):
    file = prepared(world, OTHERS[name])
    before = file.read_text()
    found, model = improved(world, ran(world, *OTHERS[name].calls), ["Never said."])

    assert (found.proposals, model.requests) == ((), [])
    assert file.read_text() == before


LOCKED = {"scripts/unlock-vault.sh": SHELL}
NO_GUESS = {
    "the opposite": Case("Lock it: `scripts/lock-vault.sh`.\n", [script("lock-vault.sh")], files=LOCKED),
    "another year": Case(
        "Read `references/prices-2026.md`.\n",
        [read("references/prices-2026.md")],
        files={"references/prices-2025.md": "1\n"},
    ),
    "a folder of another year": Case(
        "Read `2026/prices.md`.\n", [read("2026/prices.md")], files={"2025/prices.md": "1\n"}
    ),
    "another number": Case(
        "Run `scripts/step-2.py`.\n", [script("step-2.py")], files={"scripts/step-1.py": "print(1)\n"}
    ),
    "another month": Case(
        "Read `references/report-jun.md`.\n",
        [read("references/report-jun.md")],
        files={"references/report-jul.md": "1\n"},
    ),
    "another kind of file": Case(
        "Read `references/deploy.md`.\n", [read("references/deploy.md")], files={"scripts/deploy.sh": SHELL}
    ),
    "another kind of file in the same folder": Case(
        "Read `references/deploy.md`.\n", [read("references/deploy.md")], files={"references/deploy.json": "{}\n"}
    ),
    "another word that is near": Case(
        "Run `scripts/prize.py`.\n", [script("prize.py")], files={"scripts/price.py": "print(1)\n"}
    ),
    "two that it can be": Case(
        "Read `references/gide.md`.\n",
        [read("references/gide.md")],
        files={"references/guide.md": "1\n", "references/glide.md": "2\n"},
    ),
    "export for import": Case(
        "Run `scripts/import.py`.\n", [script("import.py")], files={"scripts/export.py": "print(1)\n"}
    ),
    "another target that worked": Case(
        "Run `sh put.sh --to prod`.\n",
        [command("sh put.sh --to prod"), command("sh put.sh --to test")],
        project={"put.sh": 'test "$2" = test\n'},
    ),
    "a caution that was left out": Case(
        "Run `sh put.sh --dry-run`.\n",
        [command("sh put.sh --dry-run"), command("sh put.sh")],
        project={"put.sh": 'test -z "$1"\n'},
    ),
    "force that worked": Case(
        "Run `sh put.sh --first`.\n",
        [command("sh put.sh --first"), command("sh put.sh --force")],
        project={"put.sh": 'test "$1" = --force\n'},
    ),
    "another number that worked": Case(
        "Run `sh put.sh --most 10`.\n",
        [command("sh put.sh --most 10"), command("sh put.sh --most 1000")],
        project={"put.sh": 'test "$2" = 1000\n'},
    ),
    "a word that the text uses elsewhere too": Case(
        "Cost it: run `scripts/cast.py`, which casts them, and cast again.\n",
        [script("cast.py")],
        files={"scripts/cost.py": "print(1)\n"},
    ),
}


@pytest.mark.parametrize("name", NO_GUESS)
def test_a_rule_does_not_guess(world, name):
    file = prepared(world, NO_GUESS[name])
    before = file.read_text()
    found, _ = improved(world, ran(world, *NO_GUESS[name].calls), ["I can't tell."])

    assert not any(one.how == "fix" for one in found.proposals)
    assert file.read_text() == before

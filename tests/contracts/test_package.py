"""The package as people get it: what it is built of, what its index page says, and what of it is public."""

import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from scripts.index_readme import absolute_links
from scripts.release import EXTRA_COMMANDS
from scripts.sbom import sbom_document
from tests.cli.console import Desk
from tests.golden import same_as

import metier

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    [file] = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        return message_from_bytes(archive.read(name))


def test_the_wheel_holds_all_of_the_package_and_nothing_else(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    there = {line.removeprefix("src/") for line in listed if (ROOT / line).exists()}
    assert there
    assert held == there


def test_the_wheel_runs_where_there_is_nothing_else_of_metier(wheel: Path, tmp_path: Path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path / "site"), "LANG": "C.UTF-8"}
    for words in (["--version"], ["--version", "--json"], ["list"], ["doctor", "--json"]):
        # -P: not from the source tree, which the working folder may be.
        done = subprocess.run(
            [sys.executable, "-P", "-m", "metier", *words],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode in (0, 1), done.stderr
        if "--json" in words[1:] and words[0] == "--version":
            assert json.loads(done.stdout)["location"] == str(tmp_path / "site" / "metier")


def test_the_index_page_has_no_relative_link(metadata: Message):
    text = str(metadata.get_payload())
    assert metadata["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"\]\(([^)\s]+)", text)
    assert len(links) > 10
    assert not [link for link in links if not link.startswith(("https://", "#"))]
    assert f"/raw/v{metier.__version__}/docs/images/terminal.svg" in text


def test_links_are_made_absolute_once():
    text = "![a](b.svg) [c](d.md#e) [f](https://g) [![h](i.svg)](j.md) [k](#l)"
    once = absolute_links(text, "https://x", "1")

    assert once == (
        "![a](https://x/raw/v1/b.svg) [c](https://x/blob/v1/d.md#e) [f](https://g) "
        "[![h](https://x/raw/v1/i.svg)](https://x/blob/v1/j.md) [k](#l)"
    )
    assert absolute_links(once, "https://x", "1") == once


def test_the_metadata_is_complete(metadata: Message):
    assert metadata["Name"] == "metier"
    assert metadata["Version"] == metier.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert {line.partition(",")[0] for line in metadata.get_all("Project-URL", [])} == set(PROJECT["urls"])
    assert len(metadata["Summary"]) < 512
    assert metadata["Requires-Python"] == ">=3.11"


def test_addresses_have_one_place():
    known = re.escape(PROJECT["urls"]["Repository"].removeprefix("https://github.com/"))
    wrong = []
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    for file in files:
        if not file.endswith((".md", ".yml", ".yaml", ".toml", ".py", ".nix", ".rb", "Dockerfile")):
            continue
        text = (ROOT / file).read_text(encoding="utf-8", errors="replace") if (ROOT / file).is_file() else ""
        wrong += [
            f"{file}: {name}"
            for name in re.findall(r"github\.com/([\w-]+/metier)\b", text)
            if not re.match(known, name)
        ]
    assert wrong == []


def test_extras_name_only_extras_that_there_are():
    extras = PROJECT["optional-dependencies"]
    for group in ("all", "dev"):
        [own] = [line for line in extras[group] if line.startswith("metier[")]
        assert set(own[len("metier[") : -1].split(",")) <= set(extras)


def test_the_version_can_be_read_by_a_program(desk_of: Desk):
    facts = json.loads(desk_of.say("--version", "--json").out)

    assert facts["version"] == metier.__version__
    assert set(facts) == {"version", "python", "implementation", "platform", "location"}
    assert json.loads(desk_of.say("--json", "--version").out) == facts
    assert desk_of.say("--version").out == f"metier {metier.__version__}\n"


@pytest.fixture
def desk_of(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_the_sbom_names_every_runtime_package_with_its_digests():
    document = sbom_document()

    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    names = {item["name"] for item in document["components"]}
    assert {re.split(r"[<>=]", line)[0].lower() for line in PROJECT["dependencies"]} <= names
    assert all(item["externalReferences"] for item in document["components"])
    assert sbom_document() == document


# --- What is public ---


def public_lines() -> list[str]:
    """Each public name with its signature, and the public members of each class."""
    lines = []
    for name in metier.__all__:
        value = getattr(metier, name)
        lines.append(f"metier.{name}{signature_of(value)}")
        if not inspect.isclass(value):
            continue
        fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
        members = (fields | set(getattr(value, "_fields", ()))) | {
            key for kind in value.__mro__ if kind.__module__.startswith("metier") for key in vars(kind)
        }
        for key in sorted(member for member in members if not member.startswith("_")):
            member = inspect.getattr_static(value, key, None)
            lines.append(f"metier.{name}.{key}{signature_of(member)}")
    return lines


def signature_of(value: Any) -> str:
    if isinstance(value, staticmethod | classmethod):
        return signature_of(value.__func__)
    if not callable(value) or (isinstance(value, type) and issubclass(value, BaseException)):
        return ""
    try:
        # Types are text in these modules, so a signature reads the same on every Python.
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""


def test_the_public_names_and_signatures_are_those_of_the_file():
    same_as(Path(__file__).parent / "public_api.txt", "\n".join(public_lines()) + "\n")


def test_the_changelog_has_one_entry_for_the_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^## \[(.+?)\]", text).count(metier.__version__) == 1


def test_the_oldest_and_newest_python_that_are_declared_are_tested():
    workflow = (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8")
    declared = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert declared
    assert not [version for version in declared if f'"{version}"' not in workflow]
    assert os.path.exists(ROOT / "LICENSE")


def test_the_release_tries_every_extra():
    assert set(EXTRA_COMMANDS) == set(PROJECT["optional-dependencies"])

"""`metier export`: what is written is read back elsewhere, and what is lost is said."""

import io
import json
import tarfile
import zipfile
from hashlib import sha256

import pytest
from tests.cli.console import Desk


@pytest.fixture
def out(desk: Desk) -> Desk:
    """A desk with a skill of several files, one of a single file and one in another dialect."""
    folder = desk.skill("greet", description="Greets people.").parent
    for path, text in {
        "reference.md": "Hello.\n",
        "scripts/hello.sh": "echo hello\n",
        "evals/evals.json": "[]",
        ".env": "SECRET=1",
        "__pycache__/x.pyc": "x",
    }.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    (folder / "scripts" / "hello.sh").chmod(0o755)
    desk.skill("alone")
    desk.skill("old", "---\nname: old\ndescription: Old.\nargument-hint: '[who]'\n---\nGreet $1, then ${@:2}.\n",
               under=desk.home / ".umbra" / "skills")  # fmt: skip
    return desk


FILES = ["SKILL.md", "reference.md", "scripts/hello.sh"]


def test_a_skill_file_is_an_archive_with_the_skills_folder_in_it(out):
    said = out.say("export", "greet", "--out", "there")
    archive = zipfile.ZipFile(out.project / "there" / "greet.skill")

    assert said.code == 0, said.err
    assert archive.namelist() == [f"greet/{path}" for path in FILES]
    assert archive.getinfo("greet/scripts/hello.sh").external_attr >> 16 & 0o777 == 0o755
    assert "lost" not in said.out


def test_the_same_skill_gives_the_same_bytes(out):
    out.say("export", "greet", "--out", "one")
    (out.skills / "greet" / "reference.md").touch()
    out.say("export", "greet", "--out", "two")

    assert (out.project / "one" / "greet.skill").read_bytes() == (out.project / "two" / "greet.skill").read_bytes()


def test_a_site_has_an_index_with_digests_and_archives_without_a_wrapper(out):
    out.say("export", "greet", "alone", "--as", "well-known", "--out", "site")
    base = out.project / "site"
    index = json.loads((base / ".well-known/agent-skills/index.json").read_text())

    assert index["$schema"] == "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
    assert [(one["name"], one["type"]) for one in index["skills"]] == [("alone", "skill-md"), ("greet", "archive")]
    for one in index["skills"]:
        data = (base / one["url"].lstrip("/")).read_bytes()
        assert one["digest"] == f"sha256:{sha256(data).hexdigest()}"
        if one["type"] == "archive":
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                assert archive.getnames() == FILES


def test_a_site_offers_no_skill_that_the_standard_rejects(out):
    out.skill("odd", "---\nname: Odd Name\ndescription: Odd.\n---\nOdd.\n")
    said = out.say("export", "--all", "--as", "well-known", "--out", "site")
    index = json.loads((out.project / "site/.well-known/agent-skills/index.json").read_text())

    assert said.code == 0, said.err
    assert "skipped  Odd Name: " in said.out
    assert "Odd Name" not in [one["name"] for one in index["skills"]]
    assert "greet" in [one["name"] for one in index["skills"]]
    refused = out.say("export", "Odd Name", "--as", "well-known", "--out", "other")
    assert refused.code == 4
    assert "metier validate" in refused.err
    assert not (out.project / "other").exists()


def test_a_plugin_is_read_as_one(out):
    said = out.say("export", "--all", "--as", "plugin", "--name", "my-tools", "--out", "plugin")
    out.configure(f'plugins = ["{out.project}/plugin"]\n')
    for name in ("greet", "alone"):
        (out.skills / name / "SKILL.md").unlink()
    listed = json.loads(out.say("list", "--json").out)["skills"]

    assert said.code == 0, said.err
    found = {one["name"]: one for one in listed}
    assert {"greet", "alone"} <= set(found)
    assert str(out.project / "plugin") in found["greet"]["path"]


def test_another_dialect_gets_its_own_placeholders_and_the_losses_are_said(out):
    said = out.say("export", "old", "--as", "claude", "--out", "there", "--json")
    told = json.loads(said.out)

    assert (out.project / "there" / "old" / "SKILL.md").read_text().endswith("Greet $0, then ${@:2}.\n")
    assert {"skill": "old", "loss": "`${@:2}` has no equivalent there and stays as written"} in told["losses"]


def test_a_field_that_means_nothing_elsewhere_is_said(out):
    out.skill("signed", "license: MIT\nmetadata:\n  requires:\n    bins: [git]\n")
    said = out.say("export", "signed", "--as", "umbra", "--out", "there").out

    assert "lost  signed: the field `license` means nothing there" in said
    assert "lost  signed: what it needs of the machine is read differently there" in said


def test_what_the_open_standard_does_not_know_is_said(out):
    said = out.say("export", "old", "--out", "there").out

    assert "lost  old:" in said
    assert "argument-hint" in said


def test_nothing_is_overwritten_unless_it_is_forced(out):
    out.say("export", "alone", "greet", "--out", "there")
    before = (out.project / "there" / "alone.skill").read_bytes()
    out.skill("alone", description="Another.")
    refused = out.say("export", "alone", "--out", "there")

    assert refused.code == 4
    assert "already exists" in refused.err
    assert (out.project / "there" / "alone.skill").read_bytes() == before
    assert out.say("export", "alone", "--out", "there", "--force").code == 0
    assert (out.project / "there" / "alone.skill").read_bytes() != before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gret"], "did you mean `greet`?"),
        (["greet", "--as", "clade"], "did you mean `claude`?"),
        ([], "pass skill names or --all"),
        (["greet", "--as", "plugin"], "a plugin needs a name"),
        (["greet", "--as", "plugin", "--name", "../x"], "is not a valid plugin name"),
    ],
)
def test_what_makes_no_sense_is_said(out, words, said):
    answer = out.say("export", *words)
    assert answer.code == 2
    assert said in answer.err
    assert list(out.project.iterdir()) == [out.project / ".git"]


def test_exporting_runs_nothing(out):
    out.skill("runs", "---\nname: runs\ndescription: Runs.\n---\nNow: !`touch $HOME/ran`\n")
    out.say("export", "runs", "--as", "claude", "--out", "there")
    assert not (out.home / "ran").exists()

"""metier sync with edits: what was edited here and merged is in the lock, so that whoever has the lock has it too."""

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.console import Desk
from tests.install.servers import Repo

from metier.sources.skill_files import manifest_digest
from metier.types.installed import FileRecord

LINES = "".join(f"line {number}\n" for number in range(1, 11))


@pytest.fixture
def edited(desk: Desk, repo: Repo) -> Path:
    """A repository in a project, with an edit, a file more and a file less than upstream, after an update."""
    repo.skill("skills/pdf", body=LINES)
    repo.write("skills/pdf/logo.png", b"\x89PNG\0one")
    repo.write("notes.md", "Of no skill.\n")
    repo.commit()
    assert desk.say("add", str(repo.path), "--project", "--yes").code == 0
    folder = desk.project / ".metier/skills/skills"
    file = folder / "skills/pdf/SKILL.md"
    file.write_text(file.read_text().replace("line 9\n", "line nine, ours\n"))
    (folder / "skills/pdf/own.md").write_text("Ours alone.\r\n\u00fcber\n")
    (folder / "skills/pdf/logo.png").unlink()
    (folder / "notes.md").write_text("Of no skill, ours.\n")
    repo.skill("skills/pdf", body=LINES.replace("line 2\n", "line two\n"))
    repo.commit()
    said = desk.say("update", "--project", "--yes")
    assert said.code == 0, said.err
    assert "share it together with the lock file" not in said.out
    return folder


def colleague(desk: Desk, folder: Path) -> Desk:
    """Somebody else, who has the lock and nothing more."""
    other = Desk(folder)
    (other.project / ".metier").mkdir()
    shutil.copy(desk.project / ".metier/skills-lock.json", other.project / ".metier/skills-lock.json")
    return other


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_team_mate_has_the_merged_texts_from_the_lock_alone(desk: Desk, edited: Path, tmp_path: Path):
    other = colleague(desk, tmp_path / "other")
    said = other.say("sync", "--project")
    assert (said.code, said.out) == (0, "skills: placed\n"), said.err
    assert contents(other.project / ".metier/skills/skills") == contents(edited)
    assert other.say("verify", "--project").code == 0
    assert other.say("update", "--project", "--yes").out == "skills is up to date\n"
    assert other.say("sync", "--project").out == "skills: unchanged\n"


def test_a_further_edit_is_taken_back_to_the_merged_text(desk: Desk, edited: Path):
    before = contents(edited)
    (edited / "skills/pdf/SKILL.md").write_text("Broken.\n")
    assert desk.say("sync", "--project").code == 4
    assert desk.say("sync", "--project", "--force").code == 0
    assert contents(edited) == before


def without_edits(lock: Path) -> None:
    """A lock as it was before locks had texts in them."""
    tree = json.loads(lock.read_text())
    for entry in (*tree["skills"].values(), *tree["folders"].values()):
        entry.pop("edits", None)
    lock.write_text(json.dumps(tree))


def test_a_lock_without_the_texts_is_served_from_the_history(desk: Desk, edited: Path):
    before = contents(edited / "skills/pdf")
    without_edits(desk.project / ".metier/skills-lock.json")
    (edited / "skills/pdf/SKILL.md").write_text("Broken.\n")
    assert desk.say("sync", "--project", "--force").code == 0
    assert contents(edited / "skills/pdf") == before


def test_a_text_that_is_nowhere_fails_alone_and_force_takes_upstreams(
    desk: Desk, repo: Repo, edited: Path, tmp_path: Path
):
    greet = tmp_path / "greet"
    greet.mkdir()
    (greet / "SKILL.md").write_text("---\nname: zzz\ndescription: Greets.\n---\nHello.\n")
    assert desk.say("add", str(greet), "--name", "zzz", "--project", "--yes").code == 0
    other = colleague(desk, tmp_path / "other")
    without_edits(other.project / ".metier/skills-lock.json")
    said = other.say("sync", "--project")
    assert (said.code, said.out) == (1, "zzz: placed\n")
    assert "SKILL.md, own.md of `skills/skills/pdf` was edited by the author of the lock" in said.err
    assert "--force takes upstream's" in said.err
    [failed, placed] = json.loads(other.say("sync", "--project", "--json").out)
    assert (failed["state"], placed["state"]) == ("failed", "unchanged")
    said = other.say("sync", "--project", "--force")
    assert said.code == 0, said.err
    assert (
        "own.md, notes.md: using the upstream version" in said.out or "own.md: using the upstream version" in said.out
    )
    text = (other.project / ".metier/skills/skills/skills/pdf/SKILL.md").read_text()
    assert "line two" in text
    assert "ours" not in text
    assert other.say("verify", "--project").code == 0


def test_an_edit_too_large_for_a_lock_is_said_at_the_update(desk: Desk, repo: Repo):
    assert desk.say("add", str(repo.path), "--skill", "pdf", "--project", "--yes").code == 0
    folder = desk.project / ".metier/skills/pdf"
    (folder / "big.md").write_text("x" * 70_000)
    (folder / "small.md").write_text("x")
    repo.skill("skills/pdf", body="Newer.\n")
    repo.commit()
    said = desk.say("update", "--project", "--yes")
    assert said.code == 0, said.err
    assert "the lock file can't store your big.md" in said.out
    assert "small.md" in json.loads((desk.project / ".metier/skills-lock.json").read_text())["skills"]["pdf"]["edits"]


@pytest.mark.parametrize("where", ["base", "files", "edits", "key", "folder"])
def test_a_lock_that_names_a_path_outside_is_refused(desk: Desk, edited: Path, tmp_path: Path, where: str):
    victim = tmp_path / "victim"
    victim.write_text("Here.\n")
    file = desk.project / ".metier/skills-lock.json"
    tree = json.loads(file.read_text())
    entry = tree["skills"]["skills/skills/pdf"]
    out = "../" * 12 + str(victim).lstrip("/")
    if where == "key":
        tree["skills"][out] = entry
    elif where == "folder":
        entry["folder"] = out
    else:
        entry[where][out] = None if where == "base" else ["x"] if where == "edits" else ["sha256:0", "644"]
    if where == "files":
        entry["digest"] = manifest_digest({path: FileRecord(*one) for path, one in entry["files"].items()})
    file.write_text(json.dumps(tree))
    (edited / "skills/pdf/SKILL.md").write_text("Broken.\n")
    said = desk.say("sync", "--project", "--force")
    assert said.code == 5
    assert "can't be read" in said.err
    assert victim.read_text() == "Here.\n"

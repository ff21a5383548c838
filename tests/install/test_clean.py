"""The trash and the texts that were kept do not grow for ever, and nothing goes too soon."""

import json
import os
from pathlib import Path

import pytest
from tests.cli.console import Desk
from tests.install.servers import Repo

from metier.install import remove
from metier.library.lockfile import InstallRoot

DAY = 86_400


def aged(path: Path, days: float) -> None:
    before = path.lstat().st_mtime
    os.utime(path, (before - days * DAY, before - days * DAY), follow_symlinks=False)


@pytest.fixture
def trash(desk: Desk, repo: Repo) -> Path:
    """Two skills in the trash, one of them since long ago."""
    assert desk.say("add", str(repo.path), "--yes").code == 0
    for name in ("pdf", "docx"):
        assert desk.say("remove", name).code == 0
    folder = desk.skills / ".metier/trash"
    aged(sorted(folder.iterdir())[0], 40)
    return folder


def lying(desk: Desk) -> list[str]:
    return [one["target"] for one in json.loads(desk.say("restore", "--json").out)]


def test_what_has_lain_in_the_trash_for_long_goes_and_the_rest_stays(desk: Desk, trash: Path):
    assert lying(desk) == ["skills/skills/docx", "skills/skills/pdf"]
    would = desk.say("clean", "--dry-run")
    assert (would.code, len(lying(desk))) == (0, 2)
    assert "skills/skills/pdf" in would.out
    assert "skills/skills/docx" not in would.out
    said = json.loads(desk.say("clean", "--json").out)
    assert [one["what"] for one in said["trash"]] == ["skills/skills/pdf"]
    assert said["bytes"] > 0
    assert lying(desk) == ["skills/skills/docx"]
    assert desk.say("restore", "docx").code == 0
    assert desk.say("clean", "--older-than", "0").code == 0
    assert lying(desk) == []


def test_adding_and_updating_empty_it_of_what_is_old(desk: Desk, trash: Path, repo: Repo):
    assert desk.say("add", str(repo.path), "--skill", "pdf", "--yes").code == 0
    assert lying(desk) == ["skills/skills/docx"]
    aged(next(trash.iterdir()), 40)
    repo.skill("skills/brand-guidelines", body="Other.\n")
    repo.commit()
    assert desk.say("update", "--yes").code == 0
    assert lying(desk) == ["skills"]


def test_when_there_is_too_much_the_oldest_goes_and_the_latest_never(desk: Desk, trash: Path):
    ground = InstallRoot(str(desk.skills))
    assert [one.what for one in remove.old_trash(ground, days=1000)] == []
    assert [one.what for one in remove.old_trash(ground, days=1000, most=1)] == ["skills/skills/pdf"]


def test_a_text_that_a_lock_names_is_kept_however_old_and_another_for_a_year(desk: Desk, repo: Repo):
    assert desk.say("add", str(repo.path), "--skill", "pdf", "--yes").code == 0
    texts = [path for path in (desk.state / "store").rglob("*") if path.is_file()]
    assert len(texts) == 3
    for path in texts:
        aged(path, 400)
    assert json.loads(desk.say("clean", "--project", "--json").out)["texts"] == []
    assert desk.say("remove", "pdf").code == 0
    aged(texts[0], -100)
    assert len(json.loads(desk.say("clean", "--json").out)["texts"]) == 2
    assert [path for path in texts if path.exists()] == [texts[0]]


def test_a_text_that_is_needed_again_counts_as_new(desk: Desk, repo: Repo):
    assert desk.say("add", str(repo.path), "--skill", "pdf", "--yes").code == 0
    texts = [path for path in (desk.state / "store").rglob("*") if path.is_file()]
    for path in texts:
        aged(path, 400)
    assert desk.say("add", str(repo.path), "--skill", "pdf", "--yes", "--force").code == 0
    assert desk.say("remove", "pdf").code == 0
    assert json.loads(desk.say("clean", "--json").out)["texts"] == []


def test_a_number_of_days_that_is_none_is_said(desk: Desk):
    said = desk.say("clean", "--older-than", "-1")
    assert said.code == 2
    assert "Traceback" not in said.err


def test_nothing_to_clean_is_fine(desk: Desk):
    assert desk.say("clean").out == "Freed 0 bytes: 0 removed folders and 0 unused merge texts\n"

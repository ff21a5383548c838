"""`metier lint --fix` rewrites the files it was given, and nothing that a link leads to."""

import json
from pathlib import Path

import pytest
from tests.cli.console import Desk

from metier.faces.cli import lint
from metier.host import fs
from metier.parse.fix import fix_text

SLIP = "---\nname: one\ndescripton: Does it.\n---\nBody.\n"
CURED = SLIP.replace("descripton", "description")


def linked(desk: Desk, at: Path) -> Path:
    """A skill with a slip outside of everything, and a link to its folder."""
    file = desk.skill("one", SLIP, under=desk.home.parent / "outside")
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(file.parent)
    return file


@pytest.mark.parametrize("named", ["given", "given/one"])
def test_a_linked_folder_is_read_and_told_of_but_not_written(desk, named):
    file = linked(desk, desk.project / "given/one")
    said = desk.say("lint", "--fix", named)
    assert file.read_text() == SLIP
    assert "not fixed: its folder is reached through a link" in said.out
    assert said.out.endswith("1 checked, 0 clean, 0 fixed\n")
    [one] = json.loads(desk.say("lint", "--fix", "--json", named).out)
    assert one["fixed"] == []
    assert "link" in one["left"]


@pytest.mark.parametrize("link", ["one", "group"])
def test_neither_is_one_in_a_root(desk, link):
    file = linked(desk, desk.skills / link)
    if link == "group":
        file = desk.skill("two", SLIP, under=file.parent)
    before = file.read_text()
    desk.say("lint", "--fix")
    assert file.read_text() == before


def test_a_folder_is_mended_with_the_permissions_its_file_has(desk):
    file = desk.skill("one", SLIP, under=desk.project / "given")
    file.chmod(0o640)
    assert desk.say("lint", "--fix", "given").code == 0
    assert (file.read_text(), file.stat().st_mode & 0o777) == (CURED, 0o640)
    assert [path.name for path in file.parent.iterdir()] == ["SKILL.md"]


def test_a_folder_that_becomes_a_link_midway_leads_nowhere(desk, monkeypatch):
    outside = desk.skill("one", SLIP, under=desk.home.parent / "outside")
    file = desk.skill("one", SLIP, under=desk.project / "given")
    moved = file.parent.with_name("moved")

    def swapped(text, directory):
        file.parent.rename(moved)
        file.parent.symlink_to(outside.parent)
        return fix_text(text, directory)

    monkeypatch.setattr(lint, "fix_text", swapped)
    done: list[str] = []
    with fs.folder_beneath(str(desk.project / "given"), "one") as opened:
        lint._fix_opened(opened, "one", "SKILL.md", done)
    assert done
    assert outside.read_text() == SLIP
    assert (moved / "SKILL.md").read_text() == CURED
    assert [path.name for path in outside.parent.iterdir()] == ["SKILL.md"]

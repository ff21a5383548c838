"""Skills that installed packages bring: found by their records, used only once their content was approved."""

import json
import os
import shutil
import venv
from pathlib import Path

import pytest
from tests.cli.console import Desk

import metier
from metier.host import site_packages


def text(name: str, body: str = "Do it.\n") -> str:
    return f"---\nname: {name}\ndescription: Handles {name} when somebody asks for it.\n---\n{body}"


def environment(folder: Path) -> Path:
    """A virtual environment, and the folder of its packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    return next((folder / "lib").glob("python3*/site-packages"))


def install(site: Path, package: str, version: str, files: dict[str, str]) -> None:
    """What an installer leaves behind: the files, and a RECORD that lists them."""
    for old in site.glob(f"{package.replace('-', '_')}-*.dist-info"):
        shutil.rmtree(old)
    info = site / f"{package.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    for path, content in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(content)
    (info / "RECORD").write_text("".join(f"{path},sha256=x,1\n" for path in files))


@pytest.fixture
def site(desk: Desk) -> Path:
    site = environment(desk.project / ".venv")
    install(site, "fast-thing", "1.0", {"fast_thing/.agents/skills/routes/SKILL.md": text("routes")})
    return site


def test_a_packages_skill_is_shown_and_not_used_until_it_was_approved(desk: Desk, site: Path):
    assert "routes" not in desk.say("catalog").out
    said = desk.say("why", "routes")
    assert "it comes with the package fast-thing" in said.out
    assert "metier approve routes@fast-thing" in said.out
    said = desk.say("approve", "routes@fast-thing", "--yes")
    assert said.code == 0, said.err
    assert "routes" in desk.say("catalog").out


def test_an_upgrade_that_changes_the_skill_asks_again(desk: Desk, site: Path):
    desk.say("approve", "fast-thing", "--yes")
    assert "routes" in desk.say("catalog").out
    files = {
        "fast_thing/.agents/skills/routes/SKILL.md": text("routes", "Do more.\n"),
        "fast_thing/.agents/skills/models/SKILL.md": text("models"),
    }
    install(site, "fast-thing", "1.1", files)
    listed = desk.say("catalog").out
    assert "routes" not in listed
    assert "models" not in listed
    assert desk.say("approve", "fast-thing", "--yes").code == 0
    assert "models" in desk.say("catalog").out


def test_a_changed_reference_of_a_packages_skill_asks_again(desk: Desk, site: Path):
    note = site / "fast_thing/.agents/skills/routes/notes.md"
    note.write_text("One.\n")
    desk.say("approve", "fast-thing", "--yes")
    assert "routes" in desk.say("catalog").out
    note.write_text("Two.\n")
    assert "routes" not in desk.say("catalog").out


def test_the_same_content_in_another_environment_is_approved(desk: Desk, site: Path, tmp_path: Path):
    desk.say("approve", "fast-thing", "--yes")
    other = environment(tmp_path / "other")
    install(other, "fast-thing", "1.0", {"fast_thing/.agents/skills/routes/SKILL.md": text("routes")})
    shutil.rmtree(desk.project / ".venv")
    assert "routes" not in desk.say("catalog").out
    assert "routes" in desk.say("catalog", VIRTUAL_ENV=str(tmp_path / "other")).out


def test_a_packages_skill_takes_no_other_skills_place(desk: Desk, site: Path):
    desk.skill("routes", description="My own routes.")
    desk.say("approve", "fast-thing", "--yes")
    assert "My own routes." in desk.say("catalog").out


def test_nothing_is_imported_and_a_record_leads_nowhere_else(desk: Desk, site: Path, tmp_path: Path):
    outside = tmp_path / "outside/.agents/skills/evil"
    outside.mkdir(parents=True)
    (outside / "SKILL.md").write_text(text("evil"))
    install(site, "bad", "1.0", {"bad/__init__.py": "raise SystemExit('imported')\n"})
    above = os.path.relpath(outside, site)
    (site / "bad-1.0.dist-info/RECORD").write_text(f"{above}/SKILL.md,,\n{outside}/SKILL.md,,\n")
    os.utime(site)
    said = desk.say("list", "--json")
    assert said.code == 0
    assert "evil" not in said.out


def test_a_package_installed_from_its_sources_is_found(desk: Desk, site: Path, tmp_path: Path):
    source = tmp_path / "my thing"
    (source / "src/thing/.agents/skills/draw").mkdir(parents=True)
    (source / "src/thing/.agents/skills/draw/SKILL.md").write_text(text("draw"))
    install(site, "thing", "0.1", {"_thing.pth": str(source)})
    (site / "thing-0.1.dist-info/direct_url.json").write_text(
        json.dumps({"url": source.as_uri(), "dir_info": {"editable": True}})
    )
    assert desk.say("approve", "thing", "--yes").code == 0
    assert "draw" in desk.say("catalog").out


def test_packages_of_node_are_found_in_scopes_too(desk: Desk):
    for package in ("plain", "@acme/tools"):
        folder = desk.project / "node_modules" / package
        (folder / f".agents/skills/{folder.name}-skill").mkdir(parents=True)
        (folder / f".agents/skills/{folder.name}-skill/SKILL.md").write_text(text(f"{folder.name}-skill"))
        (folder / "package.json").write_text(json.dumps({"name": package, "version": "1.2.3"}))
    assert desk.say("approve", "plain", "--yes").code == 0
    assert desk.say("approve", "acme-tools", "--yes").code == 0
    listed = desk.say("catalog").out
    assert "plain-skill" in listed
    assert "tools-skill" in listed


def test_packages_are_not_looked_for_when_they_are_switched_off(desk: Desk, site: Path):
    desk.configure('[skills]\npackages = "off"\n')
    assert "routes" not in desk.say("status").out


def test_records_are_read_again_only_when_something_was_installed(tmp_path: Path):
    site = environment(tmp_path / ".venv")
    install(site, "one", "1.0", {"one/.agents/skills/first/SKILL.md": text("first")})
    cache = str(tmp_path / "packages.txt")
    found = site_packages.packages_with_skills([str(tmp_path / ".venv")], [], cache)
    assert [(skills.package, skills.version) for skills in found] == [("one", "1.0")]
    record = site / "one-1.0.dist-info/RECORD"
    record.write_text("")  # its folder's time changes, that of the site does not
    assert site_packages.packages_with_skills([str(tmp_path / ".venv")], [], cache) == found
    install(site, "two", "1.0", {"two/.agents/skills/second/SKILL.md": text("second")})
    assert [skills.package for skills in site_packages.packages_with_skills([str(tmp_path / ".venv")], [], cache)] == [
        "two"
    ]


def test_a_damaged_memory_of_packages_is_read_anew(tmp_path: Path):
    environment(tmp_path / ".venv")
    cache = tmp_path / "packages.txt"
    for damage in ("", "metier packages 1\nx\ty\n", "\0\0", "metier packages 1\n\t\t\n"):
        cache.write_text(damage)
        assert site_packages.packages_with_skills([str(tmp_path / ".venv")], [], str(cache)) == []


def test_metier_brings_its_own_skill():
    folder = Path(metier.__file__).parent / ".agents/skills/metier"
    library = metier.open(root=str(folder.parent), index=False)
    assert [skill.name for skill in library.skills] == ["metier"]

"""metier update: what changed is shown, what was edited here stays, and nothing widens unattended."""

import json
import os
from pathlib import Path

import pytest
from tests.cli.console import Desk
from tests.install.servers import Repo, git

from metier.dialects import DIALECTS
from metier.install import add, update
from metier.install.add import AddRequest
from metier.install.fetch_access import FetchOptions
from metier.install.merge import merge_texts, plan_merge
from metier.library.lockfile import InstallRoot
from metier.types.errors import Refused
from metier.types.installed import FileRecord

LINES = "".join(f"line {number}\n" for number in range(1, 11))


@pytest.fixture
def pdf(desk: Desk, repo: Repo) -> Path:
    repo.skill("skills/pdf", body=LINES)
    repo.write("skills/pdf/logo.png", b"\x89PNG\0one")
    repo.commit()
    assert desk.say("add", str(repo.path), "--yes").code == 0
    return desk.skills / "skills/skills/pdf"


def test_an_update_shows_the_difference_and_takes_it(desk: Desk, repo: Repo, pdf: Path):
    assert desk.say("update", "--yes").out == "skills is up to date\n"
    assert desk.say("outdated").code == 0
    repo.skill("skills/pdf", body=LINES.replace("line 3\n", "line three\n"))
    repo.write("skills/pdf/logo.png", b"\x89PNG\0two")
    commit = repo.commit()
    listed = desk.say("outdated")
    assert listed.code == 1
    assert commit[:12] in listed.out
    said = desk.answering("update", answer="y\n")
    assert said.code == 0, said.out
    assert "-line 3" in said.out
    assert "+line three" in said.out
    assert "skills/pdf/logo.png: changed" in said.out
    assert "line three" in (pdf / "SKILL.md").read_text()
    assert (pdf / "logo.png").read_bytes().endswith(b"two")
    assert desk.say("verify").code == 0
    entry = json.loads((desk.state / "skills-lock.json").read_text())["skills"]["skills/skills/pdf"]
    assert entry["source"]["commit"] == commit
    assert entry["previous"] != entry["digest"] == entry["approved"]["digest"]


def test_edits_made_here_are_merged_and_local_files_kept(desk: Desk, repo: Repo, pdf: Path):
    (pdf / "SKILL.md").write_text((pdf / "SKILL.md").read_text().replace("line 9", "line nine, mine"))
    (pdf / "notes.md").write_text("mine\n")
    (pdf / "reference.md").unlink()
    repo.skill("skills/pdf", body=LINES.replace("line 2\n", "line two, theirs\n"))
    repo.write("skills/pdf/reference.md", "Changed upstream.\n")
    repo.skill("skills/fresh")
    repo.commit()
    said = desk.say("update", "skills", "--yes")
    assert said.code == 0, said.err
    text = (pdf / "SKILL.md").read_text()
    assert "line two, theirs" in text
    assert "line nine, mine" in text
    assert (pdf / "notes.md").read_text() == "mine\n"
    assert not (pdf / "reference.md").exists()
    assert (desk.skills / "skills/skills/fresh/SKILL.md").exists()
    assert desk.say("verify").code == 0
    repo.skill("skills/pdf", body=LINES.replace("line 2\n", "line two, again\n"))
    repo.commit()
    assert desk.say("update", "--yes").code == 0
    assert "line nine, mine" in (pdf / "SKILL.md").read_text()
    assert "line two, again" in (pdf / "SKILL.md").read_text()


def test_lines_that_both_changed_are_refused_and_force_puts_mine_in_the_trash(desk: Desk, repo: Repo, pdf: Path):
    mine = (pdf / "SKILL.md").read_text().replace("line 5", "mine")
    (pdf / "SKILL.md").write_text(mine)
    repo.skill("skills/pdf", body=LINES.replace("line 5\n", "theirs\n"))
    repo.commit()
    said = desk.say("update", "--yes")
    assert said.code == 4
    assert "both you and upstream changed skills/pdf/SKILL.md" in said.err
    assert (pdf / "SKILL.md").read_text() == mine
    assert desk.say("update", "--yes", "--force").code == 0
    assert "theirs" in (pdf / "SKILL.md").read_text()
    assert mine in [file.read_text() for file in (desk.skills / ".metier/trash").rglob("SKILL.md")]


WIDER = {
    "script": ("skills/pdf/scripts/new.py", "print(1)\n"),
    "command": ("skills/pdf/SKILL.md", "---\nname: pdf\ndescription: d\n---\n!`git log`\n"),
    "tools": ("skills/pdf/SKILL.md", "---\nname: pdf\ndescription: d\nallowed-tools: Bash\n---\nx\n"),
    "recipe": (
        "skills/pdf/SKILL.md",
        "---\nname: pdf\ndescription: d\ninstall:\n  - kind: uv\n    package: x\n---\nx\n",
    ),
    "network": ("skills/pdf/scripts/fill.py", "import urllib.request as u\nu.urlopen('https://a.example.com')\n"),
    "changed-script": ("skills/pdf/scripts/fill.py", "print('something else')\n"),
    "changed-file": ("skills/pdf/reference.md", "a script may run this\n"),
    "new-skill": ("skills/other/SKILL.md", "---\nname: other\ndescription: d\n---\n!`ls`\n"),
}
WIDER |= {
    f"permission {asked}": ("skills/pdf/SKILL.md", f"---\nname: pdf\ndescription: d\nmetadata:\n{asked}\n---\nx\n")
    for asked in (
        "  metier: {permissions: {network: true}}",
        "  metier: {permissions: {hosts: [a.example.com]}}",
        "  metier: {permissions: {read: [~/.ssh]}}",
        "  metier: {permissions: {write: [~/notes]}}",
        "  metier: {permissions: {env: [ANTHROPIC_API_KEY]}}",
        "  openclaw: {primaryEnv: ANTHROPIC_API_KEY}",
        "  metier: {skillKey: github}",
    )
}


@pytest.mark.parametrize("way", WIDER)
def test_an_update_that_could_do_more_is_refused_unattended_and_shown(desk: Desk, repo: Repo, pdf: Path, way):
    before = {path: path.read_bytes() for path in (desk.skills / "skills").rglob("*") if path.is_file()}
    repo.write(*WIDER[way])
    repo.commit()
    said = desk.say("update", "--yes")
    assert said.code == 4
    assert "can do more than before" in said.err
    assert {path: path.read_bytes() for path in (desk.skills / "skills").rglob("*") if path.is_file()} == before
    asked = desk.answering("update", answer="y\n")
    assert asked.code == 0, asked.out
    assert "+ " in asked.out
    assert desk.say("verify").code == 0


def test_a_variable_that_a_script_names_is_not_given_before_somebody_said_yes(desk: Desk, repo: Repo, pdf: Path):
    repo.write("skills/pdf/scripts/fill.py", "import os\nos.environ['MY_TOKEN']\n")
    repo.commit()
    assert desk.answering("update", answer="y\n").code == 0
    asking = "---\nname: pdf\ndescription: d\nmetadata: {metier: {permissions: {env: [MY_TOKEN]}}}\n---\nx\n"
    repo.write("skills/pdf/SKILL.md", asking)
    repo.commit()
    said = desk.say("update", "--yes")
    assert said.code == 4
    assert "asks for: is given MY_TOKEN" in said.err


def test_an_update_that_takes_powers_away_needs_nobody(desk: Desk, repo: Repo, pdf: Path):
    git("rm", "-q", "skills/pdf/scripts/fill.py", cwd=repo.path)
    repo.commit()
    assert desk.say("update", "--yes").code == 0
    assert not (pdf / "scripts/fill.py").exists()


def test_without_a_terminal_and_without_yes_nothing_is_updated(desk: Desk, repo: Repo, pdf: Path):
    repo.skill("skills/pdf", body="Other.\n")
    repo.commit()
    said = desk.say("update")
    assert said.code == 4
    assert "+Other." in said.out
    assert "Other." not in (pdf / "SKILL.md").read_text()
    dry = desk.say("update", "--dry-run", "--json")
    assert dry.code == 0
    assert "+Other." in json.loads(dry.out)[0]["diff"]
    assert "Other." not in (pdf / "SKILL.md").read_text()


def test_upstream_that_was_rewound_is_refused_unless_forced(desk: Desk, tmp_path: Path):
    repo = Repo(tmp_path / "moving")
    repo.skill("a", body="old\n")
    old = repo.commit(date=1_700_000_000)
    repo.skill("a", body="new\n")
    repo.commit(date=1_800_000_000)
    assert desk.say("add", str(repo.path), "--yes").code == 0
    git("reset", "-q", "--hard", old, cwd=repo.path)
    said = desk.say("update", "--yes")
    assert said.code == 4
    assert "was rewound" in said.err
    assert "new" in (desk.skills / "moving/a/SKILL.md").read_text()
    assert desk.say("update", "--yes", "--force").code == 0
    assert "old" in (desk.skills / "moving/a/SKILL.md").read_text()


def test_a_skill_taken_out_of_a_repository_does_not_come_back_with_an_update(desk: Desk, repo: Repo, pdf: Path):
    assert desk.say("remove", "docx").code == 0
    repo.skill("skills/docx", body="Changed.\n")
    repo.skill("skills/pdf", body="Changed.\n")
    repo.commit()
    said = desk.say("update", "--yes")
    assert said.code == 0, said.err
    assert not (desk.skills / "skills/skills/docx").exists()
    assert "Changed." in (pdf / "SKILL.md").read_text()


def test_folders_and_archives_are_updated_too(desk: Desk, tmp_path: Path):
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: local\ndescription: d\n---\none\n")
    assert desk.say("add", str(folder), "--yes").code == 0
    assert desk.say("update", "--yes").out == "local is up to date\n"
    (folder / "SKILL.md").write_text("---\nname: local\ndescription: d\n---\ntwo\n")
    assert desk.say("update", "local", "--yes").code == 0
    assert "two" in (desk.skills / "local/SKILL.md").read_text()


def test_updating_what_is_not_installed_says_so(desk: Desk):
    assert desk.say("update").out == "No installed skills to update.\n"
    assert desk.say("update", "nothing").code == 2


@pytest.mark.parametrize(
    ("mine", "theirs", "merged"),
    [
        ("a\nb\nc\n", "a\nb\nc\n", "a\nb\nc\n"),
        ("A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"),
        ("a\nb\nc\nd\n", "0\na\nb\nc\n", "0\na\nb\nc\nd\n"),
        ("x\nb\nc\n", "x\nb\nc\n", "x\nb\nc\n"),
        ("x\nb\nc\n", "y\nb\nc\n", None),
        ("b\nc\n", "A\nb\nc\n", None),
        ("a\nb\nc\nx\n", "a\nb\nc\ny\n", None),
        ("", "a\nb\nc\n", ""),
    ],
)
def test_two_changes_become_one_text_or_none(mine, theirs, merged):
    assert merge_texts("a\nb\nc\n", mine, theirs) == merged


def test_what_becomes_of_each_file():
    one, two, three = (FileRecord(digest, "644") for digest in "abc")
    base = {"same": one, "theirs": one, "mine": one, "both": one, "gone-here": one, "gone-there": one, "gone": one}
    mine = {"same": one, "theirs": one, "mine": two, "both": two, "gone-there": two, "extra": one, "clash": two}
    theirs = {"same": one, "theirs": two, "mine": one, "both": three, "gone-here": two, "new": one, "clash": three}
    assert {step.path: step.choice for step in plan_merge(base, mine, theirs)} == {
        "same": "theirs", "theirs": "theirs", "mine": "mine", "both": "merge", "gone-here": "mine",
        "gone-there": "mine", "gone": "theirs", "extra": "mine", "new": "theirs", "clash": "clash",
    }  # fmt: skip


def wish_of(desk: Desk, spec: str = "") -> AddRequest:
    return AddRequest(spec, InstallRoot(str(desk.skills)), DIALECTS["standard"], str(desk.state))


def test_an_edit_made_while_an_update_waits_for_its_yes_is_not_lost(desk: Desk, repo: Repo, pdf: Path):
    repo.skill("skills/docx", body="Other.\n")
    repo.commit()
    with update.open_proposal(
        wish_of(desk), "skills", FetchOptions(os.environ, str(desk.project), str(desk.home))
    ) as found:
        staging, proposal = found
        assert proposal is not None
        (pdf / "reference.md").write_text("Mine, just now.\n")
        with pytest.raises(Refused, match="changed while it was being updated"):
            update.accept_update(wish_of(desk), staging, proposal)
    assert (pdf / "reference.md").read_text() == "Mine, just now.\n"


def test_what_was_placed_while_somebody_was_asked_is_not_replaced(desk: Desk, repo: Repo):
    outfit = FetchOptions(os.environ, str(desk.project), str(desk.home))
    with add.open_offer(wish_of(desk, str(repo.path)), outfit) as offer:
        (desk.skills / "skills").mkdir(parents=True)
        (desk.skills / "skills/mine").write_text("mine")
        with pytest.raises(Refused, match="already exists"):
            add.accept_offer(offer)
    assert [path.name for path in (desk.skills / "skills").iterdir()] == ["mine"]

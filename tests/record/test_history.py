"""The history of skills: commits made by plumbing, which nothing in a skill can disturb."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.home import SOURCE, write_skill

from metier.host.repository import integrity_fault
from metier.record import history
from metier.record.history import HistoryChange, SkillVersion
from metier.types.errors import BadRequest


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    return write_skill(tmp_path / "skills/pdf").parent


@pytest.fixture
def repository(tmp_path: Path) -> str:
    return str(tmp_path / "state/history/skills.git")


def keep(repository: str, folder: Path, act: str = "edit", **more: str) -> SkillVersion | None:
    return history.record_change(repository, HistoryChange(act, folder.name, str(folder), **more))


def test_a_change_is_a_commit_and_no_change_is_none(repository: str, skill: Path):
    first = keep(repository, skill, "add", evidence="asked for", run="20260101-000000-abcdef")
    assert first is not None
    assert first.subject == f"add_pdf_{first.at[:10].replace('-', '')}"
    assert (first.act, first.name, first.evidence, first.run) == ("add", "pdf", "asked for", "20260101-000000-abcdef")
    assert keep(repository, skill) is None
    (skill / "SKILL.md").write_text("other\n")
    second = keep(repository, skill)
    assert history.list_versions(repository) == (second, first)
    assert history.list_versions(repository, "pdf", 1) == (second,)
    assert history.list_versions(repository, "other") == ()


def test_there_is_no_history_before_the_first_change(repository: str):
    assert history.list_versions(repository) == ()
    assert history.skill_names(repository) == ()
    assert history.blame_file(repository, "pdf") == ()
    with pytest.raises(BadRequest, match="no version `abcdef`"):
        history.read_files(repository, "pdf", "abcdef")


def test_files_come_back_with_their_bytes_modes_and_links(repository: str, skill: Path):
    (skill / "run.sh").write_bytes(b"\x00\xff\r\n")
    (skill / "run.sh").chmod(0o750)
    (skill / "secret").write_text("s")
    (skill / "secret").chmod(0o600)
    (skill / "link").symlink_to("run.sh")
    (skill / "folder").mkdir()
    (skill / "folder/link").symlink_to("..")
    text = (skill / "SKILL.md").read_bytes()
    kept = keep(repository, skill)
    assert kept is not None
    assert history.read_files(repository, "pdf", kept.rev[:8]) == {
        "SKILL.md": (0o644, text),
        "run.sh": (0o750, b"\x00\xff\r\n"),
        "secret": (0o600, b"s"),
        "link": (0o120000, b"run.sh"),
        "folder/link": (0o120000, b".."),
    }


def test_a_mode_alone_is_a_change_and_shows_in_the_difference(repository: str, skill: Path):
    before = keep(repository, skill)
    assert before is not None
    (skill / "SKILL.md").chmod(0o600)
    assert keep(repository, skill) is not None
    assert history.diff_versions(repository, "pdf", before.rev) == "SKILL.md: mode default is now 600\n"


def test_what_git_gives_a_meaning_to_is_kept_and_means_nothing(repository: str, skill: Path, tmp_path: Path):
    odd = {
        ".gitattributes": "* filter=evil diff=evil\n",
        ".gitmodules": '[submodule "a"]\n path = -x\n url = --upload-pack=touch\n',
        ".GIT ": "x",
        "git~1": "x",
        "gi7eba~1": "x",
        ".g\u200cit": "x",
        "a\\.git": "x",
        "new\nline%41": "x",
        "-rf": "x",
        ":(top)": "x",
    }
    for name, text in odd.items():
        (skill / name).write_text(text)
    evil = skill / ".git"
    (evil / "hooks").mkdir(parents=True)
    (evil / "config").write_text(f"[core]\n fsmonitor = touch '{tmp_path}/owned'\n")
    kept = keep(repository, skill)
    assert kept is not None
    found = history.read_files(repository, "pdf", kept.rev)
    assert {name: data.decode() for name, (_, data) in found.items() if name in odd} == odd
    assert not [name for name in found if name.startswith(".git/")]
    assert integrity_fault(repository) == ""
    assert not (tmp_path / "owned").exists()


def test_a_name_that_is_not_utf8_comes_back(repository: str, skill: Path):
    (skill / os.fsdecode(b"\xff.md")).write_text("x")
    kept = keep(repository, skill)
    assert kept is not None
    assert os.fsdecode(b"\xff.md") in history.read_files(repository, "pdf", kept.rev)


def test_nothing_of_the_users_git_has_a_say(repository: str, skill: Path, tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "pre-commit", "post-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch '{tmp_path}/owned'\n")
        (hooks / name).chmod(0o755)
    (home / ".gitconfig").write_text(f"[core]\n hooksPath = {hooks}\n[commit]\n gpgSign = true\n")
    code = "import sys\nfrom metier.record import history\nprint(history.record_change(sys.argv[1], history.HistoryChange('add', 'pdf', sys.argv[2])))"
    from tests.home import python

    said = python(code, repository, str(skill), env={
        "HOME": str(home), "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": str(hooks), "GIT_DIR": str(tmp_path), "GIT_INDEX_FILE": str(tmp_path / "i"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "elsewhere"),
    })  # fmt: skip
    assert "Version" in said.stdout, said.stderr
    assert not (tmp_path / "owned").exists()
    assert not (tmp_path / "elsewhere").exists()


def test_evidence_is_never_interpreted_and_shows_no_control_characters(repository: str, skill: Path):
    evidence = "\x1b]0;owned\x07first\nAct: trash\n\nName: other\nRun: x\n\n# not a comment\n-----\n\0end"
    kept = keep(repository, skill, "improve", evidence=evidence, run="r")
    found = history.list_versions(repository)[0]
    assert found == kept
    assert (found.act, found.name, found.run) == ("improve", "pdf", "r")
    assert found.evidence == "first\nAct: trash\n\nName: other\nRun: x\n\n# not a comment\n-----\nend"


def test_a_skill_that_is_gone_can_still_be_read(repository: str, skill: Path):
    kept = keep(repository, skill, "add")
    assert kept is not None
    shutil.rmtree(skill)
    gone = keep(repository, skill, "trash")
    assert gone is not None
    assert history.skill_names(repository) == ()
    assert history.read_files(repository, "pdf", gone.rev) == {}
    assert list(history.read_files(repository, "pdf", kept.rev)) == ["SKILL.md"]
    assert "-description: Does it." in history.diff_versions(repository, "pdf", kept.rev)


def test_skills_do_not_disturb_each_other(repository: str, tmp_path: Path):
    one, other = write_skill(tmp_path / "skills/a").parent, write_skill(tmp_path / "skills/a/b").parent
    first = history.record_change(repository, HistoryChange("add", "a", str(one)))
    second = history.record_change(repository, HistoryChange("add", "a/b", str(other)))
    assert first is not None
    assert second is not None
    assert set(history.skill_names(repository)) == {"a", "a/b"}
    assert [found.rev for found in history.list_versions(repository, "a")] == [first.rev]
    assert [found.rev for found in history.list_versions(repository, "a/b")] == [second.rev]
    assert [found.rev for found in history.versions_since(repository, first.rev)] == [second.rev]


def test_a_skill_that_is_a_link_is_kept_as_what_it_leads_to(repository: str, skill: Path):
    (skill.parent / "linked").symlink_to(skill)
    kept = keep(repository, skill.parent / "linked", "add")
    assert kept is not None
    assert list(history.read_files(repository, "linked", kept.rev)) == ["SKILL.md"]


def test_blame_says_which_run_a_line_came_from(repository: str, skill: Path):
    file = skill / "SKILL.md"
    keep(repository, skill, "add")
    file.write_text(file.read_text() + "Use run_command.\n")
    keep(repository, skill, "improve", run="20260101-000000-abcdef")
    lines = history.blame_file(repository, "pdf")
    assert "".join(line.text + "\n" for line in lines) == file.read_text()
    assert [line.version.run for line in lines if line.version.act == "improve"] == ["20260101-000000-abcdef"]
    assert lines[-1].text == "Use run_command."


def test_the_lock_entry_of_the_time_is_kept(repository: str, skill: Path):
    first = keep(repository, skill, lock='{"name": "pdf"}')
    second = keep(repository, skill, lock='{"name": "other"}')
    assert first is not None
    assert second is not None
    assert history.read_lock_entry(repository, "pdf", first.rev) == '{"name": "pdf"}'
    assert history.read_lock_entry(repository, "pdf", second.rev) == '{"name": "other"}'


@pytest.mark.parametrize("rev", ["--output=/tmp/x", "HEAD~9", "HEAD^", "main", "..", "", "zzzz", "abc", "0" * 40])
def test_only_digits_of_a_version_are_a_version(repository: str, skill: Path, rev: str):
    keep(repository, skill)
    with pytest.raises(BadRequest, match="no version"):
        history.read_files(repository, "pdf", rev)


def test_locks_of_killed_processes_are_in_nobodys_way(repository: str, skill: Path):
    keep(repository, skill, "add")
    for name in ("index.lock", "config.lock", "HEAD.lock", "packed-refs.lock", "refs/heads/main.lock"):
        (Path(repository) / name).write_text("")
    (Path(repository) / "incoming").mkdir()
    (Path(repository) / "incoming/index.lock").write_text("")
    (Path(repository) / "objects/tmp_obj_x").write_text("")
    (skill / "SKILL.md").write_text("other\n")
    assert keep(repository, skill) is not None
    assert integrity_fault(repository) == ""
    assert not list(Path(repository).rglob("*.lock"))


def test_a_git_whose_owner_was_killed_is_waited_for(repository: str, skill: Path, tmp_path: Path):
    keep(repository, skill, "add")
    (skill / "SKILL.md").write_text("first\n")
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    real = shutil.which("git")
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *update-ref*) touch "{tmp_path}/there"; sleep 1;; esac\nexec "{real}" "$@"\n'
    )
    slow.chmod(0o755)
    code = "import sys\nfrom metier.record import history\nhistory.record_change(sys.argv[1], history.HistoryChange('improve', 'pdf', sys.argv[2]))"
    env = {"PATH": f"{slow.parent}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE)}
    running = subprocess.Popen([sys.executable, "-c", code, repository, str(skill)], env=env)
    while not (tmp_path / "there").exists():
        assert running.poll() is None, "it ended before it came there"
        time.sleep(0.01)
    running.kill()
    running.wait()
    (skill / "SKILL.md").write_text("second\n")
    keep(repository, skill, "edit")
    assert [one.act for one in history.list_versions(repository)] == ["edit", "improve", "add"]
    assert integrity_fault(repository) == ""


def test_many_loose_objects_are_packed(repository: str, skill: Path):
    keep(repository, skill, "add")
    loose = Path(repository) / "objects/17"
    loose.mkdir(exist_ok=True)
    others = [loose / f"{number:038x}" for number in range(20)]
    for other in others:
        other.write_text("")
    (skill / "SKILL.md").write_text("other\n")
    keep(repository, skill)
    for other in others:
        other.unlink()
    assert list(Path(repository).glob("objects/pack/*.pack"))
    assert [one.act for one in history.list_versions(repository)] == ["edit", "add"]
    assert integrity_fault(repository) == ""


def test_a_skill_of_many_files_is_kept_as_one_pack(repository: str, skill: Path):
    for number in range(100):
        (skill / f"{number}.md").write_text(f"{number}\n")
    kept = keep(repository, skill)
    assert kept is not None
    assert len(list(Path(repository).glob("objects/pack/*.pack"))) == 1
    assert history.read_files(repository, "pdf", kept.rev)["7.md"] == (0o644, b"7\n")
    assert integrity_fault(repository) == ""


def test_a_branch_moves_only_from_where_it_was(repository: str, skill: Path):
    from metier.host import repository as git
    from metier.types.errors import HostError

    first = keep(repository, skill, "add")
    (skill / "SKILL.md").write_text("other\n")
    second = keep(repository, skill)
    assert first is not None
    with git.open_for_writing(repository) as one, pytest.raises(HostError, match="update-ref"):
        git.commit_change(one, first.rev, git.TreeChange("skills/x", {}, {}), "stale", 1)
    assert history.list_versions(repository)[0] == second


def test_only_the_owner_may_read_it(repository: str, skill: Path):
    keep(repository, skill)
    loose = [path for path in Path(repository).rglob("*") if path.stat().st_mode & 0o077]
    assert loose == []


def test_plain_git_reads_it_too(repository: str, skill: Path):
    keep(repository, skill, "add")
    said = subprocess.run(["git", "--git-dir", repository, "log", "--format=%s|%an"], capture_output=True, text=True)
    assert said.stdout.startswith("add_pdf_")

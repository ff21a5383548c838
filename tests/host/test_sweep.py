"""What a program made that other programs obey is moved away when it has ended, in every tier."""

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.host.boxes import Desk, py, sh

from metier.sandbox import quarantine, scan
from metier.sandbox.obeyed import OBEYED, obeyed_names
from metier.types.sandbox import ProcessResult


def write(desk: Desk, script: str, *arguments: str, **box: Any) -> ProcessResult:
    ran = desk.run(sh(f"({script}) 2>&1; true", *arguments, cwd=desk.project), desk.box(write=(desk.project,), **box))
    assert ran.status == 0, ran
    return ran


def left(desk: Desk) -> list[str]:
    return sorted(str(path.relative_to(desk.project)) for path in desk.project.rglob("*") if not path.is_dir())


def pwned(desk: Desk, *command: str, at: str = ".") -> bool:
    """Whether a command of the user's, outside the sandbox, starts what a program left."""
    mark = desk.project.parent / "pwned"
    subprocess.run(
        command, cwd=desk.project / at, env={"PATH": os.environ["PATH"], "HOME": str(desk.private)}, check=False,
        capture_output=True, timeout=30, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return mark.exists()


def evil(desk: Desk) -> str:
    """A program that leaves a mark where no sandboxed program can."""
    tool = desk.project / "tool.sh"
    tool.write_text(f"#!/bin/sh\ntouch '{desk.project.parent}/pwned'\n")
    tool.chmod(0o755)
    return str(tool)


REPOSITORIES = {
    "a folder": "git init -q src; git -C src config core.fsmonitor $1",
    "a file": "git init -q --bare lib; git -C lib config core.bare false; git -C lib config core.fsmonitor $1; echo 'gitdir: ../lib' > src/.git",
    "bare": "git init -q --bare src; git -C src config core.fsmonitor $1",
    "laid out": "mkdir -p src/objects src/refs; echo 'ref: refs/heads/main' > src/HEAD; printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\nfsmonitor=%s\\n' $1 > src/config",
    "common": "git init -q --bare lib; git -C lib config core.bare false; git -C lib config core.worktree ../src; git -C lib config core.fsmonitor $1; cp lib/HEAD src/; echo ../lib > src/commondir",
    "a link": "git init -q other; git -C other config core.fsmonitor $1; ln -s ../other/.git src/.git",
    "closed": "git init -q src; git -C src config core.fsmonitor $1; chmod 311 src",
    "back in time": "git init -q src; git -C src config core.fsmonitor $1; find src -exec touch -d 2001-01-01 {} +",
    "deep": "mkdir -p src/a/b/c; git init -q src/a/b/c; git -C src/a/b/c config core.fsmonitor $1",
}  # fmt: skip


@pytest.mark.parametrize("how", REPOSITORIES)
def test_a_repository_that_a_program_made_is_obeyed_by_nobody(desk: Desk, how: str):
    (desk.project / "src").mkdir()
    ran = write(desk, REPOSITORIES[how], evil(desk))
    assert not any(pwned(desk, "git", "status", at=at) for at in ("src", "src/a/b/c") if (desk.project / at).is_dir())
    assert "git obeys it" in ran.note
    assert "set `allow = [" in "; ".join(ran.swept)


def test_without_the_sweep_a_repository_would_be_obeyed(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """The control of the test above: git does start what such a repository names."""
    monkeypatch.setattr(quarantine.GrantSweeper, "finish", lambda self: ())
    (desk.project / "src").mkdir()
    write(desk, REPOSITORIES["a folder"], evil(desk))
    assert pwned(desk, "git", "status", at="src")


def test_every_row_of_the_table_is_moved_away_wherever_a_program_makes_it(desk: Desk):
    # Folders of agents are untrusted until somebody approves them; repositories have the test above.
    elsewhere = ("agents", "workspace/agents", ".git")
    paths = [row.pattern.replace("*", "x") for row in OBEYED if row.pattern not in elsewhere]
    script = """
import os, sys
for path in sys.argv[1:]:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file: file.write('{"scripts": {}}')
"""
    for number in range(len(paths)):  # a repository beside each: some count at its top alone
        (desk.project / str(number) / ".git").mkdir(parents=True)
    places = [f"{number}/{path}" for number, path in enumerate(paths)]
    ran = desk.run(py(script, *places, cwd=desk.project), desk.box(write=(desk.project,)))
    assert ran.status == 0, ran
    assert left(desk) == ["code.txt"]
    assert f"{len(paths) - 5} more were moved to" in ran.note


def test_what_was_moved_away_is_kept_with_a_list_of_where_it_came_from(desk: Desk):
    ran = write(desk, "mkdir -p src/.vscode; echo evil > src/.vscode/tasks.json")
    (listed,) = Path(desk.machine.state).glob("quarantine/*/list.json")
    (entry,) = json.loads(listed.read_text())
    assert entry["from"] == f"{desk.project}/src/.vscode"
    assert (Path(entry["to"]) / "tasks.json").read_text() == "evil\n"
    assert entry["tool"] == "Visual Studio Code"
    assert f"src/.vscode was moved to {entry['to']}: Visual Studio Code obeys it" in ran.note
    assert left(desk) == ["code.txt"]


@pytest.mark.parametrize("name", [".vscode", "deep/.vscode", "x.code-workspace"])
def test_what_was_allowed_stays(desk: Desk, name: str):
    allowed = (".vscode", "*.code-workspace")
    ran = write(desk, f"mkdir -p $(dirname {name}); echo fine > {name}", allowed=allowed)
    assert ran.swept == ()
    assert (desk.project / name).read_text() == "fine\n"


def test_what_was_there_before_stays_whatever_it_is(desk: Desk):
    before = [
        ".vscode/settings.json",
        "deep/.envrc",
        "Makefile",
        "package.json",
        "deep/.github/workflows/a.yml",
        ".env",
    ]
    for name in before:
        (desk.project / name).parent.mkdir(parents=True, exist_ok=True)
        (desk.project / name).write_text('{"scripts": {}}')
    ran = write(desk, "echo more >> Makefile; echo more >> package.json; rm .env; echo new > .env; mv code.txt deep/")
    assert ran.swept == ()
    assert left(desk) == sorted([*before, "deep/code.txt"])
    assert (desk.project / "Makefile").read_text().endswith("more\n")


def test_ordinary_files_are_moved_away_only_after_programs_that_nobody_approved(desk: Desk):
    script = """echo 'all: ; tool' > Makefile; echo '{"scripts": {"postinstall": "tool"}}' > package.json; mkdir build; echo x > build/Makefile"""
    ran = write(desk, script, strict=False)
    assert ran.swept == ()
    assert left(desk) == ["Makefile", "build/Makefile", "code.txt", "package.json"]
    for name in ("Makefile", "build/Makefile", "package.json"):
        (desk.project / name).unlink()
    assert len(write(desk, script.replace("mkdir", "mkdir -p")).swept) == 4
    assert left(desk) == ["code.txt"]


def test_a_package_without_scripts_is_no_order(desk: Desk):
    assert write(desk, """echo '{"name": "x"}' > package.json""").swept == ()
    assert left(desk) == ["code.txt", "package.json"]


def test_a_folder_may_be_moved_with_the_ordinary_files_in_it(desk: Desk):
    (desk.project / "src").mkdir()
    (desk.project / "src/Makefile").write_text("all:\n")
    assert write(desk, "mv src lib").swept == ()
    assert left(desk) == ["code.txt", "lib/Makefile"]


def test_packages_that_were_installed_keep_the_settings_of_their_authors(desk: Desk):
    script = "mkdir -p node_modules/a/.vscode node_modules/a/.github/workflows; echo x > node_modules/a/.npmrc; echo x > node_modules/a/.travis.yml; mkdir node_modules/a/.git"
    ran = write(desk, script)
    assert [line.split()[0] for line in ran.swept[:-1]] == ["node_modules/a/.git"]
    assert (desk.project / "node_modules/a/.vscode").is_dir()
    # And the package can be removed again.
    assert write(desk, "rm -rf node_modules && echo gone").stdout == "gone\n"


def test_a_folder_around_what_is_guarded_is_not_moved_to_make_room_for_another(desk: Desk):
    for path in ("vendor/lib/.git", ".github/workflows", "deep/er/.vscode"):
        (desk.project / path).mkdir(parents=True)
        (desk.project / path / "config").write_text("mine")
    script = """
        for at in vendor/lib .github deep/er vendor deep; do mv $at aside; cp -r aside $at; rm -rf $at; mkdir -p $at; done
        for path in vendor/lib/.git .github/workflows deep/er/.vscode; do mkdir -p $path; echo evil > $path/config; done
    """
    write(desk, "; ".join(f"{line}" for line in script.strip().splitlines()))
    for path in ("vendor/lib/.git", ".github/workflows", "deep/er/.vscode"):
        assert (desk.project / path / "config").read_text() == "mine"
    assert [path.read_text() for path in desk.project.rglob("config")] == ["mine"] * 3


def test_a_bare_repository_that_was_there_keeps_its_settings(desk: Desk):
    subprocess.run(["git", "init", "-q", "--bare", str(desk.project / "stock")], check=True)
    shutil.rmtree(desk.project / "stock/hooks")
    script = "git -C stock config core.fsmonitor $1; echo evil > stock/config; mv stock/config aside; mkdir -p stock/hooks; cp $1 stock/hooks/post-checkout; mv stock s2; cp -r s2 stock; echo evil > stock/config; echo ../lib > stock/commondir"
    before = (desk.project / "stock/config").read_text()
    write(desk, script, evil(desk))
    assert (desk.project / "stock/config").read_text() == before
    assert not (desk.project / "stock/hooks").exists()
    assert not (desk.project / "stock/commondir").exists()


def test_a_repository_that_lies_elsewhere_in_the_project_keeps_its_settings(desk: Desk):
    (desk.project / "store").mkdir()
    subprocess.run(
        ["git", "init", "-q", "--separate-git-dir", str(desk.project / "store/one"), str(desk.project / "src")],
        check=True,
    )
    before = (desk.project / "store/one/config").read_text()
    write(
        desk,
        "git -C src config core.fsmonitor $1; echo evil >> store/one/config; mv store s2; cp -r s2 store",
        evil(desk),
    )
    assert (desk.project / "store/one/config").read_text() == before


@pytest.mark.parametrize("name", [".git", ".vscode"])
def test_a_link_with_a_protected_name_further_in_stops_nothing_and_stays(desk: Desk, name: str):
    (desk.project / "sub").mkdir()
    (desk.project / "sub" / name).symlink_to("../real")
    (desk.project / "real").mkdir()
    (desk.project / "real/config").write_text("mine")
    ran = write(
        desk,
        f"echo evil > real/config; rm -f sub/{name}; mkdir -p sub/{name}; echo evil > sub/{name}/config; echo done",
    )
    assert "done" in ran.stdout
    assert os.readlink(desk.project / "sub" / name) == "../real"
    assert (desk.project / "real/config").read_text() == "mine"


def test_a_link_that_a_program_leaves_does_not_stop_the_next_one(desk: Desk):
    write(desk, f"mkdir sub; ln -s {desk.private} sub/.git; ln -s {desk.private} .vscode; ln -s sub .github")
    assert write(desk, "echo hi").stdout == "hi\n"
    assert not any((desk.project / name).is_symlink() for name in ("sub/.git", ".vscode"))


def test_a_link_in_the_place_of_a_folder_does_not_lead_the_sweep_elsewhere(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """Another program may exchange folders between the look and the move."""
    (desk.private / ".git").mkdir()
    look = scan.sweep_grant

    def exchange_then(seen: scan.GrantScan, strict: bool) -> scan.SweepFindings:
        findings = look(seen, strict)
        if (desk.project / "sub").is_dir():
            shutil.rmtree(desk.project / "sub")
            (desk.project / "sub").symlink_to(desk.private)
        return findings

    monkeypatch.setattr(quarantine, "sweep_grant", exchange_then)
    write(desk, "mkdir -p sub/.git")
    assert (desk.private / ".git").is_dir()


def test_what_does_not_fit_on_the_other_disk_gets_a_name_that_nothing_obeys(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    rename = os.rename

    def on_another_disk(source: str, target: str, **where: int) -> None:
        if target.startswith("/"):
            raise OSError(18, "another disk")
        rename(source, target, **where)

    monkeypatch.setattr("metier.sandbox.quarantine.os.rename", on_another_disk)
    write(desk, "mkdir -p sub/.git; echo small > sub/.git/config")
    assert [path.read_text() for path in Path(desk.machine.state).rglob("config")] == ["small\n"]
    assert os.listdir(desk.project / "sub") == []
    monkeypatch.setattr(quarantine, "_MOST_COPIED", 3)
    ran = write(desk, "mkdir -p sub/.git; echo large > sub/.git/config")
    (name,) = os.listdir(desk.project / "sub")
    assert name.startswith("git.quarantine-")
    assert f"sub/.git was moved to {desk.project}/sub/{name}" in ran.note


def test_more_folders_than_are_looked_at_are_said_and_moved_away(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scan, "MOST_NEW_FOLDERS", 3)
    monkeypatch.setattr(quarantine, "MOST_NEW_FOLDERS", 3)
    script = "mkdir -p a/b/c/d/e; mkdir a/b/c/d/e/.git"
    ran = write(desk, script, strict=False)
    assert "1 of them were not looked at" in ran.note
    assert (desk.project / "a/b/c/d").is_dir()
    shutil.rmtree(desk.project / "a")
    write(desk, script)
    assert not (desk.project / "a/b/c/d").exists()


def test_what_lies_beyond_the_bound_is_left_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    for name in ("a/b/.git", "c/d/.git"):
        (desk.project / name).mkdir(parents=True)
    monkeypatch.setattr(scan, "MOST_FOLDERS", 2)
    assert write(desk, "touch new a/new c/new").swept == ()
    assert (desk.project / "a/b/.git").is_dir()
    assert (desk.project / "c/d/.git").is_dir()


def test_only_folders_that_changed_are_listed_again(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    for number in range(50):
        (desk.project / f"folder{number}").mkdir()
    listed: list[str] = []
    real = scan._list_folder
    monkeypatch.setattr(scan, "_FINE_CLOCK", 0)
    monkeypatch.setattr(scan, "_COARSE_CLOCK", 0)

    def noting(folder: str, *rest: Any) -> scan.FolderNote:
        listed.append(folder)
        return real(folder, *rest)

    monkeypatch.setattr(scan, "_list_folder", noting)
    write(desk, "true")
    assert len(listed) >= 51
    listed.clear()
    write(desk, "touch folder7/new")
    assert {*listed} == {f"{desk.project}/folder7"}


def test_what_appears_at_the_top_goes_while_the_program_still_runs(bubble: Desk):
    script = "mkdir .vscode; for n in $(seq 100); do [ -e .vscode ] || { echo gone; break; }; sleep 0.05; done"
    assert write(bubble, script).stdout == "gone\n"


def test_a_program_that_makes_it_again_and_again_is_ended(bubble: Desk):
    script = "import contextlib, os\nwhile True:\n    with contextlib.suppress(OSError): os.mkdir('.vscode')"
    ran = bubble.run(py(script, cwd=bubble.project, seconds=60), bubble.box(write=(bubble.project,)))
    assert "it made .vscode again and again" in ran.note
    assert not (bubble.project / ".vscode").exists()


def test_the_folder_that_git_looks_for_hooks_in_is_not_made(desk: Desk):
    hooks = desk.project / "githooks"
    write(desk, "mkdir githooks; echo evil > githooks/pre-commit", kept=(str(hooks),))
    assert not hooks.exists()


def test_every_row_says_which_tool_and_why():
    assert all(row.tool and row.reason and row.pattern for row in OBEYED)
    assert len({row.pattern for row in OBEYED}) == len(OBEYED)
    named = {
        ".git",
        ".envrc",
        ".zed",
        ".cargo",
        ".mise.toml",
        ".hg",
        ".gitlab-ci.yml",
        ".circleci",
        ".exrc",
        ".windsurf",
    }
    named |= {".devcontainer.json", ".dir-locals.el", "opencode.json", "skills-lock.json", ".github/actions", ".vscode"}
    assert named <= {row.pattern for row in OBEYED}


@pytest.mark.parametrize("name", [".GIT", ".Git", ".g\u200cit", ".vsCode"])
def test_a_name_is_found_as_any_file_system_would_read_it(name: str):
    assert obeyed_names().find("/project/deep", name, False) is not None


def test_a_sweep_without_a_state_folder_keeps_what_it_moved(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    bare = replace(desk, machine=desk.machine._replace(state=""))
    write(bare, "mkdir -p sub/.git")
    assert [path.name for path in tmp_path.glob("metier-quarantine-*/*")] != []

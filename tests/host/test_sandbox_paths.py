"""What a boxed program sees of the file system: its skill, its work folder, what was granted, and nothing private."""

import ast
import os
import shutil
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.home import python
from tests.host.boxes import Desk, program, py, sh, soon

from metier import sandbox
from metier.dialects import PROTECTED_FOLDERS
from metier.sandbox.obeyed import PROTECTED
from metier.sandbox.profile import PRIVATE, build_view
from metier.types.errors import BadRequest, Refused
from metier.types.sandbox import SandboxPermissions, SandboxSpec

EVERY_PROTECTED = (*PROTECTED, *(name for name in PROTECTED_FOLDERS if name not in PROTECTED))

TRY = """
import os, sys
for path in sys.argv[2:]:
    try:
        if sys.argv[1] == "r":
            os.listdir(path) if os.path.isdir(path) else open(path).read()
        else:
            open(path, "a").write("x")
        print("yes")
    except OSError:
        print("no")
"""


def may(desk: Desk, how: str, *paths: Path | str, box: SandboxSpec | None = None) -> list[bool]:
    return [word == "yes" for word in desk.says(py(TRY, how, *map(str, paths)), box).split()]


def test_the_skill_is_there_at_its_own_path_and_can_not_be_changed(desk: Desk):
    (desk.skill / "scripts").mkdir()
    (desk.skill / "scripts/run.sh").write_text('cat "$(dirname "$0")/../SKILL.md"')
    assert "name: skill" in desk.says(program("bash", str(desk.skill / "scripts/run.sh")))
    before = sorted(os.listdir(desk.skill))
    assert may(desk, "w", desk.skill / "SKILL.md", desk.skill / "new") == [False, False]
    assert desk.run(sh("rm -rf $1/scripts", str(desk.skill))).status != 0
    assert sorted(os.listdir(desk.skill)) == before


def test_the_work_folder_is_there_at_its_own_path_and_keeps_what_is_written(desk: Desk):
    assert desk.says(sh("pwd; mkdir a; echo hi > a/b; ln -s a c; mv a/b a/d; cat c/d")) == f"{desk.work}\nhi"
    assert (desk.work / "a/d").read_text() == "hi\n"


def test_without_a_work_folder_there_is_one_that_goes_when_the_program_ends(desk: Desk):
    box = replace(desk.box(), work="")
    where = desk.says(program("sh", "-c", "echo hi > file; cat file > /dev/null; pwd", cwd=""), box)
    assert not os.path.exists(f"{where}/file")


def test_home_and_temporary_files_are_in_the_work_folder(desk: Desk):
    wanted = sh('echo "$HOME $TMPDIR"; echo x > $HOME/a; echo x > $TMPDIR/b', env={"HOME": os.environ.get("HOME", "/")})
    assert desk.says(wanted) == f"{desk.work} {desk.work}"


def test_what_was_not_granted_is_not_there(desk: Desk):
    paths: list[Path | str] = [
        desk.private,
        desk.private / "key",
        desk.project / "code.txt",
        "/etc/shadow",
        "/root/.bashrc",
    ]
    if not sys.prefix.startswith("/home/"):  # an interpreter in there is shown, and so are the folders that lead to it
        paths.append("/home")
    assert may(desk, "r", *paths) == [False] * len(paths)
    assert may(desk, "w", desk.private / "key", desk.private / "new", "/usr/new", "/new", "/etc/new") == [False] * 5
    assert (desk.private / "key").read_text() == "secret"


def test_metier_other_skills_and_the_users_secrets_are_not_there(desk: Desk, tmp_path: Path):
    home = os.path.expanduser("~")
    assert not any(may(desk, "r", *(f"{home}/{name}" for name in PRIVATE)))
    other = tmp_path / "other-skill"
    other.mkdir()
    (other / "SKILL.md").write_text("---\n---\n")
    assert may(desk, "r", other, other / "SKILL.md") == [False, False]


def test_a_readable_grant_can_be_read_and_not_written(desk: Desk):
    box = desk.box(read=(desk.project,))
    assert may(desk, "r", desk.project, desk.project / "code.txt", box=box) == [True, True]
    assert may(desk, "w", desk.project / "code.txt", desk.project / "new", box=box) == [False, False]


def test_a_single_file_can_be_granted(desk: Desk):
    box = desk.box(read=(desk.project / "code.txt",))
    (desk.project / "other").write_text("other")
    assert may(desk, "r", desk.project / "code.txt", desk.project / "other", box=box) == [True, False]


def test_a_program_may_run_in_a_folder_inside_a_grant(desk: Desk):
    (desk.project / "deep/er").mkdir(parents=True)
    wanted = sh("pwd; cat ../../code.txt", cwd=desk.project / "deep/er")
    assert desk.says(wanted, desk.box(read=(desk.project,))) == f"{desk.project}/deep/er\ncode"


def test_a_program_is_not_run_in_a_folder_that_it_may_not_see(desk: Desk):
    with pytest.raises(Refused, match="is not visible in the sandbox"):
        desk.run(sh("pwd", cwd=desk.private))


def test_a_writable_grant_can_be_written(desk: Desk):
    box = desk.box(write=(desk.project,))
    assert may(desk, "w", desk.project / "code.txt", desk.project / "new", box=box) == [True, True]
    assert (desk.project / "code.txt").read_text() == "codex"


def test_a_link_out_of_a_grant_leads_nowhere(desk: Desk):
    (desk.project / "out").symlink_to(desk.private)
    assert may(desk, "r", desk.project / "out/key", box=desk.box(read=(desk.project,))) == [False]
    os.symlink(desk.private, desk.work / "out")
    assert may(desk, "r", desk.work / "out/key") == [False]


PLAIN_PROTECTED = [name for name in EVERY_PROTECTED if "/" not in name]
TAKE_OVER = """
    for name; do (
        echo evil > $name; echo evil > $name/config; mkdir -p $name/hooks; rm -rf $name; mv $name gone-$name
        mkdir decoy-$name; mv -T decoy-$name $name; ln -sfn /tmp $name; rm -rf gone-$name decoy-$name
    ) 2> /dev/null; done; echo fine > beside
"""


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("there", ["a folder", "a file", "missing"])
def test_what_other_programs_take_orders_from_stays_as_it_is_in_a_writable_grant(desk: Desk, part: int, there: str):
    # One that is missing and has no dot is of the next test.
    names = [name for name in PLAIN_PROTECTED[part::4] if there != "missing" or name.startswith(".")]
    for path in (desk.project / name for name in names):
        if there == "a folder":
            path.mkdir()
            (path / "config").write_text("mine")
        elif there == "a file":
            path.write_text("mine")
    ran = desk.run(sh(TAKE_OVER, *names, cwd=desk.project, seconds=120), desk.box(write=(desk.project,)))
    assert ran.status == 0, ran
    assert (desk.project / "beside").read_text() == "fine\n"
    for path in (desk.project / name for name in names):
        if there == "a folder":
            assert {one.name: one.read_text() for one in path.iterdir()} == {"config": "mine"}, path
        elif there == "a file":
            assert path.read_text() == "mine", path
        else:
            assert not os.path.lexists(path), path
    allowed = {"code.txt", "beside", *names}
    assert {one.name for one in desk.project.iterdir() if not one.name.startswith("decoy")} <= allowed


def test_a_repository_within_the_repository_stays_as_it_is_too(desk: Desk):
    for name in ("sub/.git/hooks", "deep/er/.claude", "deep/src"):
        (desk.project / name).mkdir(parents=True)
    (desk.project / "sub/.git/config").write_text("mine")
    script = """
        echo evil > sub/.git/config; echo evil > sub/.git/hooks/pre-commit; mv sub/.git sub/gone; rm -rf sub/.git
        echo evil > deep/er/.claude/settings.json; echo fine > deep/src/code; echo fine > AGENTS.md
    """
    box = desk.box(write=(desk.project,))
    assert desk.run(sh(f"({script}) 2>&1; true", cwd=desk.project), box).status == 0
    assert (desk.project / "sub/.git/config").read_text() == "mine"
    assert os.listdir(desk.project / "sub/.git/hooks") == os.listdir(desk.project / "deep/er/.claude") == []
    assert (desk.project / "deep/src/code").exists()
    assert (desk.project / "AGENTS.md").exists()


def test_a_folder_of_skills_or_agents_is_guarded_where_it_is_there_and_not_made_up_where_it_is_not(desk: Desk):
    (desk.project / "workspace/agents").mkdir(parents=True)
    script = "echo x > workspace/agents/a.md; mkdir extensions; echo x > workspace/b; ls"
    ran = desk.run(sh(f"({script}) 2>&1; true", cwd=desk.project), desk.box(write=(desk.project,)))
    assert ran.status == 0
    assert ran.stdout.splitlines()[-3:] == ["code.txt", "extensions", "workspace"]
    assert os.listdir(desk.project / "workspace/agents") == []
    assert (desk.project / "workspace/b").exists()


def test_a_folder_of_skills_that_is_granted_itself_can_be_written(desk: Desk):
    (desk.project / "skills").mkdir()
    box = desk.box(write=(desk.project, desk.project / "skills"))
    assert may(desk, "w", desk.project / "skills/new", box=box) == [True]


def test_every_folder_of_a_project_that_skills_and_agents_are_read_from_is_guarded():
    from metier.dialects import DIALECTS
    from metier.library.trust import AGENT_FOLDERS

    places = [root.path for dialect in DIALECTS.values() for root in dialect.serving.roots] + [
        f"{{ancestor}}/{folder}" for folder in AGENT_FOLDERS
    ]
    inside = [place.removeprefix("{ancestor}/") for place in places if place.startswith("{ancestor}/")]
    assert [one for one in inside if not any(f"{one}/".startswith(f"{name}/") for name in EVERY_PROTECTED)] == []
    assert len(inside) > 6


def test_placeholders_of_a_run_that_was_killed_go_with_the_next(bubble: Desk):
    left = bubble.project / ".claude"
    left.mkdir()
    left.chmod(0o1555)
    assert bubble.run(sh("true"), bubble.box(write=(bubble.project,))).status == 0
    assert not left.exists()


KILLED = """
import os, sys, threading
from metier import sandbox
from metier.types.sandbox import SandboxSpec, SandboxPermissions, ProgramSpec
work, project, state, only, script = sys.argv[1:]
box = SandboxSpec("require", work=work, permissions=SandboxPermissions(write=(project,)))
program = ProgramSpec(("sh", "-c", script + "; touch up; sleep 60"), work, {"PATH": "/usr/bin:/bin"})
machine = sandbox.MachineOptions(only=only, state=state)
sandbox.probe_sandbox(machine)
threading.Thread(target=lambda: sandbox.run_sandboxed(program, box, machine), daemon=True).start()
while not os.path.exists(work + "/up"): pass
print(sorted(os.listdir(project)), flush=True)
os.kill(os.getpid(), 9)
"""


def kill_metier(desk: Desk, state: Path, script: str = "true") -> list[str]:
    """Kill metier while a program runs; what stands in the project meanwhile."""
    killed = python(KILLED, str(desk.work), str(desk.project), str(state), desk.tier, script)
    assert killed.returncode == -9, killed.stderr
    stood: list[str] = ast.literal_eval(killed.stdout)
    return stood


def test_nothing_of_ours_stands_in_a_project_while_a_program_runs_or_after_metier_was_killed(
    desk: Desk, tmp_path: Path
):
    assert kill_metier(desk, tmp_path / "state") == ["code.txt"]
    assert os.listdir(desk.project) == ["code.txt"]


def test_after_a_metier_was_killed_the_next_run_in_the_same_folder_works_and_leaves_nothing(desk: Desk, tmp_path: Path):
    state = tmp_path / "state"
    kill_metier(desk, state)
    machine = desk.machine._replace(state=str(state))
    ran = sandbox.run_sandboxed(sh("echo hi", cwd=desk.project), desk.box(write=(desk.project,)), machine)
    assert (ran.status, ran.stdout) == (0, "hi\n"), ran
    assert os.listdir(desk.project) == ["code.txt"]
    assert os.listdir(state / "open-runs") == []


def test_what_a_program_left_when_metier_was_killed_is_moved_away_by_the_next_run_anywhere(desk: Desk, tmp_path: Path):
    state, other = tmp_path / "state", tmp_path / "other"
    other.mkdir()
    kill_metier(desk, state, f"mkdir -p '{desk.project}/deep/.git'; echo evil > '{desk.project}/deep/.git/config'")
    assert (desk.project / "deep/.git/config").exists()
    noting = replace(desk, machine=desk.machine._replace(state=str(state)))
    assert noting.run(sh("true"), noting.box(write=(other,))).status == 0
    assert os.listdir(desk.project / "deep") == []
    assert [path.read_text() for path in state.rglob("config")] == ["evil\n"]


def test_what_the_user_made_since_metier_was_killed_stays(desk: Desk, tmp_path: Path):
    state = tmp_path / "state"
    kill_metier(desk, state)
    note = next((state / "open-runs").iterdir())
    os.utime(note, (time.time() - 60, time.time() - 60))  # it was killed a minute ago
    (desk.project / "own/.git").mkdir(parents=True)
    noting = replace(desk, machine=desk.machine._replace(state=str(state)))
    assert noting.run(sh("true"), noting.box(write=(desk.project,))).status == 0
    assert (desk.project / "own/.git").is_dir()


def test_two_programs_in_one_grant_leave_nothing_that_is_obeyed(desk: Desk):
    box = desk.box(write=(desk.project,))
    waits = sh("touch started; while [ ! -e go ]; do sleep 0.02; done; mkdir -p .github/workflows", cwd=desk.project)
    threads = [threading.Thread(target=desk.run, args=(one, box)) for one in (waits, waits)]
    threads[0].start()
    assert soon((desk.project / "started").exists)
    (desk.project / "started").unlink()
    threads[1].start()
    assert soon((desk.project / "started").exists)
    (desk.project / "go").touch()
    for thread in threads:
        thread.join()
    assert set(os.listdir(desk.project)) - {".github"} == {"code.txt", "go", "started"}
    assert not (desk.project / ".github/workflows").exists()


def test_an_empty_folder_of_the_users_stays(desk: Desk):
    (desk.project / ".claude").mkdir()
    assert desk.run(sh("true"), desk.box(write=(desk.project,))).status == 0
    assert (desk.project / ".claude").is_dir()


def test_a_secret_that_is_a_link_is_hidden_where_it_leads(desk: Desk):
    (desk.project / "real").mkdir()
    (desk.project / "real/key").write_text("secret")
    (desk.project / "link").symlink_to("real")
    box = desk.box(read=(desk.project,), hidden=(str(desk.project / "link"),))
    assert may(desk, "r", desk.project / "link/key", desk.project / "real/key", box=box) == [False, False]


def test_a_tool_is_not_shown_with_all_that_lies_around_it(desk: Desk):
    """Only interpreters bring the folder they were installed in; anything else would open it by being run."""
    (desk.private / "bin").mkdir()
    shutil.copy("/usr/bin/env", desk.private / "bin/tool")
    ran = desk.run(program(str(desk.private / "bin/tool")))
    assert (ran.status, ran.note) == (None, f"{desk.private}/bin/tool: not found, or not visible in the sandbox")


def test_one_programs_end_does_not_open_what_is_closed_to_another(desk: Desk):
    (desk.project / ".git").mkdir()
    box = desk.box(write=(desk.project,))
    inner = replace(sh("true", cwd=desk.project))
    outer = sh(
        "touch started; while [ ! -e go ]; do sleep 0.02; done; mkdir .git/x 2>/dev/null || echo kept; mkdir -p .claude/x",
        cwd=desk.project,
    )
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(desk.run(outer, box).stdout))
    thread.start()
    while not (desk.project / "started").exists():
        pass
    assert desk.run(inner, box).status == 0
    (desk.project / "go").touch()
    thread.join()
    assert said == ["kept\n"]
    assert not (desk.project / ".claude").exists()


def test_a_git_folder_that_was_granted_itself_keeps_its_hooks_and_settings(desk: Desk):
    git = desk.project / ".git"
    (git / "hooks").mkdir(parents=True)
    (git / "config").write_text("[core]\n")
    box = desk.box(write=(git,))
    assert may(desk, "w", git / "index", git / "hooks/pre-commit", git / "config", box=box) == [True, False, False]


def test_a_protected_thing_that_is_a_link_is_refused(desk: Desk):
    (desk.project / ".claude").symlink_to(desk.private)
    with pytest.raises(Refused, match="is a link"):
        desk.run(sh("true"), desk.box(write=(desk.project,)))


def test_a_skill_inside_a_writable_grant_stays_as_it_is(desk: Desk):
    skill = desk.project / "tools/one"
    skill.mkdir(parents=True)
    box = replace(desk.box(write=(desk.project,)), skill=str(skill))
    assert may(desk, "w", skill / "new", desk.project / "tools/new", box=box) == [False, True]


def test_landlock_without_its_broker_refuses_to_guard_and_says_so_where_that_will_do(landlocked: Desk):
    desk = replace(landlocked, machine=landlocked.machine._replace(broker=False))
    with pytest.raises(Refused, match="Landlock can't protect"):
        desk.run(sh("true"), desk.box(write=(desk.project,)))
    ran = desk.run(sh("touch $1/new", str(desk.project)), desk.box(need="prefer", write=(desk.project,)))
    assert ran.status == 0
    assert "Landlock can't protect .git and settings" in ran.note


def test_what_is_hidden_stays_out_of_sight_in_a_folder_that_may_be_read(desk: Desk):
    (desk.project / "hidden").mkdir()
    (desk.project / "hidden/key").write_text("secret")
    (desk.project / "token").write_text("secret")
    hidden = (str(desk.project / "hidden"), str(desk.project / "token"))
    box = desk.box(read=(desk.project,), hidden=hidden)
    assert may(desk, "r", desk.project / "code.txt", desk.project / "hidden/key", box=box) == [True, False]
    assert desk.run(sh("cat token", cwd=desk.project / ""), box).stdout == ""


def test_secrets_of_a_home_that_may_be_read_are_hidden(tmp_path: Path):
    home = tmp_path / "home"
    for name in (".ssh", ".aws", "work"):
        (home / name).mkdir(parents=True)
    (home / ".netrc").write_text("secret")
    seen = build_view(
        program("true", cwd=home),
        SandboxSpec("require", permissions=SandboxPermissions(read=(str(home),))),
        "",
        [str(home)],
    )
    kinds = {one.path.removeprefix(f"{home}"): one.kind for one in seen.seen}
    assert kinds == {"": "read", "/.ssh": "hide", "/.aws": "hide", "/.netrc": "hide"}


def test_what_is_both_hidden_and_guarded_is_hidden(tmp_path: Path):
    home = tmp_path / "home"
    (home / ".metier").mkdir(parents=True)
    allowed = SandboxPermissions(write=(str(home),))
    seen = build_view(program("true", cwd=home), SandboxSpec("require", permissions=allowed), "", [str(home)])
    assert {one.path: one.kind for one in seen.seen}[f"{home}/.metier"] == "hide"


def test_a_link_does_not_lead_past_what_is_hidden_and_is_there_itself(desk: Desk):
    inner = desk.project / "hidden"
    inner.mkdir()
    (inner / "key").write_text("secret")
    link = desk.private.parent / "way"
    link.symlink_to(desk.project)
    box = desk.box(read=(link,), hidden=(str(inner),))
    assert may(desk, "r", link / "code.txt", link / "hidden/key", inner / "key", box=box) == [True, False, False]


def test_a_link_does_not_lead_past_what_is_guarded(desk: Desk):
    (desk.project / ".git").mkdir()
    link = desk.private.parent / "way"
    link.symlink_to(desk.project)
    box = desk.box(write=(link,))
    paths = (link / "new", link / ".git/config", desk.project / ".git/config", link / ".envrc")
    assert may(desk, "w", *paths, box=box)[:3] == [True, False, False]
    assert not (desk.project / ".envrc").exists()


def test_a_link_to_a_git_folder_keeps_its_hooks(desk: Desk):
    (desk.project / ".git/hooks").mkdir(parents=True)
    link = desk.private.parent / "way"
    link.symlink_to(desk.project / ".git")
    assert may(desk, "w", link / "index", link / "hooks/post-commit", box=desk.box(write=(link,))) == [True, False]


def test_a_link_to_what_is_never_opened_is_no_grant(desk: Desk):
    link = desk.private.parent / "way"
    link.symlink_to("/etc")
    with pytest.raises(Refused, match="/etc is never opened"):
        desk.run(sh("true"), desk.box(read=(link,)))


@pytest.mark.parametrize("around", [False, True])
def test_no_grant_opens_the_state_folder_and_a_skill_in_it_is_seen(desk: Desk, around: bool):
    state = desk.project / "state"
    skill = state / "skills/one"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("text")
    (state / "config.toml").write_text("secret")
    given = desk.project if around else state
    box = replace(desk.box(read=(given,), hidden=(str(state),)), skill=str(skill))
    assert may(desk, "r", skill / "SKILL.md", state / "config.toml", box=box) == [True, False]
    box = replace(desk.box(write=(given,), need="prefer", hidden=(str(state),)), skill=str(skill))
    assert may(desk, "w", state / "config.toml", state / "new", box=box) == [False, False]


def test_of_a_private_home_only_the_granted_path_appears(desk: Desk, tmp_path: Path):
    inner = tmp_path / "home/project"
    inner.mkdir(parents=True)
    (tmp_path / "home/.ssh").mkdir()
    # Where the folder around it can't be hidden, it can't be listed.
    assert desk.run(sh("ls -A ..", cwd=inner), desk.box(read=(inner,))).stdout in ("project\n", "")


@pytest.mark.parametrize("path", ["/", "/proc", "/sys/fs", "/dev", "/etc", "/home", "/run", "/var", "/usr/"])
@pytest.mark.parametrize("how", ["read", "write"])
def test_what_would_open_the_whole_machine_is_no_grant(desk: Desk, path: str, how: str):
    allowed = SandboxPermissions(read=(path,)) if how == "read" else SandboxPermissions(write=(path,))
    with pytest.raises(Refused, match=r"never opened|Landlock can't protect"):
        desk.run(sh("true"), replace(desk.box(), permissions=allowed))


def test_a_relative_grant_is_a_mistake(desk: Desk):
    with pytest.raises(BadRequest, match="not an absolute path"):
        desk.run(sh("true"), desk.box(read=(Path("project"),)))


def test_an_interpreter_under_a_private_home_is_shown_with_what_it_needs(desk: Desk):
    said = desk.says(py("import sys, json, ctypes; print(sys.prefix); print(sys.version)"))
    assert said == f"{sys.prefix}\n{sys.version}"


def test_an_interpreter_that_can_not_be_shown_gives_way_to_the_systems_and_that_is_said(desk: Desk):
    fake = desk.private / "python3"
    fake.write_text('#!/bin/sh\nexec python3 "$@"\n')
    fake.chmod(0o755)
    ran = desk.run(program(str(fake), "-c", "print(1)"))
    assert ran.stdout == "1\n"
    assert ran.note.startswith("/usr/")
    assert f"was run: {fake} is not visible in the sandbox" in ran.note


def test_a_program_that_is_nowhere_is_not_found(desk: Desk):
    ran = desk.run(program("no-such-program"))
    assert (ran.status, ran.note) == (None, "no-such-program: not found, or not visible in the sandbox")


@pytest.mark.parametrize(
    "words", [("bash", "-c", "echo ok"), ("node", "-e", "console.log('ok')"), ("sh", "-c", "echo ok")]
)
def test_interpreters_of_the_system_work(desk: Desk, words: tuple[str, ...]):
    if words[0] == "node" and not os.path.exists("/usr/bin/node"):
        pytest.skip("there is no node here")
    assert desk.says(program(*words)) == "ok"


@pytest.mark.parametrize("need", ["require", "prefer"])
def test_git_status_runs_in_a_project_that_may_be_read(desk: Desk, need: str):
    import subprocess

    subprocess.run(["git", "init", "-q", str(desk.project)], check=True)
    ran = desk.run(program("git", "status", "--short", cwd=desk.project), desk.box(read=(desk.project,), need=need))
    assert (ran.status, ran.stdout, ran.stderr) == (0, "?? code.txt\n", "")


def test_what_is_shown_is_the_same_value_for_every_tier(desk: Desk):
    assert sandbox.probe_sandbox(desk.machine).tier == desk.run(sh("true")).tier

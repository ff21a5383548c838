"""The tier of macOS, which can't be run here: what its profiles allow, and that the trial refuses one that does not hold."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden import same_as
from tests.host.boxes import program
from tests.host.sbpl import Profile

from metier import sandbox
from metier.dialects import PROTECTED_FOLDERS
from metier.sandbox import profile, seatbelt
from metier.sandbox.obeyed import PROTECTED
from metier.sandbox.profile import PathAccess, SandboxView
from metier.types.errors import Refused
from metier.types.sandbox import SandboxLimits, SandboxPermissions, SandboxSpec, SandboxSupport

WRITES = ("file-write-data", "file-write-create", "file-write-unlink", "file-write-mode", "file-write-xattr")
READS = ("file-read-data", "file-read-xattr", "process-exec", "file-map-executable")


def view(*seen: tuple[str, profile.AccessKind], work: str = "/Users/me/trial") -> SandboxView:
    accesses = tuple(PathAccess(path, kind) for path, kind in sorted(seen, key=lambda pair: pair[0].split("/")))
    return SandboxView(accesses, "/usr/bin/python3", ("/usr/bin/python3",), work, work, {})


def compiled(seen: SandboxView, network: bool = False, protected: tuple[str, ...] = PROTECTED_FOLDERS) -> Profile:
    box = SandboxSpec("require", permissions=SandboxPermissions(network), protected=protected)
    made = seatbelt.seatbelt_profile(seen, box)
    return Profile(made.text, dict(made.parameters))


PROJECT = view(
    ("/Users/me/trial", "write"),
    ("/Users/me/skill", "read"),
    ("/Users/me/project", "write"),
    ("/Users/me/project/.git", "guard"),
    ("/Users/me/project/tools/hooks", "guard"),
    ("/Users/me/project/deep/secret", "hide"),
)


def writable(found: Profile, path: str) -> bool:
    answers = {found.allows(operation, path) for operation in WRITES}
    assert len(answers) == 1, f"some of it may be done to {path}"
    return answers.pop()


def readable(found: Profile, path: str) -> bool:
    answers = {found.allows(operation, path) for operation in READS}
    assert len(answers) == 1, f"some of it may be done to {path}"
    return answers.pop()


@pytest.mark.parametrize("network", [False, True])
def test_the_profile_of_a_project_is_this(network: bool):
    box = SandboxSpec("require", permissions=SandboxPermissions(network), protected=(".agents",))
    made = seatbelt.seatbelt_profile(PROJECT, box)
    golden = Path(__file__).parent / "golden" / f"seatbelt{'-network' if network else ''}.sb"
    parameters = "".join(f"; {name} = {path}\n" for name, path in made.parameters)
    same_as(golden, made.text + parameters)


def test_what_was_granted_can_be_read_and_the_rest_can_not():
    found = compiled(PROJECT)
    for path in (
        "/Users/me/skill/SKILL.md",
        "/Users/me/project/code.py",
        "/Users/me/trial/x",
        "/usr/lib/libSystem.dylib",
    ):
        assert readable(found, path), path
    for path in (
        "/Users/me/.ssh/id_ed25519",
        "/Users/me/Library/Keychains/login.keychain-db",
        "/Users/me/skill2",
        "/Users/other/x",
        "/System/Volumes/Data/Users/me/.ssh/id_ed25519",
        "/opt/homebrew/var/postgres/x",
        "/usr/local/etc/secret",
        "/private/etc/master.passwd",
        "/private/var/db/dslocal/nodes/x",
        "/private/tmp/other",
        "/Volumes/Backup/x",
        "/dev/disk0",
        "/Users/me/project/deep/secret/key",
    ):
        assert not readable(found, path), path
        assert not writable(found, path), path
    assert found.allows("file-read-metadata", "/Users/me")
    assert not found.allows("file-read-metadata", "/Users/me/.ssh")
    assert not found.allows("file-read-data", "/Users/me")


def test_what_may_be_written_is_the_work_folder_and_what_was_granted():
    found = compiled(PROJECT)
    for path in (
        "/Users/me/trial/x",
        "/Users/me/trial/.git/hooks/x",
        "/Users/me/project/code.py",
        "/Users/me/project/a/b",
    ):
        assert writable(found, path), path
    for path in (
        "/Users/me/skill/SKILL.md",
        "/usr/bin/x",
        "/x",
        "/Users/me/x",
        "/private/etc/x",
        "/dev/x",
        "/Users/me/projects",
    ):
        assert not writable(found, path), path


@pytest.mark.parametrize(
    "name",
    [
        ".git",
        ".git/hooks/pre-commit",
        ".GIT/hooks/pre-commit",
        "sub/.git/config",
        "sub/deep/.Git",
        ".envrc",
        ".ENVRC",
        ".claude/settings.json",
        ".github/workflows/x.yml",
        ".zshrc",
        ".mcp.json",
        ".agents/skills/x/SKILL.md",
        ".hu\u017fky/pre-commit",
        "tools/hooks",
        "tools/hooks/pre-commit",
    ],
)
def test_what_others_take_orders_from_stays_as_it_is_in_every_case(name: str):
    found = compiled(PROJECT)
    assert not writable(found, f"/Users/me/project/{name}")
    assert readable(found, f"/Users/me/project/{name}")


def test_nothing_is_renamed_from_under_its_rule():
    found = compiled(PROJECT)
    for path in ("/Users/me/project", "/Users/me/project/tools", "/Users/me/project/deep", "/Users/me/trial"):
        assert not found.allows("file-write-unlink", path), path
    assert found.allows("file-write-unlink", "/Users/me/project/other")
    assert found.allows("file-write-create", "/Users/me/project/tools/new")
    assert not found.allows("file-link", "/Users/me/project/x")
    assert not found.allows("file-write-setugid", "/Users/me/trial/x")


def test_a_repository_that_was_granted_keeps_its_hooks_and_settings():
    found = compiled(view(("/p", "write"), ("/p/.git", "write")))
    assert writable(found, "/p/.git/index")
    for name in ("hooks/pre-commit", "HOOKS", "config", "Config.worktree", "info/attributes", "modules/x/config"):
        assert not writable(found, f"/p/.git/{name}")


def test_a_folder_inside_a_protected_one_can_be_written_where_it_was_granted():
    found = compiled(view(("/p", "write"), ("/p/.claude/skills/mine", "write")))
    assert writable(found, "/p/.claude/skills/mine/SKILL.md")
    assert not writable(found, "/p/.claude/skills/other")
    assert not writable(found, "/p/.claude/skills/mine/.git/config")


def test_a_skill_inside_a_writable_folder_is_not_written():
    assert not writable(compiled(view(("/p", "write"), ("/p/skills/a", "read"))), "/p/skills/a/SKILL.md")


def test_the_network_is_off_unless_it_was_granted():
    closed, opened = compiled(PROJECT), compiled(PROJECT, network=True)
    assert not [rule for rule in closed.rules if any("network" in name or "socket" in name for name in rule.operations)]
    assert "/private/var/run/mDNSResponder" in list(opened.values("literal"))
    assert not opened.allows("network-outbound", "/private/var/run/docker.sock")
    assert not readable(closed, "/private/etc/hosts")
    assert opened.allows("file-read-data", "/private/var/run/resolv.conf")


def test_no_service_that_acts_for_others_can_be_reached():
    services = set(compiled(PROJECT).values("global-name"))
    assert services == {"com.apple.system.opendirectoryd.libinfo", "com.apple.system.notification_center"}
    assert "kern.procargs2" not in set(compiled(PROJECT).values("sysctl-name"))


ODD = st.text("ab.\"')(;#\\\n \té$*[]|", min_size=1, max_size=10).filter(lambda name: name not in (".", ".."))


@settings(deadline=None, max_examples=20)
@given(project=ODD, nested=ODD, hidden=ODD, extra=st.lists(ODD, max_size=2))
def test_whatever_a_folder_is_called_nothing_protected_is_writable(
    project: str, nested: str, hidden: str, extra: list[str]
):
    with tempfile.TemporaryDirectory(prefix="metier-seatbelt-") as base:
        base = os.path.realpath(base)
        folder = f"{base}/p{project}"
        for path in (f"{folder}/n{nested}/.git", f"{folder}/h{hidden}", f"{base}/work", f"{base}/skill", f"{base}/out"):
            os.makedirs(path, exist_ok=True)
        box = SandboxSpec(
            "require",
            f"{base}/skill",
            f"{base}/work",
            SandboxPermissions(write=(folder,)),
            hidden=(f"{folder}/h{hidden}",),
            protected=(*PROTECTED_FOLDERS, *(f".{name}" for name in extra)),
        )
        wanted = program("/bin/sh", cwd=f"{base}/work")
        seen = profile.build_view(wanted, box, box.work, ())
        made = seatbelt.seatbelt_profile(seen, box)
        found = Profile(made.text, dict(made.parameters))
    names = [name for name in (*PROTECTED, *box.protected) if name.startswith(".")]
    for name in (*names, *(name.upper() for name in names)):
        for outer in ("", f"/n{nested}", "/new/sub"):
            assert not found.allows("file-write-data", f"{folder}{outer}/{name}/x")
            assert not found.allows("file-write-create", f"{folder}{outer}/{name}")
    assert writable(found, f"{folder}/code.py")
    assert not readable(found, f"{folder}/h{hidden}/key")
    assert not writable(found, f"{base}/skill/SKILL.md")
    assert not readable(found, f"{base}/out/key")
    # The text is made of the same rules whatever the names are: they are parameters.
    assert len(found.rules) == len(compiled(seen).rules)
    assert base not in made.text.replace('regex #"^' + base, "")


def test_paths_are_given_beside_the_profile_and_never_in_it():
    name = '/p/") (allow default) ("'
    made = seatbelt.seatbelt_profile(view((name, "read"), work=""), SandboxSpec("require"))
    assert name not in made.text
    assert "default" not in made.text.replace("(deny default)", "")
    at = made.options.index("-p")
    assert made.options[at:] == ("-p", made.text)
    assert f"P0={name}" in made.options[:at]


def test_paths_are_spelled_as_the_disk_spells_them():
    spelled = seatbelt.canonical_view(
        view(("/users/ME/project", "write"), ("/users/ME/project/.SSH", "hide"), work="/users/ME/trial"),
        lambda path: path.replace("/users/ME", "/Users/me").replace(".SSH", ".ssh"),
    )
    assert [access.path for access in spelled.seen] == ["/Users/me/project", "/Users/me/project/.ssh"]
    assert spelled.work == "/Users/me/trial"
    assert seatbelt.canonical_path("/a/b") == "/a/b"


def sandbox_exec(folder: Path, text: str) -> sandbox.MachineOptions:
    path = folder / "sandbox-exec"
    path.write_text(f"#!{sys.executable}\nimport os, sys\nwords = sys.argv[1:]\n{text}")
    path.chmod(0o755)
    return sandbox.MachineOptions(only="seatbelt", seatbelt=str(path), chosen_by="sandbox.tier")


def test_a_sandbox_exec_that_refuses_nothing_is_none(tmp_path: Path):
    machine = sandbox_exec(tmp_path, "at = words.index('-p') + 2\nos.execv(words[at], words[at:])")
    footing = sandbox.probe_sandbox(machine)
    assert footing.tier == "none"
    failed = {check.name for check in footing.checks if not check.held}
    assert {"read outside", "write outside", "TCP", "write .git", "link .git/config", "create .envrc"} <= failed
    assert {"read what is hidden", "link outside", "write the skill"} <= failed
    with pytest.raises(Refused, match=r"seatbelt: .*read outside was done"):
        sandbox.run_sandboxed(program("true", cwd=""), SandboxSpec("require"), machine)


def test_a_sandbox_exec_that_does_not_take_the_profile_is_none(tmp_path: Path):
    machine = sandbox_exec(tmp_path, "sys.exit('sandbox-exec: unbound variable: file-link')")
    footing = sandbox.probe_sandbox(machine)
    assert footing.tier == "none"
    assert "the self-test did not finish: sandbox-exec: unbound variable: file-link" in footing.reason


def test_without_macos_there_is_none_and_nobody_tries(tmp_path: Path):
    footing = sandbox.probe_sandbox(sandbox.MachineOptions(only="seatbelt", seatbelt=str(tmp_path / "missing")))
    assert "Seatbelt needs macOS" in footing.reason
    if sys.platform != "darwin":
        other = sandbox.probe_sandbox(sandbox.MachineOptions(bwrap="/missing", landlock=False))
        assert "Seatbelt" not in other.reason


def test_a_tree_of_processes_is_held_to_its_limits():
    rows = [(30, 20, 1 << 20), (20, 10, 1 << 20), (40, 1, 1 << 40)]
    watch = seatbelt.TreeWatch(SandboxLimits(memory=3 << 20), lambda pid: "folders", lambda: rows)
    assert watch._excess(10) == ""
    assert seatbelt.TreeWatch(SandboxLimits(memory=1 << 20), lambda pid: "", lambda: rows)._excess(10).startswith("oom")
    few = seatbelt.TreeWatch(SandboxLimits(processes=1), lambda pid: "", lambda: rows)
    assert few._excess(10) == "processes: more than 1"
    assert watch(10) == "folders"
    time.sleep(0.6)
    assert few(10) == "processes: more than 1"


@pytest.mark.skipif(not os.path.exists("/bin/ps"), reason="ps is missing")
def test_processes_are_listed_as_ps_has_them():
    child = subprocess.Popen(["/bin/sleep", "60"])
    try:
        found = {pid: (parent, size) for pid, parent, size in seatbelt.read_processes()}
        assert found[child.pid][0] == os.getpid()
        assert found[os.getpid()][1] > 1 << 20
    finally:
        child.kill()
        child.wait()


def test_the_program_runs_as_the_profile_says_and_within_limits(tmp_path: Path):
    """With a stand-in that shows what it was given, and runs it."""
    machine = sandbox_exec(
        tmp_path, "at = words.index('-p') + 2\nprint(words[:at], flush=True)\nos.execv(words[at], words[at:])"
    )
    support = SandboxSupport("seatbelt", "", engine=machine.seatbelt)
    work = tmp_path / "work"
    work.mkdir()
    box = SandboxSpec("require", work=str(work))
    wanted = replace(program("/bin/sh", "-c", "echo $HOME; ulimit -c", cwd=work), merged=True)
    ran = sandbox._run_confined(wanted, box, support, False)
    assert (ran.status, ran.tier) == (0, "seatbelt")
    given, home, cores = ran.stdout.strip().splitlines()
    assert f"={work}" in given
    assert "(deny default)" in given
    assert (home, cores) == (str(work), "0")

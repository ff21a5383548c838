"""How much a boxed program may use, with a control group and without one."""

import os
import resource
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.home import python
from tests.host.boxes import Desk, py, sh

from metier.sandbox import limits as keeping
from metier.types.sandbox import SandboxLimits

BOMB = "bomb() { [ $1 = 0 ] || { bomb $(($1 - 1)) | bomb $(($1 - 1)) & }; sleep 100; }; bomb 10; sleep 100"
"""Doubles itself until there are two thousand: enough to see it ended, and no more than a machine bears if it is not."""
SMALL = SandboxLimits(processes=60, memory=150 << 20, scratch=16 << 20, file=32 << 20, disk=64 << 20, files=500)


def can_group() -> bool:
    with keeping.control_group(SMALL) as found:
        return found is not None


# Where there are no groups, all is watched and one test says what was not tried: not each of twenty.
GROUPED = can_group()
needs_groups = pytest.mark.skipif(not GROUPED, reason="no control group can be made here")


@pytest.fixture(params=["with a control group", "watched"] if GROUPED else ["watched"])
def held(request: pytest.FixtureRequest, desk: Desk) -> Desk:
    return replace(desk, machine=desk.machine._replace(groups=request.param != "watched"))


def test_a_fork_bomb_is_ended(held: Desk):
    ran = held.run(sh(BOMB, seconds=60), held.box(limits=SMALL))
    assert (ran.status, ran.timed_out, ran.note) == (-9, False, "processes: more than 60")


def test_too_many_threads_are_ended(held: Desk):
    script = "import threading, time\nfor _ in range(10_000):\n threading.Thread(target=time.sleep, args=(60,)).start()"
    ran = held.run(py(script, seconds=60), held.box(limits=SMALL))
    assert (ran.status, ran.timed_out, ran.note) == (-9, False, "processes: more than 60")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("kept = []\nwhile True: kept.append(b'1' * (1 << 20))", id="allocated"),
        pytest.param("import mmap\nm = mmap.mmap(-1, 8 << 30)\nwhile True: m.write(b'1' * (1 << 20))", id="shared"),
        pytest.param(
            "import os\nfor _ in range(4):\n if not os.fork(): break\nkept = []\nwhile True: kept.append(b'1' * (1 << 20))",
            id="by many",
        ),
    ],
)
def test_taking_too_much_memory_is_ended_and_the_reason_is_oom(held: Desk, script: str):
    ran = held.run(py(script, seconds=60), held.box(limits=SMALL))
    assert ran.note == "oom: more than 150 MiB of memory"
    assert ran.status != 0
    assert not ran.timed_out


@needs_groups
def test_a_control_group_keeps_what_it_was_told_without_anybody_watching():
    with keeping.control_group(SMALL) as found:
        assert found is not None
        memory = "memory.max" if found.modern else "memory.limit_in_bytes"
        assert int(Path(found.memory, memory).read_text()) == SMALL.memory
        assert int(Path(found.processes, "pids.max").read_text()) == SMALL.processes


def test_the_kernel_keeps_the_number_of_processes_where_the_watch_is_late():
    carried = dict(keeping.process_rlimits(SMALL, None, SMALL.processes))
    assert SMALL.processes <= carried[resource.RLIMIT_NPROC] <= 2 * SMALL.processes
    assert SMALL.memory <= carried[resource.RLIMIT_DATA] <= SMALL.memory + (2 << 30)


def test_a_file_grows_no_larger_than_its_limit(held: Desk):
    ran = held.run(sh("head -c 200M /dev/zero > big"), held.box(limits=SMALL))
    assert ran.status != 0
    assert (held.work / "big").stat().st_size <= SMALL.file


def test_the_work_folder_holds_no_more_than_its_limit(held: Desk):
    script = "for name in $(seq 1000); do head -c 8M /dev/zero > $name; done; sleep 100"
    ran = held.run(sh(script, seconds=60), held.box(limits=SMALL))
    assert (ran.status, ran.note) == (-9, "disk: more than 64 MiB in the work folder")


def test_the_work_folder_holds_no_more_files_than_its_limit(held: Desk):
    script = "import itertools\nfor name in itertools.count(): open(str(name), 'x').close()"
    ran = held.run(py(script, seconds=60), held.box(limits=SMALL))
    assert (ran.status, ran.note) == (-9, "disk: more than 500 files in the work folder")


def test_files_without_a_name_count_as_well(held: Desk):
    script = """
import os, time
kept = []
for name in map(str, range(6)):
    kept.append(open(name, "wb"))
    os.unlink(name)
    kept[-1].write(bytes(20 << 20))
    kept[-1].flush()
time.sleep(60)
"""
    ran = held.run(py(script, seconds=60), held.box(limits=SMALL))
    assert (ran.status, ran.note) == (-9, "disk: more than 64 MiB in the work folder")


FILLED = """
import os, socket, time
kept = []
for _ in range(8):
    if not os.fork(): break
try:
    while True:
        kept += socket.socketpair()
        for one in kept[-2:]:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
            one.setblocking(False)
            try:
                while True: one.send(bytes(1 << 16))
            except BlockingIOError: pass
except OSError: pass
time.sleep(60)
"""


def test_memory_that_waits_in_sockets_counts_as_well(desk: Desk):
    watched = replace(desk, machine=desk.machine._replace(groups=False))
    ran = watched.run(py(FILLED, seconds=60), watched.box(limits=SMALL))
    assert (ran.status, ran.note) == (-9, "oom: more than 150 MiB of memory")


@needs_groups
def test_nothing_stays_in_a_control_group():
    with keeping.control_group(SMALL) as found:
        assert found is not None
        left = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
        found.add(left.pid)
    assert left.wait(10) == -9


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_temporary_folders_are_small(bubble: Desk, folder: str):
    ran = bubble.run(sh(f"head -c 30M /dev/zero > {folder}/big; stat -c %s {folder}/big"), bubble.box(limits=SMALL))
    assert "No space left on device" in ran.stderr
    assert int(ran.stdout) <= SMALL.scratch


def test_there_is_nowhere_else_to_fill(bubble: Desk):
    script = (
        "for folder in / /dev /etc /run /home /var /proc /opt; do mkdir -p $folder/x 2>/dev/null && echo $folder; done"
    )
    assert bubble.run(sh(script)).stdout == ""


def test_it_leaves_no_core(desk: Desk):
    assert desk.says(sh("ulimit -c")) == "0"


def test_others_go_on_while_one_misbehaves(held: Desk):
    from concurrent.futures import ThreadPoolExecutor

    bomb = sh(BOMB, seconds=60)
    with ThreadPoolExecutor(4) as pool:
        bad = pool.submit(held.run, bomb, held.box(limits=SMALL))
        good = [pool.submit(held.run, sh("echo $1", str(number))) for number in range(6)]
        assert [one.result().stdout for one in good] == [f"{number}\n" for number in range(6)]
        assert bad.result().note == "processes: more than 60"


@pytest.mark.soak
def test_eight_gigabytes_are_refused_by_the_usual_limits(held: Desk):
    script = "kept = []\nfor _ in range(8 << 10): kept.append(b'1' * (1 << 20))"
    assert held.run(py(script, seconds=120)).note == "oom: more than 2048 MiB of memory"


ONE_RUN = """
import os, sys
from metier import sandbox
from metier.types.sandbox import SandboxSpec, ProgramSpec
program = ProgramSpec(("true",), sys.argv[2], {"PATH": "/usr/bin:/bin"})
sandbox.run_sandboxed(program, SandboxSpec("require", work=sys.argv[2]), sandbox.MachineOptions(bwrap=sys.argv[1]))
print(os.getpid())
"""


def groups_of(pid: int) -> list[str]:
    walked = (f"{at}/{name}" for at, folders, _ in os.walk("/sys/fs/cgroup") for name in folders)
    return [path for path in walked if f"/metier-{pid}-" in path]


def test_control_groups_are_gone_when_the_process_is(desk: Desk):
    done = python(ONE_RUN, desk.machine.bwrap, str(desk.work))
    assert done.returncode == 0, done.stderr
    assert groups_of(int(done.stdout)) == []


SLOW_TO_LEAVE = """
import os, subprocess
from metier.sandbox import limits
from metier.types.sandbox import SandboxLimits
with limits.control_group(SandboxLimits()) as found:
    if found is not None:
        found.add(subprocess.Popen(["sleep", "0.5"]).pid)
print(os.getpid(), found is not None)
"""


@needs_groups
def test_control_groups_wait_for_what_is_still_leaving_them():
    done = python(SLOW_TO_LEAVE)
    pid, made = done.stdout.split()
    assert made == "True"
    assert groups_of(int(pid)) == []


@needs_groups
def test_control_groups_of_a_process_that_was_killed_go_with_the_next(desk: Desk):
    dead = 2**22 + 1  # more than any process id
    with keeping.control_group(SMALL) as found:
        assert found is not None
        for folder in found[:2]:
            os.makedirs(f"{os.path.dirname(folder)}/metier-{dead}-0", exist_ok=True)
    assert python(ONE_RUN, desk.machine.bwrap, str(desk.work)).returncode == 0
    assert groups_of(dead) == []

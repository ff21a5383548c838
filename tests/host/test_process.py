"""A program runs to its end and no further: nothing it starts outlives it, and nothing it says overflows."""

import os
import threading
import tracemalloc
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.home import python
from tests.host.boxes import alive, begun, program, py, sh, soon

from metier.host import process
from metier.host.process import AdmissionGate, run_program
from metier.types.sandbox import ProcessResult, ProgramSpec


@pytest.fixture
def marker() -> str:
    """A word that no other process has."""
    return uuid.uuid4().hex


SLEEPER = """
sleeper() { bash -c "trap '' TERM HUP INT; touch ready; while :; do sleep 0.1; done" "$1"; }
export -f sleeper
"""
READY = "while [ ! -e ready ]; do sleep 0.01; done"


def test_its_output_its_errors_and_its_status_are_reported_exactly():
    ran = run_program(sh("echo out; echo err >&2; exit 255"))
    assert (ran.status, ran.stdout, ran.stderr, ran.timed_out, ran.note) == (255, "out\n", "err\n", False, "")


@pytest.mark.parametrize("number", [1, 2, 6, 9, 11, 13, 15])
def test_a_signal_is_told_from_a_status(number: int):
    assert run_program(sh(f"kill -{number} $$")).status == -number
    assert run_program(sh(f"exit {128 + number}")).status == 128 + number


def test_merged_output_keeps_the_order_it_was_written_in():
    ran = run_program(sh("echo 1; echo 2 >&2; echo 3; echo 4 >&2", merged=True))
    assert (ran.stdout, ran.stderr) == ("1\n2\n3\n4\n", "")


def test_it_sees_only_the_environment_it_is_given_and_none_of_ours():
    ran = run_program(ProgramSpec(("/usr/bin/env",), "/", {"ONE": "1", "LD_LIBRARY_PATH": "/nowhere"}))
    assert sorted(ran.stdout.splitlines()) == ["LD_LIBRARY_PATH=/nowhere", "ONE=1"]


def test_runs_at_the_same_time_do_not_see_each_others_variables():
    def ask(number: int) -> str:
        return run_program(ProgramSpec(("/usr/bin/env",), "/", {"KEY": str(number)})).stdout

    before = dict(os.environ)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(24))) == [f"KEY={number}\n" for number in range(24)]
    assert dict(os.environ) == before


def test_what_is_preloaded_into_the_program_is_not_loaded_into_its_launcher(tmp_path: Path):
    """A variable may name a library; it must not run before there is a session, a limit or a boundary around it."""
    ran = run_program(program("/usr/bin/true", env={"LD_PRELOAD": str(tmp_path / "not-there.so")}))
    assert ran.stderr.count("not-there.so") == 1


def test_its_input_is_closed_and_it_has_no_terminal_and_no_file_of_ours():
    ran = run_program(
        sh("cat; (: < /dev/tty) 2>/dev/null && echo tty; for fd in /proc/$$/fd/*; do echo ${fd##*/}; done")
    )
    assert ran.stdout.split() == ["0", "1", "2", "3"]  # the last is the listing itself


def test_it_is_the_leader_of_a_session_of_its_own():
    ran = run_program(py("import os; print(os.getsid(0) == os.getpid())"))
    assert ran.stdout == "True\n"


def test_signals_work_in_it_as_they_do_anywhere():
    """Python ignores SIGPIPE, and what is ignored is inherited: `yes | head` would complain or never end."""
    ran = run_program(sh("yes | head -1; echo ${PIPESTATUS[0]}"))
    assert (ran.stdout, ran.stderr) == ("y\n141\n", "")


@pytest.mark.parametrize(
    "start",
    [
        pytest.param("sleeper $1 &", id="in the background"),
        pytest.param("(sleeper $1 &)", id="its parent gone"),
        pytest.param("setsid bash -c 'sleeper $0' $1 &", id="in another session"),
        pytest.param("(setsid bash -c '(sleeper $0 &) &' $1 &)", id="twice forked in another session"),
    ],
)
@pytest.mark.parametrize("ends", [True, False], ids=["the program ends", "the program is ended"])
def test_nothing_that_it_starts_outlives_it(start: str, ends: bool, marker: str, tmp_path: Path):
    last = "exit 0" if ends else "sleep 100"
    script = f"rm -f ready\n{SLEEPER}\n{start}\n{READY}\necho started\n{last}"

    def run(seconds: float) -> ProcessResult:
        return run_program(sh(script, marker, cwd=tmp_path, seconds=seconds))

    ran = run(60) if ends else begun(run, 1, "started")
    assert ran.stdout == "started\n"
    assert ran.timed_out is not ends
    assert alive(marker) == []


def test_a_launcher_that_may_open_no_file_any_more_still_finds_what_was_started(marker: str, tmp_path: Path):
    script = """
import os, resource, sys
if not os.fork():
    os.setsid()
    if not os.fork():
        os.execvp("sh", ["sh", "-c", "touch ready; while :; do sleep 0.1; done", sys.argv[1]])
    os._exit(0)
while not os.path.exists("ready"): pass
resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))
"""
    ran = run_program(py(script, marker, cwd=tmp_path, seconds=30))
    assert (ran.status, ran.timed_out, ran.note) == (0, False, "")
    assert alive(marker) == []


def test_at_its_time_it_is_asked_to_end_and_its_last_words_are_kept():
    script = "trap 'echo bye; exit 3' TERM; echo hello; while :; do sleep 0.05; done"
    ran = begun(lambda seconds: run_program(sh(script, seconds=seconds)), 0.4, "hello")
    assert (ran.status, ran.stdout, ran.timed_out) == (3, "hello\nbye\n", True)


def test_what_will_not_end_is_ended_and_its_output_kept():
    script = "trap '' TERM; echo partial; while :; do sleep 0.05; done"
    ran = begun(lambda seconds: run_program(sh(script, seconds=seconds)), 0.4, "partial")
    assert (ran.status, ran.stdout, ran.timed_out) == (-9, "partial\n", True)


def test_what_stopped_itself_is_ended_too():
    ran = begun(lambda seconds: run_program(sh("echo partial; kill -STOP $$", seconds=seconds)), 0.4, "partial")
    assert (ran.stdout, ran.timed_out) == ("partial\n", True)
    assert ran.status in (-15, -9)
    script = "trap 'echo bye; exit 3' TERM; echo partial; kill -STOP $$; sleep 60"
    asked = begun(lambda seconds: run_program(sh(script, seconds=seconds)), 0.4, "partial")
    assert (asked.status, asked.stdout, asked.timed_out) == (3, "partial\nbye\n", True)


def test_leaving_with_0_when_asked_to_end_is_a_timeout_all_the_same():
    script = "trap 'exit 0' TERM; echo begun; while :; do sleep 0.05; done"
    ran = begun(lambda seconds: run_program(sh(script, seconds=seconds)), 0.4, "begun")
    assert (ran.status, ran.timed_out) == (0, True)


def test_one_that_closes_its_output_early_is_waited_for():
    ran = run_program(sh("exec >&- 2>&-; sleep 0.3; exit 7"))
    assert (ran.status, ran.timed_out) == (7, False)


@pytest.mark.parametrize("size", [100, 10_000_000, pytest.param(100_000_000, marks=pytest.mark.soak)])
def test_of_a_flood_the_head_and_the_tail_are_kept(size: int):
    ran = run_program(sh("echo first; head -c $1 /dev/zero | tr '\\0' x; echo; echo last", str(size), output=1000))
    assert ran.status == 0
    assert ran.stdout.startswith("first\n")
    assert ran.stdout.endswith("x\nlast\n")
    assert ran.left_out == max(0, size + 12 - 1000)
    assert len(ran.stdout) < 1100
    assert (f"[… {ran.left_out} bytes left out …]" in ran.stdout) is (size > 1000)


def test_what_is_left_out_is_not_kept_meanwhile():
    kept = process.HeadTailBuffer(1000)
    tracemalloc.start()
    try:
        for _ in range(320):
            kept.add(bytes(1 << 16))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert kept.left_out == 320 * (1 << 16) - 1000
    assert most < 1 << 20


def test_a_flood_without_end_is_ended_long_before_its_time():
    ran = run_program(program("yes", seconds=60, output=1000))
    assert ran.note == f"output: more than {process.MOST_OUTPUT >> 20} MiB"
    assert (ran.status, ran.timed_out) == (-9, False)
    assert ran.left_out > process.MOST_OUTPUT - 1000


@pytest.mark.parametrize("most", range(4, 24))
def test_a_character_cut_in_two_is_left_away(most: int):
    text = "aé漢🙂" * 20
    kept = process.HeadTailBuffer(most)
    for byte in text.encode():
        kept.add(bytes([byte]))
    assert "\ufffd" not in kept.text()
    head, tail = kept.text().split("\n[…")[0], kept.text().rsplit("…]\n")[-1]
    assert text.startswith(head)
    assert text.endswith(tail)


def test_bytes_that_are_no_text_are_shown_as_such():
    assert run_program(sh("printf 'a\\377b'")).stdout == "a\ufffdb"


@pytest.mark.parametrize(
    ("argv", "cwd", "env", "said"),
    [
        (("no-such-program",), "/", {}, "no-such-program: not found on PATH"),
        (("/etc/passwd",), "/", {}, "/etc/passwd: Permission denied"),
        (("/no/such/program",), "/", {}, "/no/such/program: No such file or directory"),
        (("true",), "/no/such/folder", {}, "/no/such/folder: No such file or directory"),
        ((), "/", {}, "there is nothing to run"),
        (("true", "a\0b"), "/", {}, "an argument or a variable holds a NUL, which no program can be given"),
        (("true",), "/", {"A=B": "c"}, "a variable has a name that can't be one"),
        (
            ("true", "\ud800"),
            "/",
            {},
            "an argument or a variable holds half a character, which no program can be given",
        ),
        (("true", "x" * 3_000_000), "/", {}, "true: Argument list too long"),
    ],
)
def test_what_can_not_start_says_why(argv: tuple[str, ...], cwd: str, env: dict[str, str], said: str):
    ran = run_program(ProgramSpec(argv, cwd, {"PATH": "/usr/bin:/bin", **env}))
    assert (ran.status, ran.note) == (None, said)


def test_many_at_once_are_run_a_few_at_a_time_in_order_and_too_many_are_turned_away(tmp_path: Path):
    gate = AdmissionGate(room=3, queue=5)
    notes: list[str] = []
    lock = threading.Lock()

    def go(number: int) -> None:
        ran = run_program(
            sh("exec 9>>log; flock 9; echo + >&9; flock -u 9; sleep 0.2; flock 9; echo - >&9", cwd=tmp_path), gate
        )
        with lock:
            notes.append(ran.note)

    threads = [threading.Thread(target=go, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    turned_away = [note for note in notes if note]
    assert set(turned_away) == {"busy: 3 programs run and 5 wait"}
    assert len(notes) == 20
    lines = (tmp_path / "log").read_text().split()
    inside = [lines[: at + 1].count("+") - lines[: at + 1].count("-") for at in range(len(lines))]
    assert max(inside) <= 3
    assert len(lines) == 2 * (20 - len(turned_away))


def test_a_gate_lets_in_who_came_first():
    gate = AdmissionGate(room=1, queue=10)
    order: list[int] = []

    def go(number: int) -> None:
        with gate.enter() as entered:
            assert entered
            order.append(number)

    with gate.enter():
        threads = []
        for number in range(8):
            threads.append(threading.Thread(target=go, args=(number,)))
            threads[-1].start()
            assert soon(lambda: len(gate._waiting) == len(threads))
    for thread in threads:
        thread.join()
    assert order == list(range(8))


@pytest.mark.soak
def test_two_hundred_requests_at_once_all_get_an_answer_and_leave_no_file_open():
    with ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(lambda number: run_program(sh("echo $1", str(number))), range(200)))
    for number, ran in enumerate(answers):
        assert ran.stdout == f"{number}\n" or ran.note.startswith("busy: ")


DYING = """
import sys
from metier.host.process import run_program
from metier.types.sandbox import ProgramSpec
print("ready", flush=True)
run_program(ProgramSpec(("bash", "-c", sys.argv[1], "bash", sys.argv[2]), ".", {"PATH": "/usr/bin:/bin"}))
"""


def test_when_whoever_started_it_is_killed_it_ends_with_all_it_started(marker: str, tmp_path: Path):
    killing = f"{SLEEPER}\n(setsid bash -c 'sleeper $0' $1 &)\n{READY}\nread -r _ _ _ parent _ < /proc/$PPID/stat\nkill -9 $parent\nsleep 100"
    done = python(DYING, killing, marker, cwd=tmp_path)
    assert done.stdout == "ready\n"
    assert soon(lambda: not alive(marker))

"""Run a program with limits: its own session, no input, bounded output and time, and no process left behind.

Killing a process group is not enough: a program can leave its group and outlive us.  So each program runs under
`launcher`, a subreaper that adopts every orphan and ends all of them.  A pipe to the launcher stays open as long as it
lives; the end of that pipe is the end of everything the program started.  This is no sandbox: `sandbox` adds one.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from json import dumps, loads
from typing import Any, NamedTuple

from ..types.sandbox import ProcessResult, ProgramSpec, SandboxTier
from .facts import monotonic

# --- Stopping early ---


def _never_stop() -> bool:
    return False


_current_check: ContextVar[Callable[[], bool]] = ContextVar("metier_stopped", default=_never_stop)


@contextlib.contextmanager
def stop_programs_when(stopped: Callable[[], bool]) -> Iterator[None]:
    """End the programs that are started in the block as soon as `stopped`, or an enclosing block's, is true."""
    outer = _current_check.get()
    token = _current_check.set(stopped if outer is _never_stop else lambda: stopped() or outer())
    try:
        yield
    finally:
        _current_check.reset(token)


def stop_check() -> Callable[[], bool]:
    """The current check, for use in other threads."""
    return _current_check.get()


# --- Watching output ---

_output_watcher: ContextVar[Callable[[bytes], None] | None] = ContextVar("metier_output", default=None)


@contextlib.contextmanager
def watch_program_output(watcher: Callable[[bytes], None]) -> Iterator[None]:
    """Call `watcher` with what the programs that are started in the block print, as they print it."""
    token = _output_watcher.set(watcher)
    try:
        yield
    finally:
        _output_watcher.reset(token)


# --- Following a program to its end ---

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
PATIENCE = 5.0
"""Seconds to wait after SIGKILL before giving up."""
MOST_OUTPUT = 256 << 20
"""Bytes of output after which a program is killed."""
_TICK = 0.1
_CHUNK = 1 << 16


class SpawnedProcess(NamedTuple):
    """A running program and how to control it."""

    process: subprocess.Popen[bytes]
    streams: tuple[int, ...]
    """Its output, and its errors if they are separate."""
    report: int
    """A pipe that closes when the program and all it started have ended."""
    term: Callable[[], None]
    kill: Callable[[], None]
    heard: Callable[[bytes], None]
    """Called with everything read from `report` so far, whenever more comes."""
    watch: Callable[[], str]
    """Why the program has to be killed now; empty if it does not."""


class ProcessCapture(NamedTuple):
    """The output of a program and how it ended."""

    texts: tuple[str, ...]
    left_out: int
    report: bytes
    timed_out: bool
    reason: str
    """Why it was killed early; empty if it was not."""


class HeadTailBuffer:
    """Keeps the head and the tail of a stream, and counts what was between them."""

    def __init__(self, most: int) -> None:
        self._head_size = most - most // 2
        self._tail_size = most // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Trimmed a chunk at a time: to cut on every piece would be quadratic.
        if len(self._tail) > self._tail_size + _CHUNK:
            self._trim()

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_size)]

    @property
    def left_out(self) -> int:
        self._trim()
        return self.total - len(self._head) - len(self._tail)

    def text(self) -> str:
        """As text, with a line that says how much is missing; characters cut in two are dropped."""
        missing = self.left_out
        if not missing:
            return (self._head + self._tail).decode(errors="replace")
        head, tail = bytes(self._head), bytes(self._tail)
        return f"{_decode_trimmed_end(head)}\n[… {missing} bytes left out …]\n{_decode_trimmed_start(tail)}"


def _decode_trimmed_end(data: bytes) -> str:
    """Decode without an incomplete UTF-8 character at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            if byte >= 0xC0 and back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4):
                data = data[:-back]
            break
    return data.decode(errors="replace")


def _decode_trimmed_start(data: bytes) -> str:
    """Decode without an incomplete UTF-8 character at the start."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode(errors="replace")


class _TerminationSequence:
    """SIGTERM at the deadline, SIGKILL after the grace, giving up after the patience."""

    def __init__(self, spawned: SpawnedProcess, seconds: float, grace: float) -> None:
        self._spawned = spawned
        self._grace = grace
        self._unwanted = stop_check()
        self.next = monotonic() + seconds
        self._steps: list[Callable[[], None]] = [self._ask, self._end]
        self.timed_out = False
        self.reason = ""
        self.over = False

    def tick(self) -> None:
        if not self.reason and (reason := "interrupted" if self._unwanted() else self._spawned.watch()):
            self.stop(reason)
        if monotonic() >= self.next:
            if not self._steps:
                self.over = True
                self.reason = self.reason or "it could not be killed"
                return
            self.timed_out = self.timed_out or not self.reason
            self._steps.pop(0)()

    def stop(self, reason: str) -> None:
        """Kill it without the grace: it exceeded a limit or is unwanted."""
        self.reason = reason
        self._steps = [self._end]
        self.next = 0.0

    def _ask(self) -> None:
        self._spawned.term()
        self.next = monotonic() + self._grace

    def _end(self) -> None:
        self._spawned.kill()
        self.next = monotonic() + PATIENCE


def follow_process(spawned: SpawnedProcess, seconds: float, keep: int, grace: float = GRACE) -> ProcessCapture:
    """Read until everything has ended.  Leaves no process and no open pipe, whatever is raised."""
    termination = _TerminationSequence(spawned, seconds, grace)
    buffers = [HeadTailBuffer(keep) for _ in spawned.streams]
    report = bytearray()
    try:
        with selectors.DefaultSelector() as selector:
            for at, stream in enumerate(spawned.streams):
                selector.register(stream, selectors.EVENT_READ, at)
            selector.register(spawned.report, selectors.EVENT_READ, -1)
            _read_streams(selector, termination, buffers, report, spawned.heard)
    finally:
        _reap_process(spawned, termination)
    texts = tuple(buffer.text() for buffer in buffers)
    left_out = sum(buffer.left_out for buffer in buffers)
    return ProcessCapture(texts, left_out, bytes(report), termination.timed_out, termination.reason)


def _read_streams(
    selector: selectors.BaseSelector,
    termination: _TerminationSequence,
    buffers: list[HeadTailBuffer],
    report: bytearray,
    heard: Callable[[bytes], None],
) -> None:
    watcher = _output_watcher.get()
    while selector.get_map() and not termination.over:
        # Wakes at every tick: the stop check and the limit watch must run while a program prints nothing.
        for key, _ in selector.select(max(0.0, min(_TICK, termination.next - monotonic()))):
            data = os.read(key.fd, _CHUNK)
            if not data:
                selector.unregister(key.fd)
                if key.data < 0:  # all has ended; something else may hold the pipes open, so drain them only so long
                    termination.next = min(termination.next, monotonic() + PATIENCE)
            elif key.data < 0:
                report += data
                heard(bytes(report))
            else:
                buffers[key.data].add(data)
                if watcher is not None:
                    watcher(data)
                if not termination.reason and sum(buffer.total for buffer in buffers) > MOST_OUTPUT:
                    termination.stop(f"output: more than {MOST_OUTPUT >> 20} MiB")
        termination.tick()


def _reap_process(spawned: SpawnedProcess, termination: _TerminationSequence) -> None:
    """Reap the process, killing it first if it still runs, and close the pipes."""
    if spawned.process.poll() is None:
        try:
            # Its pipe closes a moment before it can be reaped.
            spawned.process.wait(0 if termination.over else 0.5)
        except subprocess.TimeoutExpired:
            spawned.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                spawned.process.wait(PATIENCE)
            spawned.process.kill()
            spawned.process.wait()
    for opened in (*spawned.streams, spawned.report):
        os.close(opened)


# --- Admission: how many run at once ---


class AdmissionGate:
    """Admits at most `room` at once, first come first served; at most `queue` wait."""

    def __init__(self, room: int, queue: int) -> None:
        self.room = room
        self.queue = queue
        self._inside = 0
        self._waiting: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def enter(self) -> Iterator[bool]:
        """Wait for a turn; False if the queue is full."""
        turn = self._ask()
        if turn is None:
            yield False
            return
        try:
            turn.wait()
            yield True
        finally:
            self._leave(turn)

    def _ask(self) -> threading.Event | None:
        with self._lock:
            turn = threading.Event()
            if self._inside < self.room:
                self._inside += 1
                turn.set()
            elif len(self._waiting) >= self.queue:
                return None
            else:
                self._waiting.append(turn)
            return turn

    def _leave(self, turn: threading.Event) -> None:
        with self._lock:
            if not turn.is_set():  # interrupted while it waited
                self._waiting.remove(turn)
            elif self._waiting:
                self._waiting.popleft().set()
            else:
                self._inside -= 1


# Programs mostly wait, so there may be more than processors; the queue bounds what a runaway caller piles up.
PROGRAM_GATE = AdmissionGate(room=max(8, 2 * (os.cpu_count() or 1)), queue=128)
"""The gate for all programs of this process."""

# --- Regular expressions from skills and evals ---

# Isolated, without site packages and environment: nothing of the user's runs in it.
_SEARCH_SCRIPT = """
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
pattern, text = json.load(sys.stdin)
found = re.search(pattern, text, re.MULTILINE)
print(json.dumps(found and found[0][:500]))
"""


class PatternResult(NamedTuple):
    found: str | None
    """The start of the match; None if there is none."""
    fault: str = ""
    """Why the search failed."""


def search_pattern(pattern: str, text: str, seconds: float = 2.0) -> PatternResult:
    """The first match in a text, searched in another process: `re` can't be interrupted once it backtracks."""
    try:
        completed = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _SEARCH_SCRIPT],
            input=dumps([pattern, text]),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            env={},
            encoding="ascii",
            check=True,
        )
    except subprocess.TimeoutExpired:
        return PatternResult(None, f"the regular expression takes longer than {seconds:g} s")
    except (subprocess.CalledProcessError, OSError):
        return PatternResult(None, "the regular expression can't be searched for")
    return PatternResult(loads(completed.stdout))


# --- Launching ---

# Imported, not run by its path: only then does Python cache the bytecode.
_LAUNCH_SCRIPT = "import sys; sys.path.append(sys.argv[1]); import launcher"


class Confinement(NamedTuple):
    """What the launcher applies to a program before it starts."""

    limits: tuple[tuple[int, int], ...] = ()
    landlock: Mapping[str, Any] | None = None
    seccomp: bytes = b""
    broker: Mapping[str, Any] | None = None
    """What `broker` writes in the program's place, for calls that its sandbox refuses."""
    uid: int = 0
    capabilities: int = 0
    tier: SandboxTier = "none"
    watch: Callable[[int], str] = lambda pid: ""
    """Called often with the launcher's process id; why everything beneath it has to be killed, or empty."""
    joins: tuple[str, ...] = ()
    """The `cgroup.procs` files that the program joins."""


def run_program(program: ProgramSpec, gate: AdmissionGate = PROGRAM_GATE) -> ProcessResult:
    """Run a program and wait.  Failures are in the result; nothing it started outlives it."""
    return run_admitted(gate, lambda: launch_program(program, Confinement()))


def run_admitted(gate: AdmissionGate, start: Callable[[], ProcessResult]) -> ProcessResult:
    """Call `start` once the gate admits it."""
    with gate.enter() as entered:
        if entered:
            return start()
    return ProcessResult(None, "", note=f"busy: {gate.room} programs run and {gate.queue} wait")


def find_program(name: str, path: str, cwd: str) -> str:
    """The file that a program's name means; empty if there is none."""
    if "/" in name:
        return os.path.abspath(os.path.join(cwd, name))
    return next(executables_on_path(name, path, cwd), "")


def executables_on_path(name: str, path: str, cwd: str) -> Iterator[str]:
    """Every executable file of that name on PATH; relative folders are taken from the program's working folder."""
    for folder in path.split(os.pathsep):
        candidate = os.path.join(cwd, folder, name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            yield candidate


def unrunnable_reason(program: ProgramSpec) -> str:
    """Why no system could start this program; empty if one could."""
    values = [*program.argv, program.cwd, *program.env.keys(), *program.env.values()]
    if not program.argv or not program.argv[0]:
        return "there is nothing to run"
    if any("\0" in value for value in values):
        return "an argument or a variable holds a NUL, which no program can be given"
    if any(not name or "=" in name for name in program.env):
        return "a variable has a name that can't be one"
    try:
        os.fsencode("".join(values))
    except UnicodeEncodeError:
        return "an argument or a variable holds half a character, which no program can be given"
    return ""


def launch_program(program: ProgramSpec, confinement: Confinement) -> ProcessResult:
    """Run a program under the launcher."""
    if why := unrunnable_reason(program):
        return ProcessResult(None, "", note=why)
    executable = find_program(program.argv[0], program.env.get("PATH", os.defpath), program.cwd)
    if not executable:
        return ProcessResult(None, "", note=f"{program.argv[0]}: not found on PATH")
    try:
        spawned = _spawn_launcher(program, executable, confinement)
    except OSError as error:
        return ProcessResult(None, "", note=f"it can't be started: {error.strerror}")
    return _process_result(follow_process(spawned, program.seconds, program.output), confinement.tier)


def _spawn_launcher(program: ProgramSpec, executable: str, confinement: Confinement) -> SpawnedProcess:
    with contextlib.ExitStack() as undo:
        report, report_end = _open_pipe(undo)
        output, written = _open_pipe(undo)
        errors, complained = (-1, written) if program.merged else _open_pipe(undo)
        process = subprocess.Popen(
            [_launcher_python(), "-I", "-S", "-c", _LAUNCH_SCRIPT, os.path.dirname(os.path.abspath(__file__))],
            stdin=subprocess.PIPE,
            stdout=written,
            stderr=complained,
            env={},
            cwd="/",
            pass_fds=(report_end,),
            start_new_session=True,
        )
        spawned = SpawnedProcess(
            process,
            (output,) if program.merged else (output, errors),
            report,
            lambda: process.send_signal(signal.SIGTERM),
            lambda: process.send_signal(signal.SIGUSR1),  # the launcher kills all; SIGKILL would leave orphans
            lambda report: None,
            lambda: confinement.watch(process.pid),
        )
        undo.callback(process.wait)
        undo.callback(process.kill)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            # `marshal` is built in: the launcher starts faster than with `json`.
            pipe.write(marshal.dumps(_launch_plan(program, executable, confinement, report_end)))
        undo.pop_all()
        for opened in {report_end, written, complained}:
            os.close(opened)
        return spawned


def _launcher_python() -> str:
    """An interpreter for the launcher: ours, or the system's if the current user may not execute ours."""
    return sys.executable if os.access(sys.executable or "/", os.X_OK) and sys.executable else "/usr/bin/python3"


def _open_pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        undo.callback(os.close, end)
    return ends


def _launch_plan(program: ProgramSpec, executable: str, confinement: Confinement, report: int) -> dict[str, object]:
    return {
        "report": report,
        "parent": os.getpid(),
        "program": os.fsencode(executable),
        "argv": [os.fsencode(argument) for argument in program.argv],
        "env": {os.fsencode(name): os.fsencode(value) for name, value in program.env.items()},
        "cwd": os.path.abspath(program.cwd),
        "limits": list(confinement.limits),
        "joins": list(confinement.joins),
        "landlock": dict(confinement.landlock) if confinement.landlock else None,
        "seccomp": confinement.seccomp,
        "broker": dict(confinement.broker) if confinement.broker else None,
        "uid": confinement.uid,
        "capabilities": confinement.capabilities,
    }


def _process_result(followed: ProcessCapture, tier: SandboxTier) -> ProcessResult:
    outcome, _, detail = followed.report.partition(b" ")
    texts = (*followed.texts, "")
    status = int(detail) if outcome == b"status" else None
    notes = [followed.reason]
    if outcome == b"failed":
        notes.append(detail.decode(errors="replace"))
    elif status is None and not followed.reason:
        notes.append("it was killed from outside")
    note = "; ".join(filter(None, notes))
    return ProcessResult(status, texts[0], texts[1], followed.timed_out, followed.left_out, tier, note)

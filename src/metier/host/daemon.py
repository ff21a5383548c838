"""What long-running processes need of the system: a lock that names its holder, signals, children, systemd, stdio."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from ..types.errors import Refused
from .fs import make_folder, open_lock, try_flock
from .launcher import iter_descendants

_MAIN = "metier"


# --- This process and its children ---


def start_metier(arguments: Sequence[str], cwd: str, env: Mapping[str, str]) -> bool:
    """Start a metier command detached from this process and its terminal; False if it can't be started."""
    argv = [sys.executable, "-P", "-m", _MAIN, *arguments]  # -P: nothing is imported from its working folder
    quiet = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            argv, cwd=cwd, env=dict(env), stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )
    except OSError:
        return False
    threading.Thread(target=process.wait, name="metier-apart", daemon=True).start()  # so that it leaves no zombie
    return True


def kill_children() -> int:
    """Kill every descendant of this process; how many there were."""
    pids = list(iter_descendants(os.getpid()))
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


_before_exit: list[Callable[[], None]] = []


def before_exit(work: Callable[[], None]) -> None:
    """Do this before `exit_now`, which skips what `atexit` has; it must not take long."""
    _before_exit.append(work)


def exit_now(code: int) -> NoReturn:
    """Exit at once, without waiting for threads that ignore a stop."""
    for work in _before_exit:
        work()
    os._exit(code)


def host_name() -> str:
    return socket.gethostname()


def current_pid() -> int:
    return os.getpid()


# --- The lock of a daemon ---


class LockHolder(NamedTuple):
    """The process that holds a lock; its start time tells it from a later process with the same id."""

    pid: int
    began: str


def _process_start_time(pid: int) -> str:
    """The start time of a process in clock ticks since boot; empty if unknown."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            # After the name in parentheses, which may hold spaces: field 22 of the line is the 20th of these.
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@contextlib.contextmanager
def hold_daemon_lock(
    path: str, taken: str = "a daemon is already running", hint: str = "`metier daemon stop` stops it"
) -> Iterator[None]:
    """Hold the lock during the block; refused, naming the holder, if another process has it."""
    make_folder(os.path.dirname(path))
    opened = open_lock(path)
    try:
        if not try_flock(opened):
            holder = _read_holder(opened)
            process = f"process {holder.pid}" if holder else "another process"
            raise Refused(f"{taken}: {process}", hint)
        os.ftruncate(opened, 0)
        os.pwrite(opened, json.dumps([os.getpid(), _process_start_time(os.getpid())]).encode(), 0)
        yield
        os.ftruncate(opened, 0)
    finally:
        os.close(opened)


def _read_holder(opened: int) -> LockHolder | None:
    try:
        pid, began = json.loads(os.pread(opened, 1_000, 0))
        return LockHolder(int(pid), str(began))
    except (ValueError, TypeError, OSError):
        return None


def current_holder(path: str) -> LockHolder | None:
    """The process that holds a lock now; None if it is free, or if the file names a process that is gone."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if try_flock(opened, shared=True):
            return None
        recorded = _read_holder(opened)
        return recorded if recorded and _process_start_time(recorded.pid) == recorded.began else None
    finally:
        os.close(opened)


def stop_lock_holder(holder: LockHolder, seconds: float) -> bool:
    """Send SIGTERM to the holder and wait; whether it is gone."""
    if _process_start_time(holder.pid) != holder.began:
        return True
    with contextlib.suppress(ProcessLookupError):
        os.kill(holder.pid, signal.SIGTERM)
    # A process that ended stays as a zombie until its parent reaps it.
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if _process_start_time(holder.pid) != holder.began or _is_zombie(holder.pid):
            return True
        time.sleep(0.05)
    return False


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


# --- Signals and systemd ---


class DaemonSignals:
    """SIGTERM and SIGINT ask to stop, a second one to stop now; SIGHUP asks to look for work."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.now = threading.Event()
        self.wake = threading.Event()

    def listen(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, lambda *_: self.wake.set())

    def _on_stop(self, *_: object) -> None:
        # Called from a signal, so only events are set: no locks, no output.
        if self.stop.is_set():
            self.now.set()
        self.stop.set()
        self.wake.set()


def notify_systemd(message: str) -> None:
    """Send a state change to systemd, if it started us (see sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
        speaker.sendto(message.encode(), address)


# --- Standard input and output as a wire ---

_PART = 65_536


@dataclass
class StdioTransport:
    """Lines over two descriptors, with what was read beyond the last line."""

    read_from: int
    write_to: int
    longest: int
    wake: tuple[int, int]
    """A pipe: a byte written to it ends the wait for a line."""
    held: bytearray = field(default_factory=bytearray)
    skipping: bool = False

    def line(self) -> bytes | None:
        """The next line without its end, None at the end of input; ValueError for a line that is too long, once."""
        while True:
            end = self.held.find(b"\n")
            if end >= 0:
                line = bytes(self.held[:end])
                del self.held[: end + 1]
                if not self.skipping:
                    return line
                self.skipping = False
                continue
            if len(self.held) > self.longest or self.skipping:
                self.held.clear()
                if not self.skipping:
                    self.skipping = True
                    raise ValueError("too long")
            part = os.read(self.read_from, _PART) if self._waited() else b""
            if not part:
                remainder, self.held = bytes(self.held), bytearray()
                return remainder if remainder and not self.skipping else None
            self.held += part

    def _waited(self) -> bool:
        """Wait; True if there is something to read, False if `stop` was called."""
        waiting = select.poll()
        waiting.register(self.read_from, select.POLLIN)
        waiting.register(self.wake[0], select.POLLIN)
        return self.wake[0] not in [number for number, _ in waiting.poll()]

    def stop(self) -> None:
        """Make a waiting `line` return None."""
        os.write(self.wake[1], b".")

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.write_to, view) :]


def claim_stdio(longest: int) -> tuple[StdioTransport, Callable[[], None]]:
    """Take over standard input and output as a wire; also returns a function that gives them back.

    Until then, reads of standard input find its end, and prints go to standard error: a stray print must not corrupt
    the protocol.
    """
    wire = StdioTransport(os.dup(0), os.dup(1), longest, os.pipe())
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)

    def give_back() -> None:
        os.dup2(wire.read_from, 0)
        os.dup2(wire.write_to, 1)
        os.close(wire.write_to)

    return wire, give_back

"""What a daemon asks of the system: a lock that names its holder, signals, its children, and the service keeper."""

from __future__ import annotations

import contextlib
import fcntl
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
from typing import NamedTuple

from ..types.errors import HostError, Refused
from .fs import make_folder

_MAIN = "metier"


def start_metier(arguments: Sequence[str], cwd: str, env: Mapping[str, str]) -> bool:
    """Begin a command of metier's own, apart from this process and its terminal; False where it can't be begun."""
    argv = [sys.executable, "-P", "-m", _MAIN, *arguments]  # -P: nothing in the folder it stands in is imported
    quiet = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            argv, cwd=cwd, env=dict(env), stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )
    except OSError:
        return False
    threading.Thread(target=process.wait, name="metier-apart", daemon=True).start()  # so that it leaves no trace
    return True


class LockHolder(NamedTuple):
    """Who holds a lock: a process, told apart from a later one of the same number by when it began."""

    pid: int
    began: str


def _process_start_time(pid: int) -> str:
    """When a process began, in the system's own count; empty where nobody has that number or nobody tells."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@contextlib.contextmanager
def hold_daemon_lock(path: str) -> Iterator[None]:
    """Hold a lock for as long as the block runs; refuse, naming the holder, when another process has it."""
    make_folder(os.path.dirname(path))
    try:
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise HostError(f"{path} can't be locked: {error.strerror}", "check its permissions", path) from error
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_holder(opened)
            who = f"process {holder.pid}" if holder else "another process"
            raise Refused(f"a daemon runs already: {who}", "`metier daemon stop` ends it") from None
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
    """Who holds a lock now.  What a file says of a process that is gone, or of another of its number, is nobody."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        recorded = _read_holder(opened)
        return recorded if recorded and _process_start_time(recorded.pid) == recorded.began else None
    finally:
        os.close(opened)


def stop_lock_holder(who: LockHolder, seconds: float) -> bool:
    """Send SIGTERM to that very process and wait; whether it is gone."""
    if _process_start_time(who.pid) != who.began:
        return True
    with contextlib.suppress(ProcessLookupError):
        os.kill(who.pid, signal.SIGTERM)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if _process_start_time(who.pid) != who.began or _is_zombie(who.pid):
            return True
        time.sleep(0.05)
    return False


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


class DaemonSignals:
    """SIGTERM and SIGINT ask to stop, a second one means now; SIGHUP asks to look again."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.now = threading.Event()
        self.wake = threading.Event()

    def listen(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked)
        signal.signal(signal.SIGHUP, lambda *_: self.wake.set())

    def _asked(self, *_: object) -> None:
        if self.stop.is_set():
            self.now.set()
        self.stop.set()
        self.wake.set()


def notify_systemd(message: str) -> None:
    """A word to the service keeper (systemd), where there is one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
        speaker.sendto(message.encode(), address)


def kill_children() -> int:
    """End every process that descends from this one; how many there were."""
    pids = list(_iter_descendants(os.getpid()))
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


def _iter_descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                for child in file.read().split():
                    yield from _iter_descendants(int(child))
                    yield int(child)


def exit_now(code: int) -> None:
    """End this process at once: threads that do not listen are not waited for."""
    os._exit(code)


def host_name() -> str:
    return socket.gethostname()


def current_pid() -> int:
    return os.getpid()


def random_token(size: int = 4) -> str:
    return os.urandom(size).hex()


_PART = 65_536


@dataclass
class StdioTransport:
    """Two descriptors, and what was read beyond the last line."""

    read_from: int
    write_to: int
    longest: int
    wake: tuple[int, int]
    """A pipe: what is written on it ends the waiting for a line."""
    held: bytearray = field(default_factory=bytearray)
    skipping: bool = False

    def line(self) -> bytes | None:
        """The next line without its end; None at the end.  Of one that is too long, ValueError, and no byte is kept."""
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
        """True when there is something to read; False when the waiting was ended."""
        waiting = select.poll()
        waiting.register(self.read_from, select.POLLIN)
        waiting.register(self.wake[0], select.POLLIN)
        return self.wake[0] not in [number for number, _ in waiting.poll()]

    def stop(self) -> None:
        """Let whoever waits for a line find the end."""
        os.write(self.wake[1], b".")

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.write_to, view) :]


def claim_stdio(longest: int) -> tuple[StdioTransport, Callable[[], None]]:
    """Take standard input and output for a wire, and give the way back.

    In the meantime whoever reads the one finds nothing, and what is printed on the other goes to standard error.
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

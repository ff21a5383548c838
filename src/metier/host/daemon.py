"""What a daemon asks of the system: a lock that names its holder, signals, its children, and the service keeper."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from ..types.errors import HostError, Refused
from .state import make_folder


class Holder(NamedTuple):
    """Who holds a lock: a process, told apart from a later one of the same number by when it began."""

    pid: int
    began: str


def _began(pid: int) -> str:
    """When a process began, in the system's own count; empty where nobody has that number or nobody tells."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@contextlib.contextmanager
def held(path: str) -> Iterator[None]:
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
            holder = _read(opened)
            who = f"process {holder.pid}" if holder else "another process"
            raise Refused(f"a daemon runs already: {who}", "`metier daemon stop` ends it") from None
        os.ftruncate(opened, 0)
        os.pwrite(opened, json.dumps([os.getpid(), _began(os.getpid())]).encode(), 0)
        yield
        os.ftruncate(opened, 0)
    finally:
        os.close(opened)


def _read(opened: int) -> Holder | None:
    try:
        pid, began = json.loads(os.pread(opened, 1_000, 0))
        return Holder(int(pid), str(began))
    except (ValueError, TypeError, OSError):
        return None


def holder(path: str) -> Holder | None:
    """Who holds a lock now.  What a file says of a process that is gone, or of another of its number, is nobody."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        found = _read(opened)
        return found if found and _began(found.pid) == found.began else None
    finally:
        os.close(opened)


def ask_to_stop(who: Holder, seconds: float) -> bool:
    """Send SIGTERM to that very process and wait; whether it is gone."""
    if _began(who.pid) != who.began:
        return True
    with contextlib.suppress(ProcessLookupError):
        os.kill(who.pid, signal.SIGTERM)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if _began(who.pid) != who.began or _is_zombie(who.pid):
            return True
        time.sleep(0.05)
    return False


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


class Signals:
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


def tell_keeper(message: str) -> None:
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
    found = list(_descendants(os.getpid()))
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def _descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                for child in file.read().split():
                    yield from _descendants(int(child))
                    yield int(child)


def leave(code: int) -> None:
    """End this process at once: threads that do not listen are not waited for."""
    os._exit(code)


def machine() -> str:
    return socket.gethostname()


def pid() -> int:
    return os.getpid()


def unguessable(size: int = 4) -> str:
    return os.urandom(size).hex()

"""Keep a program within its limits: a control group where one can be made, and a look now and then everywhere."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import resource
import signal
import threading
from collections.abc import Iterator
from typing import NamedTuple

from ...types.running import Limits
from ..clock import monotonic, sleep
from ..launch import beneath

_ROOT = "/sys/fs/cgroup"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOW = 256 << 20
"""Bytes that stay free on a disk, whoever fills it."""
_OFTEN = 0.1
_SOON = 0.005
_LEAVING = 2.0
"""Seconds that the end of this process waits for a group that is not empty yet."""
_BACKSTOP = 2 << 30
"""Bytes above the limit at which the kernel refuses a process more, should the watch be late."""
_FILES = 256
"""Open files of a process that no group holds: what lies in its sockets is the kernel's memory, and nobody's."""
_SPARE = 32
"""More processes than the limit, so that the watch sees one too many before the kernel refuses it."""


class Group(NamedTuple):
    """A control group for one program at a time: the same folder twice where one hierarchy rules both."""

    memory: str
    processes: str
    modern: bool

    def hold(self, limits: Limits) -> None:
        """Set what it may use."""
        _write(f"{self.memory}/{'memory.max' if self.modern else 'memory.limit_in_bytes'}", limits.memory)
        if self.modern:
            with contextlib.suppress(OSError):  # not every kernel counts swap
                _write(f"{self.memory}/memory.swap.max", 0)
        _write(f"{self.processes}/pids.max", limits.processes)

    @property
    def lists(self) -> tuple[str, ...]:
        """The files that take a process into it, and so all that it starts."""
        return tuple(f"{folder}/cgroup.procs" for folder in dict.fromkeys(self[:2]))

    def add(self, pid: int) -> None:
        for path in self.lists:
            _write(path, pid)

    def hits(self) -> tuple[int, int]:
        """How often memory ran out, and how often there were too many processes, since it was made."""
        return (
            _counted(f"{self.memory}/{'memory.events' if self.modern else 'memory.oom_control'}", "oom_kill"),
            _counted(f"{self.processes}/pids.events", "max"),
        )

    def clear(self) -> None:
        """End whatever is still in it: a program that ended its launcher is found here, whatever else it did."""
        until = monotonic() + _LEAVING
        while (pids := self._members()) and monotonic() < until:
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            sleep(_SOON)

    def _members(self) -> set[int]:
        """Those that have a number here; 0 stands for one that has none, and would mean ourselves."""
        found = {int(word) for path in self.lists for word in _read(path).split()}
        return {pid for pid in found if pid > 0}

    def remove(self, wait: float = 0) -> None:
        """Take it away, waiting for what is still ending inside it: a killed process leaves its group a bit later."""
        until = monotonic() + wait
        for folder in dict.fromkeys(self[:2]):
            while not _removed(folder) and monotonic() < until:
                sleep(_SOON)


_lock = threading.Lock()
_idle: list[Group] = []
_numbers = itertools.count()


@contextlib.contextmanager
def group(limits: Limits, allowed: bool = True) -> Iterator[Group | None]:
    """A control group that holds these limits; None where none can be made."""
    one = _taken() if allowed else None
    if one is None:
        yield None
        return
    try:
        one.hold(limits)
    except OSError:
        one.remove()
        yield None
        return
    try:
        yield one
    finally:
        one.clear()
        with _lock:
            _idle.append(one)


def _taken() -> Group | None:
    """One that is free, or a new one: making them is slow, so they are kept until the process ends."""
    with _lock:
        if _idle:
            return _idle.pop()
        number = next(_numbers)
    folders = _folders()
    if folders is None:
        return None
    if number == 0:
        atexit.register(_remove_all)
        _sweep(folders)
    name = f"metier-{os.getpid()}-{number}"
    one = Group(f"{folders.memory}/{name}", f"{folders.processes}/{name}", folders.modern)
    try:
        for folder in dict.fromkeys(one[:2]):
            os.mkdir(folder)
    except OSError:
        one.remove()
        return None
    return one


def _removed(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remove_all() -> None:
    while _idle:
        _idle.pop().remove(wait=_LEAVING)


def _sweep(folders: Group) -> None:
    """Remove what a process that was killed left behind."""
    for folder in dict.fromkeys(folders[:2]):
        for name in os.listdir(folder):
            word, _, rest = name.partition("-")
            pid = rest.partition("-")[0]
            if word == "metier" and pid.isdecimal() and not os.path.exists(f"/proc/{pid}"):
                with contextlib.suppress(OSError):
                    os.rmdir(f"{folder}/{name}")


def _folders() -> Group | None:
    """Where groups can be made: one tree of them on newer systems, one for each kind of limit on older ones."""
    if os.path.exists(f"{_ROOT}/cgroup.controllers"):
        given = _read(f"{_ROOT}/cgroup.subtree_control").split()
        fits = "memory" in given and "pids" in given and os.access(_ROOT, os.W_OK)
        return Group(_ROOT, _ROOT, True) if fits else None
    memory, processes = f"{_ROOT}/memory", f"{_ROOT}/pids"
    fits = all(os.path.isdir(folder) and os.access(folder, os.W_OK) for folder in (memory, processes))
    return Group(memory, processes, False) if fits else None


def _write(path: str, value: int) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(opened, b"%d" % value)
    finally:
        os.close(opened)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _counted(path: str, word: str) -> int:
    for line in _read(path).splitlines():
        name, _, value = line.partition(" ")
        if name == word:
            return int(value)
    return 0


def rlimits(limits: Limits, held: Group | None, processes: int) -> tuple[tuple[int, int], ...]:
    """The limits that each process carries.  `processes` is 0 where the kernel would not keep to it."""
    files = 1024 if held else _FILES
    found = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, limits.file), (resource.RLIMIT_NOFILE, files)]
    if held is None:
        found.append((resource.RLIMIT_DATA, limits.memory + _BACKSTOP))
        if processes:
            found.append((resource.RLIMIT_NPROC, processes + _SPARE))
    return tuple(found)


class Watch:
    """Looks, not too often, at what a process and all beneath it use, and says which limit was passed."""

    def __init__(self, limits: Limits, held: Group | None, work: str, writable: tuple[str, ...] = ()) -> None:
        self._limits = limits
        self._held = held
        self._before = held.hits() if held else (0, 0)
        self._work = work
        folders = [folder for folder in (work, *writable) if folder and os.path.isdir(folder)]
        self._disks = [(folder, os.statvfs(folder)) for folder in folders]
        self._due = monotonic() + _OFTEN

    def __call__(self, pid: int) -> str:
        if monotonic() < self._due:
            return ""
        self._due = monotonic() + _OFTEN
        used = self.afterwards() or _use(pid, self._limits)  # a group may fail us, and then it is the machine's end
        return used or _disk_use(self._disks, self._work, self._limits, pid)

    def afterwards(self) -> str:
        """Which limit the control group saw passed; that can be asked when all is over."""
        return _group_use(self._held, self._before, self._limits) if self._held else ""


def _group_use(held: Group, before: tuple[int, int], limits: Limits) -> str:
    memory, processes = held.hits()
    if memory > before[0]:
        return _oom(limits)
    return _many(limits) if processes > before[1] else ""


def _oom(limits: Limits) -> str:
    return f"oom: more than {limits.memory >> 20} MiB of memory"


def _many(limits: Limits) -> str:
    return f"processes: more than {limits.processes}"


def _use(pid: int, limits: Limits) -> str:
    pids = []
    threads = resident = 0
    for one in beneath(pid):
        pids.append(one)
        with contextlib.suppress(OSError):
            threads += len(os.listdir(f"/proc/{one}/task"))
        if threads > limits.processes:  # at once: there may be a great many
            return _many(limits)
        pages = _read(f"/proc/{one}/statm").split()
        resident += int(pages[1]) * _PAGE if pages else 0
    sockets = _sockets(pids) * _socket_size()
    if resident + sockets > limits.memory and _proportional(pids) + sockets > limits.memory:
        return _oom(limits)
    return ""


def _proportional(pids: list[int]) -> int:
    """Bytes in memory, what is shared counted once: slower to learn, so only asked when it matters."""
    total = 0
    for one in pids:
        for line in _read(f"/proc/{one}/smaps_rollup").splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) << 10
    return total


def _sockets(pids: list[int]) -> int:
    """How many sockets they hold: what waits in one counts as nobody's memory."""
    found = set()
    for path in _opened(pids):
        with contextlib.suppress(OSError):
            if (name := os.readlink(path)).startswith("socket:"):
                found.add(name)
    return len(found)


@functools.cache
def _socket_size() -> int:
    """The most that waits in a socket: the filter lets nobody make it more."""
    return int(_read("/proc/sys/net/core/wmem_default") or 1 << 18)


def _deleted(pids: list[int], device: int) -> int:
    """Bytes of files that have no name any more and go on for as long as they are open."""
    found = {}
    for path in _opened(pids):
        with contextlib.suppress(OSError):
            one = os.stat(path)
            if not one.st_nlink and one.st_dev == device:
                found[one.st_ino] = one.st_blocks * 512
    return sum(found.values())


def _opened(pids: list[int]) -> Iterator[str]:
    for pid in pids:
        with contextlib.suppress(OSError):
            yield from [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]


def _disk_use(disks: list[tuple[str, os.statvfs_result]], work: str, limits: Limits, pid: int) -> str:
    for folder, before in disks:
        now = os.statvfs(folder)
        used = (before.f_bfree - now.f_bfree) * now.f_frsize
        if used > _LOW // 8 and now.f_bavail * now.f_frsize < _LOW:
            return f"disk: {folder} is nearly full"
        many = before.f_ffree - now.f_ffree > limits.files or not now.f_files
        if folder == work and (used > limits.disk or many) and (why := _too_much(work, limits, pid)):
            return why
    return ""


def _too_much(folder: str, limits: Limits, pid: int) -> str:
    size = _deleted(list(beneath(pid)), os.stat(folder).st_dev)
    files = 0
    for at, folders, names in os.walk(folder):
        for name in (*folders, *names):
            files += 1
            with contextlib.suppress(OSError):
                size += os.lstat(f"{at}/{name}").st_blocks * 512
        if size > limits.disk:
            return f"disk: more than {limits.disk >> 20} MiB in the work folder"
        if files > limits.files:
            return f"disk: more than {limits.files} files in the work folder"
    return ""

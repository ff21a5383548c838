"""Hold a program to its limits of memory, processes and disk.

Three layers, because none is everywhere: a control group where one can be made, resource limits that each process
carries, and a watch that adds up what a process tree uses and has it killed.  Resource limits alone are not enough, as
they count per process or per user; the watch alone is not, as it may be late.
"""

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

from ..host.facts import monotonic, sleep
from ..host.launcher import iter_descendants
from ..types.sandbox import SandboxLimits

# --- Control groups ---

_ROOT = "/sys/fs/cgroup"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_DISK_RESERVE = 256 << 20
"""Bytes that must stay free on a disk."""
_WATCH_INTERVAL = 0.1
_POLL_INTERVAL = 0.005
_EXIT_WAIT = 2.0
"""Seconds to wait for a killed process to leave its group."""
_MEMORY_BACKSTOP = 2 << 30
"""Bytes above the limit at which the kernel refuses memory, should the watch be late."""
_OPEN_FILES = 256
"""Open files per process without a control group: data in its sockets is kernel memory that no limit counts."""
_SPARE_PROCESSES = 32
"""Processes above the limit, so that the watch notices before the kernel refuses one without a trace."""


class ControlGroup(NamedTuple):
    """A control group for one program at a time; both folders are the same in the unified hierarchy."""

    memory: str
    processes: str
    modern: bool

    def hold(self, limits: SandboxLimits) -> None:
        """Set the limits."""
        _write_number(f"{self.memory}/{'memory.max' if self.modern else 'memory.limit_in_bytes'}", limits.memory)
        if self.modern:
            with contextlib.suppress(OSError):  # not every kernel counts swap
                _write_number(f"{self.memory}/memory.swap.max", 0)
        _write_number(f"{self.processes}/pids.max", limits.processes)

    @property
    def lists(self) -> tuple[str, ...]:
        """The files to write a process id to; its children follow."""
        return tuple(f"{folder}/cgroup.procs" for folder in dict.fromkeys(self[:2]))

    def add(self, pid: int) -> None:
        for path in self.lists:
            _write_number(path, pid)

    def hits(self) -> tuple[int, int]:
        """How often memory and the number of processes reached their limits, since it was made."""
        return (
            _read_counter(f"{self.memory}/{'memory.events' if self.modern else 'memory.oom_control'}", "oom_kill"),
            _read_counter(f"{self.processes}/pids.events", "max"),
        )

    def clear(self) -> None:
        """Kill whatever is still in it: this also finds a program that killed its launcher."""
        until = monotonic() + _EXIT_WAIT
        while (pids := self._members()) and monotonic() < until:
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            sleep(_POLL_INTERVAL)

    def _members(self) -> set[int]:
        """The process ids in it.  0 stands for a process of another namespace, and killing 0 would be our own group."""
        pids = {int(word) for path in self.lists for word in _read_text(path).split()}
        return {pid for pid in pids if pid > 0}

    def remove(self, wait: float = 0) -> None:
        """Remove it, waiting for killed processes to leave it."""
        until = monotonic() + wait
        for folder in dict.fromkeys(self[:2]):
            while not _try_remove(folder) and monotonic() < until:
                sleep(_POLL_INTERVAL)


_lock = threading.Lock()
_idle: list[ControlGroup] = []
_numbers = itertools.count()


@contextlib.contextmanager
def control_group(limits: SandboxLimits, allowed: bool = True) -> Iterator[ControlGroup | None]:
    """A control group with these limits; None if none can be made."""
    cgroup = _acquire_group() if allowed else None
    if cgroup is None:
        yield None
        return
    try:
        cgroup.hold(limits)
    except OSError:
        cgroup.remove()
        yield None
        return
    try:
        yield cgroup
    finally:
        cgroup.clear()
        with _lock:
            _idle.append(cgroup)


def _acquire_group() -> ControlGroup | None:
    """An idle group or a new one: making one is slow, so they are kept until this process ends."""
    with _lock:
        if _idle:
            return _idle.pop()
        number = next(_numbers)
    folders = _group_roots()
    if folders is None:
        return None
    if number == 0:
        atexit.register(_remove_idle_groups)
        _sweep_groups(folders)
    name = f"metier-{os.getpid()}-{number}"
    cgroup = ControlGroup(f"{folders.memory}/{name}", f"{folders.processes}/{name}", folders.modern)
    try:
        for folder in dict.fromkeys(cgroup[:2]):
            os.mkdir(folder)
    except OSError:
        cgroup.remove()
        return None
    return cgroup


def _try_remove(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remove_idle_groups() -> None:
    while _idle:
        _idle.pop().remove(wait=_EXIT_WAIT)


def _sweep_groups(folders: ControlGroup) -> None:
    """Remove the groups of killed processes."""
    for folder in dict.fromkeys(folders[:2]):
        for name in os.listdir(folder):
            prefix, _, remainder = name.partition("-")
            pid = remainder.partition("-")[0]
            if prefix == "metier" and pid.isdecimal() and not os.path.exists(f"/proc/{pid}"):
                with contextlib.suppress(OSError):
                    os.rmdir(f"{folder}/{name}")


def _group_roots() -> ControlGroup | None:
    """The folders to make groups in: one tree in cgroup v2, one per controller in v1."""
    if os.path.exists(f"{_ROOT}/cgroup.controllers"):
        controllers = _read_text(f"{_ROOT}/cgroup.subtree_control").split()
        fits = "memory" in controllers and "pids" in controllers and os.access(_ROOT, os.W_OK)
        return ControlGroup(_ROOT, _ROOT, True) if fits else None
    memory, processes = f"{_ROOT}/memory", f"{_ROOT}/pids"
    fits = all(os.path.isdir(folder) and os.access(folder, os.W_OK) for folder in (memory, processes))
    return ControlGroup(memory, processes, False) if fits else None


def _write_number(path: str, value: int) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(opened, b"%d" % value)
    finally:
        os.close(opened)


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _read_counter(path: str, counter: str) -> int:
    for line in _read_text(path).splitlines():
        name, _, value = line.partition(" ")
        if name == counter:
            return int(value)
    return 0


# --- Resource limits ---


def process_rlimits(limits: SandboxLimits, cgroup: ControlGroup | None, processes: int) -> tuple[tuple[int, int], ...]:
    """The resource limits of each process.  `processes` is 0 where the kernel would count other programs too."""
    files = 1024 if cgroup else _OPEN_FILES
    pairs = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, limits.file), (resource.RLIMIT_NOFILE, files)]
    if cgroup is None:
        pairs.append((resource.RLIMIT_DATA, limits.memory + _MEMORY_BACKSTOP))
        if processes:
            pairs.append((resource.RLIMIT_NPROC, processes + _SPARE_PROCESSES))
    return tuple(pairs)


# --- Watching ---


class LimitWatch:
    """Called often, checks now and then what a process tree uses, and says which limit it exceeds."""

    def __init__(
        self, limits: SandboxLimits, cgroup: ControlGroup | None, work: str, writable: tuple[str, ...] = ()
    ) -> None:
        self._limits = limits
        self._cgroup = cgroup
        self._before = cgroup.hits() if cgroup else (0, 0)
        self._work = work
        folders = [folder for folder in (work, *writable) if folder and os.path.isdir(folder)]
        self._disks = [(folder, os.statvfs(folder)) for folder in folders]
        self._due = monotonic() + _WATCH_INTERVAL

    def __call__(self, pid: int) -> str:
        if monotonic() < self._due:
            return ""
        self._due = monotonic() + _WATCH_INTERVAL
        # Also with a control group: its counters may fail, and then only this protects the machine.
        excess = self.afterwards() or _process_excess(pid, self._limits)
        return excess or _disk_excess(self._disks, self._work, self._limits, pid)

    def afterwards(self) -> str:
        """Which limit the control group reports; also valid after the program ended."""
        return _group_excess(self._cgroup, self._before, self._limits) if self._cgroup else ""


def _group_excess(cgroup: ControlGroup, before: tuple[int, int], limits: SandboxLimits) -> str:
    memory, processes = cgroup.hits()
    if memory > before[0]:
        return _memory_message(limits)
    return _processes_message(limits) if processes > before[1] else ""


def _memory_message(limits: SandboxLimits) -> str:
    return f"oom: more than {limits.memory >> 20} MiB of memory"


def _processes_message(limits: SandboxLimits) -> str:
    return f"processes: more than {limits.processes}"


def _process_excess(pid: int, limits: SandboxLimits) -> str:
    pids = []
    threads = resident = 0
    for descendant in iter_descendants(pid):
        pids.append(descendant)
        with contextlib.suppress(OSError):
            threads += len(os.listdir(f"/proc/{descendant}/task"))
        if threads > limits.processes:  # at once: a fork bomb may have thousands
            return _processes_message(limits)
        pages = _read_text(f"/proc/{descendant}/statm").split()
        resident += int(pages[1]) * _PAGE if pages else 0
    sockets = _count_sockets(pids) * _socket_size()
    if resident + sockets > limits.memory and _proportional_size(pids) + sockets > limits.memory:
        return _memory_message(limits)
    return ""


def _proportional_size(pids: list[int]) -> int:
    """Bytes in memory with shared pages counted once: slow to read, so only when it matters."""
    total = 0
    for pid in pids:
        for line in _read_text(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) << 10
    return total


def _count_sockets(pids: list[int]) -> int:
    """How many sockets they hold: data waiting in one is counted by no process."""
    sockets = set()
    for path in _open_file_paths(pids):
        with contextlib.suppress(OSError):
            if (name := os.readlink(path)).startswith("socket:"):
                sockets.add(name)
    return len(sockets)


@functools.cache
def _socket_size() -> int:
    """The most that can wait in a socket: the filter keeps it from growing."""
    return int(_read_text("/proc/sys/net/core/wmem_default") or 1 << 18)


def _deleted_bytes(pids: list[int], device: int) -> int:
    """Bytes of deleted files that are still open."""
    sizes = {}
    for path in _open_file_paths(pids):
        with contextlib.suppress(OSError):
            status = os.stat(path)
            if not status.st_nlink and status.st_dev == device:
                sizes[status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


def _open_file_paths(pids: list[int]) -> Iterator[str]:
    for pid in pids:
        with contextlib.suppress(OSError):
            yield from [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]


def _disk_excess(disks: list[tuple[str, os.statvfs_result]], work: str, limits: SandboxLimits, pid: int) -> str:
    for folder, before in disks:
        now = os.statvfs(folder)
        used = (before.f_bfree - now.f_bfree) * now.f_frsize
        if used > _DISK_RESERVE // 8 and now.f_bavail * now.f_frsize < _DISK_RESERVE:
            return f"disk: {folder} is nearly full"
        # File systems without a count of inodes (btrfs) are always walked.
        many = before.f_ffree - now.f_ffree > limits.files or not now.f_files
        # Counting files is slow, so only when the whole disk has lost that much.
        if folder == work and (used > limits.disk or many) and (why := _work_folder_excess(work, limits, pid)):
            return why
    return ""


def _work_folder_excess(folder: str, limits: SandboxLimits, pid: int) -> str:
    size = _deleted_bytes(list(iter_descendants(pid)), os.stat(folder).st_dev)
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

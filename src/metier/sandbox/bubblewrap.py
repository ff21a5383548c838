"""The first tier: bubblewrap, which gives a program its own namespaces and a file system of only what it may see.

The program's limits must be in place before it runs, and its process id is only known once bubblewrap has started it:
so it waits on a pipe (`--block-fd`), and its limits are set from outside.  Killing the first process in a namespace
kills all others in it, which is how everything is ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..host.launcher import child_pids, open_unlinked
from ..host.process import ProcessCapture, SpawnedProcess, follow_process
from ..types.sandbox import ProcessResult, ProgramSpec, SandboxSpec
from . import kernel, limits, profile
from .profile import LINKS, SYSTEM, PathAccess, SandboxView, system_settings
from .wheel import LoadedProgram, load_bwrap

BWRAP_PATHS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
"""Where to look first: the system's own, which security policies (AppArmor) may allow more than a copy."""
_NOBODY = "65534"
_CHILD = re.compile(rb'"child-pid": (\d+)')
_EXIT = re.compile(rb'"exit-code": (\d+)')
_MOST_OPEN = 256
"""Paths that are mounted by descriptors: a process may have 1,024 open."""
_SHARED = 64 << 20
"""The largest /dev/shm, in bytes."""
_FATAL_SIGNALS = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 31}
"""Signals that kill programs: bubblewrap reports 128 plus the number, which a program could also exit with."""


class BubblewrapRequest(NamedTuple):
    """What to run, what it may see, and with which bubblewrap."""

    program: ProgramSpec
    box: SandboxSpec
    view: SandboxView
    bwrap: str
    closes_users: bool
    """Whether it has `--disable-userns`."""
    groups: bool
    watch: Callable[[], str] = lambda: ""
    """Called often while it runs; why it is to be ended, if it is."""
    binds_open: bool = False
    """Whether it has `--bind-fd`."""


class _InitProcess:
    """The first process inside: it waits until its limits are set, and all others die with it."""

    def __init__(self, box: SandboxSpec, cgroup: limits.ControlGroup | None) -> None:
        self._box = box
        self._cgroup = cgroup
        self._waits, self._release = os.pipe()
        self._descriptors = [self._waits, self._release]
        self.blocked = self._waits
        self.pid = 0
        self._pidfd = -1
        """A descriptor of the process: its number may be reused, this is not."""
        self.problem = ""

    def heard(self, report: bytes) -> None:
        match = None if self.pid else _CHILD.search(report)
        if not match:
            return
        self.pid = int(match[1])
        try:
            self._pidfd = os.pidfd_open(self.pid)
            self._descriptors.append(self._pidfd)
            self._apply_limits()
            os.write(self._release, b"\n")
        except OSError as error:
            self.problem = f"its limits can't be set: {error.strerror}"

    def _apply_limits(self) -> None:
        if self._cgroup:
            self._cgroup.add(self.pid)
        for kind, most in limits.process_rlimits(self._box.limits, self._cgroup, self._box.limits.processes):
            # We may not raise a limit above our own.
            hard = resource.prlimit(self.pid, kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(self.pid, kind, (most, most))

    def ask(self) -> None:
        """Send SIGTERM to the program, which is the child of the first process."""
        for pid in child_pids(self.pid):
            with contextlib.suppress(OSError):
                opened = os.pidfd_open(pid)
                try:
                    if pid in child_pids(self.pid):  # the number was not reused before we opened it
                        signal.pidfd_send_signal(opened, signal.SIGTERM)
                        signal.pidfd_send_signal(opened, signal.SIGCONT)
                finally:
                    os.close(opened)

    def end(self) -> bool:
        """Kill it, and the kernel kills all others with it; False if it is not known yet."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        return self._pidfd >= 0

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())


def run_in_bubblewrap(request: BubblewrapRequest) -> ProcessResult:
    """Run a program in its own namespaces."""
    box, view = request.box, request.view
    with (
        load_bwrap(request.bwrap) as bwrap,
        limits.control_group(box.limits, request.groups) as cgroup,
    ):
        inside = _InitProcess(box, cgroup)
        watch = limits.LimitWatch(box.limits, cgroup, view.work, view.writes)
        try:
            spawned = _spawn_bwrap(
                request, bwrap, inside, lambda: inside.problem or watch(inside.pid) or request.watch()
            )
            followed = follow_process(spawned, request.program.seconds, request.program.output)
        except OSError as error:
            return ProcessResult(None, "", tier="bubblewrap", note=f"it can't be started: {error.strerror}")
        finally:
            inside.close()
        return _process_result(followed, spawned.process.returncode, watch.afterwards())


def _open_mounts(request: BubblewrapRequest, ours: contextlib.ExitStack) -> dict[str, int]:
    """The paths to mount, opened without following a link.

    The view was made of real paths.  A program that runs in the same folder could have put a link in the place of one
    since, and bubblewrap would mount what it leads to.
    """
    opened: dict[str, int] = {}
    if not request.binds_open:
        return opened
    wanted = [access for access in profile.mounted_paths(request.view) if access.kind in ("write", "read", "guard")]
    for access in sorted(wanted, key=lambda access: ("write", "read", "guard").index(access.kind))[:_MOST_OPEN]:
        with contextlib.suppress(OSError):
            opened[access.path] = open_unlinked(access.path)
            ours.callback(os.close, opened[access.path])
    return opened


def bwrap_arguments(request: BubblewrapRequest, opened: Mapping[str, int] | None = None) -> list[str]:
    """The view and the limits as options of bubblewrap; with `opened`, paths are mounted by their descriptors."""
    box, view = request.box, request.view
    network = box.permissions.network
    options = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    options += ["--hostname", "skill", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if request.closes_users:
        options.append("--disable-userns")
    if os.geteuid() == 0:
        options += ["--uid", _NOBODY, "--gid", _NOBODY]  # programs behave differently when they see uid 0
    if not network:
        options.append("--unshare-net")
    options += _system_mounts(system_settings(network))
    # Read-only, or a program could change settings of the kernel where we are root.
    options += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
    options += ["--size", str(min(_SHARED, box.limits.scratch)), "--tmpfs", "/dev/shm"]
    options += ["--size", str(box.limits.scratch), "--tmpfs", "/tmp"]
    for access in profile.mounted_paths(view):
        sealed = box.sealed if access.path == os.path.realpath(box.skill) else ""
        if opened and not sealed and access.path in opened:
            mount = "--bind-fd" if access.kind == "write" else "--ro-bind-fd"
            options += [mount, str(opened[access.path]), access.path]
        elif not opened or sealed or access.kind in ("hide", "link") or len(opened) >= _MOST_OPEN:
            options += _mount_arguments(access, sealed)
    for access in view.seen:  # last: something inside a hidden folder may be visible
        if access.kind == "hide" and os.path.isdir(access.path):
            options += ["--remount-ro", access.path]
    options += ["--remount-ro", "/", "--chdir", view.cwd, "--clearenv"]
    for name, value in view.env.items():
        options += ["--setenv", name, value]
    return options


def _system_mounts(etc: tuple[str, ...]) -> list[str]:
    options = []
    for path in LINKS:
        if os.path.islink(path):
            options += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            options += ["--ro-bind", path, path]
    for path in (*SYSTEM, *etc):
        if os.path.exists(path):
            options += ["--ro-bind", os.path.realpath(path), path]
    return options


def _mount_arguments(access: PathAccess, sealed: str = "") -> list[str]:
    path = access.path
    if sealed:
        return ["--ro-bind", sealed, path]
    if access.kind in ("read", "guard"):
        return ["--ro-bind-try", path, path]
    if access.kind == "write":
        return ["--bind-try", path, path]
    if access.kind == "hide" and not os.path.isdir(path):
        return ["--ro-bind", "/dev/null", path]
    if access.kind == "link":
        return ["--symlink", os.path.realpath(path), path]
    return ["--size", "4096", "--tmpfs", path]


def _spawn_bwrap(
    request: BubblewrapRequest, bwrap: LoadedProgram, inside: _InitProcess, watch: Callable[[], str]
) -> SpawnedProcess:
    merged = request.program.merged
    with contextlib.ExitStack() as undo, contextlib.ExitStack() as ours:
        report, report_end = _open_pipe(undo, ours)
        output, written = _open_pipe(undo, ours)
        errors, complained = (-1, written) if merged else _open_pipe(undo, ours)
        # Options hold paths and variables: a file hides them from other users and has no length limit.
        opened = _open_mounts(request, ours)
        words = "\0".join(bwrap_arguments(request, opened))
        options = _memory_file(words.encode(errors="surrogateescape"), ours)
        rules = _memory_file(kernel.build_filter(request.box.permissions.network), ours)
        descriptors = {
            "--args": options,
            "--seccomp": rules,
            "--json-status-fd": report_end,
            "--block-fd": inside.blocked,
        }
        process = subprocess.Popen(
            [
                bwrap.path,
                *(argument for name, fd in descriptors.items() for argument in (name, str(fd))),
                "--",
                *request.view.argv,
            ],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=complained,
            env=bwrap.env,
            cwd="/",
            pass_fds=(*descriptors.values(), *opened.values()),
            start_new_session=True,
        )
        undo.pop_all()

    def end() -> None:
        # The process inside is not known yet, so bubblewrap itself is killed; the rest dies with it.
        if not inside.end():
            process.kill()

    streams = (output,) if merged else (output, errors)
    return SpawnedProcess(process, streams, report, inside.ask, end, inside.heard, watch)


def _open_pipe(undo: contextlib.ExitStack, ours: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe; the read end is closed on failure, the write end in any case."""
    read, write = os.pipe()
    undo.callback(os.close, read)
    ours.callback(os.close, write)
    return read, write


def _memory_file(content: bytes, ours: contextlib.ExitStack) -> int:
    """A file in memory, for what other users must not see in the process list."""
    opened = os.memfd_create("metier")
    ours.callback(os.close, opened)
    os.write(opened, content)
    os.lseek(opened, 0, os.SEEK_SET)
    return opened


def _process_result(followed: ProcessCapture, code: int | None, passed: str) -> ProcessResult:
    texts = (*followed.texts, "")
    # Without an exit code bubblewrap itself failed; its messages start with its name.
    ended = _EXIT.search(followed.report)
    reason = followed.reason or passed
    if ended is None and not reason and not followed.timed_out:
        complaints = [line for line in "\n".join(texts).splitlines() if line.startswith("bwrap: ")]
        return ProcessResult(
            None, "", tier="bubblewrap", note=complaints[-1] if complaints else f"bubblewrap ended with {code}"
        )
    status = int(ended[1]) if ended else -signal.SIGKILL
    if status - 128 in _FATAL_SIGNALS:
        status = 128 - status
    return ProcessResult(status, texts[0], texts[1], followed.timed_out, followed.left_out, "bubblewrap", reason)

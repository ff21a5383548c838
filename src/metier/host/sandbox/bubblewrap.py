"""The first tier: bubblewrap, which gives a program namespaces of its own and a file system of what it may see."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
from collections.abc import Callable
from typing import NamedTuple

from ...types.running import Box, Program, Ran
from ..follow import Followed, Spawned, follow
from . import limits, placeholders, seccomp
from .view import ETC, LINKS, NETWORK, SYSTEM, Seen, View

PLACES = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
"""Where it is looked for: the system's own, which some systems give rights that no copy has."""
_NOBODY = "65534"
_CHILD = re.compile(rb'"child-pid": (\d+)')
_EXIT = re.compile(rb'"exit-code": (\d+)')
_SHARED = 64 << 20
_DEADLY = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 31}
"""Signals that end a program and are seen in the wild: bubblewrap reports 128 more than the number."""


class Asked(NamedTuple):
    """What to run in what, with which bubblewrap."""

    program: Program
    box: Box
    view: View
    bwrap: str
    closes_users: bool
    """Whether it knows `--disable-userns`."""
    groups: bool
    state: str = ""
    """metier's folder, where placeholders are noted; empty notes none."""


class _Inside:
    """The first process inside: it waits until its limits are laid on it, and all others end with it."""

    def __init__(self, box: Box, held: limits.Group | None) -> None:
        self._box = box
        self._held = held
        self._waits, self._release = os.pipe()
        self._open = [self._waits, self._release]
        self.blocked = self._waits
        self.pid = 0
        self._lasting = -1
        """Stands for the process, whoever has its number later."""
        self.problem = ""

    def heard(self, report: bytes) -> None:
        found = None if self.pid else _CHILD.search(report)
        if not found:
            return
        self.pid = int(found[1])
        try:
            self._lasting = os.pidfd_open(self.pid)
            self._open.append(self._lasting)
            self._lay()
            os.write(self._release, b"\n")
        except OSError as error:
            self.problem = f"its limits can't be laid on it: {error.strerror}"

    def _lay(self) -> None:
        if self._held:
            self._held.add(self.pid)
        for kind, most in limits.rlimits(self._box.limits, self._held, self._box.limits.processes):
            hard = resource.prlimit(self.pid, kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(self.pid, kind, (most, most))

    def ask(self) -> None:
        """Ask the program, which is the child of the first process, to end."""
        for pid in _children(self.pid):
            with contextlib.suppress(OSError):
                opened = os.pidfd_open(pid)
                try:
                    if pid in _children(self.pid):  # the number still means what it meant
                        signal.pidfd_send_signal(opened, signal.SIGTERM)
                        signal.pidfd_send_signal(opened, signal.SIGCONT)
                finally:
                    os.close(opened)

    def end(self) -> bool:
        """End it, and the kernel ends all others with it; False when it is not known yet."""
        if self._lasting >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._lasting, signal.SIGKILL)
        return self._lasting >= 0

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return list(map(int, file.read().split()))
    except OSError:
        return []


def run(asked: Asked) -> Ran:
    """Run a program in namespaces of its own."""
    box, view = asked.box, asked.view
    guarded = [one.path for one in view.seen if one.kind == "guard"]
    with limits.group(box.limits, asked.groups) as held, placeholders.laid(guarded, asked.state):
        inside = _Inside(box, held)
        look = limits.Watch(box.limits, held, view.work, view.writes)
        try:
            spawned = _spawn(asked, inside, lambda: inside.problem or look(inside.pid))
            followed = follow(spawned, asked.program.seconds, asked.program.output)
        except OSError as error:
            return Ran(None, "", tier="bubblewrap", note=f"it can't be started: {error.strerror}")
        finally:
            inside.close()
        return _ran(followed, spawned.process.returncode, look.afterwards())


def arguments(asked: Asked) -> list[str]:
    """The profile, as bubblewrap's options."""
    box, view = asked.box, asked.view
    network = box.permissions.network
    made = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    made += ["--hostname", "skill", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if asked.closes_users:
        made.append("--disable-userns")
    if os.geteuid() == 0:
        made += ["--uid", _NOBODY, "--gid", _NOBODY]
    if not network:
        made.append("--unshare-net")
    made += _system((*ETC, *NETWORK) if network else ETC)
    made += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
    made += ["--size", str(min(_SHARED, box.limits.scratch)), "--tmpfs", "/dev/shm"]
    made += ["--size", str(box.limits.scratch), "--tmpfs", "/tmp"]
    for one in view.seen:
        made += _mount(one)
    for one in view.seen:  # when all is in place: something inside may be seen
        if one.kind == "hide" and os.path.isdir(one.path):
            made += ["--remount-ro", one.path]
    made += ["--remount-ro", "/", "--chdir", view.cwd, "--clearenv"]
    for name, value in view.env.items():
        made += ["--setenv", name, value]
    return made


def _system(etc: tuple[str, ...]) -> list[str]:
    made = []
    for path in LINKS:
        if os.path.islink(path):
            made += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            made += ["--ro-bind", path, path]
    for path in (*SYSTEM, *etc):
        if os.path.exists(path):
            made += ["--ro-bind", os.path.realpath(path), path]
    return made


def _mount(one: Seen) -> list[str]:
    path = one.path
    if one.kind in ("read", "guard"):
        return ["--ro-bind-try", path, path]
    if one.kind == "write":
        return ["--bind-try", path, path]
    if one.kind == "hide" and not os.path.isdir(path):
        return ["--ro-bind", "/dev/null", path]
    if one.kind == "link":
        return ["--symlink", os.path.realpath(path), path]
    return ["--size", "4096", "--tmpfs", path]


def _spawn(asked: Asked, inside: _Inside, watch: Callable[[], str]) -> Spawned:
    merged = asked.program.merged
    with contextlib.ExitStack() as undo, contextlib.ExitStack() as ours:
        report, told = _pipe(undo, ours)
        output, written = _pipe(undo, ours)
        errors, complained = (-1, written) if merged else _pipe(undo, ours)
        options = _held("\0".join(arguments(asked)).encode(errors="surrogateescape"), ours)
        rules = _held(seccomp.build(asked.box.permissions.network), ours)
        given = {"--args": options, "--seccomp": rules, "--json-status-fd": told, "--block-fd": inside.blocked}
        process = subprocess.Popen(
            [asked.bwrap, *(word for name, fd in given.items() for word in (name, str(fd))), "--", *asked.view.argv],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=complained,
            env={},
            cwd="/",
            pass_fds=tuple(given.values()),
            start_new_session=True,
        )
        undo.pop_all()

    def end() -> None:
        if not inside.end():
            process.kill()

    streams = (output,) if merged else (output, errors)
    return Spawned(process, streams, report, inside.ask, end, inside.heard, watch)


def _pipe(undo: contextlib.ExitStack, ours: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe: its reading end is closed if all fails, its writing end in any case."""
    read, write = os.pipe()
    undo.callback(os.close, read)
    ours.callback(os.close, write)
    return read, write


def _held(content: bytes, ours: contextlib.ExitStack) -> int:
    """A file in memory, for what no other user may see in a list of processes."""
    opened = os.memfd_create("metier")
    ours.callback(os.close, opened)
    os.write(opened, content)
    os.lseek(opened, 0, os.SEEK_SET)
    return opened


def _ran(followed: Followed, code: int | None, passed: str) -> Ran:
    texts = (*followed.texts, "")
    ended = _EXIT.search(followed.report)
    reason = followed.reason or passed
    if ended is None and not reason and not followed.timed_out:
        said = [line for line in "\n".join(texts).splitlines() if line.startswith("bwrap: ")]
        return Ran(None, "", tier="bubblewrap", note=said[-1] if said else f"bubblewrap ended with {code}")
    status = int(ended[1]) if ended else -signal.SIGKILL
    if status - 128 in _DEADLY:
        status = 128 - status
    return Ran(status, texts[0], texts[1], followed.timed_out, followed.left_out, "bubblewrap", reason)

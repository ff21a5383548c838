"""Start one program and stay until nothing it started is left.

It runs by itself, as `python -I -S`, and imports nothing of ours: what it is to do comes as one value on its standard
input.  It is a subreaper: what the program's children leave behind becomes its own child, so that all can be found.
SIGTERM asks everything beneath it to end; SIGUSR1, and the death of whoever started it, end everything beneath it.
"""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Iterator
    from typing import Any
else:
    import _signal  # `signal` brings `enum` along, which costs more than all the rest

_LINUX = sys.platform == "linux"
_SUBREAPER, _DEATH, _NO_NEW, _SECCOMP, _SECURE_BITS, _AMBIENT = 36, 1, 38, 22, 28, 47
_RESTRICT, _ADD_RULE, _CREATE = 446, 445, 444
_CAP_HEADER = 0x20080522
_started: list[int] = []
_own_children: list[int] = []
"""The list of our own children, held open: who reaches us could take away our right to open files."""


def main() -> None:
    plan = marshal.loads(sys.stdin.buffer.read())
    report: int = plan["report"]
    os.set_inheritable(report, False)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        _own_children.append(os.open(f"/proc/self/task/{os.getpid()}/children" if _LINUX else os.devnull, os.O_RDONLY))
    except OSError as error:
        os.write(report, f"failed what it starts can't be found: {error}".encode())
        return
    _prctl(_SUBREAPER, 1)
    _prctl(_DEATH, int(_signal.SIGUSR1))
    _signal.signal(_signal.SIGTERM, lambda *_: _signal_all(_signal.SIGTERM))
    _signal.signal(_signal.SIGUSR1, lambda *_: _signal_all(_signal.SIGKILL))
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    if os.getppid() != plan["parent"]:
        return
    failed, failure_pipe = os.pipe()
    child = os.fork()
    if child == 0:
        _exec_program(plan, failure_pipe)
    _started.append(child)
    os.close(failure_pipe)
    os.dup2(null, 1)
    os.dup2(null, 2)
    why = os.read(failed, 4096)
    status = _wait_for_child(child)
    _end_all()
    os.write(report, b"failed " + why if why else b"status %d" % status)


_RESET_SIGNALS = (
    "SIGTERM",
    "SIGINT",
    "SIGHUP",
    "SIGQUIT",
    "SIGUSR1",
    "SIGUSR2",
    "SIGPIPE",
    "SIGXFSZ",
    "SIGALRM",
    "SIGCHLD",
)


def _exec_program(plan: dict[str, Any], failure_pipe: int) -> None:
    """Turn into the program; what goes wrong on the way is told through the pipe, which the program never sees."""
    step, why = "start", "it can't be started"
    try:
        for name in _RESET_SIGNALS:  # what is ignored here, under `nohup` say, would be ignored there too
            _signal.signal(getattr(_signal, name), _signal.SIG_DFL)
        os.setsid()
        step = "limits"
        for joined in plan["joins"]:
            with open(joined, "wb") as file:
                file.write(b"0")
        _set_rlimits(plan["limits"])
        step = "landlock"
        rules = _build_ruleset(plan["landlock"]) if plan["landlock"] else -1
        step = plan["cwd"]
        os.chdir(plan["cwd"])
        step = "user"
        if plan["uid"]:
            _drop_privileges(plan["uid"], plan["capabilities"])
        _prctl(_DEATH, int(_signal.SIGKILL))
        step = "filter"
        if plan["seccomp"]:
            _apply_confinement(rules, plan["seccomp"])
        step = os.fsdecode(plan["argv"][0])
        os.execve(plan["program"], plan["argv"], plan["env"])
    except OSError as error:
        why = error.strerror or str(error)
    except (ValueError, TypeError, OverflowError) as error:
        why = str(error)
    finally:
        os.write(failure_pipe, f"{step}: {why}".encode(errors="replace"))
        os._exit(127)


def _wait_for_child(child: int) -> int:
    """How the program ended; what its children leave behind is reaped on the way."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def _end_all() -> None:
    """End what the program left behind, until there is nothing."""
    try:
        while True:
            _signal_all(_signal.SIGKILL)
            pid = os.waitpid(-1, 0 if _LINUX else os.WNOHANG)[0]
            while pid:
                pid = os.waitpid(-1, os.WNOHANG)[0]
            if not _LINUX:
                return
    except ChildProcessError:
        return


def _signal_all(number: int) -> None:
    """Signal everything beneath; to end it, first stop it, so that nothing new is born meanwhile."""
    if not _LINUX:
        for pid in _started:
            _send_signal(-pid, number)
        return
    if number == _signal.SIGTERM:
        for pid in _all_descendants():
            _send_signal(pid, _signal.SIGTERM)
            _send_signal(pid, _signal.SIGCONT)
        return
    stopped: set[int] = set()
    while new := [pid for pid in _all_descendants() if pid not in stopped]:
        stopped.update(new)
        for pid in new:
            _send_signal(pid, _signal.SIGSTOP)
    for pid in stopped:
        _send_signal(pid, number)


def _send_signal(pid: int, number: int) -> None:
    try:  # noqa: SIM105 - `contextlib` costs as much as the launcher
        os.kill(pid, number)
    except OSError:
        pass  # it is gone, or not ours to signal


def _all_descendants() -> list[int]:
    """Everything beneath us.  Of our own children we always know, and what they leave behind becomes our own."""
    children = [int(word) for word in os.pread(_own_children[0], 1 << 20, 0).split()]
    return children + [pid for child in children for pid in iter_descendants(child)]


def iter_descendants(pid: int) -> Iterator[int]:
    """All that descends from a process."""
    waiting = [pid]
    while waiting:
        children = _child_pids(waiting.pop())
        waiting += children
        yield from children


def _child_pids(pid: int) -> list[int]:
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                pids += map(int, file.read().split())
    except OSError:
        pass  # it ended while we looked
    return pids


def _prctl(option: int, value: int, *extra: int) -> None:
    if _LINUX:
        _call_libc("prctl", option, value, *extra, *(0,) * (3 - len(extra)))


def _call_libc(name: str, *values: Any) -> int:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_long(value) if isinstance(value, int) else value for value in values]
    result: int = getattr(library, name)(*arguments)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _set_rlimits(limits: list[tuple[int, int]]) -> None:
    import resource

    for kind, most in limits:
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _build_ruleset(plan: dict[str, Any]) -> int:
    """A Landlock ruleset of what may be reached; a path that is not there needs no rule."""
    import ctypes

    attribute = plan["attribute"]
    opened = _call_libc("syscall", _CREATE, ctypes.c_char_p(attribute), len(attribute), 0)
    for path, access in plan["rules"]:
        try:
            at = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        rule = access.to_bytes(8, sys.byteorder) + at.to_bytes(4, sys.byteorder)
        _call_libc("syscall", _ADD_RULE, opened, 1, ctypes.c_char_p(rule), 0)
        os.close(at)
    return opened


def _drop_privileges(uid: int, capabilities: int) -> None:
    """Become another user, keeping only the capabilities given."""
    import ctypes

    _prctl(_SECURE_BITS, 0b1111)  # no user id brings or takes capabilities any more; `access` would forget them too
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    header = _CAP_HEADER.to_bytes(4, sys.byteorder) + bytes(4)
    mask = capabilities.to_bytes(4, sys.byteorder)
    _call_libc("capset", ctypes.c_char_p(header), ctypes.c_char_p(mask * 3 + bytes(12)))
    for bit in range(32):
        if capabilities >> bit & 1:
            _prctl(_AMBIENT, 2, bit)


def _apply_confinement(rules: int, program: bytes) -> None:
    """From here on, only what the ruleset and the filter allow, for this and all that it starts."""
    import ctypes

    _prctl(_NO_NEW, 1)
    if rules >= 0:
        _call_libc("syscall", _RESTRICT, rules, 0)
        os.close(rules)
    code = ctypes.create_string_buffer(program, len(program))
    head = (len(program) // 8).to_bytes(2, sys.byteorder) + bytes(6)
    filter_ = ctypes.create_string_buffer(head + ctypes.addressof(code).to_bytes(8, sys.byteorder))
    _call_libc("prctl", _SECCOMP, 2, ctypes.cast(filter_, ctypes.c_void_p), 0, 0)


if __name__ in ("__main__", "launcher"):
    main()

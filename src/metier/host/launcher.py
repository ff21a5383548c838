"""Start one program and stay until nothing it started is left.

Runs as a script of its own, `python -I -S`, and imports nothing of ours; its instructions come as one marshalled value
on standard input.  It is a subreaper: orphans of the program become its children, so that all of them can be found.
SIGTERM is passed on to everything beneath it; SIGUSR1, and the death of its parent, kill everything beneath it.

Start-up time counts here, for every script that a skill runs: hence `_signal`, and imports inside functions.
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
    import _signal  # `signal` imports `enum`, which costs more than all the rest

# Constants of <sys/prctl.h>, the Landlock system calls, and <linux/capability.h>.
_LINUX = sys.platform == "linux"
_SUBREAPER, _DEATH, _NO_NEW, _SECCOMP, _SECURE_BITS, _AMBIENT = 36, 1, 38, 22, 28, 47
_RESTRICT, _ADD_RULE, _CREATE = 446, 445, 444
_CAP_HEADER = 0x20080522
_SECCOMP_CALL, _LISTENER, _KILLABLE = {"x86_64": 317}.get(os.uname().machine, 277), 1 << 3, 1 << 5
_started: list[int] = []
_own_children: list[int] = []
"""The list of our own children, held open: a program could lower our limit of open files."""


def main() -> None:
    plan = marshal.loads(sys.stdin.buffer.read())
    report: int = plan["report"]
    os.set_inheritable(report, False)
    # The instructions were on standard input; the program must not find the rest of them there.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        _own_children.append(os.open(f"/proc/self/task/{os.getpid()}/children" if _LINUX else os.devnull, os.O_RDONLY))
    except OSError as error:
        os.write(report, f"failed the processes it starts can't be listed: {error}".encode())
        return
    _prctl(_SUBREAPER, 1)
    _prctl(_DEATH, int(_signal.SIGUSR1))
    _signal.signal(_signal.SIGTERM, lambda *_: _signal_all(_signal.SIGTERM))
    _signal.signal(_signal.SIGUSR1, lambda *_: _signal_all(_signal.SIGKILL))
    # Ctrl-C reaches the parent too, which decides.
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    if os.getppid() != plan["parent"]:  # it died before we asked for a signal at its death
        return
    failed, failure_pipe = os.pipe()
    ours, theirs = _listener_sockets() if plan["broker"] else (None, None)
    child = os.fork()
    if child == 0:
        _exec_program(plan, failure_pipe, theirs)
    _started.append(child)
    os.close(failure_pipe)
    if ours and theirs:
        theirs.close()
        _start_broker(ours, plan["broker"])
    # Only the program may hold the output pipes, or their readers would never see the end.
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


def _exec_program(plan: dict[str, Any], failure_pipe: int, listener_socket: Any) -> None:
    """Become the program; a failure on the way is reported through the pipe, which closes on exec."""
    step, why = "start", "it can't be started"
    try:
        for name in _RESET_SIGNALS:  # ignored signals, under `nohup` for one, would stay ignored
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
        # The order matters: rules need paths that another user may not see, the filter forbids what comes before it.
        step = "user"
        if plan["uid"]:
            _drop_privileges(plan["uid"], plan["capabilities"])
        _prctl(_DEATH, int(_signal.SIGKILL))  # after the change of user, which clears it
        step = "filter"
        if plan["seccomp"]:
            _apply_confinement(rules, plan["seccomp"])
        step = "broker"
        if listener_socket:
            _send_listener(listener_socket, plan["broker"]["filter"])
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
    """The exit status of the program; orphans are reaped on the way."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def _end_all() -> None:
    """Kill what the program left behind, until nothing is left."""
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
    """Signal everything beneath; before a kill, stop all of it, so that nothing forks meanwhile."""
    if not _LINUX:
        for pid in _started:
            _send_signal(-pid, number)
        return
    if number == _signal.SIGTERM:
        for pid in _all_descendants():
            _send_signal(pid, _signal.SIGTERM)
            _send_signal(pid, _signal.SIGCONT)  # a stopped process would not see it
        return
    # Until a round finds nobody new: a process may fork between being listed and being stopped.
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
        pass  # it has ended, or belongs to another user


def _all_descendants() -> list[int]:
    """Every process beneath us: our children, and theirs."""
    children = [int(word) for word in os.pread(_own_children[0], 1 << 20, 0).split()]
    return children + [pid for child in children for pid in iter_descendants(child)]


def iter_descendants(pid: int) -> Iterator[int]:
    """Every descendant of a process."""
    waiting = [pid]
    while waiting:
        children = child_pids(waiting.pop())
        waiting += children
        yield from children


def child_pids(pid: int) -> list[int]:
    """The children of a process, of all its threads."""
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                pids += map(int, file.read().split())
    except OSError:
        pass  # it ended meanwhile
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
    """A Landlock ruleset of what may be reached; a missing path needs no rule."""
    import ctypes

    attribute = plan["attribute"]
    opened = _call_libc("syscall", _CREATE, ctypes.c_char_p(attribute), len(attribute), 0)
    for path, access, follow in plan["rules"]:
        try:
            at = os.open(path, os.O_PATH | os.O_CLOEXEC) if follow else open_unlinked(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        rule = access.to_bytes(8, sys.byteorder) + at.to_bytes(4, sys.byteorder)
        _call_libc("syscall", _ADD_RULE, opened, 1, ctypes.c_char_p(rule), 0)
        os.close(at)
    return opened


def open_unlinked(path: str) -> int:
    """Open a path that has no links in it: one that was put there since would open what it leads to."""
    at = os.open("/", os.O_PATH | os.O_CLOEXEC)
    for step in filter(None, path.split("/")):
        inner = os.open(step, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        os.close(at)
        at = inner
        if os.fstat(at).st_mode & 0o170000 == 0o120000:  # a link itself, which `stat` would take long to import for
            os.close(at)
            raise FileNotFoundError(path)
    return at


def _drop_privileges(uid: int, capabilities: int) -> None:
    """Become another user with only these capabilities."""
    import ctypes

    # NOROOT and NO_SETUID_FIXUP, both locked: changing ids neither grants nor drops capabilities.
    _prctl(_SECURE_BITS, 0b1111)
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
    """Enforce the ruleset and the filter on this process and all it starts."""
    import ctypes

    _prctl(_NO_NEW, 1)
    if rules >= 0:
        _call_libc("syscall", _RESTRICT, rules, 0)
        os.close(rules)
    filter_ = _filter_program(program)
    _call_libc("prctl", _SECCOMP, 2, ctypes.cast(filter_, ctypes.c_void_p), 0, 0)


def _filter_program(program: bytes) -> Any:
    """A filter as the kernel takes it: how many steps, and where they are."""
    import ctypes

    code = ctypes.create_string_buffer(program, len(program))
    head = (len(program) // 8).to_bytes(2, sys.byteorder) + bytes(6)
    filter_ = ctypes.create_string_buffer(head + ctypes.addressof(code).to_bytes(8, sys.byteorder))
    filter_.code = code  # type: ignore[attr-defined]  # kept as long as what points to it
    return filter_


# --- The broker: it writes what Landlock can't allow without allowing too much (see `broker`) ---


def _listener_sockets() -> tuple[Any, Any]:
    """Two ends for the listener of the program's calls; `_socket`, since `socket` takes longer to import."""
    import _socket

    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)


def _send_listener(connection: Any, program: bytes) -> None:
    """Have calls that write reported, and send the descriptor that they are reported to."""
    import _socket
    import ctypes

    filter_ = ctypes.cast(_filter_program(program), ctypes.c_void_p)
    try:
        listener = _call_libc("syscall", _SECCOMP_CALL, 1, _LISTENER | _KILLABLE, filter_)
    except OSError:  # older kernels can't wait without being interrupted
        listener = _call_libc("syscall", _SECCOMP_CALL, 1, _LISTENER, filter_)
    connection.sendmsg([b"1"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))])
    os.close(listener)
    connection.close()


def _start_broker(connection: Any, plan: dict[str, Any]) -> None:
    """Serve the listener that the program sends; a program that failed to start sends none."""
    import _socket

    _, ancillary, _, _ = connection.recvmsg(1, _socket.CMSG_SPACE(4))
    connection.close()
    if ancillary:
        import broker  # type: ignore[import-not-found]  # beside this file, which is run by itself

        listener = int.from_bytes(ancillary[0][2], sys.byteorder)
        os.set_inheritable(listener, False)
        broker.start(listener, plan)


if __name__ in ("__main__", "launcher"):
    main()

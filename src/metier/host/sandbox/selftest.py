"""Try, from inside a boundary, what it must refuse and what it must allow; print one line for each.

It runs by itself in the box, with the interpreter that scripts are run with, and imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_EPERM, _ENOSYS = 1, 38
_C = ctypes.CDLL(None, use_errno=True)
_NUMBERS = {
    "x86_64": {
        "ptrace": 101, "keyctl": 250, "bpf": 321, "mount": 165, "unshare": 272, "io_uring_setup": 425, "shmctl": 31,
    },
    "aarch64": {
        "ptrace": 117, "keyctl": 219, "bpf": 280, "mount": 40, "unshare": 97, "io_uring_setup": 425, "shmctl": 195,
    },
}.get(os.uname().machine, {})  # fmt: skip


def _call(name: str, *values: object) -> None:
    """A system call that does no harm when it is let through; refused is only what the filter refuses."""
    if _C.syscall(_NUMBERS[name], *values) == -1 and ctypes.get_errno() in (_EPERM, _ENOSYS):
        raise OSError(ctypes.get_errno(), name)


def _write(path: str) -> None:
    """Make a file, and take it away again."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)


def _open(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def _read(path: str) -> None:
    with open(path, "rb") as file:
        if not file.read(1):
            raise OSError(0, "empty")


def _connect(kind: int, family: int, address: object) -> None:
    with socket.socket(family, kind) as one:
        one.settimeout(2)
        one.connect(address)  # type: ignore[arg-type]
        one.send(b"x")


def _capable(kept: int) -> None:
    """Whether there is a capability beyond those that the tier keeps."""
    header = ctypes.create_string_buffer((0x20080522).to_bytes(4, sys.byteorder) + bytes(4))
    data = ctypes.create_string_buffer(24)
    _C.capget(header, data)
    words = [int.from_bytes(data.raw[at : at + 4], sys.byteorder) for at in range(0, 24, 4)]
    if not (words[0] | words[1]) & ~kept and not words[3] | words[4]:
        raise PermissionError(_EPERM, "no capability")


def _privileges() -> None:
    if _C.prctl(39, 0, 0, 0, 0) == 1:
        raise PermissionError(_EPERM, "no new privileges")


def _request(path: str, number: int) -> None:
    """Ask something of an open file: whatever it is, the filter must be the one that says no."""
    import fcntl

    opened = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(opened, number, bytes(8))
    except OSError as error:
        if error.errno == _EPERM:
            raise
    finally:
        os.close(opened)


def _through(path: str, change: Callable[[int], object]) -> None:
    """Change a file that was opened for reading only."""
    opened = os.open(path, os.O_RDONLY)
    try:
        change(opened)
    finally:
        os.close(opened)


def _limit(victim: int) -> None:
    import resource

    resource.prlimit(victim, resource.RLIMIT_CORE)


def refusals(outside: str, skill: str, port: int, victim: int, kept: int) -> dict[str, Callable[[], object]]:
    return {
        "read outside": lambda: _read(f"{outside}/secret"),
        "write outside": lambda: _write(f"{outside}/written"),
        "truncate outside": lambda: os.truncate(f"{outside}/secret", 0),
        "rename outside": lambda: os.rename(f"{outside}/secret", f"{outside}/moved"),
        "change modes outside": lambda: os.chmod(f"{outside}/secret", 0o777),
        "write the skill": lambda: _write(f"{skill}/written"),
        "write /usr": lambda: _write("/usr/.metier-probe"),
        "write /": lambda: _write("/.metier-probe"),
        "write /dev": lambda: _write("/dev/.metier-probe"),
        "read /etc/shadow": lambda: _read("/etc/shadow"),
        "set core_pattern": lambda: _open("/proc/sys/kernel/core_pattern"),
        "read another's environment": lambda: _read_environment(victim),
        "signal another": lambda: os.kill(victim, signal.SIGTERM),
        "limit another": lambda: _limit(victim),
        "slow another": lambda: os.setpriority(os.PRIO_PROCESS, victim, 19),
        "bind another": lambda: os.sched_setaffinity(victim, os.sched_getaffinity(0)),
        "shared memory": lambda: _call("shmctl", 0, 14, ctypes.create_string_buffer(256)),
        "change modes through an open file": lambda: _through(f"{skill}/SKILL.md", lambda at: os.fchmod(at, 0o777)),
        "mark an open file": lambda: _through(f"{skill}/SKILL.md", lambda at: os.setxattr(at, "user.metier", b"1")),
        "flag an open file": lambda: _request(f"{skill}/SKILL.md", 0x40086602),
        "TCP": lambda: _connect(socket.SOCK_STREAM, socket.AF_INET, ("127.0.0.1", port)),
        "UDP": lambda: _connect(socket.SOCK_DGRAM, socket.AF_INET, ("127.0.0.1", port)),
        "abstract socket": lambda: _connect(socket.SOCK_STREAM, socket.AF_UNIX, f"\0metier-probe-{port}"),
        "socket file": lambda: _connect(socket.SOCK_STREAM, socket.AF_UNIX, f"{outside}/socket"),
        "ptrace": lambda: _call("ptrace", 16, victim, 0, 0),
        "mount": lambda: _call("mount", 0, 0, 0, 0, 0),
        "user namespace": lambda: _call("unshare", 0x10000000),
        "keyctl": lambda: _call("keyctl", 0, -3, 0),
        "bpf": lambda: _call("bpf", 0, 0, 0),
        "io_uring": lambda: _call("io_uring_setup", 1, ctypes.create_string_buffer(256)),
        "type ahead": lambda: _request("/dev/null", 0x5412),
        "capabilities": lambda: _capable(kept),
        "new privileges": _privileges,
    }


def _read_environment(victim: int) -> None:
    with open(f"/proc/{victim}/environ", "rb") as file:
        if b"METIER_PROBE_SECRET" not in file.read():
            raise OSError(0, "not its own")


def allowances(skill: str, work: str) -> dict[str, Callable[[], object]]:
    return {
        "read the skill": lambda: _read(f"{skill}/SKILL.md"),
        "write the work folder": lambda: _write(f"{work}/written"),
        "write TMPDIR": lambda: _write(os.getenv("TMPDIR", "") + "/scratch"),
        "start a program": lambda: _start(sys.executable, "-I", "-S", "-c", "pass"),
        "start a shell": lambda: _start("/bin/sh", "-c", "exit 0"),
    }


def _start(*argv: str) -> None:
    if os.spawnv(os.P_WAIT, argv[0], argv):
        raise OSError(0, f"{argv[0]} can't be started")


def _try(name: str, deed: Callable[[], object], wanted: str) -> None:
    try:
        deed()
        came = "done"
        note = ""
    except (OSError, KeyError) as error:
        came = "refused"
        note = str(error)
    sys.stdout.write(f"{'ok' if came == wanted else 'BAD'}\t{name}\t{came} {note}\n")


def main(skill: str, work: str, outside: str, *numbers: str) -> None:
    port, victim, kept = map(int, numbers)
    for name, deed in allowances(skill, work).items():
        _try(name, deed, "done")
    for name, deed in refusals(outside, skill, port, victim, kept).items():
        _try(name, deed, "refused")
    sys.stdout.write("end\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Try, from inside a sandbox, what it must refuse and what it must allow; print one line for each.

Runs as a script of its own, with the interpreter that runs skills' scripts, and imports nothing of ours.
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
# By number, since the C library wraps few of these.
_NUMBERS = {
    "x86_64": {
        "ptrace": 101,
        "keyctl": 250,
        "bpf": 321,
        "mount": 165,
        "unshare": 272,
        "io_uring_setup": 425,
        "shmctl": 31,
    },
    "aarch64": {
        "ptrace": 117,
        "keyctl": 219,
        "bpf": 280,
        "mount": 40,
        "unshare": 97,
        "io_uring_setup": 425,
        "shmctl": 195,
    },
}.get(os.uname().machine, {})


def _make_syscall(name: str, *values: object) -> None:
    """Make a system call that is harmless if allowed; only the filter's errors count as a refusal."""
    if _C.syscall(_NUMBERS[name], *values) == -1 and ctypes.get_errno() in (_EPERM, _ENOSYS):
        raise OSError(ctypes.get_errno(), name)


def _create_file(path: str) -> None:
    """Make a file and remove it again."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)


def _leave_file(path: str) -> None:
    """Make a file that another program obeys.  Whether it may be made or not, the parent looks whether it is there."""
    try:  # noqa: SIM105 - `contextlib` costs as much as the test
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        pass
    raise PermissionError(_EPERM, "judged from outside")


def _open_for_writing(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def _read_byte(path: str) -> None:
    with open(path, "rb") as file:
        if not file.read(1):
            raise OSError(0, "empty")


def _connect_socket(kind: int, family: int, address: object) -> None:
    with socket.socket(family, kind) as connection:
        connection.settimeout(2)
        connection.connect(address)  # type: ignore[arg-type]
        connection.send(b"x")


def _check_capabilities(capabilities: int) -> None:
    """Refused if there is no capability beyond those that the tier keeps."""
    header = ctypes.create_string_buffer((0x20080522).to_bytes(4, sys.byteorder) + bytes(4))
    data = ctypes.create_string_buffer(24)
    _C.capget(header, data)
    masks = [int.from_bytes(data.raw[at : at + 4], sys.byteorder) for at in range(0, 24, 4)]
    if not (masks[0] | masks[1]) & ~capabilities and not masks[3] | masks[4]:
        raise PermissionError(_EPERM, "no capability")


def _check_new_privileges() -> None:
    if _C.prctl(39, 0, 0, 0, 0) == 1:
        raise PermissionError(_EPERM, "no new privileges")


def _issue_ioctl(path: str, number: int) -> None:
    """Send an ioctl: only EPERM, the filter's error, counts as a refusal."""
    import fcntl

    opened = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(opened, number, bytes(8))
    except OSError as error:
        if error.errno == _EPERM:
            raise
    finally:
        os.close(opened)


def _change_open_file(path: str, change: Callable[[int], object]) -> None:
    """Change a file that was opened for reading only."""
    opened = os.open(path, os.O_RDONLY)
    try:
        change(opened)
    finally:
        os.close(opened)


def _link_file(path: str, link: str) -> None:
    """Give a file a second name in a folder that is writable, and change it by that name."""
    os.link(path, link)
    try:
        _open_for_writing(link)
    finally:
        os.unlink(link)


def _read_moved(folder: str, moved: str, name: str) -> None:
    """Rename the folder around something hidden and look again: what is hidden by its path must stay so."""
    try:  # noqa: SIM105 - refused or not, what counts is whether it can be read
        os.rename(folder, moved)
    except OSError:
        pass
    _read_byte(f"{moved}/{name}")


def _look_up_service(name: str) -> None:
    """Ask macOS for the port of a service: with it a program would have others act in its place."""
    port = ctypes.c_uint(0)
    if _C.bootstrap_look_up(ctypes.c_uint.in_dll(_C, "bootstrap_port"), name.encode(), ctypes.byref(port)):
        raise PermissionError(_EPERM, name)


def _limit_process(victim: int) -> None:
    import resource

    resource.prlimit(victim, resource.RLIMIT_CORE)


def refused_actions(
    outside: str, skill: str, port: int, victim: int, capabilities: int
) -> dict[str, Callable[[], object]]:
    return {
        # The names are shown by `metier doctor` and listed in the documentation.
        "read outside": lambda: _read_byte(f"{outside}/secret"),
        "write outside": lambda: _create_file(f"{outside}/written"),
        "truncate outside": lambda: os.truncate(f"{outside}/secret", 0),
        "rename outside": lambda: os.rename(f"{outside}/secret", f"{outside}/moved"),
        "change modes outside": lambda: os.chmod(f"{outside}/secret", 0o777),
        "write the skill": lambda: _create_file(f"{skill}/written"),
        "write /usr": lambda: _create_file("/usr/.metier-probe"),
        "write /": lambda: _create_file("/.metier-probe"),
        "write /dev": lambda: _create_file("/dev/.metier-probe"),
        "read /etc/shadow": lambda: _read_byte("/etc/shadow"),
        "set core_pattern": lambda: _open_for_writing("/proc/sys/kernel/core_pattern"),
        "read another's environment": lambda: _read_environment(victim),
        "signal another": lambda: os.kill(victim, signal.SIGTERM),
        "limit another": lambda: _limit_process(victim),
        "slow another": lambda: os.setpriority(os.PRIO_PROCESS, victim, 19),
        "bind another": lambda: os.sched_setaffinity(victim, os.sched_getaffinity(0)),
        "shared memory": lambda: _make_syscall("shmctl", 0, 14, ctypes.create_string_buffer(256)),
        "change modes through an open file": lambda: _change_open_file(
            f"{skill}/SKILL.md", lambda at: os.fchmod(at, 0o777)
        ),
        "mark an open file": lambda: _change_open_file(
            f"{skill}/SKILL.md", lambda at: os.setxattr(at, "user.metier", b"1")
        ),
        "flag an open file": lambda: _issue_ioctl(f"{skill}/SKILL.md", 0x40086602),
        "TCP": lambda: _connect_socket(socket.SOCK_STREAM, socket.AF_INET, ("127.0.0.1", port)),
        "UDP": lambda: _connect_socket(socket.SOCK_DGRAM, socket.AF_INET, ("127.0.0.1", port)),
        "abstract socket": lambda: _connect_socket(socket.SOCK_STREAM, socket.AF_UNIX, f"\0metier-probe-{port}"),
        "socket file": lambda: _connect_socket(socket.SOCK_STREAM, socket.AF_UNIX, f"{outside}/socket"),
        "ptrace": lambda: _make_syscall("ptrace", 16, victim, 0, 0),
        "mount": lambda: _make_syscall("mount", 0, 0, 0, 0, 0),
        "user namespace": lambda: _make_syscall("unshare", 0x10000000),
        "keyctl": lambda: _make_syscall("keyctl", 0, -3, 0),
        "bpf": lambda: _make_syscall("bpf", 0, 0, 0),
        "io_uring": lambda: _make_syscall("io_uring_setup", 1, ctypes.create_string_buffer(256)),
        "type ahead": lambda: _issue_ioctl("/dev/null", 0x5412),
        "capabilities": lambda: _check_capabilities(capabilities),
        "new privileges": _check_new_privileges,
    }


def project_actions(project: str) -> dict[str, Callable[[], object]]:
    """What must be refused in a folder that may be written: in `around` something is hidden."""
    return {
        "write .git": lambda: _create_file(f"{project}/.git/written"),
        "change .git/config": lambda: _open_for_writing(f"{project}/.git/config"),
        "link .git/config": lambda: _link_file(f"{project}/.git/config", f"{project}/linked"),
        "create .envrc": lambda: _create_file(f"{project}/.envrc"),
        "read what is hidden": lambda: _read_byte(f"{project}/around/hidden/secret"),
        # After all that needs it where it is.
        "rename .git": lambda: os.rename(f"{project}/.git", f"{project}/renamed"),
        "move what is hidden": lambda: _read_moved(f"{project}/around", f"{project}/moved", "hidden/secret"),
        "leave .envrc behind": lambda: _leave_file(f"{project}/.envrc"),
    }


MAC_ACTIONS: dict[str, Callable[[], object]] = {
    "keychain": lambda: _look_up_service("com.apple.SecurityServer"),
    "open an app": lambda: _look_up_service("com.apple.coreservices.launchservicesd"),
    "clipboard": lambda: _look_up_service("com.apple.pasteboard.1"),
}
LINUX_CHECKS = frozenset(
    {
        "set core_pattern",
        "limit another",
        "bind another",
        "shared memory",
        "mark an open file",
        "flag an open file",
        "abstract socket",
        "ptrace",
        "mount",
        "user namespace",
        "keyctl",
        "bpf",
        "io_uring",
        "type ahead",
        "capabilities",
        "new privileges",
    }
)
"""Checks that ask Linux: on macOS the same numbers would be other calls."""


def _read_environment(victim: int) -> None:
    if sys.platform == "darwin":
        _read_arguments(victim)
        return
    with open(f"/proc/{victim}/environ", "rb") as file:
        if b"METIER_PROBE_SECRET" not in file.read():
            raise OSError(0, "not its own")


def _read_arguments(victim: int) -> None:
    """On macOS arguments and environment are one answer of the kernel (KERN_PROCARGS2)."""
    names, size = (ctypes.c_int * 3)(1, 49, victim), ctypes.c_size_t(1 << 16)
    answer = ctypes.create_string_buffer(size.value)
    if _C.sysctl(names, 3, answer, ctypes.byref(size), None, ctypes.c_size_t(0)):
        raise OSError(ctypes.get_errno(), "sysctl")
    if b"METIER_PROBE_SECRET" not in answer.raw[: size.value]:
        raise OSError(0, "not its own")


MOUNT_UNTRIED = ("create .envrc",)
"""What tiers made of mounts can't refuse: nothing is there to mount on.  It is swept away afterwards."""
VARIABLE = "a \"b\" $c 'd' #e\\f"
"""The value of METIER_PROBE_VALUE: what an engine could take for quotes, comments or names has to arrive as it is."""


def _check_variable() -> None:
    if os.getenv("METIER_PROBE_VALUE") != VARIABLE:
        raise OSError(0, f"it is {os.getenv('METIER_PROBE_VALUE')!r}")


def allowed_actions(skill: str, work: str, project: str = "") -> dict[str, Callable[[], object]]:
    return {
        **({"write the project": lambda: _create_file(f"{project}/written")} if project else {}),
        "read a variable": _check_variable,
        "read the skill": lambda: _read_byte(f"{skill}/SKILL.md"),
        "write the work folder": lambda: _create_file(f"{work}/written"),
        "write TMPDIR": lambda: _create_file(os.getenv("TMPDIR", "") + "/scratch"),
        "start a program": lambda: _start_program(sys.executable, "-I", "-S", "-c", "pass"),
        "start a shell": lambda: _start_program("/bin/sh", "-c", "exit 0"),
    }


def _start_program(*argv: str) -> None:
    if os.spawnv(os.P_WAIT, argv[0], argv):
        raise OSError(0, f"{argv[0]} can't be started")


def _try_action(name: str, action: Callable[[], object], expected: str) -> None:
    try:
        action()
        outcome = "done"
        note = ""
    except (OSError, KeyError) as error:
        outcome = "refused"
        note = str(error)
    sys.stdout.write(f"{'ok' if outcome == expected else 'BAD'}\t{name}\t{outcome} {note}\n")


def main(skill: str, work: str, outside: str, *more: str) -> None:
    port, victim, capabilities = map(int, more[:3])
    project, untried = more[3:] or ("", "")
    skipped = {*untried.split(","), *(() if sys.platform == "linux" else LINUX_CHECKS)}
    # The link first: what it links may be renamed by a later one.
    refused: dict[str, Callable[[], object]] = {
        "link outside": lambda: _link_file(f"{outside}/secret", f"{work}/linked"),
        **refused_actions(outside, skill, port, victim, capabilities),
    }
    if project:
        refused.update(project_actions(project))
    if sys.platform == "darwin":
        refused.update(MAC_ACTIONS)
    for name, action in allowed_actions(skill, work, project).items():
        _try_action(name, action, "done")
    for name, action in refused.items():
        if name not in skipped:
            _try_action(name, action, "refused")
    # The parent takes a report without this line for a test that was cut short.
    sys.stdout.write("end\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

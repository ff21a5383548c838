"""What the kernel enforces: a seccomp filter of system calls for both tiers, and Landlock, the second tier.

The filter is a deny list: it refuses what no skill's script needs and what has let programs out of sandboxes before,
such as other processes' memory, mounts, namespaces, kernel keys, BPF, io_uring and sockets.  An allow list would break
with every new libc, and skills run arbitrary interpreters.  The filter is assembled here as classic BPF: a list of
comparisons is simpler than a dependency on libseccomp.

Landlock restricts files by rules that only ever add rights, so what must stay closed inside an open folder is left
out by opening everything around it.  The rules are applied by `launcher` in the child, before it executes the program.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ..host.process import Confinement, launch_program
from ..types.sandbox import ProcessResult, ProgramSpec, SandboxSpec
from . import limits
from .obeyed import OBEYED, PROTECTED
from .profile import LINKS, SYSTEM, SandboxView, system_settings
from .syscalls import (
    ABSENT_CALLS,
    ANY_SOCKET,
    ATTRIBUTE_CALLS,
    BY_ID,
    BY_KIND,
    CLONE,
    DATAGRAM_BIT,
    FORBIDDEN_CALLS,
    FORBIDDEN_IOCTLS,
    IOCTL_CALL,
    MAKES_FILE,
    MAKING_CALLS,
    MODE_ARGUMENTS,
    MODE_CALLS,
    OPENING_CALLS,
    OWNER_CALLS,
    PRCTL,
    RIGHTS,
    SEND_SIZE,
    SET_DUMPABLE,
    SETSOCKOPT,
    SOCKET,
    SOCKETPAIR,
    USERS_RIGHTS,
    WRITE_FLAGS,
    WRITING_CALLS,
    SyscallNumbers,
)

# --- The filter: encoding ---

_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000
_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NO_ERROR = 0
"""Skips the call and reports success: the size of a socket buffer is only a hint to the kernel anyway."""
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_LAST_FAMILY = 63
"""Above every family of sockets that any kernel has: a profile of names can't say "all but these"."""


class _Architecture(NamedTuple):
    audit: int
    column: int


_ARCHITECTURES = {
    "x86_64": _Architecture(0xC000003E, 0),
    "aarch64": _Architecture(0xC00000B7, 1),
    "arm64": _Architecture(0xC00000B7, 1),
}

# --- The filter: building ---


def is_supported(machine: str = "") -> bool:
    """Whether there is a filter for this architecture."""
    return (machine or os.uname().machine) in _ARCHITECTURES


def build_filter(
    network: bool,
    modes: bool = True,
    marks: bool = True,
    others: bool = True,
    rights: int | None = None,
    machine: str = "",
) -> bytes:
    """The filter program.

    Without `modes`, it refuses to change permissions of files; without `marks`, their owners and attributes; without
    `others`, limits and priority of other processes.  Landlock needs this: it does not rule these calls.  No file can
    be given one of the `rights`, bits of its mode.
    """
    kind = _ARCHITECTURES[machine or os.uname().machine]
    code = [
        _encode_instruction(_LOAD, _ARCH),
        _encode_instruction(_EQUAL, kind.audit, 1, 0),
        _refuse_with(errno.ENOSYS),
        _encode_instruction(_LOAD, _NUMBER),
    ]
    if kind.column == 0:  # x32 calls have numbers of their own, which the tables lack
        code += [_encode_instruction(_AT_LEAST, _X32, 0, 1), _refuse_with(errno.ENOSYS)]
    refused: SyscallNumbers = {
        **FORBIDDEN_CALLS,
        **({} if modes else MODE_CALLS),
        **({} if marks else OWNER_CALLS),
    }
    code += _refusal_rules(kind, refused, errno.EPERM)
    # As on a file system that has none, which programs that copy files know and pass over.
    code += _refusal_rules(kind, {} if marks else ATTRIBUTE_CALLS, errno.EOPNOTSUPP)
    code += _refusal_rules(kind, ABSENT_CALLS, errno.ENOSYS)
    code += _check_argument(
        CLONE[kind.column], 0, [_encode_instruction(_HAS_BITS, _NAMESPACES, 0, 1), _refuse_with(errno.EPERM)]
    )
    code += _check_argument(IOCTL_CALL[kind.column], 1, _refuse_values(FORBIDDEN_IOCTLS))
    code += _check_argument(
        PRCTL[kind.column], 0, _refuse_values((SET_DUMPABLE,))
    )  # the limit watch reads /proc of the program
    code += _check_argument(SETSOCKOPT[kind.column], 1, _ignore_send_size())
    if not others:
        code += _own_process_only(kind)
    code += _socket_rules(SOCKET[kind.column], network)
    code += _pair_rules(SOCKETPAIR[kind.column])
    code += _rights_rules(kind, _withheld_rights() if rights is None else rights)
    code.append(_encode_instruction(_RETURN, _ALLOW))
    return b"".join(code)


def filter_profile(network: bool) -> dict[str, object]:
    """The same filter by the names of the calls, as container engines read it."""
    only_bits = [{"index": 0, "value": 1 << bit, "valueTwo": 1 << bit, "op": "SCMP_CMP_MASKED_EQ"} for bit in range(32)]
    namespaces = [check for check in only_bits if int(str(check["value"])) & _NAMESPACES]
    requests = [
        {"index": 1, "value": 0xFFFFFFFF, "valueTwo": request, "op": "SCMP_CMP_MASKED_EQ"}
        for request in FORBIDDEN_IOCTLS
    ]
    rules: list[dict[str, object]] = [
        _profile_rule(tuple(FORBIDDEN_CALLS), errno.EPERM),
        _profile_rule(tuple(ABSENT_CALLS), errno.ENOSYS),
        # One rule for each: a rule's own conditions must all hold.
        *(_profile_rule(("clone",), errno.EPERM, check) for check in namespaces),
        *(_profile_rule(("ioctl",), errno.EPERM, check) for check in requests),
        _profile_rule(("socketpair",), errno.EPERM, {"index": 0, "value": _UNIX, "op": "SCMP_CMP_NE"}),
        _profile_rule(("socketpair",), errno.EPERM, _profile_bit(1, DATAGRAM_BIT)),
        *_profile_rights(),
    ]
    if network:
        families = [number for number in range(_LAST_FAMILY + 1) if number not in (_INET, _INET6, _NETLINK)]
        checks = [{"index": 0, "value": number, "op": "SCMP_CMP_EQ"} for number in families]
        checks.append({"index": 0, "value": _LAST_FAMILY, "op": "SCMP_CMP_GT"})
        rules += [_profile_rule(("socket",), errno.EPERM, check) for check in checks]
    else:
        rules.append(_profile_rule(("socket",), errno.EPERM))
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}


def _profile_rule(names: tuple[str, ...], number: int, *checks: Mapping[str, object]) -> dict[str, object]:
    return {"names": list(names), "action": "SCMP_ACT_ERRNO", "errnoRet": number, "args": list(checks)}


def _profile_bit(index: int, bit: int) -> dict[str, object]:
    return {"index": index, "value": bit, "valueTwo": bit, "op": "SCMP_CMP_MASKED_EQ"}


def _profile_rights() -> Iterator[dict[str, object]]:
    """No file that gives its owner's rights to whoever runs it, bit by bit."""
    for bit in (0o4000, 0o2000):
        if bit & _withheld_rights():
            for name, argument in MODE_ARGUMENTS.items():
                yield _profile_rule((name,), errno.EPERM, _profile_bit(argument, bit))
        for name, (_, argument) in MAKING_CALLS.items():
            yield _profile_rule((name,), errno.EPERM, _profile_bit(argument, bit))
        for name, (_, argument) in OPENING_CALLS.items():
            for flag in (os.O_CREAT, MAKES_FILE & ~os.O_CREAT):
                yield _profile_rule((name,), errno.EPERM, _profile_bit(argument, flag), _profile_bit(argument + 1, bit))


def build_broker_filter(reads: bool, machine: str = "") -> bytes:
    """The filter that has calls reported to the broker: those that write, and with `reads` every opening of a file."""
    kind = _ARCHITECTURES[machine or os.uname().machine]
    report = _encode_instruction(_RETURN, _NOTIFY)
    # Calls in another way have been refused by the first filter.
    code = [_encode_instruction(_LOAD, _ARCH), _encode_instruction(_EQUAL, kind.audit, 1, 0)]
    code += [_encode_instruction(_RETURN, _ALLOW), _encode_instruction(_LOAD, _NUMBER)]
    for columns in WRITING_CALLS.values():
        if columns[kind.column] >= 0:
            code += [_encode_instruction(_EQUAL, columns[kind.column], 0, 1), report]
    for columns, argument in OPENING_CALLS.values():
        if columns[kind.column] >= 0:
            judge = [report] if reads else [_encode_instruction(_HAS_BITS, WRITE_FLAGS, 0, 1), report]
            code += _check_argument(columns[kind.column], argument, judge)
    return b"".join([*code, _encode_instruction(_RETURN, _ALLOW)])


def broker_plan(view: SandboxView, box: SandboxSpec) -> dict[str, object]:
    """What the broker may do for a program: the view's paths, and the names that are protected further in."""
    kind = _ARCHITECTURES[os.uname().machine]
    numbers = {**WRITING_CALLS, **{name: columns for name, (columns, _) in OPENING_CALLS.items()}}
    closed = _closed_paths(view)
    opened = [access.path for access in view.seen if access.kind in ("read", "write")]
    protected = [name for name in (*PROTECTED, *box.protected) if name.startswith(".") and "/" not in name]
    scopes = {row.pattern: row.scope for row in OBEYED}
    return {
        # Landlock opens what is around something hidden piece by piece, and a new file is none of the pieces.
        "filter": build_broker_filter(any(path.startswith(f"{around}/") for path in closed for around in opened)),
        "calls": {columns[kind.column]: name for name, columns in numbers.items() if columns[kind.column] >= 0},
        "accesses": [(os.fsencode(access.path), access.kind) for access in view.seen if access.kind != "link"],
        "work": os.fsencode(view.work),
        # Those that count at the top alone are guarded by their paths.
        "names": [name for name in protected if scopes.get(name) != "top"],
        "everywhere": [name for name in protected if scopes.get(name) == "anywhere"],
        "allowed": list(box.allowed),
        "largest": box.limits.file,
    }


def _closed_paths(view: SandboxView) -> tuple[str, ...]:
    return tuple(access.path for access in view.seen if access.kind == "hide")


def _socket_rules(number: int, network: bool) -> Iterable[bytes]:
    """No sockets without the network, and only internet sockets with it.  `socketpair` is another call, and allowed."""
    if not network:
        return [_encode_instruction(_EQUAL, number, 0, 1), _refuse_with(errno.EPERM)]
    return _check_argument(
        number,
        0,
        [
            _encode_instruction(_EQUAL, _INET, 3, 0),
            _encode_instruction(_EQUAL, _INET6, 2, 0),
            _encode_instruction(_EQUAL, _NETLINK, 1, 0),
            _refuse_with(errno.EPERM),
        ],
    )


def _pair_rules(number: int) -> list[bytes]:
    """Only pairs of streams: a datagram socket reaches any other one by its path, though it was made in a pair."""
    judge = [
        _encode_instruction(_EQUAL, _UNIX, 0, 2),
        _encode_instruction(_LOAD, _ARGUMENTS + 8),
        _encode_instruction(_HAS_BITS, DATAGRAM_BIT, 0, 1),
        _refuse_with(errno.EPERM),
    ]
    return _check_argument(number, 0, judge)


def _withheld_rights() -> int:
    """The bits that no file gets.  Folders shared by a group need set-group-id; root's group is not to be shared."""
    return RIGHTS if os.geteuid() == 0 else USERS_RIGHTS


def _rights_rules(kind: _Architecture, rights: int) -> Iterator[bytes]:
    """No file is made that gives its owner's rights to whoever runs it: outside the sandbox it would."""
    refuse = [_encode_instruction(_HAS_BITS, RIGHTS, 0, 1), _refuse_with(errno.EPERM)]
    changed = {name: (MODE_CALLS[name], argument) for name, argument in MODE_ARGUMENTS.items() if rights}
    for columns, argument in changed.values():
        if columns[kind.column] >= 0:
            judge = [_encode_instruction(_HAS_BITS, rights, 0, 1), _refuse_with(errno.EPERM)]
            yield from _check_argument(columns[kind.column], argument, judge)
    for columns, argument in MAKING_CALLS.values():
        if columns[kind.column] >= 0:
            yield from _check_argument(columns[kind.column], argument, refuse)
    for columns, argument in OPENING_CALLS.values():
        if columns[kind.column] >= 0:
            # Where no file is made, the argument for its mode holds anything.
            makes = _encode_instruction(_HAS_BITS, MAKES_FILE, 0, 3)
            judge = [makes, _encode_instruction(_LOAD, _ARGUMENTS + 8 * (argument + 1)), *refuse]
            yield from _check_argument(columns[kind.column], argument, judge)


def _refuse_values(values: tuple[int, ...]) -> list[bytes]:
    """Refuse each of the values; any other jumps over the refusal."""
    last = len(values) - 1
    steps = [_encode_instruction(_EQUAL, value, last - at, int(at == last)) for at, value in enumerate(values)]
    return [*steps, _refuse_with(errno.EPERM)]


def _ignore_send_size() -> list[bytes]:
    """Ignore SO_SNDBUF: what waits in a socket is kernel memory that no limit counts."""
    check = [
        _encode_instruction(_LOAD, _ARGUMENTS + 16),
        _encode_instruction(_EQUAL, SEND_SIZE, 0, 1),
        _refuse_with(_NO_ERROR),
    ]
    return [_encode_instruction(_EQUAL, ANY_SOCKET, 0, len(check)), *check]


def _own_process_only(kind: _Architecture) -> Iterator[bytes]:
    """Refuse calls that name a process other than the caller."""
    for columns in BY_ID.values():
        yield from _check_argument(
            columns[kind.column], 0, [_encode_instruction(_EQUAL, 0, 1, 0), _refuse_with(errno.EPERM)]
        )
    for columns, everything in BY_KIND.values():
        judge = [
            _encode_instruction(_AT_LEAST, everything, 2, 0),
            _encode_instruction(_LOAD, _ARGUMENTS + 8),
            _encode_instruction(_EQUAL, 0, 1, 0),
            _refuse_with(errno.EPERM),
        ]
        yield from _check_argument(columns[kind.column], 0, judge)


def _refusal_rules(kind: _Architecture, calls: SyscallNumbers, number: int) -> Iterator[bytes]:
    for columns in calls.values():
        if columns[kind.column] >= 0:
            yield _encode_instruction(_EQUAL, columns[kind.column], 0, 1)
            yield _refuse_with(number)


def _check_argument(number: int, argument: int, judge: list[bytes]) -> list[bytes]:
    """Judge a call by the low half of an argument; what is not refused is allowed."""
    check = [_encode_instruction(_LOAD, _ARGUMENTS + 8 * argument), *judge, _encode_instruction(_RETURN, _ALLOW)]
    return [_encode_instruction(_EQUAL, number, 0, len(check)), *check]


def _encode_instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _refuse_with(number: int) -> bytes:
    return _encode_instruction(_RETURN, _ERRNO | number)


# --- Landlock ---

_CREATE = 444
# The rights of <linux/landlock.h>.
_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE, _IOCTL = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_FILE = _EXECUTE | _WRITE | _READ | _TRUNCATE
_LOOK = _EXECUTE | _READ | _LIST
_SPECIAL = 1 << 6 | 1 << 11
"""The rights to make device nodes, which are never granted."""
_NET = 0b11
_SCOPE = 0b11
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PROC = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems", "/proc/uptime")
_READ_SEARCH, _OVERRIDE = 1 << 2, 1 << 1
"""Capabilities to pass file permissions: a root that became another user still reads what it was granted."""
_SETTINGS = "GIT_CONFIG_COUNT"
_FIRST, _MANY = 61_184, 4_336
"""The range of user ids that systemd reserves for dynamic users: no account has one."""


class LandlockRequest(NamedTuple):
    """What to confine, and how."""

    program: ProgramSpec
    box: SandboxSpec
    view: SandboxView
    abi: int
    groups: bool
    broker: bool = True
    """Whether calls that write go to the broker; without it nothing inside a writable folder can be protected."""


def landlock_abi() -> int:
    """The Landlock version of the kernel; 0 if it has none."""
    version: int = ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(0, version)


def run_under_landlock(request: LandlockRequest) -> ProcessResult:
    """Run a program that the launcher confines before it starts."""
    view, box = request.view, request.box
    network = box.permissions.network
    root = os.geteuid() == 0
    with limits.control_group(box.limits, request.groups) as cgroup:
        watch = limits.LimitWatch(box.limits, cgroup, view.work, view.writes)
        # As root the program gets a user id of its own, which has no other tasks.
        processes = box.limits.processes + (0 if root else _count_tasks(os.getuid()))
        confinement = Confinement(
            limits=limits.process_rlimits(box.limits, cgroup, processes),
            landlock={
                "attribute": _ruleset_attribute(request.abi, network),
                "rules": list(_path_rules(request)),
            },
            # The broker decides over modes itself: unlike a filter it knows a folder from a file.
            seccomp=build_filter(
                network, root or request.broker, marks=False, others=False, rights=0 if request.broker else RIGHTS
            ),
            broker=broker_plan(view, box) if request.broker else None,
            uid=_spare_uid() if root else 0,
            capabilities=_READ_SEARCH | _OVERRIDE if root else 0,
            tier="landlock",
            watch=watch,
            joins=cgroup.lists if cgroup else (),
        )
        env = _git_environment(view.env, root)
        result = launch_program(replace(request.program, argv=view.argv, cwd=view.cwd, env=env), confinement)
        return replace(result, note=result.note or watch.afterwards())


def _spare_uid() -> int:
    """A random spare user id, so that runs at the same time can't reach each other."""
    return _FIRST + int.from_bytes(os.urandom(4), "little") % _MANY


def _git_environment(env: Mapping[str, str], root: bool) -> dict[str, str]:
    """The environment, with settings that let git work under these rules.

    git fails on system settings that exist but can't be read, and on folders that belong to another user; when we were
    root, every folder does.  What that check protects from, the sandbox prevents.
    """
    environment = {**env, "GIT_CONFIG_NOSYSTEM": "1"}
    if root:
        configured = env.get(_SETTINGS, "")
        count = int(configured) if configured.isdecimal() else 0
        environment[_SETTINGS] = str(count + 1)
        environment[f"GIT_CONFIG_KEY_{count}"] = "safe.directory"
        environment[f"GIT_CONFIG_VALUE_{count}"] = "*"
    return environment


def _count_tasks(uid: int) -> int:
    """The number of tasks a user has: RLIMIT_NPROC counts all of them, not those of one program."""
    total = 0
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                if os.stat(f"/proc/{name}").st_uid == uid:
                    total += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return total


def _handled_rights(version: int) -> int:
    """Every right over files that this version knows: a right that is not handled is granted."""
    bits = 13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16
    return (1 << bits) - 1


def _ruleset_attribute(version: int, network: bool) -> bytes:
    masks = [_handled_rights(version)]
    if version >= 4:
        masks.append(0 if network else _NET)
    if version >= 6:
        masks.append(_SCOPE)
    return struct.pack(f"={len(masks)}Q", *masks)


def _path_rules(request: LandlockRequest) -> Iterator[tuple[str, int, bool]]:
    """Paths, what may be done there, and whether links on the way are followed: the system's, but not in a grant."""
    view, every = request.view, _handled_rights(request.abi)
    for path in (*SYSTEM, *LINKS, *_PROC, *system_settings(request.box.permissions.network)):
        yield from _path_rule(path, _LOOK, follow=True)
    for path in _DEVICES:
        yield from _path_rule(path, every & (_READ | _WRITE | _TRUNCATE | _IOCTL), follow=True)
    closed = _closed_paths(view)
    for access in view.seen:
        if access.kind in ("read", "write"):
            # Writing is the broker's, which can keep what is protected; in the work folder only other grants are.
            free = access.path == view.work and not _holds_grant(view, view.work)
            direct = access.kind == "write" and (free or not request.broker)
            for path in _paths_around(access.path, closed):
                yield from _path_rule(path, every & ~_SPECIAL if direct else _LOOK)


def _holds_grant(view: SandboxView, folder: str) -> bool:
    return any(access.path.startswith(f"{folder}/") and access.kind in ("read", "write") for access in view.seen)


def _path_rule(path: str, access: int, follow: bool = False) -> Iterator[tuple[str, int, bool]]:
    if os.path.isdir(path):
        yield path, access, follow
    elif os.path.exists(path):
        # The kernel rejects rights over folders in a rule for a file.
        yield path, access & (_FILE | _IOCTL), follow


def _paths_around(path: str, closed: tuple[str, ...]) -> Iterator[str]:
    """A folder, or, if something in it stays closed, everything around that: no rule can take a right back."""
    if path in closed:
        return
    if not any(hidden.startswith(path + "/") for hidden in closed):
        yield path
        return
    for name in sorted(os.listdir(path)):
        if not os.path.islink(f"{path}/{name}"):  # a rule would apply to its target
            yield from _paths_around(f"{path}/{name}", closed)

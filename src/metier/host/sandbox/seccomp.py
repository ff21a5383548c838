"""A filter of system calls, as the classic BPF program that the kernel takes.

It names what is refused; all else goes on.  What no skill's script has use for and what has let programs out of
boxes before is refused: other processes' memory, mounts and namespaces, kernel keys, BPF, io_uring, sockets.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000
_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_DONE = 0
"""No error at all: the call is passed over, and the program goes on.  How much waits in a socket is a wish anyway."""
_REQUESTS = (
    0x5412,  # TIOCSTI and TIOCLINUX type into a terminal
    0x541C,
    0x40086602,  # FS_IOC_SETFLAGS, in both widths, and the newer call
    0x40046602,
    0x401C5820,
    0x40087602,  # FS_IOC_SETVERSION
    0x40047602,
    0x40806685,  # FS_IOC_ENABLE_VERITY
    0x800C6613,  # FS_IOC_SET_ENCRYPTION_POLICY
)
"""What no open file is asked to do: the owner of a file could change it so, although it was opened for reading."""
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16


class _Machine(NamedTuple):
    audit: int
    column: int


_MACHINES = {"x86_64": _Machine(0xC000003E, 0), "aarch64": _Machine(0xC00000B7, 1), "arm64": _Machine(0xC00000B7, 1)}

_NEVER = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "unshare": (272, 97),
    "chroot": (161, 51),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "personality": (135, 92),
    "vhangup": (153, 58),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "modify_ldt": (154, -1),
    "lookup_dcookie": (212, 18),
}
"""Answered with EPERM.  On x86_64 and on aarch64; -1 where there is no such call."""

_ABSENT = {
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "clone3": (435, 435),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
"""Answered with ENOSYS, upon which programs go another way: the flags of `clone3` can't be seen from here, memory
that belongs to no process escapes its limits, what is shared by number is shared with all programs of the user."""

_MODES = {
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, -1),
    "lchown": (94, -1),
    "fchown": (93, 55),
    "fchownat": (260, 54),
}
_MARKS = {
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
_BY_ID = {
    "prlimit64": (302, 261),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}
"""Calls that name a process first; 0 is whoever calls."""
_BY_KIND = {"setpriority": ((141, 140), 2), "ioprio_set": ((251, 30), 3)}
"""Calls that name a kind first and one of that kind second; from the number on, the kind is all that a user runs."""
_SOCKET, _CLONE, _IOCTL, _SETSOCKOPT, _PRCTL = (41, 198), (56, 220), (16, 29), (54, 208), (157, 167)
_ANY_SOCKET, _SEND_SIZE, _SET_DUMPABLE = 1, 7, 4


Refusals = dict[str, tuple[int, int]]


def is_known(machine: str = "") -> bool:
    """Whether there is a filter for this kind of processor."""
    return (machine or os.uname().machine) in _MACHINES


def build(network: bool, modes: bool = True, marks: bool = True, others: bool = True, machine: str = "") -> bytes:
    """The filter.

    Without `modes` and `marks`, permissions and attributes of files can't be changed; without `others`, only the
    caller's own limits and priority can: for where other programs of the same user are within reach.
    """
    kind = _MACHINES[machine or os.uname().machine]
    code = [
        _step(_LOAD, _ARCH),
        _step(_EQUAL, kind.audit, 1, 0),
        _refuse(errno.ENOSYS),
        _step(_LOAD, _NUMBER),
    ]
    if kind.column == 0:
        code += [_step(_AT_LEAST, _X32, 0, 1), _refuse(errno.ENOSYS)]
    refused: Refusals = {**_NEVER, **({} if modes else _MODES), **({} if marks else _MARKS)}
    code += _refusals(kind, refused, errno.EPERM)
    code += _refusals(kind, _ABSENT, errno.ENOSYS)
    code += _looking_at(_CLONE[kind.column], 0, [_step(_HAS_BITS, _NAMESPACES, 0, 1), _refuse(errno.EPERM)])
    code += _looking_at(_IOCTL[kind.column], 1, _none_of(_REQUESTS))
    code += _looking_at(_PRCTL[kind.column], 0, _none_of((_SET_DUMPABLE,)))  # the watch must be able to look
    code += _looking_at(_SETSOCKOPT[kind.column], 1, _no_size())
    if not others:
        code += _own_only(kind)
    code += _sockets(_SOCKET[kind.column], network)
    code.append(_step(_RETURN, _ALLOW))
    return b"".join(code)


def _sockets(number: int, network: bool) -> Iterable[bytes]:
    """Sockets only where the network is allowed, and only for it.  A joined pair is another call, and fine."""
    if not network:
        return [_step(_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    return _looking_at(
        number,
        0,
        [_step(_EQUAL, _INET, 3, 0), _step(_EQUAL, _INET6, 2, 0), _step(_EQUAL, _NETLINK, 1, 0), _refuse(errno.EPERM)],
    )


def _none_of(values: tuple[int, ...]) -> list[bytes]:
    """Refuse each of the values; any other steps over the refusal."""
    last = len(values) - 1
    steps = [_step(_EQUAL, value, last - at, int(at == last)) for at, value in enumerate(values)]
    return [*steps, _refuse(errno.EPERM)]


def _no_size() -> list[bytes]:
    """Pass over a wish for more to wait in a socket."""
    look = [_step(_LOAD, _ARGUMENTS + 16), _step(_EQUAL, _SEND_SIZE, 0, 1), _refuse(_DONE)]
    return [_step(_EQUAL, _ANY_SOCKET, 0, len(look)), *look]


def _own_only(kind: _Machine) -> Iterator[bytes]:
    """Refuse what would reach a process other than the caller."""
    for columns in _BY_ID.values():
        yield from _looking_at(columns[kind.column], 0, [_step(_EQUAL, 0, 1, 0), _refuse(errno.EPERM)])
    for columns, everything in _BY_KIND.values():
        judge = [
            _step(_AT_LEAST, everything, 2, 0),
            _step(_LOAD, _ARGUMENTS + 8),
            _step(_EQUAL, 0, 1, 0),
            _refuse(errno.EPERM),
        ]
        yield from _looking_at(columns[kind.column], 0, judge)


def _refusals(kind: _Machine, calls: Refusals, number: int) -> Iterator[bytes]:
    for columns in calls.values():
        if columns[kind.column] >= 0:
            yield _step(_EQUAL, columns[kind.column], 0, 1)
            yield _refuse(number)


def _looking_at(number: int, argument: int, judge: list[bytes]) -> list[bytes]:
    """Judge a call by the low half of an argument; what is not refused goes on to the end."""
    look = [_step(_LOAD, _ARGUMENTS + 8 * argument), *judge, _step(_RETURN, _ALLOW)]
    return [_step(_EQUAL, number, 0, len(look)), *look]


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)

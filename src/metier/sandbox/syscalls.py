"""System calls by their numbers, and what of them the filter refuses or has reported: tables, and nothing else."""

from __future__ import annotations

import os

SyscallNumbers = dict[str, tuple[int, int]]
"""Calls by their number on x86_64 and on aarch64; -1 where the call does not exist."""

FORBIDDEN_IOCTLS = (
    0x5412,  # TIOCSTI and TIOCLINUX type into a terminal
    0x541C,
    0x40086602,  # FS_IOC_SETFLAGS, in both widths, and the newer call
    0x40046602,
    0x401C5820,
    0x40087602,  # FS_IOC_SETVERSION
    0x40047602,
    0x40806685,  # FS_IOC_ENABLE_VERITY
    0x800C6613,  # FS_IOC_SET_ENCRYPTION_POLICY
    0xC0506617,  # FS_IOC_ADD_ENCRYPTION_KEY and REMOVE_ENCRYPTION_KEY, which lock and unlock whole folders
    0xC0406618,
    0x40086604,  # the version of a file once more, as ext4 numbers it
    0x40046604,
    0x40047211,  # FAT_IOCTL_SET_ATTRIBUTES
    # btrfs makes and removes whole folders in one that is only open for reading: subvolumes and snapshots.
    *(0x50009400 | number for number in (1, 14, 15, 23, 24, 63)),
    0x4008941A,  # BTRFS_IOC_SUBVOL_SETFLAGS and SET_RECEIVED_SUBVOL
    0xC0C89425,
)
"""Requests that change a file or folder through a descriptor that was opened for reading, or type into a terminal."""

FORBIDDEN_CALLS = {
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
"""Refused with EPERM."""

ABSENT_CALLS = {
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "clone3": (435, 435),
    "openat2": (437, 437),
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
"""Refused with ENOSYS, so that programs fall back to older calls.

A filter can't see the flags of `clone3`, nor the mode of a file that `openat2` makes: both lie in memory.  Memory files
escape the limits of a process; System V objects are shared with all programs of the user."""

MODE_CALLS = {
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
}
OWNER_CALLS = {
    "chown": (92, -1),
    "lchown": (94, -1),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, -1),
    "utimes": (235, -1),
    "futimesat": (261, -1),
}
"""Owners, and times by calls that nothing uses any more: the broker sees the newer one."""
ATTRIBUTE_CALLS = {
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
BY_ID = {
    "prlimit64": (302, 261),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}
"""Calls whose first argument is a process; 0 is the caller."""
BY_KIND = {"setpriority": ((141, 140), 2), "ioprio_set": ((251, 30), 3)}
"""Calls whose first argument is a kind and whose second is one of that kind; from the number on, the kind is a user."""
OPENING_CALLS = {"open": ((2, -1), 1), "openat": ((257, 56), 2)}
"""Calls that the broker is asked about only if they write, and the argument that says so."""
WRITING_CALLS = {
    "creat": (85, -1),
    "mkdir": (83, -1),
    "mkdirat": (258, 34),
    "rmdir": (84, -1),
    "unlink": (87, -1),
    "unlinkat": (263, 35),
    "rename": (82, -1),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "link": (86, -1),
    "linkat": (265, 37),
    "symlink": (88, -1),
    "symlinkat": (266, 36),
    "truncate": (76, 45),
    "utimensat": (280, 88),
    **MODE_CALLS,
}
"""Calls that the broker is always asked about."""
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
SOCKET, CLONE, IOCTL_CALL, SETSOCKOPT, PRCTL = (41, 198), (56, 220), (16, 29), (54, 208), (157, 167)
ANY_SOCKET, SEND_SIZE, SET_DUMPABLE = 1, 7, 4

RIGHTS, USERS_RIGHTS = 0o6000, 0o4000
"""Set-user-id and set-group-id, and the first alone."""
SOCKETPAIR, DATAGRAM_BIT = (53, 199), 2
"""The bit of a socket's type that datagrams, and raw sockets, have and streams have not."""
MODE_ARGUMENTS = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
MAKING_CALLS = {"creat": ((85, -1), 1), "mknod": ((133, -1), 1), "mknodat": ((259, 33), 2)}
"""Calls that make a file, and the argument that is its mode."""
MAKES_FILE = os.O_CREAT | 0o20000000
"""Flags with which a file is opened that has a mode then: it is made, or has no name."""

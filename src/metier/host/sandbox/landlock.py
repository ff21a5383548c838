"""The second tier: Landlock for paths, a filter for system calls, another user where we are root."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ...types.running import Box, Program, Ran
from ..process import Confinement, launch
from . import limits, seccomp
from .view import ETC, LINKS, NETWORK, SYSTEM, View

_CREATE = 444
_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE, _IOCTL = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_FILE = _EXECUTE | _WRITE | _READ | _TRUNCATE
_LOOK = _EXECUTE | _READ | _LIST
_SPECIAL = 1 << 6 | 1 << 11
"""Device nodes, which nobody makes."""
_NET = 0b11
_SCOPE = 0b11
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PROC = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems", "/proc/uptime")
_READ_SEARCH, _OVERRIDE = 1 << 2, 1 << 1
_SETTINGS = "GIT_CONFIG_COUNT"
_FIRST, _MANY = 61_184, 4_336
"""User ids that are nobody's: systemd keeps this range for services that need one for a while."""


class Asked(NamedTuple):
    """What to confine and how."""

    program: Program
    box: Box
    view: View
    abi: int
    groups: bool


def abi() -> int:
    """The version of Landlock that the kernel has; 0 for none."""
    found: int = ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(0, found)


def run(asked: Asked) -> Ran:
    """Run a program confined by the launcher, before it starts."""
    view, box = asked.view, asked.box
    network = box.permissions.network
    root = os.geteuid() == 0
    with limits.group(box.limits, asked.groups) as held:
        look = limits.Watch(box.limits, held, view.work, view.writes)
        processes = box.limits.processes + (0 if root else _tasks(os.getuid()))
        confinement = Confinement(
            limits=limits.rlimits(box.limits, held, processes),
            landlock={"attribute": _attribute(asked.abi, network), "rules": list(_rules(view, asked.abi, network))},
            seccomp=seccomp.build(network, modes=root, marks=False, others=False),
            uid=_user() if root else 0,
            capabilities=_READ_SEARCH | _OVERRIDE if root else 0,
            tier="landlock",
            watch=look,
            joins=held.lists if held else (),
        )
        env = _for_git(view.env, root)
        ran = launch(replace(asked.program, argv=view.argv, cwd=view.cwd, env=env), confinement)
        return replace(ran, note=ran.note or look.afterwards())


def _user() -> int:
    """A user of its own for each run that goes on at the same time, as far as that goes."""
    return _FIRST + int.from_bytes(os.urandom(4), "little") % _MANY


def _for_git(env: Mapping[str, str], root: bool) -> dict[str, str]:
    """git gives up over settings of the machine that it sees and may not read, and over folders of another user's.

    Here every folder is another's when we were root; what git protects from by that, the box does.
    """
    made = {**env, "GIT_CONFIG_NOSYSTEM": "1"}
    if root:
        given = env.get(_SETTINGS, "")
        count = int(given) if given.isdecimal() else 0
        made[_SETTINGS] = str(count + 1)
        made[f"GIT_CONFIG_KEY_{count}"] = "safe.directory"
        made[f"GIT_CONFIG_VALUE_{count}"] = "*"
    return made


def _tasks(uid: int) -> int:
    """How many tasks a user has already: the kernel counts them all together."""
    total = 0
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                if os.stat(f"/proc/{name}").st_uid == uid:
                    total += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return total


def _handled(version: int) -> int:
    """Every right over files that this version knows, so that none is left unruled."""
    known = 13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16
    return (1 << known) - 1


def _attribute(version: int, network: bool) -> bytes:
    words = [_handled(version)]
    if version >= 4:
        words.append(0 if network else _NET)
    if version >= 6:
        words.append(_SCOPE)
    return struct.pack(f"={len(words)}Q", *words)


def _rules(view: View, version: int, network: bool) -> Iterator[tuple[str, int]]:
    every = _handled(version)
    for path in (*SYSTEM, *LINKS, *ETC, *_PROC, *(NETWORK if network else ())):
        yield from _rule(path, _LOOK)
    for path in _DEVICES:
        yield from _rule(path, every & (_READ | _WRITE | _TRUNCATE | _IOCTL))
    closed = tuple(one.path for one in view.seen if one.kind == "hide")
    for one in view.seen:
        if one.kind == "read":
            for path in _around(one.path, closed):
                yield from _rule(path, _LOOK)
        elif one.kind == "write":
            for path in _around(one.path, closed):
                yield from _rule(path, every & ~_SPECIAL)


def _rule(path: str, access: int) -> Iterator[tuple[str, int]]:
    if os.path.isdir(path):
        yield path, access
    elif os.path.exists(path):
        yield path, access & (_FILE | _IOCTL)


def _around(path: str, closed: tuple[str, ...]) -> Iterator[str]:
    """A folder, or where something in it stays closed, all but that: a rule can't be taken back further in."""
    if path in closed:
        return
    if not any(one.startswith(path + "/") for one in closed):
        yield path
        return
    for name in sorted(os.listdir(path)):
        if not os.path.islink(f"{path}/{name}"):  # a rule would be for where it leads
            yield from _around(f"{path}/{name}", closed)

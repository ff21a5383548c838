"""The wall clock, the zone it shows, and chance."""

from __future__ import annotations

import os
import time

now_ns = time.time_ns
monotonic = time.monotonic
sleep = time.sleep


def stamp() -> str:
    """Now, as a name that sorts: `20260801T093000.123456Z`."""
    now = time.time_ns()
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 1_000_000_000)) + f".{now % 1_000_000_000 // 1000:06d}Z"


def today() -> str:
    """Now, as a lock has it: `2026-08-01T09:30:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def day_of(at: int) -> str:
    """A second, in the same words."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def zone_name() -> str:
    """The zone of this machine, by name; UTC where nobody says."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named and not named.startswith("/"):
        return named
    try:
        target = os.path.realpath("/etc/localtime")
    except OSError:
        return "UTC"
    _, found, zone = target.partition("/zoneinfo/")
    return zone if found else "UTC"


def local_stamp(at_ns: int) -> str:
    """A moment as `20260131-235959`, in the time of this machine."""
    return time.strftime("%Y%m%d-%H%M%S", time.localtime(at_ns / 1e9))


def new_name() -> str:
    """A name for what begins now: it sorts by when, down to a part of a second, with a word against chance."""
    now = now_ns()
    return f"{local_stamp(now)}-{now % 1_000_000_000 * 4096 // 1_000_000_000:03x}{random_word(2)[1:]}"


def day_and_time(at: float) -> str:
    """A moment as a person reads it, in the time of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def random_word(size: int) -> str:
    return os.urandom(size).hex()

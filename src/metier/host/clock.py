"""The wall clock, and chance."""

from __future__ import annotations

import os
import time

now_ns = time.time_ns
monotonic = time.monotonic
sleep = time.sleep


def stamp(at_ns: int) -> str:
    """A moment as `20260131-235959`, in the time of this machine."""
    return time.strftime("%Y%m%d-%H%M%S", time.localtime(at_ns / 1e9))


def day_and_time(at: float) -> str:
    """A moment as a person reads it, in the time of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def random_word(size: int) -> str:
    return os.urandom(size).hex()

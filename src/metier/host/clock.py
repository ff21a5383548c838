"""The wall clock, and the zone it shows."""

from __future__ import annotations

import os
import time

now_ns = time.time_ns
monotonic = time.monotonic
sleep = time.sleep


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

"""The wall clock."""

from __future__ import annotations

import time

now_ns = time.time_ns
monotonic = time.monotonic
sleep = time.sleep

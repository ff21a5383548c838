"""What a contender does: import, warm the page cache, time passes with fresh objects, print one JSON line.

A contender is a script of its own, run as `python script.py ROOT REPEATS BUDGET`.  It gives `run` a function
that does one pass over ROOT and returns how many skills it found, the catalog text, and whatever must stay
alive until the clock is read.  Only the standard library is imported here, and as little of it as will do.
"""

from __future__ import annotations

import gc
import os
import sys
from time import process_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def run(one_pass: Callable[[str], tuple[int, str, object]]) -> None:
    """Time `one_pass`, REPEATS times or until BUDGET seconds of CPU are spent, and print the outcome."""
    started = process_time()
    root, repeats, budget = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    warm_page_cache(root)
    passes: list[float] = []
    skills, text, kept = 0, "", None
    while len(passes) < repeats and sum(passes) < budget:
        kept, text = None, ""
        gc.collect()
        start = process_time()
        skills, text, kept = one_pass(root)
        passes.append(process_time() - start)
    peak = peak_kb()
    del kept
    report(skills, len(text), started, passes, peak)


def report(skills: int, chars: int, started: float, passes: list[float], peak: int) -> None:
    """Print the one line.  `started` is the CPU before the first pass: interpreter and imports."""
    import json

    found = {"skills": skills, "chars": chars, "start_s": started, "passes_s": passes, "peak_kb": peak}
    print(json.dumps(found))


def warm_page_cache(root: str) -> None:
    """Read every SKILL.md once, so that no pass waits for the disk."""
    for name in os.listdir(root):
        handle = os.open(f"{root}/{name}/SKILL.md", os.O_RDONLY)
        while os.read(handle, 65_536):
            pass
        os.close(handle)


def peak_kb() -> int:
    """The most memory this process has held: VmHWM, since `ru_maxrss` starts from the parent's."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak // 1024 if sys.platform == "darwin" else peak

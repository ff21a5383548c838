"""`skills list` of the npm package: a process of its own, less the same process in an empty project.

It lists name and path, reads the YAML of each skill, and writes no catalog.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from contender import report, warm_page_cache

PACKAGE = Path(__file__).resolve().parents[2] / ".bench" / "peers" / "npx-skills" / "node_modules" / "skills"
COMMAND = ["node", str(PACKAGE / "bin" / "cli.mjs"), "list", "--json"]


def listing(project: Path) -> str:
    """What it prints.  Through a file: given a pipe, it ends before all is written."""
    with tempfile.TemporaryFile("w+") as out:
        subprocess.run(COMMAND, cwd=project, stdout=out, check=True)
        out.seek(0)
        return out.read()


def cpu(project: Path) -> float:
    """The CPU seconds of one process in `project`."""
    process = subprocess.Popen(COMMAND, cwd=project, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"skills list ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Time both projects in turn, as often as asked."""
    root, repeats, budget = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    warm_page_cache(str(root))
    with tempfile.TemporaryDirectory() as folder:
        empty, full = Path(folder, "empty"), Path(folder, "full")
        for project in (empty, full):
            (project / ".agents").mkdir(parents=True)
        (full / ".agents" / "skills").symlink_to(root)
        listed = listing(full)
        starts: list[float] = []
        totals: list[float] = []
        while len(totals) < repeats and sum(totals) < budget:
            starts.append(cpu(empty))
            totals.append(cpu(full))
    start = min(starts)
    report(len(json.loads(listed)), len(listed), start, [total - start for total in totals], 0)


main()

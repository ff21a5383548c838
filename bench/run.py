"""Measure metier against its floor and its peers, print one table, and end with 1 if a target is missed."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from parts import PARTS, Plan
from peers import PEERS
from report import table


def main() -> int:
    """Read the command line, run the parts, print the table."""
    options = _options()
    _settle()
    plan, parts = _plan(options)
    rows = [row for part in parts for row in PARTS[part](plan)]
    print(table(rows))
    if options.json:
        record = {
            "python": platform.python_version(),
            "peers": {peer.name: peer.pin for peer in plan.peers},
            "rows": [asdict(row) for row in rows],
            "samples": [asdict(sample) for sample in plan.samples],
        }
        options.json.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    missed = sum(row.met is False for row in rows)
    unknown = sum(row.met is None and bool(row.target) for row in rows)
    print(f"\n{missed} of {sum(bool(row.target) for row in rows)} targets missed, {unknown} not measured")
    return 1 if missed else 0


def _settle() -> None:
    """Keep to one core, before the other work of the machine where that is allowed: all contenders alike."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)


def _plan(options: argparse.Namespace) -> tuple[Plan, list[str]]:
    sizes = tuple(map(int, options.sizes.split(","))) if options.sizes else ()
    names = options.peers.split(",") if options.peers else [peer.name for peer in PEERS]
    if options.quick:
        names = options.peers.split(",") if options.peers else ["skills-ref"]
        plan = Plan(sizes or (1_000,), rounds=2, repeats=5, budget=1.5, runs=15, quick=True)
    else:
        plan = Plan(sizes)
    if unknown := set(names) - {peer.name for peer in PEERS}:
        sys.exit(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(peer.name for peer in PEERS)}")
    chosen = tuple(peer for peer in PEERS if peer.name in names)
    parts = options.only.upper().split(",") if options.only else ["A", "B", "D"] if options.quick else list(PARTS)
    if unknown := set(parts) - set(PARTS):
        sys.exit(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return Plan(**{**vars(plan), "peers": chosen}), parts


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 skills, skills-ref only, few repeats: under 30 s")
    parser.add_argument(
        "--only",
        metavar="PART",
        help="A cold, B warm, C flat, D process, E memory, F spawn, R render, S stream; commas",
    )
    parser.add_argument("--sizes", metavar="N,N", help="numbers of skills for A, B and C")
    parser.add_argument("--peers", metavar="NAME,NAME", help="only these peers")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write everything that was measured")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

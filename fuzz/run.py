"""Fuzz every target for a bounded number of runs, one process each; exit 1 if one of them finds something.

python fuzz/run.py [--runs N] [--seed N] [TARGET ...]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"
LONGEST = 2_048
TARGETS = ("parse", "check", "fix", "events", "allowed_tools", "commands", "bodies")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="which targets; all of them if none is named")
    parser.add_argument("--runs", type=int, default=20_000, help="inputs tried by each target (default 20000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    if options.one:
        return one(options.one, options.runs, options.seed)
    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown:
        parser.error(f"no target is called {', '.join(unknown)}; one of: {', '.join(TARGETS)}")
    found = [name for name in options.targets or TARGETS if not passes(name, options.runs, options.seed)]
    return 1 if found else 0


def passes(name: str, runs: int, seed: int) -> bool:
    """Run one target in a process of its own, and say in one line how it went."""
    OUT.mkdir(exist_ok=True)
    log = OUT / f"{name}.log"
    start = time.monotonic()
    with log.open("wb") as file:
        command = [sys.executable, __file__, "--one", name, "--runs", str(runs), "--seed", str(seed)]
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, cwd=OUT, check=False).returncode
    text = log.read_text(errors="replace")
    covered = re.findall(r"cov: (\d+)", text)
    done = re.findall(r"^#(\d+)", text, re.MULTILINE)
    took = time.monotonic() - start
    said = f"{int(done[-1]) if done else 0:>7} runs, {covered[-1] if covered else '?':>5} edges, {took:5.1f} s"
    print(f"{name:<14} {'ok   ' if code == 0 else 'FOUND'} {said}", "" if code == 0 else f"see {log}", flush=True)
    return code == 0


def one(name: str, runs: int, seed: int) -> int:
    import atheris
    import targets

    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(targets.SEEDS[name]):
            Path(corpus, f"seed-{number}").write_bytes(data)
        atheris.Setup(
            [sys.argv[0], f"-atheris_runs={runs}", f"-seed={seed}", f"-max_len={LONGEST}", "-timeout=10",
             "-rss_limit_mb=1024", f"-artifact_prefix={OUT}/{name}-", corpus],
            targets.TARGETS[name],
        )  # fmt: skip
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())

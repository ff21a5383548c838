"""metier with its index written by an earlier process: verdicts with their problems, no catalog."""

from __future__ import annotations

from contender import run

import metier


def verdicts(root: str) -> tuple[int, str, object]:
    """One library and its verdicts."""
    library = metier.open(root=root)
    problems = [verdict.problems for verdict in library.verdicts]
    return len(problems), "", (library, problems)


run(verdicts)
